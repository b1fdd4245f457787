//! Builds the limiter's request from the head of an HTTP request.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tidegate::unnamed::UnnamedScope;
use tidegate::{InlineLimits, Request, spelling};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key::Key;
use crate::request_head::{AsyncHeadFn, HeadFn, RequestHead};
use crate::warnings;

/// The domain for limits in code. The default rules of a service define it.
pub(crate) const APPS: &str = "apps";

/// One or more descriptors of a request.
///
/// ```
/// use tidegate_middleware::Descriptors;
///
/// let one = Descriptors::from([("api_key", "ann"), ("endpoint", "POST /orders")]);
/// let two = one.and([("ip", "192.0.2.7")]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptors(Vec<Vec<(String, String)>>);

impl Descriptors {
    /// Adds another descriptor. A request must be within the limits of every descriptor.
    #[must_use]
    pub fn and<K: Into<String>, V: Into<String>>(
        mut self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.0.push(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect());
        self
    }

    /// Normalizes values that clients can write to the spelling that services accept.
    fn spelt(mut self) -> Self {
        for (_, value) in self.0.iter_mut().flatten() {
            if let Cow::Owned(spelt) = spelling::value(value) {
                *value = spelt;
            }
        }
        self
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for Descriptors {
    fn from(entries: [(K, V); N]) -> Self {
        Self::default().and(entries)
    }
}

impl<K: Into<String>, V: Into<String>> From<Vec<(K, V)>> for Descriptors {
    fn from(entries: Vec<(K, V)>) -> Self {
        Self::default().and(entries)
    }
}

/// The cost of a request, in units.
#[derive(Clone)]
pub(crate) enum Cost {
    Fixed(u64),
    Now(HeadFn<u64>),
    Later(AsyncHeadFn<u64>),
}

impl Cost {
    pub(crate) fn later<F>(find: impl Fn(&RequestHead<'_>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u64> + Send + 'static,
    {
        Self::Later(Arc::new(move |head| find(head).boxed()))
    }

    async fn of(&self, head: RequestHead<'_>) -> u64 {
        match self {
            Self::Fixed(cost) => *cost,
            Self::Now(find) => find(&head),
            Self::Later(find) => find(&head).await,
        }
    }
}

/// What the requests of a layer are counted under.
#[derive(Clone)]
pub(crate) enum Subject {
    /// The route or the name of the layer, and the client's key; with limits in code, if there are any.
    Route {
        domain: String,
        name: Option<String>,
        limits: Option<InlineLimits>,
        unnamed: Option<UnnamedScope>,
    },
    /// Descriptors from the application, matched against the rules of a domain.
    Descriptors { domain: String, find: HeadFn<Descriptors> },
}

impl Default for Subject {
    fn default() -> Self {
        Self::Route { domain: APPS.to_owned(), name: None, limits: None, unnamed: None }
    }
}

/// A request to be decided, which owns its texts.
#[derive(Clone)]
pub(crate) struct OwnedRequest {
    domain: String,
    descriptors: Descriptors,
    limits: Option<InlineLimits>,
    pub(crate) cost: u64,
}

impl OwnedRequest {
    pub(crate) async fn new(subject: &Subject, key: &Key, cost: &Cost, head: RequestHead<'_>) -> Self {
        let cost = spelling::cost(cost.of(head).await);
        match subject {
            Subject::Descriptors { domain, find } => {
                let descriptors = find(&head).spelt();
                Self { domain: domain.clone(), descriptors, limits: None, cost }
            }
            Subject::Route { domain, name, limits, unnamed } => {
                let route = scope(name.as_deref(), unnamed.as_ref(), head);
                // Requests without a key share one counter.
                let client = key.find(head).await.unwrap_or_default();
                let descriptors = Descriptors::from([("route", route), ("client", client)]).spelt();
                Self { domain: domain.clone(), descriptors, limits: limits.clone(), cost }
            }
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        let mut request: Option<Request<'_>> = None;
        for descriptor in &self.descriptors.0 {
            let entries: Vec<_> =
                descriptor.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let next = match request {
                None => Request::new(&self.domain, entries),
                Some(request) => request.and(entries),
            };
            request = Some(match &self.limits {
                Some(limits) => next.limits(limits),
                None => next,
            });
        }
        request.unwrap_or_else(|| Request::new(&self.domain, [])).cost(self.cost)
    }

    /// Returns hashes that identify the charges of this request, computed from its domain, descriptors and limits:
    /// one for each limit in code, or a single one for all limits of the rules.
    pub(crate) fn fingerprints(&self) -> Vec<u64> {
        let fold = |hash, text: &str| xxh3_64_with_seed(text.as_bytes(), hash);
        let entries = self.descriptors.0.iter().flatten();
        let hash = entries.fold(fold(0, &self.domain), |hash, (key, value)| fold(fold(hash, key), value));
        match &self.limits {
            // Each limit has its own counter, as when one route has a burst limit and a daily limit.
            Some(limits) => limits.identities().map(|limit| fold(hash, &limit)).collect(),
            None => vec![hash],
        }
    }
}

/// Returns what limits in code are counted under besides the client. Never a path, because clients can make up any
/// path.
fn scope(name: Option<&str>, unnamed: Option<&UnnamedScope>, head: RequestHead<'_>) -> String {
    if let Some(name) = name {
        return name.to_owned();
    }
    if let Some(template) = head.template() {
        return template;
    }
    let Some(unnamed) = unnamed else { return head.route() };
    if unnamed.number() > 1 {
        warnings::UNNAMED_TWIN.log();
    }
    unnamed.text()
}
