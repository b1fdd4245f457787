//! The stored data of a reservation, until it is settled.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{Calendar, CalendarUnit, Key, LeakyMode, Micros, Taken, Window};

use crate::decision::Source;
use crate::inline::InlineLimits;
use crate::request::{Entry, Request};
use crate::rules::limit_spec::{AlgorithmName, LimitSpec};

/// The most bytes that the texts of a record take.
pub(super) const MOST_BYTES: usize = 16 * 1024;

/// The approximate overhead of a text, and of a limit.
const OF_TEXT: usize = size_of::<String>();
const OF_LIMIT: usize = size_of::<Limit>();

/// A request as it was charged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    domain: String,
    pub(super) estimate: u64,
    descriptors: Vec<Descriptor>,
    /// The counters that the estimate was taken from.
    taken: Vec<OfCounter>,
    /// When the reservation expires, by the clock of the store that has the record.
    pub(super) until_us: u64,
    pub(super) home: Home,
    /// What was taken from the holder's share in the shared store.
    #[serde(default)]
    share: Option<OfShare>,
}

/// A counter that the estimate was taken from.
pub(super) struct Counter {
    pub(super) key: Key,
    pub(super) taken: Taken,
    /// The units that are charged there now: the estimate, unless it was partly settled.
    pub(super) charged: u64,
}

/// Where the estimate was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Home {
    /// Counters of this process.
    Memory,
    /// This node's share in this process, because the shared store failed.
    Fallback,
    /// The shared store.
    Shared,
}

impl Home {
    /// Returns the source of charges that were taken there.
    pub(super) fn source(self) -> Source {
        match self {
            Self::Memory => Source::Memory,
            Self::Fallback => Source::Fallback,
            Self::Shared => Source::Shared,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Descriptor {
    entries: Vec<(String, String)>,
    /// Whether the descriptor has a cost of its own, which settling does not change.
    own_cost: bool,
    limits: Option<Vec<Limit>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct OfShare {
    lasts_s: u64,
    at_us: u64,
    clear_at_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct OfCounter {
    home: u64,
    mark: u64,
    at_us: u64,
    clear_at_us: u64,
    /// The units that are charged there, if that is no longer the estimate because it was partly settled.
    #[serde(default)]
    charged: Option<u64>,
}

/// An inline limit of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Limit {
    name: Option<String>,
    requests: u64,
    window: Length,
    algorithm: Option<String>,
    burst: Option<u64>,
    buckets: Option<u32>,
    queue: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Length {
    Us(u64),
    Calendar(String, String),
}

/// Returns the bytes that the texts of a request take in a record.
pub(super) fn bytes_of(request: &Request<'_>) -> usize {
    let mut bytes = request.domain().len();
    for (number, (entries, _)) in request.descriptors().enumerate() {
        bytes += size_of::<Descriptor>();
        bytes += entries.iter().map(|(key, value)| key.len() + value.len() + 2 * OF_TEXT).sum::<usize>();
        let specs = request.limits_of(number).map_or(&[][..], InlineLimits::specs);
        bytes += specs.iter().map(|spec| OF_LIMIT + spec.name.as_ref().map_or(0, String::len)).sum::<usize>();
    }
    bytes
}

impl Record {
    /// Returns the bytes that the texts take; equal to [`bytes_of`] the request.
    pub(super) fn bytes(&self) -> usize {
        let mut bytes = self.domain.len();
        for descriptor in &self.descriptors {
            let entries = descriptor.entries.iter();
            let limits = descriptor.limits.iter().flatten();
            bytes += size_of::<Descriptor>();
            bytes += entries.map(|(key, value)| key.len() + value.len() + 2 * OF_TEXT).sum::<usize>();
            bytes += limits.map(|it| OF_LIMIT + it.name.as_ref().map_or(0, String::len)).sum::<usize>();
        }
        bytes
    }

    pub(super) fn new(request: &Request<'_>, taken: &[(Key, Taken)], until: Micros, home: Home) -> Self {
        let descriptor = |number: usize, entries: &[Entry<'_>]| Descriptor {
            entries: entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            own_cost: request.own_cost(number).is_some(),
            limits: request.limits_of(number).map(|limits| limits.specs().iter().map(Limit::of).collect()),
        };
        let descriptors = request.descriptors().enumerate();
        let descriptors = descriptors.map(|(number, (entries, _))| descriptor(number, entries)).collect();
        let of_counter = |(key, taken): &(Key, Taken)| OfCounter {
            home: key.home,
            mark: key.mark,
            at_us: taken.at.0,
            clear_at_us: taken.clear_at.0,
            charged: None,
        };
        Self {
            domain: request.domain().to_owned(),
            estimate: request.common_cost(),
            descriptors,
            taken: taken.iter().map(of_counter).collect(),
            until_us: until.0,
            home,
            share: None,
        }
    }

    /// Records what was taken from the holder's share, for a reservation with this lifetime.
    pub(super) fn with_share(mut self, lasts: Duration, taken: Taken) -> Self {
        self.share =
            Some(OfShare { lasts_s: lasts.as_secs(), at_us: taken.at.0, clear_at_us: taken.clear_at.0 });
        self
    }

    /// Returns the lifetime of the reservation, and what was taken from the holder's share.
    pub(super) fn share(&self) -> Option<(Duration, Taken)> {
        let OfShare { lasts_s, at_us, clear_at_us } = self.share?;
        let taken = Taken { at: Micros(at_us), clear_at: Micros(clear_at_us) };
        Some((Duration::from_secs(lasts_s), taken))
    }

    /// Returns the request. `bring` prepares its inline limits again.
    pub(super) fn request(&self, bring: impl Fn(&str, &[LimitSpec]) -> Option<InlineLimits>) -> Request<'_> {
        let mut request: Option<Request<'_>> = None;
        for descriptor in &self.descriptors {
            let entries: Vec<_> =
                descriptor.entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let mut next = match request {
                None => Request::new(&self.domain, entries).cost(self.estimate),
                Some(request) => request.and(entries),
            };
            if descriptor.own_cost {
                next = next.descriptor_cost(0);
            }
            let specs =
                descriptor.limits.as_ref().and_then(|limits| limits.iter().map(Limit::spec).collect());
            if let Some(limits) = specs.and_then(|specs: Vec<_>| bring(&self.domain, &specs)) {
                next = next.limits(&limits);
            }
            request = Some(next);
        }
        request.unwrap_or_else(|| Request::new(&self.domain, []))
    }

    /// Returns the counters that the estimate was taken from.
    pub(super) fn counters(&self) -> impl Iterator<Item = Counter> {
        self.taken.iter().map(|of| Counter {
            key: Key { home: of.home, mark: of.mark },
            taken: Taken { at: Micros(of.at_us), clear_at: Micros(of.clear_at_us) },
            charged: of.charged.unwrap_or(self.estimate),
        })
    }

    /// Records that the counter at this index was corrected, and what is charged there now.
    pub(super) fn set_charged(&mut self, counter: usize, cost: u64) {
        if let Some(of) = self.taken.get_mut(counter) {
            of.charged = Some(cost);
        }
    }

    /// Records that what was taken from the holder's share was given back.
    pub(super) fn give_share_back(&mut self) {
        self.share = None;
    }
}

impl Limit {
    fn of(spec: &LimitSpec) -> Self {
        Self {
            name: spec.name.clone(),
            requests: spec.requests,
            window: match &spec.window {
                Window::Period { us } => Length::Us(*us),
                Window::Calendar(calendar) => {
                    Length::Calendar(calendar.unit().to_string(), calendar.zone_name().to_owned())
                }
            },
            algorithm: spec.algorithm.map(|algorithm| algorithm.name().to_owned()),
            burst: spec.burst,
            buckets: spec.buckets,
            queue: spec.mode.map(|mode| mode == LeakyMode::Queue),
        }
    }

    fn spec(&self) -> Option<LimitSpec> {
        let window = match &self.window {
            Length::Us(us) => Window::Period { us: *us },
            Length::Calendar(unit, zone) => {
                let units = [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year];
                let unit = units.into_iter().find(|known| known.to_string() == *unit)?;
                Window::Calendar(Calendar::new(unit, zone)?)
            }
        };
        let algorithm = match &self.algorithm {
            Some(name) => Some(AlgorithmName::parse(name)?),
            None => None,
        };
        let mode = self.queue.map(|queue| if queue { LeakyMode::Queue } else { LeakyMode::Meter });
        let spec = LimitSpec::new(self.requests, window);
        Some(LimitSpec {
            name: self.name.clone(),
            algorithm,
            burst: self.burst,
            buckets: self.buckets,
            mode,
            ..spec
        })
    }
}
