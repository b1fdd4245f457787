//! Warnings before the limit: finds keys that have used a given percentage of a limit, and reports each once per
//! window.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tidegate::{Micros, RuleResult};
use tidegate_core::Key;
use tokio::sync::mpsc;

use super::sample::{Sample, SampledRule};

/// Warnings that are kept to be looked at.
const MAX_EVENTS: usize = 500;
/// Keys that are known to have been warned about; a warning about another one is dropped and counted.
const MAX_KNOWN: usize = 100_000;
/// Warnings that wait for the webhook; a further one is dropped and counted.
pub(super) const MAX_QUEUED: usize = 1_000;

/// What became of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Queued,
    Sent,
    Failed,
    Dropped,
    /// There is no webhook.
    Off,
}

impl Delivery {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Off => "off",
        }
    }
}

/// A warning.
#[derive(Clone)]
pub(crate) struct Warning {
    /// Unique in this process, in order.
    pub(crate) number: u64,
    pub(crate) at: Micros,
    pub(crate) domain: Box<str>,
    pub(crate) rule: Box<str>,
    pub(crate) limit: Box<str>,
    pub(crate) key: Key,
    /// `None` if the rule hides its keys.
    pub(crate) text: Option<Box<str>>,
    pub(crate) percent: u8,
    pub(crate) used: u64,
    pub(crate) of: u64,
    pub(crate) window_ends: Micros,
    pub(crate) delivery: Delivery,
    /// Whether somebody sent it to try the webhook.
    pub(crate) test: bool,
}

impl Warning {
    /// Returns how long the same warning is not repeated.
    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_micros(self.window_ends.0.saturating_sub(self.at.0)).max(Duration::from_secs(1))
    }
}

/// Numbers of warnings by what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WarningCounts {
    pub(crate) warned: u64,
    pub(crate) queued: u64,
    pub(crate) sent: u64,
    pub(crate) failed: u64,
    pub(crate) dropped: u64,
}

/// The warnings of this node.
pub(super) struct Warnings {
    /// Until when each key, limit and percentage is not warned about again.
    known: HashMap<(Key, Box<str>, u8), Micros>,
    events: VecDeque<Warning>,
    next: u64,
    pub(super) counts: WarningCounts,
    queue: mpsc::Sender<Warning>,
}

impl Warnings {
    pub(super) fn new(queue: mpsc::Sender<Warning>) -> Self {
        let (known, events) = (HashMap::new(), VecDeque::new());
        Self { known, events, next: 0, counts: WarningCounts::default(), queue }
    }

    /// Adds the limits of a sample.
    pub(super) fn add(&mut self, sample: &Sample) {
        for (rule, percent) in &sample.crossings {
            self.note(sample, rule, *percent);
        }
        // A limit whose last units are too few for a request is used up as well.
        let denied = |rule: &&SampledRule| rule.result == RuleResult::Denied && rule.warns_at_limit;
        for rule in sample.rules.iter().filter(denied) {
            self.note(sample, rule, 100);
        }
    }

    fn note(&mut self, sample: &Sample, rule: &SampledRule, percent: u8) {
        let place = (rule.key, rule.limit.name.clone(), percent);
        if self.known.get(&place).is_some_and(|until| sample.at < *until) {
            return;
        }
        if self.known.len() >= MAX_KNOWN {
            self.counts.dropped += 1;
            return;
        }
        // A bucket has no window; it is full again after at most its window's length.
        let window_us = u64::try_from(rule.limit.reset_after.as_micros()).unwrap_or(u64::MAX);
        let window_ends = Micros(sample.at.0.saturating_add(window_us.clamp(1, rule.limit.window_us.max(1))));
        self.known.insert(place, window_ends);
        self.push(Warning {
            number: 0,
            at: sample.at,
            domain: sample.domain.clone(),
            rule: rule.rule.clone(),
            limit: rule.limit.name.clone(),
            key: rule.key,
            text: rule.text.clone(),
            percent,
            used: rule.limit.used,
            of: rule.limit.of,
            window_ends,
            delivery: Delivery::Queued,
            test: false,
        });
    }

    /// Keeps a warning and queues it. Returns its number.
    pub(super) fn push(&mut self, mut warning: Warning) -> u64 {
        self.next += 1;
        warning.number = self.next;
        if self.queue.try_send(warning.clone()).is_ok() {
            self.counts.queued += 1;
        } else {
            warning.delivery = Delivery::Dropped;
            self.counts.dropped += 1;
        }
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(warning);
        self.next
    }

    /// Notes what became of a warning that was queued; `None` if another node has it.
    pub(super) fn settle(&mut self, number: u64, delivery: Option<Delivery>) {
        self.counts.queued = self.counts.queued.saturating_sub(1);
        let Some(delivery) = delivery else {
            self.events.retain(|warning| warning.number != number);
            return;
        };
        self.counts.warned += 1;
        match delivery {
            Delivery::Sent => self.counts.sent += 1,
            Delivery::Failed => self.counts.failed += 1,
            Delivery::Dropped => self.counts.dropped += 1,
            Delivery::Queued | Delivery::Off => {}
        }
        if let Some(warning) = self.events.iter_mut().find(|warning| warning.number == number) {
            warning.delivery = delivery;
        }
    }

    /// Forgets the windows that are over.
    pub(super) fn tidy(&mut self, now: Micros) {
        self.known.retain(|_, until| now < *until);
    }

    /// Returns the last warnings, newest first.
    pub(super) fn list(&self, limit: usize) -> Vec<Warning> {
        self.events.iter().rev().take(limit).cloned().collect()
    }
}
