//! Binary searches over a predicate.

/// Longer than any window or wait: 2^53 us are 285 years.
const HORIZON_US: u64 = 1 << 53;

/// Returns the smallest number of microseconds for which `holds` is true, or `None` if there is none up to
/// the horizon. `holds` must be monotonic: once true, it stays true.
pub(super) fn first_us(holds: impl Fn(u64) -> bool) -> Option<u64> {
    if holds(0) {
        return Some(0);
    }
    let mut yes = 1;
    while !holds(yes) {
        if yes >= HORIZON_US {
            return None;
        }
        yes *= 2;
    }
    let mut no = yes / 2;
    while no + 1 < yes {
        let middle = no.midpoint(yes);
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Some(yes)
}

/// Returns the largest cost that `fits`, or 0 if none does. If a cost fits, every smaller one must fit too.
pub(super) fn largest_cost(fits: impl Fn(u64) -> bool) -> u64 {
    if !fits(1) {
        return 0;
    }
    let (mut yes, mut no) = (1, 2);
    while fits(no) {
        assert!(no < u64::MAX / 2, "every cost fits: this is not a limit");
        yes = no;
        no *= 2;
    }
    while yes + 1 < no {
        let middle = yes.midpoint(no);
        if fits(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_moment_to_the_microsecond() {
        for first in [0, 1, 2, 3, 4, 5, 7, 8, 9, 1_000_003, HORIZON_US - 1, HORIZON_US] {
            assert_eq!(first_us(|us| us >= first), Some(first));
        }
        assert_eq!(first_us(|_| false), None);
    }

    #[test]
    fn finds_the_largest_cost_to_the_unit() {
        for largest in [0, 1, 2, 3, 4, 5, 7, 8, 9, 1_000_003, HORIZON_US - 1, HORIZON_US] {
            assert_eq!(largest_cost(|cost| cost <= largest), largest);
        }
    }
}
