//! Numbers as people say them.

pub(super) fn share(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 1.0 => "<1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

pub(super) fn count(count: u64) -> String {
    if count < 1000 {
        return count.to_string();
    }
    scaled(count as f64, 1000.0, &[" k", " M", " G", " T", " P", " E"])
}

pub(super) fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    scaled(
        bytes as f64,
        1024.0,
        &[" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"],
    )
}

pub(super) fn nanos(ns: u64) -> String {
    match ns {
        0..1000 => format!("{ns} ns"),
        _ if ns < 999_500_000 => scaled(ns as f64, 1000.0, &[" µs", " ms"]),
        _ => format!("{} s", digits(ns as f64 / 1e9)),
    }
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value / base;
    let mut unit = 0;
    while value >= base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{}{}", digits(value), units[unit])
}

fn digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
