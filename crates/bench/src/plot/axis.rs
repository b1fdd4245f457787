//! An axis with its ticks chosen by hand, linear or by powers of ten.

use plotters::coord::combinators::WithKeyPoints;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::BindKeyPoints;

/// One axis of a chart.
pub(crate) struct Axis {
    pub(crate) name: String,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
    scale: Scale,
    /// What a value is called.
    labels: fn(f64) -> String,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Log10,
}

impl Axis {
    /// From one value to another, with a tick every `step`.
    pub(crate) fn linear(name: &str, from: f64, to: f64, step: f64) -> Self {
        let count = ((to - from) / step).round() as usize;
        let ticks = (0..=count).map(|number| from + number as f64 * step).collect();
        Self { name: name.to_owned(), from, to, ticks, scale: Scale::Linear, labels: plain }
    }

    /// From one value to another, both positive, with a tick at each value given.
    pub(crate) fn log(name: &str, from: f64, to: f64, ticks: &[f64]) -> Self {
        let ticks = ticks.iter().map(|tick| tick.log10()).collect();
        let (from, to) = (from.log10(), to.log10());
        Self { name: name.to_owned(), from, to, ticks, scale: Scale::Log10, labels: plain }
    }

    /// Calls values by another name.
    pub(crate) fn labelled(self, labels: fn(f64) -> String) -> Self {
        Self { labels, ..self }
    }

    pub(crate) fn range(&self) -> WithKeyPoints<RangedCoordf64> {
        (self.from..self.to).with_key_points(self.ticks.clone())
    }

    /// Where a value lies, held within the axis.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let at = if self.scale == Scale::Log10 { value.log10() } else { value };
        at.clamp(self.from, self.to)
    }

    /// What is written at a place.
    pub(crate) fn label(&self, at: f64) -> String {
        (self.labels)(if self.scale == Scale::Log10 { 10_f64.powf(at) } else { at })
    }
}

/// As few digits as tell the value.
fn plain(value: f64) -> String {
    let digits = if value.abs() >= 10.0 { 0 } else { 4 };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn values_are_placed_and_named() {
        let axis = Axis::log("x", 1.0, 1_000.0, &[1.0, 10.0, 100.0, 1_000.0]);
        assert!((axis.place(100.0) - 2.0).abs() < 1e-9);
        assert!((axis.place(0.0) - 0.0).abs() < 1e-9, "what is off the axis is held at its end");
        assert_eq!(axis.label(2.0), "100");
        assert_eq!(Axis::linear("y", 0.0, 1.0, 0.25).label(0.25), "0.25");
    }
}
