//! What a layer asks about a request.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tidegate::unnamed::UnnamedScope;
use tidegate::{InlineLimits, Request, spelling};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::asking::{Asking, Find, FindLater};
use crate::key::Key;
use crate::warnings;

/// The domain that takes limits from applications, in the rules that a service starts with.
pub(crate) const APPS: &str = "apps";

/// One or several descriptors, made from a request.
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
    /// Adds another descriptor; every descriptor must be within its limits.
    #[must_use]
    pub fn and<K: Into<String>, V: Into<String>>(
        mut self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.0.push(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect());
        self
    }

    /// With values as they go to a service: clients can write them.
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

/// How many units a request takes.
#[derive(Clone)]
pub(crate) enum Cost {
    Fixed(u64),
    Now(Find<u64>),
    Later(FindLater<u64>),
}

impl Cost {
    pub(crate) fn later<F>(find: impl Fn(&Asking<'_>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u64> + Send + 'static,
    {
        Self::Later(Arc::new(move |asking| find(asking).boxed()))
    }

    async fn of(&self, asking: Asking<'_>) -> u64 {
        match self {
            Self::Fixed(cost) => *cost,
            Self::Now(find) => find(&asking),
            Self::Later(find) => find(&asking).await,
        }
    }
}

/// What a layer asks about.
#[derive(Clone)]
pub(crate) enum About {
    /// The scope and the client's key, held against limits of the application's own if there are any.
    Route { domain: String, name: Option<String>, limits: Option<InlineLimits>, itself: Option<UnnamedScope> },
    /// What the application says, held against the rules.
    Descriptors { domain: String, find: Find<Descriptors> },
}

impl Default for About {
    fn default() -> Self {
        Self::Route { domain: APPS.to_owned(), name: None, limits: None, itself: None }
    }
}

/// A question with its texts.
#[derive(Clone)]
pub(crate) struct Question {
    domain: String,
    descriptors: Descriptors,
    limits: Option<InlineLimits>,
    pub(crate) cost: u64,
}

impl Question {
    pub(crate) async fn new(about: &About, key: &Key, cost: &Cost, asking: Asking<'_>) -> Self {
        let cost = spelling::cost(cost.of(asking).await);
        match about {
            About::Descriptors { domain, find } => {
                let descriptors = find(&asking).spelt();
                Self { domain: domain.clone(), descriptors, limits: None, cost }
            }
            About::Route { domain, name, limits, itself } => {
                let route = scope(name.as_deref(), itself.as_ref(), asking);
                // Those without a key share one.
                let client = key.find(asking).await.unwrap_or_default();
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

    /// Tells charges apart by domain, descriptors and limit: one for each limit of the application's own, or
    /// one for those of the rules.
    pub(crate) fn fingerprints(&self) -> Vec<u64> {
        let fold = |hash, text: &str| xxh3_64_with_seed(text.as_bytes(), hash);
        let entries = self.descriptors.0.iter().flatten();
        let hash = entries.fold(fold(0, &self.domain), |hash, (key, value)| fold(fold(hash, key), value));
        match &self.limits {
            // Each has a counter of its own, as a burst and a daily limit of one route do.
            Some(limits) => limits.identities().map(|limit| fold(hash, &limit)).collect(),
            None => vec![hash],
        }
    }
}

/// What limits without rules are counted under, besides the client: never a path, which clients make up.
fn scope(name: Option<&str>, itself: Option<&UnnamedScope>, asking: Asking<'_>) -> String {
    if let Some(name) = name {
        return name.to_owned();
    }
    if let Some(template) = asking.template() {
        return template;
    }
    let Some(itself) = itself else { return asking.route() };
    if itself.number() > 1 {
        warnings::UNNAMED_TWIN.tell();
    }
    itself.text()
}
