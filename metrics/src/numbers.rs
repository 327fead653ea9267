//! Numbers as people say them: three digits and a unit.

use std::time::Duration;

/// How many: `999`, `11.6 k`, `1.24 M`.
pub(crate) fn count(number: u64) -> String {
    scaled(number, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// How large: `96 B`, `340 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    scaled(number, 1024.0, &units)
}

/// How long: `850 ns`, `12.3 ms`, `1.24 s`, `12.5 min`, `3.20 h`.
pub(crate) fn time(duration: Duration) -> String {
    let nanos = duration.as_nanos() as f64;
    // The next unit begins where this one would need a fourth digit.
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    if nanos == 0.0 {
        return "0 s".to_owned();
    }
    if nanos < 1e3 {
        return format!("{nanos} ns");
    }
    for (unit, size) in units {
        let limit = if unit == "s" { 599.5 } else { 999.5 };
        if nanos / size < limit {
            return format!("{} {unit}", digits(nanos / size));
        }
    }
    let minutes = nanos / 6e10;
    if minutes < 99.95 {
        return format!("{} min", digits(minutes));
    }
    format!("{} h", digits(minutes / 60.0))
}

/// [`time`] of nanoseconds.
pub(crate) fn nanos(nanos: u64) -> String {
    time(Duration::from_nanos(nanos))
}

/// A share of 1: `62 %`, `< 1 %`.
pub(crate) fn share(share: f64) -> String {
    match (share * 100.0).round() {
        percent if percent >= 1.0 => format!("{percent} %"),
        _ if share > 0.0 => "< 1 %".to_owned(),
        _ => "0 %".to_owned(),
    }
}

/// How many times as much: `4.1`, `37`.
pub(crate) fn times(factor: f64) -> String {
    match factor {
        factor if factor >= 9.95 => format!("{factor:.0}"),
        factor => format!("{factor:.1}"),
    }
}

/// A word for one or for several: `1 task`, `4 tasks`.
pub(crate) fn plural(number: usize, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{} {word}s", count(number as u64)),
    }
}

fn scaled(number: u64, step: f64, units: &[&str]) -> String {
    let mut value = number as f64;
    if value < step {
        return format!("{number} {}", units[0]).trim_end().to_owned();
    }
    let mut unit = 0;
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{} {}", digits(value), units[unit])
}

/// Three digits, or all before the point if there are more.
fn digits(value: f64) -> String {
    let decimals = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_digits() {
        let counts = [0, 999, 1000, 11_580, 999_499, 999_999, 1_240_000, u64::MAX];
        assert_eq!(
            counts.map(count),
            [
                "0", "999", "1.00 k", "11.6 k", "999 k", "1.00 M", "1.24 M", "18.4 E"
            ]
        );
    }

    #[test]
    fn bytes_step_by_1024() {
        let sizes = [0, 1023, 1024, 1536, 356_515_840, 1024 * 1024 - 1, u64::MAX];
        assert_eq!(
            sizes.map(bytes),
            [
                "0 B", "1023 B", "1.00 KiB", "1.50 KiB", "340 MiB", "1.00 MiB", "16.0 EiB"
            ]
        );
    }

    #[test]
    fn times_go_from_nanoseconds_to_hours() {
        let nanoseconds = [
            0,
            850,
            999_600,
            12_345_678,
            1_240_000_000,
            599_000_000_000,
            750_000_000_000,
            11_520_000_000_000,
        ];
        assert_eq!(
            nanoseconds.map(nanos),
            [
                "0 s", "850 ns", "1.00 ms", "12.3 ms", "1.24 s", "599 s", "12.5 min", "3.20 h"
            ]
        );
    }

    #[test]
    fn shares_and_factors_are_short() {
        assert_eq!(
            [0.0, 0.001, 0.624, 1.0].map(share),
            ["0 %", "< 1 %", "62 %", "100 %"]
        );
        assert_eq!(
            [1.0, 4.06, 9.96, 37.2].map(times),
            ["1.0", "4.1", "10", "37"]
        );
        assert_eq!(
            [0, 1, 4].map(|n| plural(n, "task")),
            ["0 tasks", "1 task", "4 tasks"]
        );
    }
}
