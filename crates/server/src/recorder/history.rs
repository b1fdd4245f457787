//! Decisions per rule and durations of checks over the last hour and day, in fixed memory.
//!
//! Nothing is recorded when a decision is made: the counters of rules and the histograms of durations exist already.
//! They are read from time to time, and what they gained is added to the step of that moment.

use std::collections::HashMap;

use tidegate::{Counts, Micros};

/// Maximum number of rules with their own history; the others are counted together.
pub(crate) const MAX_RULES: usize = 256;
/// Buckets of the histogram of durations.
pub(super) const BUCKETS: usize = crate::metrics::DURATION_BUCKETS;
/// The name under which rules without their own history are counted.
pub(crate) const OTHER: &str = "other";

/// A length of time, divided into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// The last hour in steps of 10 seconds.
    Hour,
    /// The last day in steps of 5 minutes.
    Day,
}

impl Range {
    pub(super) const ALL: [Self; 2] = [Self::Hour, Self::Day];

    /// The length of a step in seconds.
    pub(crate) const fn step_s(self) -> u64 {
        match self {
            Self::Hour => 10,
            Self::Day => 300,
        }
    }

    /// The number of steps.
    pub(crate) const fn steps(self) -> usize {
        match self {
            Self::Hour => 360,
            Self::Day => 288,
        }
    }

    const fn step_at(self, at: Micros) -> u64 {
        at.0 / 1_000_000 / self.step_s()
    }
}

/// Decisions by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) shadow_denied: u64,
    /// Requests that were refused before they were decided; of the whole node only.
    pub(crate) error: u64,
}

impl Outcomes {
    fn since(self, before: Self) -> Self {
        Self {
            allowed: self.allowed.saturating_sub(before.allowed),
            denied: self.denied.saturating_sub(before.denied),
            shadow_denied: self.shadow_denied.saturating_sub(before.shadow_denied),
            error: self.error.saturating_sub(before.error),
        }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.allowed += more.allowed;
        self.denied += more.denied;
        self.shadow_denied += more.shadow_denied;
        self.error += more.error;
    }

    pub(crate) fn sum(steps: &[Self]) -> Self {
        let mut sum = Self::default();
        for step in steps {
            sum.add(*step);
        }
        sum
    }

    fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl From<Counts> for Outcomes {
    fn from(counts: Counts) -> Self {
        let Counts { allowed, denied, shadow_denied, .. } = counts;
        Self { allowed, denied, shadow_denied, error: 0 }
    }
}

/// The steps of one series: of a rule, or of the node.
#[derive(Clone)]
pub(super) struct Track {
    pub(super) hour: Box<[[u32; 4]]>,
    pub(super) day: Box<[[u32; 4]]>,
}

impl Track {
    fn new() -> Self {
        let empty = |range: Range| vec![[0; 4]; range.steps()].into_boxed_slice();
        Self { hour: empty(Range::Hour), day: empty(Range::Day) }
    }

    fn steps(&self, range: Range) -> &[[u32; 4]] {
        if range == Range::Hour { &self.hour } else { &self.day }
    }

    fn steps_mut(&mut self, range: Range) -> &mut [[u32; 4]] {
        if range == Range::Hour { &mut self.hour } else { &mut self.day }
    }

    fn outcomes(&self, range: Range, place: usize) -> Outcomes {
        let [allowed, denied, shadow_denied, error] = self.steps(range)[place].map(u64::from);
        Outcomes { allowed, denied, shadow_denied, error }
    }

    fn add(&mut self, range: Range, index: usize, gained: Outcomes) {
        let Outcomes { allowed, denied, shadow_denied, error } = gained;
        for (held, more) in
            self.steps_mut(range)[index].iter_mut().zip([allowed, denied, shadow_denied, error])
        {
            *held = held.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        }
    }
}

/// A rule with its own history.
pub(super) struct RuleTrack {
    pub(super) domain: Box<str>,
    pub(super) rule: Box<str>,
    pub(super) track: Track,
}

/// The steps of a range: which step each place of the ring holds, and the durations of checks in it.
pub(super) struct Steps {
    /// The number of the step since 1970; 0 for none.
    pub(super) numbers: Box<[u64]>,
    pub(super) durations: Box<[[u32; BUCKETS]]>,
}

/// The decisions of rules by step, by domain and rule.
pub(crate) type RuleHistories = HashMap<(String, String), Vec<Outcomes>>;

/// Accepts rules, by domain and rule.
pub(crate) type RuleFilter<'f> = &'f dyn Fn(&str, &str) -> bool;

/// The history of a node.
pub(super) struct History {
    pub(super) steps: [Steps; 2],
    pub(super) node: Track,
    pub(super) other: Track,
    pub(super) rules: Vec<RuleTrack>,
    /// Places in `rules`, by domain and rule.
    places: HashMap<Box<str>, HashMap<Box<str>, usize>>,
    /// The values of the counters when they were last read; they start at 0 with the process.
    before: HashMap<Box<str>, HashMap<Box<str>, Outcomes>>,
    refused_before: u64,
    durations_before: [u64; BUCKETS],
}

/// Values of a range: `None` where the node did not run.
pub(crate) struct Series<T> {
    /// When the first step begins, in seconds since 1970.
    pub(crate) from_s: u64,
    pub(crate) values: Vec<Option<T>>,
}

impl Default for History {
    fn default() -> Self {
        let steps = Range::ALL.map(|range| Steps {
            numbers: vec![0; range.steps()].into_boxed_slice(),
            durations: vec![[0; BUCKETS]; range.steps()].into_boxed_slice(),
        });
        Self {
            steps,
            node: Track::new(),
            other: Track::new(),
            rules: Vec::new(),
            places: HashMap::new(),
            before: HashMap::new(),
            refused_before: 0,
            durations_before: [0; BUCKETS],
        }
    }
}

impl History {
    /// The most bytes that a history takes.
    pub(crate) const fn max_bytes() -> usize {
        let steps = Range::Hour.steps() + Range::Day.steps();
        (MAX_RULES + 2) * steps * size_of::<[u32; 4]>() + steps * (8 + BUCKETS * 4)
    }

    /// Adds a track that was saved. The steps of all tracks are the same.
    pub(super) fn restore(&mut self, domain: &str, rule: &str, track: Track) {
        if self.rules.len() < MAX_RULES {
            let place = self.rules.len();
            self.places.entry(domain.into()).or_default().insert(rule.into(), place);
            self.rules.push(RuleTrack { domain: domain.into(), rule: rule.into(), track });
        }
    }

    /// Begins the steps of this moment; those that they replace are forgotten. Returns their places.
    pub(super) fn begin(&mut self, now: Micros) -> [usize; 2] {
        Range::ALL.map(|range| {
            let number = range.step_at(now);
            let place = (number % range.steps() as u64) as usize;
            let steps = &mut self.steps[range as usize];
            if steps.numbers[place] != number {
                steps.numbers[place] = number;
                steps.durations[place] = [0; BUCKETS];
                let tracks = self.rules.iter_mut().map(|rule| &mut rule.track);
                for track in tracks.chain([&mut self.node, &mut self.other]) {
                    track.steps_mut(range)[place] = [0; 4];
                }
            }
            place
        })
    }

    /// Adds what a rule's counters gained since they were last read.
    pub(super) fn count_rule(
        &mut self,
        places: [usize; 2],
        domain: &str,
        rule: &str,
        counts: Counts,
    ) -> Outcomes {
        let now = Outcomes::from(counts);
        let of_domain = match self.before.get_mut(domain) {
            Some(of_domain) => of_domain,
            None => self.before.entry(domain.into()).or_default(),
        };
        let gained = match of_domain.get_mut(rule) {
            // The counters of a rule that was removed and added again start at 0.
            Some(before) if before.allowed > now.allowed || before.denied > now.denied => {
                *before = now;
                now
            }
            Some(before) => now.since(std::mem::replace(before, now)),
            None => {
                of_domain.insert(rule.into(), now);
                now
            }
        };
        if gained.is_none() {
            return gained;
        }
        let track = match self.place_of(domain, rule) {
            Some(place) => &mut self.rules[place].track,
            None => &mut self.other,
        };
        for (range, place) in Range::ALL.into_iter().zip(places) {
            track.add(range, place, gained);
            self.node.add(range, place, gained);
        }
        gained
    }

    /// Adds requests that were refused, by their number since the process started.
    pub(super) fn count_refused(&mut self, places: [usize; 2], refused: u64) -> u64 {
        let gained = refused.saturating_sub(std::mem::replace(&mut self.refused_before, refused));
        for (range, place) in Range::ALL.into_iter().zip(places) {
            self.node.add(range, place, Outcomes { error: gained, ..Outcomes::default() });
        }
        gained
    }

    /// Adds durations, by the counts of their buckets since the process started. Returns what they gained.
    pub(super) fn count_durations(&mut self, places: [usize; 2], counts: [u64; BUCKETS]) -> [u64; BUCKETS] {
        let before = std::mem::replace(&mut self.durations_before, counts);
        let gained = std::array::from_fn(|bucket| counts[bucket].saturating_sub(before[bucket]));
        for (range, place) in Range::ALL.into_iter().zip(places) {
            for (held, more) in self.steps[range as usize].durations[place].iter_mut().zip(gained) {
                *held = held.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            }
        }
        gained
    }

    /// Returns the place of a rule that has decided something; `None` if all places are taken by others that did in the
    /// last day.
    fn place_of(&mut self, domain: &str, rule: &str) -> Option<usize> {
        if let Some(place) = self.places.get(domain).and_then(|rules| rules.get(rule)) {
            return Some(*place);
        }
        let place = if self.rules.len() < MAX_RULES {
            self.rules.push(RuleTrack { domain: "".into(), rule: "".into(), track: Track::new() });
            self.rules.len() - 1
        } else {
            let idle = |track: &Track| track.day.iter().all(|step| *step == [0; 4]);
            self.rules.iter().position(|rule| idle(&rule.track))?
        };
        let RuleTrack { domain: old_domain, rule: old_rule, track } = &mut self.rules[place];
        if let Some(rules) = self.places.get_mut(old_domain) {
            rules.remove(old_rule);
        }
        (*old_domain, *old_rule, *track) = (domain.into(), rule.into(), Track::new());
        self.places.entry(domain.into()).or_default().insert(rule.into(), place);
        Some(place)
    }

    /// Returns decisions by step, of all rules that `keep` accepts; of the whole node if there is no such condition.
    pub(super) fn decisions(
        &self,
        range: Range,
        now: Micros,
        keep: Option<RuleFilter<'_>>,
    ) -> Series<Outcomes> {
        let mut tracks: Vec<&Track> = Vec::new();
        match keep {
            None => tracks.push(&self.node),
            Some(keep) => {
                let kept = self.rules.iter().filter(|rule| keep(&rule.domain, &rule.rule));
                tracks.extend(kept.map(|rule| &rule.track));
                tracks.extend(keep("", OTHER).then_some(&self.other));
            }
        }
        self.series(range, now, |place| {
            let mut sum = Outcomes::default();
            for track in &tracks {
                sum.add(track.outcomes(range, place));
            }
            sum
        })
    }

    /// Returns the decisions of every rule with its own history, by step; 0 where the node did not run.
    pub(super) fn by_rule(&self, range: Range, now: Micros) -> RuleHistories {
        let steps = |track: &Track| {
            let series = self.series(range, now, |place| track.outcomes(range, place));
            series.values.into_iter().map(Option::unwrap_or_default).collect()
        };
        let named = |rule: &RuleTrack| ((rule.domain.to_string(), rule.rule.to_string()), steps(&rule.track));
        self.rules.iter().map(named).collect()
    }

    /// Returns the buckets of durations by step.
    pub(super) fn durations(&self, range: Range, now: Micros) -> Series<[u64; BUCKETS]> {
        self.series(range, now, |place| self.steps[range as usize].durations[place].map(u64::from))
    }

    fn series<T>(&self, range: Range, now: Micros, value: impl Fn(usize) -> T) -> Series<T> {
        let last = range.step_at(now);
        let first = (last + 1).saturating_sub(range.steps() as u64);
        let values = (first..=last).map(|number| {
            let place = (number % range.steps() as u64) as usize;
            (self.steps[range as usize].numbers[place] == number).then(|| value(place))
        });
        Series { from_s: first * range.step_s(), values: values.collect() }
    }

    /// Drops the last values of counters whose rules are no longer in force.
    pub(super) fn keep_rules(&mut self, in_force: impl Fn(&str, &str) -> bool) {
        for (domain, rules) in &mut self.before {
            rules.retain(|rule, _| in_force(domain, rule));
        }
        self.before.retain(|_, rules| !rules.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Micros {
        Micros((1_700_000_000 + second) * 1_000_000)
    }

    fn counts(allowed: u64, denied: u64) -> Counts {
        Counts { allowed, denied, ..Counts::default() }
    }

    fn total(history: &History, range: Range, now: Micros, rule: &str) -> u64 {
        let keep = |_: &str, found: &str| found == rule;
        let series = history.decisions(range, now, Some(&keep));
        series.values.into_iter().flatten().map(|step| step.allowed + step.denied).sum()
    }

    #[test]
    fn what_counters_gain_is_in_the_step_of_that_moment() {
        let mut history = History::default();
        let places = history.begin(at(0));
        history.count_rule(places, "api", "user", counts(5, 1));
        let places = history.begin(at(20));
        history.count_rule(places, "api", "user", counts(7, 1));
        let series = history.decisions(Range::Hour, at(20), None);
        let [first, gap, last] = &series.values[357..] else { panic!("three steps") };
        assert_eq!((first.unwrap().allowed, first.unwrap().denied), (5, 1));
        assert_eq!(*gap, None, "nobody looked: as if it had not run");
        assert_eq!((last.unwrap().allowed, last.unwrap().denied), (2, 0));
        assert_eq!(series.from_s, 1_700_000_020 - 3590);
    }

    #[test]
    fn steps_are_forgotten_after_an_hour_and_after_a_day() {
        let mut history = History::default();
        let places = history.begin(at(0));
        history.count_rule(places, "api", "user", counts(5, 0));
        assert_eq!(total(&history, Range::Hour, at(3580), "user"), 5);
        assert_eq!(total(&history, Range::Hour, at(3610), "user"), 0);
        assert_eq!(total(&history, Range::Day, at(86_000), "user"), 5);
        // The places are used again.
        history.begin(at(3600));
        history.begin(at(86_400));
        assert_eq!(total(&history, Range::Hour, at(3600), "user"), 0);
        assert_eq!(total(&history, Range::Day, at(86_400), "user"), 0);
    }

    #[test]
    fn rules_beyond_the_bound_are_counted_together_and_idle_ones_make_room() {
        let mut history = History::default();
        let places = history.begin(at(0));
        for rule in 0..MAX_RULES + 3 {
            history.count_rule(places, "api", &format!("rule {rule}"), counts(1, 0));
        }
        assert_eq!(history.rules.len(), MAX_RULES);
        assert_eq!(total(&history, Range::Hour, at(0), OTHER), 3);
        let all = history.decisions(Range::Hour, at(0), None);
        assert_eq!(all.values.last().unwrap().unwrap().allowed, MAX_RULES as u64 + 3);
        let places = history.begin(at(2 * 86_400));
        for step in 0..300 {
            history.begin(at(86_400 + step * 300));
        }
        history.count_rule(places, "api", "new", counts(4, 0));
        assert_eq!(history.rules.len(), MAX_RULES);
        assert!(history.rules.iter().any(|rule| &*rule.rule == "new"));
    }
}
