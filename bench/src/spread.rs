//! The median of several passes, and their range.

use std::fmt;

use serde::Serialize;

/// Median, minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let median = f64::midpoint(values[last / 2], values[values.len() / 2]);
        Self { median, min: values[0], max: values[last] }
    }
}

/// Formats the spread as in `129 (121-150)`. The precision applies to each number.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(0);
        let Self { median, min, max } = self;
        write!(f, "{median:.digits$} ({min:.digits$}-{max:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(format!("{:.1}", Spread::of(vec![1.0])), "1.0 (1.0-1.0)");
    }
}
