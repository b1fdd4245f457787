//! A linear or logarithmic axis with explicit ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// One axis of a chart.
#[derive(Clone)]
pub(crate) struct Axis {
    pub(crate) name: String,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
    logarithmic: bool,
    /// Returns the label of a value.
    label: fn(f64) -> String,
}

impl Axis {
    /// Creates a linear axis with a tick every `step`.
    pub(crate) fn linear(name: &str, from: f64, to: f64, step: f64) -> Self {
        let count = ((to - from) / step).floor() as usize;
        let ticks = (0..=count).map(|number| from + number as f64 * step).collect();
        Self { name: name.to_owned(), from, to, ticks, logarithmic: false, label: plain }
    }

    /// Creates a logarithmic axis from the first tick to the last. All ticks must be positive.
    pub(crate) fn log(name: &str, ticks: &[f64]) -> Self {
        let (from, to) = (ticks[0], ticks[ticks.len() - 1]);
        Self { name: name.to_owned(), from, to, ticks: ticks.to_vec(), logarithmic: true, label: plain }
    }

    /// Sets the function that returns the label of a value.
    pub(crate) fn labelled(self, label: fn(f64) -> String) -> Self {
        Self { label, ..self }
    }

    /// Returns the position of a value between the ends, from 0 to 1. Values off the axis are clamped.
    fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        if self.logarithmic {
            (value / self.from).log10() / (self.to / self.from).log10()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        start + (self.place(*value) * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        plain(*value)
    }

    fn format_ext(&self, value: &f64) -> String {
        (self.label)(*value)
    }
}

/// Formats a value with as few digits as needed.
fn plain(value: f64) -> String {
    let digits = if value.abs() >= 10.0 { 0 } else { 4 };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use plotters::coord::ranged1d::{Ranged, ValueFormatter};

    use super::Axis;

    #[test]
    fn values_are_placed_and_named() {
        let axis = Axis::log("x", &[1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(axis.map(&100.0, (0, 200)), 100);
        assert_eq!(axis.map(&0.0, (0, 200)), 0, "what is off the axis is held at its end");
        assert_eq!(axis.format_ext(&100.0), "100");
        assert_eq!(Axis::linear("y", 0.0, 1.0, 0.25).format_ext(&0.25), "0.25");
    }
}
