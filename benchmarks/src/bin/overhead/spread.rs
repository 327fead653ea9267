//! Medians, and how sure they are.

use std::fmt;

/// The middle one; of an even number, the mean of the two in the middle. NaN of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match (sorted.len() / 2, sorted.len() % 2) {
        (_, _) if sorted.is_empty() => f64::NAN,
        (middle, 1) => sorted[middle],
        (middle, _) => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The least and the greatest.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, greatest)
}

/// Where the true median is, and how sure that is.
#[derive(Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) confidence: f64,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "median {:.5}, {:.0} % sure between {:.5} and {:.5}",
            self.median,
            100.0 * self.confidence,
            self.low,
            self.high
        )
    }
}

/// The narrowest interval between two of the values, as far from the least as from the greatest,
/// that holds the median with at least 95 %; of fewer than six values, all of them.
///
/// It assumes no distribution: each value is above the true median with probability 1/2.
pub(crate) fn median_interval(values: &[f64]) -> Interval {
    let sorted = sorted(values);
    let count = sorted.len();
    // The chance that at most `skipped` values are below the median, by the binomial distribution.
    let mut skipped = 0;
    let mut below = 0.5_f64.powi(count as i32);
    let mut term = below;
    loop {
        let next = term * (count - skipped) as f64 / (skipped + 1) as f64;
        if 2 * (skipped + 1) >= count || below + next > 0.025 {
            break;
        }
        skipped += 1;
        term = next;
        below += next;
    }
    Interval {
        median: median(values),
        low: sorted.get(skipped).copied().unwrap_or(f64::NAN),
        high: sorted
            .iter()
            .rev()
            .nth(skipped)
            .copied()
            .unwrap_or(f64::NAN),
        confidence: 1.0 - 2.0 * below,
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Order statistics for the median: ranks 4 and 12 of 15, 96.48 %; 1 and 6 of 6, 96.88 %.
        let values: Vec<f64> = (1..=15).rev().map(f64::from).collect();
        let interval = median_interval(&values);
        assert_eq!((interval.low, interval.high), (4.0, 12.0));
        assert!((interval.confidence - 0.9648).abs() < 1e-4, "{interval:?}");
        let interval = median_interval(&values[..6]);
        assert_eq!((interval.low, interval.high), (10.0, 15.0));
        assert!((interval.confidence - 0.9688).abs() < 1e-4, "{interval:?}");
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(range(&[2.0, 1.0, 3.0]), (1.0, 3.0));
    }
}
