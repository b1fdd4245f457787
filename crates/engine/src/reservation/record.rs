//! What a reservation stands for, until it is settled.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{Calendar, CalendarUnit, Key, LeakyMode, Micros, Taken, Window};

use crate::decision::Source;
use crate::inline::InlineLimits;
use crate::request::{Entry, Request};
use crate::rules::limit_spec::{AlgorithmName, LimitSpec};

/// Bytes that the texts of a record take at most.
pub(super) const MOST_BYTES: usize = 16 * 1024;

/// What a text takes beside its characters, and a limit beside its name: about.
const OF_TEXT: usize = size_of::<String>();
const OF_LIMIT: usize = size_of::<Limit>();

/// A request as it was charged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    domain: String,
    pub(super) estimate: u64,
    descriptors: Vec<Descriptor>,
    /// The counters that the estimate was taken of.
    taken: Vec<OfCounter>,
    /// By the time of where it is kept.
    pub(super) until_us: u64,
    pub(super) home: Home,
    /// What was taken of the holder's share, where nodes share a store.
    #[serde(default)]
    share: Option<OfShare>,
}

/// A counter that the estimate was taken of.
pub(super) struct Counter {
    pub(super) key: Key,
    pub(super) taken: Taken,
    /// What is charged there now: the estimate, unless a settlement was made in part.
    pub(super) charged: u64,
}

/// Where the estimate was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Home {
    /// In this process.
    Memory,
    /// In this process, of its share, because the store that nodes share failed.
    Fallback,
    /// In the store that nodes share.
    Shared,
}

impl Home {
    /// Who settled the charges that were taken there.
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
    /// Whether its cost is its own, and is left alone.
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
    /// What is charged there, if that is not the estimate any more: a settlement was made in part.
    #[serde(default)]
    charged: Option<u64>,
}

/// A limit that the request brought along.
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

/// Bytes that the texts of a request take in a record.
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
    /// Bytes that its texts take, as [`bytes_of`] its request says.
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

    /// Notes what was taken of the holder's share, for a reservation that lasts this long.
    pub(super) fn with_share(mut self, lasts: Duration, taken: Taken) -> Self {
        self.share =
            Some(OfShare { lasts_s: lasts.as_secs(), at_us: taken.at.0, clear_at_us: taken.clear_at.0 });
        self
    }

    /// What was taken of the holder's share, and how long the reservation lasts.
    pub(super) fn share(&self) -> Option<(Duration, Taken)> {
        let OfShare { lasts_s, at_us, clear_at_us } = self.share?;
        let taken = Taken { at: Micros(at_us), clear_at: Micros(clear_at_us) };
        Some((Duration::from_secs(lasts_s), taken))
    }

    /// The request again. Limits it brought along are made anew by `bring`.
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

    /// The counters that the estimate was taken of.
    pub(super) fn counters(&self) -> impl Iterator<Item = Counter> {
        self.taken.iter().map(|of| Counter {
            key: Key { home: of.home, mark: of.mark },
            taken: Taken { at: Micros(of.at_us), clear_at: Micros(of.clear_at_us) },
            charged: of.charged.unwrap_or(self.estimate),
        })
    }

    /// Notes that a counter was corrected, by its index, and what is charged there now.
    pub(super) fn set_charged(&mut self, counter: usize, cost: u64) {
        if let Some(of) = self.taken.get_mut(counter) {
            of.charged = Some(cost);
        }
    }

    /// Notes that what was taken of the holder's share was given back.
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
