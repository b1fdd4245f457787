//! Requests: a domain, descriptors and a cost.

use smallvec::SmallVec;

use crate::inline::{DescriptorLimits, InlineLimits};

/// A request to be decided.
///
/// A descriptor is a list of `key=value` entries that describes one aspect of the request; the
/// rules say which limits apply to it. Texts are borrowed and never copied.
///
/// ```
/// use tidegate::Request;
///
/// let upload = Request::new("api", [("api_key", "ann"), ("endpoint", "POST /files")]).cost(3);
/// let also_by_ip = Request::new("api", [("api_key", "ann")]).and([("ip", "192.0.2.7")]);
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    domain: &'a str,
    cost: u64,
    /// The entries of all descriptors, one after the other.
    entries: SmallVec<[Entry<'a>; 4]>,
    /// The descriptors, of which there is at least one.
    descriptors: SmallVec<[Tail; 3]>,
    /// The inline limits of descriptors.
    inline_limits: DescriptorLimits,
}

/// One `key=value` of a descriptor.
pub type Entry<'a> = (&'a str, &'a str);

/// The end of a descriptor in the list of entries, and its cost.
#[derive(Clone, Copy, Debug)]
struct Tail {
    end: u32,
    /// Whether the cost is the descriptor's own; if not, it follows the request's.
    own_cost: bool,
    cost: u64,
}

impl<'a> Request<'a> {
    /// Creates a request with one descriptor and a cost of 1.
    #[inline]
    pub fn new(domain: &'a str, entries: impl AsRef<[Entry<'a>]>) -> Self {
        let entries = SmallVec::from_slice(entries.as_ref());
        let mut descriptors = SmallVec::new();
        descriptors.push(Tail { end: entries.len() as u32, own_cost: false, cost: 1 });
        Self { domain, cost: 1, entries, descriptors, inline_limits: DescriptorLimits::default() }
    }

    /// Adds another descriptor. The request passes only if the limits of all descriptors allow it.
    #[expect(clippy::inline_always, reason = "a request is large, and is moved unless this is inlined")]
    #[inline(always)]
    #[must_use]
    pub fn and(mut self, entries: impl AsRef<[Entry<'a>]>) -> Self {
        for entry in entries.as_ref() {
            self.entries.push(*entry);
        }
        self.descriptors.push(Tail { end: self.entries.len() as u32, own_cost: false, cost: self.cost });
        self
    }

    /// Sets the units that the request takes of each limit. A cost of 0 peeks.
    #[inline]
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        for tail in self.descriptors.iter_mut().filter(|tail| !tail.own_cost) {
            tail.cost = cost;
        }
        self
    }

    /// Sets the units that the last descriptor takes of its limits, whatever the cost of the request.
    #[must_use]
    pub fn descriptor_cost(mut self, cost: u64) -> Self {
        if let Some(tail) = self.descriptors.last_mut() {
            (tail.own_cost, tail.cost) = (true, cost);
        }
        self
    }

    /// Applies these limits to the last descriptor, in place of those in the rules.
    #[must_use]
    pub fn limits(mut self, limits: &InlineLimits) -> Self {
        self.inline_limits.add(self.descriptors.len() - 1, limits);
        self
    }

    /// Returns the domain, whose rules apply.
    #[inline]
    pub fn domain(&self) -> &'a str {
        self.domain
    }

    /// Returns the descriptors with their costs, in order.
    #[inline]
    pub fn descriptors(&self) -> impl Iterator<Item = (&[Entry<'a>], u64)> {
        let (entries, mut start) = (&*self.entries, 0);
        self.descriptors.iter().map(move |tail| {
            let end = tail.end as usize;
            (&entries[std::mem::replace(&mut start, end)..end], tail.cost)
        })
    }

    /// Returns the cost of the descriptors that have none of their own.
    pub fn common_cost(&self) -> u64 {
        self.cost
    }

    /// Returns the own cost of a descriptor, counted from 0, if it has one.
    pub fn own_cost(&self, descriptor: usize) -> Option<u64> {
        let tail = self.descriptors.get(descriptor)?;
        tail.own_cost.then_some(tail.cost)
    }

    /// Returns the inline limits of a descriptor, counted from 0, if it has any.
    pub fn limits_of(&self, descriptor: usize) -> Option<&InlineLimits> {
        self.inline_limits.of(descriptor)
    }

    /// Returns the inline limits of all descriptors.
    pub(crate) fn inline_limits(&self) -> &DescriptorLimits {
        &self.inline_limits
    }

    /// Returns the entry and its cost, if the request has a single entry and no inline limits.
    #[inline]
    pub(crate) fn only_entry(&self) -> Option<(Entry<'a>, u64)> {
        match (self.entries.as_slice(), self.descriptors.as_slice()) {
            ([entry], [tail]) if self.inline_limits.is_none() => Some((*entry, tail.cost)),
            _ => None,
        }
    }

    /// Returns the value of the first entry with this key, in any descriptor.
    pub(crate) fn value_of(&self, key: &str) -> Option<&'a str> {
        self.entries.iter().find(|(found, _)| *found == key).map(|(_, value)| *value)
    }
}
