//! The body of a check: `{"domain", "descriptors": [{"entries": [{"key", "value"}], "cost", "limits"}], "cost"}`, or
//! for a single descriptor `{"domain", "descriptor": {"key": "value"}, "cost", "limits"}`.
//!
//! Texts without escapes are borrowed from the body. Members that are unknown or occur twice are rejected: a misspelt
//! `cost` would otherwise count as 1.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use http::StatusCode;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use smallvec::SmallVec;
use tidegate::{InlineError, LimitSpec, Limiter, Request};

use super::inline_limit::{self, InlineLimitJson};
use crate::bounds::Bounds;
use crate::problem::Problem;

/// The parsed body of a check, within bounds.
#[derive(Debug)]
pub(super) struct CheckBody<'b> {
    domain: Text<'b>,
    descriptors: SmallVec<[Descriptor<'b>; 1]>,
    cost: u64,
}

#[derive(Debug)]
struct Descriptor<'b> {
    entries: Vec<(Text<'b>, Text<'b>)>,
    cost: Option<u64>,
    /// Limits given in the request, which apply instead of those in the rules.
    limits: Vec<LimitSpec>,
}

impl<'b> CheckBody<'b> {
    /// Parses a body.
    pub(super) fn read(json: &'b [u8], bounds: &Bounds) -> Result<Self, Problem> {
        match Self::read_reserve(json, bounds)? {
            (parsed, None) => Ok(parsed),
            (_, Some(_)) => Err(Problem::bad("ttl_ms is for /v1/reserve only; leave it out")),
        }
    }

    /// Parses a body whose cost is an estimate. Returns it with the duration of the reservation in milliseconds, if
    /// given.
    pub(super) fn read_reserve(json: &'b [u8], bounds: &Bounds) -> Result<(Self, Option<u64>), Problem> {
        let Object(CheckBodyJson { domain, descriptors, descriptor, limits, cost, ttl_ms }) = object(json)?;
        let one_or_list = match (descriptor, descriptors) {
            (Some(ShortDescriptor(entries)), None) => {
                let one = Descriptor { entries, cost: None, limits: inline_limit::read(limits, bounds)? };
                one.check_short(bounds).map_err(|problem| problem.at("descriptor"))?;
                SmallVec::from_iter([one])
            }
            (None, Some(_)) if limits.is_some() => {
                return Err(Problem::bad(
                    "`limits` belong to `descriptor`; each of `descriptors` has its own",
                ));
            }
            (None, Some(list)) => {
                bounds.descriptors(list.len())?;
                let one = |(index, Object(wire)): (usize, Object<DescriptorJson<'b>>)| {
                    let at = |problem: Problem| problem.at(&format!("descriptors[{index}]"));
                    wire.descriptor(bounds).map_err(at)
                };
                list.into_iter().enumerate().map(one).collect::<Result<_, _>>()?
            }
            (None, None) => {
                return Err(Problem::bad(
                    "missing field `descriptors`: send `descriptors`, or one `descriptor`",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Problem::bad(
                    "both `descriptor` and `descriptors` are present; send one of them",
                ));
            }
        };
        let parsed =
            Self { domain, descriptors: one_or_list, cost: cost.map_or(1, |WholeNumber(cost)| cost) };
        parsed.check(bounds)?;
        Ok((parsed, ttl_ms.map(|WholeNumber(ms)| ms)))
    }

    /// Builds the request that the engine decides.
    pub(super) fn request(&self, limiter: &Limiter) -> Result<Request<'_>, Problem> {
        let (first, more) = self.descriptors.split_first().expect("a request has a descriptor");
        let mut request = first.describe(|entries| Request::new(&self.domain.0, entries));
        request = self.with_limits(limiter, 0, request)?;
        for (index, next) in more.iter().enumerate() {
            request = next.describe(|entries| request.and(entries));
            request = self.with_limits(limiter, index + 1, request)?;
        }
        Ok(request.cost(self.cost))
    }

    /// Sets every cost to 0, so that the request charges nothing.
    pub(super) fn without_cost(mut self) -> Self {
        self.cost = 0;
        for descriptor in &mut self.descriptors {
            descriptor.cost = None;
        }
        self
    }

    /// Adds the limits of the descriptor at this index, which must be the last one of `request`.
    fn with_limits<'s>(
        &'s self,
        limiter: &Limiter,
        index: usize,
        request: Request<'s>,
    ) -> Result<Request<'s>, Problem> {
        let Descriptor { entries, cost, limits } = &self.descriptors[index];
        if limits.is_empty() {
            return Ok(request);
        }
        let scope = entries.first().map_or(("", ""), |(key, value)| (&*key.0, &*value.0));
        let cost = cost.unwrap_or(self.cost);
        let limits = limiter.inline_limits_of(&self.domain.0, limits, scope, cost);
        let limits = limits.map_err(|error| match error {
            InlineError::NotAllowed { .. } | InlineError::TooMany { .. } => {
                Problem::new(StatusCode::FORBIDDEN, error.to_string())
            }
            InlineError::Invalid { .. } => {
                Problem::bad(error.to_string()).at(&format!("descriptors[{index}].limits"))
            }
        })?;
        Ok(request.limits(&limits))
    }

    /// Rejects members that do not apply to a permit: a cost other than 1, and limits.
    pub(super) fn check_permit(&self) -> Result<(), Problem> {
        if self.descriptors.iter().any(|descriptor| !descriptor.limits.is_empty()) {
            return Err(Problem::bad(
                "a permit holds slots of concurrency limits in the rules: leave limits out",
            ));
        }
        let costs = self.descriptors.iter().filter_map(|descriptor| descriptor.cost).chain([self.cost]);
        match costs.into_iter().find(|cost| *cost != 1) {
            None => Ok(()),
            Some(cost) => Err(Problem::bad(format!("a permit takes one slot: leave cost out, got {cost}"))),
        }
    }

    fn check(&self, bounds: &Bounds) -> Result<(), Problem> {
        if self.domain.0.is_empty() {
            return Err(Problem::bad("domain must not be empty"));
        }
        bounds.domain(&self.domain.0)?;
        bounds.cost(self.cost)?;
        if self.descriptors.is_empty() {
            return Err(Problem::bad("descriptors must not be empty"));
        }
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            descriptor.check(bounds).map_err(|problem| problem.at(&format!("descriptors[{index}]")))?;
        }
        Ok(())
    }
}

impl Descriptor<'_> {
    fn describe<'s>(&'s self, make: impl FnOnce(&[(&'s str, &'s str)]) -> Request<'s>) -> Request<'s> {
        let entries: SmallVec<[(&str, &str); 4]> =
            self.entries.iter().map(|(key, value)| (&*key.0, &*value.0)).collect();
        let request = make(&entries);
        match self.cost {
            Some(cost) => request.descriptor_cost(cost),
            None => request,
        }
    }

    fn check(&self, bounds: &Bounds) -> Result<(), Problem> {
        bounds.entries(self.entries.len())?;
        bounds.cost(self.cost.unwrap_or(0))?;
        for (index, (key, value)) in self.entries.iter().enumerate() {
            let at = |refusal| Problem::from(refusal).at(&format!("entries[{index}]"));
            bounds.entry(&key.0, &value.0).map_err(at)?;
        }
        Ok(())
    }

    /// Rejects a key that occurs twice. The bound is checked first, because it limits the cost of this search.
    fn check_short(&self, bounds: &Bounds) -> Result<(), Problem> {
        bounds.entries(self.entries.len())?;
        for (index, (key, _)) in self.entries.iter().enumerate() {
            if self.entries[..index].iter().any(|(before, _)| before.0 == key.0) {
                let key = &key.0;
                let detail = format!("key {key:?} occurs twice; to send it twice, use `descriptors`");
                return Err(Problem::bad(detail));
            }
        }
        Ok(())
    }
}

/// Parses one JSON object. Anything after it is an error.
pub(super) fn object<'b, T: Deserialize<'b>>(json: &'b [u8]) -> Result<Object<T>, Problem> {
    if json.trim_ascii().is_empty() {
        return Err(Problem::bad("the body is empty; send a JSON object"));
    }
    Ok(serde_json::from_slice(json)?)
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckBodyJson<'b> {
    #[serde(borrow)]
    domain: Text<'b>,
    #[serde(borrow)]
    descriptors: Option<Vec<Object<DescriptorJson<'b>>>>,
    #[serde(borrow)]
    descriptor: Option<ShortDescriptor<'b>>,
    #[serde(borrow)]
    limits: Option<Vec<Object<InlineLimitJson<'b>>>>,
    cost: Option<WholeNumber>,
    ttl_ms: Option<WholeNumber>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DescriptorJson<'b> {
    #[serde(borrow)]
    entries: Vec<Object<EntryJson<'b>>>,
    cost: Option<WholeNumber>,
    #[serde(borrow)]
    limits: Option<Vec<Object<InlineLimitJson<'b>>>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryJson<'b> {
    #[serde(borrow)]
    key: Text<'b>,
    #[serde(borrow)]
    value: Text<'b>,
}

impl<'b> DescriptorJson<'b> {
    fn descriptor(self, bounds: &Bounds) -> Result<Descriptor<'b>, Problem> {
        let entries = self.entries.into_iter().map(|Object(EntryJson { key, value })| (key, value));
        let (entries, limits) = (entries.collect(), inline_limit::read(self.limits, bounds)?);
        Ok(Descriptor { entries, cost: self.cost.map(|WholeNumber(cost)| cost), limits })
    }
}

/// A JSON object. Serde's derived structs would also accept a list of their members' values.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(Object)
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// A JSON string, borrowed if it has no escapes.
#[derive(Debug)]
pub(super) struct Text<'b>(pub(super) Cow<'b, str>);

impl<'de: 'b, 'b> Deserialize<'de> for Text<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Characters;
        impl<'de> Visitor<'de> for Characters {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string (put numbers and booleans in quotes)")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Characters)
    }
}

/// The entries of a descriptor, written as an object, in their original order.
struct ShortDescriptor<'b>(Vec<(Text<'b>, Text<'b>)>);

impl<'de: 'b, 'b> Deserialize<'de> for ShortDescriptor<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = ShortDescriptor<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(2);
                while let Some(entry) = members.next_entry()? {
                    entries.push(entry);
                }
                Ok(ShortDescriptor(entries))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A non-negative integer. The bounds reject a cost above 2^53.
pub(super) struct WholeNumber(pub(super) u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = WholeNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 9007199254740992")
            }

            fn visit_u64<E: Error>(self, cost: u64) -> Result<Self::Value, E> {
                Ok(WholeNumber(cost))
            }

            fn visit_i64<E: Error>(self, cost: i64) -> Result<Self::Value, E> {
                u64::try_from(cost)
                    .map(WholeNumber)
                    .map_err(|_| E::invalid_value(Unexpected::Signed(cost), &self))
            }
        }
        deserializer.deserialize_u64(Number)
    }
}
