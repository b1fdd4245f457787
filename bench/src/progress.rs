//! Shows the progress of a study on stderr: a bar on a terminal, else a line per step.

use std::borrow::Cow;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of one study.
pub(crate) struct Progress {
    study: &'static str,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Creates the progress of a study with `units` units of work.
    pub(crate) fn new(study: &'static str, units: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix:12} {bar:32} {percent:>3}% {elapsed:>4} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(units).with_style(style).with_prefix(study)
        });
        Self { study, bar }
    }

    /// Shows the next step.
    pub(crate) fn step(&self, what: impl Into<Cow<'static, str>>) {
        match &self.bar {
            Some(bar) => bar.set_message(what),
            None => eprintln!("{}: {}", self.study, what.into()),
        }
    }

    /// Adds finished units of work.
    pub(crate) fn done(&self, units: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(units);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
