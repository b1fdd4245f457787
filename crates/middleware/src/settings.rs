//! What a layer holds, and how it decides by that.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use tidegate::{Acquired, Decision, Limiter, Request};

use crate::asking::{Asking, Find};
use crate::client_ip::ClientIp;
use crate::held::Held;
use crate::key::Key;
use crate::limited::{LateHeaders, Limited, RateLimited};
use crate::question::{About, Cost, Question};
use crate::reject::{self, Rejection};
use crate::renderer::Renderer;
use crate::warnings;

/// So many layers an application has at most: more of them are made per request.
const MOST_LAYERS: usize = 100;

pub(crate) type OnReject = Arc<dyn Fn(Rejection<'_>) -> Response<Bytes> + Send + Sync>;

/// What becomes of a request while nobody can tell what is left of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenStoreFails {
    /// What the limiter decides without its store.
    #[default]
    Decide,
    /// It passes.
    Allow,
    /// It is denied for a second.
    Deny,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) limiter: Limiter,
    pub(crate) about: About,
    pub(crate) key: Key,
    pub(crate) cost: Cost,
    pub(crate) client_ip: ClientIp,
    pub(crate) renderer: Renderer,
    pub(crate) skip: Option<Find<bool>>,
    pub(crate) on_reject: Option<OnReject>,
    pub(crate) when_store_fails: WhenStoreFails,
    pub(crate) hold_permits: bool,
    pub(crate) deferred: bool,
    pub(crate) _alive: Alive,
}

/// A request that may pass, and what its response gets.
#[derive(Default)]
pub(crate) struct Passed {
    pub(crate) headers: RenderedHeaders,
    /// Those that a handler adds.
    pub(crate) late: Option<LateHeaders>,
    pub(crate) held: Option<Held>,
}

pub(crate) type RenderedHeaders = Vec<(HeaderName, HeaderValue)>;

/// The limits that a request was charged for, by their fingerprints.
#[derive(Clone, Default)]
struct Charged(Vec<u64>);

impl Settings {
    /// Decides a request, and leaves in it what handlers may want to know.
    pub(crate) async fn decide(self: &Arc<Self>, parts: &mut Parts) -> Result<Passed, Response<Bytes>> {
        let asking = Asking::new(parts, &self.client_ip);
        if self.skip.as_ref().is_some_and(|skip| skip(&asking)) {
            return Ok(Passed::default());
        }
        let question = Question::new(&self.about, &self.key, &self.cost, asking).await;
        if self.deferred {
            let late = LateHeaders::default();
            parts.extensions.insert(Limited::new(self, question, &late, parts.clone()));
            return Ok(Passed { late: Some(late), ..Passed::default() });
        }
        let request = question.request();
        let held = match self.acquire(&request).await {
            Ok(held) => held,
            Err(denied) => return Err(self.reject(&request, &denied, parts)),
        };
        let decision = self.limiter.check(&request).await;
        if !self.passes(&decision) {
            return Err(self.reject(&request, &decision, parts));
        }
        let headers = self.headers(&request, &decision);
        note_charges(parts, &question.fingerprints());
        parts.extensions.insert(RateLimited(decision));
        Ok(Passed { headers, late: None, held })
    }

    async fn acquire(&self, request: &Request<'_>) -> Result<Option<Held>, Decision> {
        if !self.hold_permits {
            return Ok(None);
        }
        match self.limiter.acquire(request).await {
            Acquired::Permit(permit) => Ok(Some(Held::new(permit))),
            Acquired::Denied(decision) if self.passes(&decision) => Ok(None),
            Acquired::Denied(decision) => Err(decision),
        }
    }

    /// Whether a request passes by a decision, which may have been made without the store.
    pub(crate) fn passes(&self, decision: &Decision) -> bool {
        match self.when_store_fails {
            WhenStoreFails::Allow if decision.source().is_makeshift() => true,
            WhenStoreFails::Deny if decision.source().is_makeshift() => false,
            _ => decision.allowed(),
        }
    }

    /// The answer to a request that does not pass.
    pub(crate) fn reject(
        &self,
        request: &Request<'_>,
        decision: &Decision,
        parts: &Parts,
    ) -> Response<Bytes> {
        let response = reject::response(self, request, decision);
        let asking = Asking::new(parts, &self.client_ip);
        let response = if asking.is_grpc() { reject::as_grpc(response) } else { response };
        match &self.on_reject {
            Some(answer) => answer(Rejection { asking, decision, response }),
            None => response,
        }
    }

    /// The headers of a decision, as whoever decided renders them.
    pub(crate) fn headers(&self, request: &Request<'_>, decision: &Decision) -> RenderedHeaders {
        let mut headers = Vec::new();
        if let Some(rendered) = decision.rendered() {
            for (name, value) in &rendered.headers {
                if let (Ok(name), Ok(value)) = (name.parse(), value.parse()) {
                    headers.push((name, value));
                }
            }
            return headers;
        }
        self.renderer.headers(request, decision, self.limiter.now(), |name, value| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.push((name.clone(), value));
            }
        });
        headers
    }
}

/// Remembers charges in the request, and tells the log if one is the second of its kind.
fn note_charges(parts: &mut Parts, fingerprints: &[u64]) {
    let charged = parts.extensions.get_or_insert_default::<Charged>();
    if fingerprints.iter().any(|fingerprint| charged.0.contains(fingerprint)) {
        warnings::DOUBLE_COUNT.tell();
    }
    charged.0.extend_from_slice(fingerprints);
}

/// Whether a request is being handled on this thread right now.
pub(crate) fn is_handling() -> bool {
    HANDLING.get()
}

/// Counts the layers that there are.
pub(crate) struct Alive(());

static ALIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether a request is being handled on this thread right now.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs what handles a request, so that layers made meanwhile are noticed.
pub(crate) fn handling<T>(handle: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            HANDLING.set(self.0);
        }
    }
    let _before = Before(HANDLING.replace(true));
    handle()
}

impl Default for Alive {
    fn default() -> Self {
        if ALIVE.fetch_add(1, Relaxed) >= MOST_LAYERS || HANDLING.get() {
            tidegate::warning::limiter_per_request();
        }
        Self(())
    }
}

impl Clone for Alive {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
    }
}
