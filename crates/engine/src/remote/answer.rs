//! What comes back.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::RemoteError;
use super::post::{Reply, detail_of};
use crate::decision::Source;

/// A decision of the service.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) said: Said,
}

/// The members of the body.
#[derive(Deserialize)]
pub(super) struct Said {
    pub(super) allowed: bool,
    decided_by: Option<Named>,
    source: String,
    #[serde(default)]
    pub(super) limits: Vec<SaidLimit>,
}

#[derive(Deserialize)]
struct Named {
    rule: String,
    name: String,
}

#[derive(Deserialize)]
pub(super) struct SaidLimit {
    pub(super) rule: String,
    pub(super) name: String,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) reset_after_ms: u64,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) shadow: bool,
}

impl Said {
    /// How limits stand, without a decision.
    pub(super) fn of_limits(limits: Vec<SaidLimit>) -> Self {
        Self { allowed: true, decided_by: None, source: Source::Shared.name().to_owned(), limits }
    }

    /// Which limit decided.
    pub(super) fn deciding(&self) -> Option<usize> {
        let by = self.decided_by.as_ref()?;
        let same = |limit: &SaidLimit| limit.rule == by.rule && limit.name == by.name && !limit.shadow;
        let denies = |limit: &SaidLimit| same(limit) && limit.retry_after_ms.is_some();
        // Several descriptors may fall under one limit: the one that denies takes longest to free.
        let retry = |index: &usize| self.limits[*index].retry_after_ms;
        let denying = (0..self.limits.len()).filter(|index| denies(&self.limits[*index]));
        denying.max_by_key(retry).filter(|_| !self.allowed).or_else(|| {
            let all = (0..self.limits.len()).filter(|index| same(&self.limits[*index]));
            all.min_by_key(|index| self.limits[*index].remaining)
        })
    }

    pub(super) fn source(&self) -> Source {
        match self.source.as_str() {
            "memory" => Source::Memory,
            "fallback" => Source::Fallback,
            _ => Source::Shared,
        }
    }
}

/// One element of a batch.
#[derive(Deserialize)]
struct Element<'a> {
    status: u16,
    #[serde(default)]
    headers: Pairs,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// An object of texts in the order it was written.
#[derive(Default)]
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Answer {
    /// Nothing to pass on.
    pub(super) fn of_limits(said: Said) -> Self {
        let (content_type, headers, body) = (String::new(), Vec::new(), String::new());
        Self { status: StatusCode::OK.as_u16(), content_type, headers, body, said }
    }

    /// The answer to one request that was sent by itself.
    pub(super) fn of_one(reply: &Reply) -> Result<Self, RemoteError> {
        let body =
            std::str::from_utf8(&reply.body).map_err(|error| RemoteError::Garbled(error.to_string()))?;
        let headers = reply.headers.iter().filter(|(name, _)| is_about_limits(name.as_str()));
        let headers =
            headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        let content_type = reply.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Self::new(reply.status.as_u16(), content_type, headers.collect(), body)
    }

    /// The answers to a batch of so many.
    pub(super) fn of_batch(
        reply: &Reply,
        count: usize,
    ) -> Result<Vec<Result<Self, RemoteError>>, RemoteError> {
        if reply.status != StatusCode::OK {
            return Err(reply.refused());
        }
        let elements: Vec<Element<'_>> =
            serde_json::from_slice(&reply.body).map_err(|error| garbled(&error))?;
        if elements.len() != count {
            return Err(RemoteError::Garbled(format!("{} answers to {count} questions", elements.len())));
        }
        Ok(elements.into_iter().map(Self::of_element).collect())
    }

    fn of_element(element: Element<'_>) -> Result<Self, RemoteError> {
        let headers = element.headers.0.into_iter().filter(|(name, _)| is_about_limits(name)).collect();
        Self::new(element.status, None, headers, element.body.get())
    }

    fn new(
        status: u16,
        content_type: Option<&str>,
        headers: Vec<(String, String)>,
        body: &str,
    ) -> Result<Self, RemoteError> {
        let usual_type = match status {
            200 => "application/json",
            429 => "application/problem+json",
            500.. => return Err(RemoteError::Unwell { status, detail: detail_of(body.as_bytes()) }),
            _ => return Err(RemoteError::Refused { status, detail: detail_of(body.as_bytes()) }),
        };
        let said: Said = serde_json::from_str(body).map_err(|error| garbled(&error))?;
        let content_type = content_type.unwrap_or(usual_type).to_owned();
        Ok(Self { status, content_type, headers, body: body.to_owned(), said })
    }
}

/// The headers that are passed on; others are about the connection.
fn is_about_limits(name: &str) -> bool {
    name == "retry-after" || name.starts_with("ratelimit") || name.starts_with("x-ratelimit")
}

fn garbled(error: &serde_json::Error) -> RemoteError {
    RemoteError::Garbled(error.to_string())
}
