//! The settings of a layer, and its decisions.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use tidegate::{Decision, Request};

use crate::client_ip::ClientIp;
use crate::decider::Decider;
use crate::key::Key;
use crate::limited::{LateHeaders, Limited, RateLimited};
use crate::owned_request::{Cost, OwnedRequest, Subject};
use crate::reject::{self, Rejection};
use crate::renderer::Renderer;
use crate::renewed_permit::RenewedPermit;
use crate::request_head::{HeadFn, RequestHead};
use crate::warnings;

/// More layers than an application plausibly has. If there are more, they are probably created per request.
const MOST_LAYERS: usize = 100;

pub(crate) type OnReject = Arc<dyn Fn(Rejection<'_>) -> Response<Bytes> + Send + Sync>;

/// How requests are decided while the store or the service behind a layer does not respond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenStoreFails {
    /// As the limiter or client decides by itself: by `on_store_error` of the rules, or by the client's fallback.
    #[default]
    Decide,
    /// Requests are allowed.
    Allow,
    /// Requests are denied, with a `Retry-After` of 1 s.
    Deny,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) decider: Decider,
    pub(crate) subject: Subject,
    pub(crate) key: Key,
    pub(crate) cost: Cost,
    pub(crate) client_ip: ClientIp,
    pub(crate) renderer: Renderer,
    pub(crate) skip: Option<HeadFn<bool>>,
    pub(crate) on_reject: Option<OnReject>,
    pub(crate) when_store_fails: WhenStoreFails,
    pub(crate) hold_permits: bool,
    pub(crate) deferred: bool,
    pub(crate) _count: LayerCount,
}

/// An admitted request, and what is added to its response.
#[derive(Default)]
pub(crate) struct Admission {
    pub(crate) headers: RenderedHeaders,
    /// Headers that a handler adds later.
    pub(crate) late: Option<LateHeaders>,
    pub(crate) permit: Option<RenewedPermit>,
}

pub(crate) type RenderedHeaders = Vec<(HeaderName, HeaderValue)>;

/// The fingerprints of the limits that a request was charged for.
#[derive(Clone, Default)]
struct Charged(Vec<u64>);

impl Settings {
    /// Decides a request, and adds the values for extractors to its extensions.
    pub(crate) async fn decide(self: &Arc<Self>, parts: &mut Parts) -> Result<Admission, Response<Bytes>> {
        let head = RequestHead::new(parts, &self.client_ip);
        if self.skip.as_ref().is_some_and(|skip| skip(&head)) {
            return Ok(Admission::default());
        }
        let owned = OwnedRequest::new(&self.subject, &self.key, &self.cost, head).await;
        if self.deferred {
            let late = LateHeaders::default();
            parts.extensions.insert(Limited::new(self, owned, &late, parts.clone()));
            return Ok(Admission { late: Some(late), ..Admission::default() });
        }
        let request = owned.request();
        let permit = match self.acquire(&request).await {
            Ok(permit) => permit,
            Err(denied) => return Err(self.reject(&request, &denied, parts)),
        };
        let decision = self.decider.check(&request).await;
        if !self.passes(&decision) {
            return Err(self.reject(&request, &decision, parts));
        }
        let headers = self.headers(&request, &decision);
        note_charges(parts, &owned.fingerprints());
        parts.extensions.insert(RateLimited(decision));
        Ok(Admission { headers, late: None, permit })
    }

    async fn acquire(&self, request: &Request<'_>) -> Result<Option<RenewedPermit>, Decision> {
        if !self.hold_permits {
            return Ok(None);
        }
        match self.decider.acquire(request).await {
            Ok(permit) => Ok(Some(RenewedPermit::new(permit))),
            Err(decision) if self.passes(&decision) => Ok(None),
            Err(decision) => Err(decision),
        }
    }

    /// Returns whether a decision admits the request. The decision may have been made without the store or service.
    pub(crate) fn passes(&self, decision: &Decision) -> bool {
        match self.when_store_fails {
            WhenStoreFails::Allow if decision.source().is_makeshift() => true,
            WhenStoreFails::Deny if decision.source().is_makeshift() => false,
            _ => decision.allowed(),
        }
    }

    /// Returns the response to a denied request.
    pub(crate) fn reject(
        &self,
        request: &Request<'_>,
        decision: &Decision,
        parts: &Parts,
    ) -> Response<Bytes> {
        let response = reject::response(self, request, decision);
        let head = RequestHead::new(parts, &self.client_ip);
        let response = if head.is_grpc() { reject::as_grpc(response) } else { response };
        match &self.on_reject {
            Some(on_reject) => on_reject(Rejection { head, decision, response }),
            None => response,
        }
    }

    /// Returns the headers of a decision, as the service rendered them if a service decided.
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
        self.renderer.headers(request, decision, self.decider.now(), |name, value| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.push((name.clone(), value));
            }
        });
        headers
    }
}

/// Stores the charges in the request's extensions, and logs a warning if one of them was charged before.
fn note_charges(parts: &mut Parts, fingerprints: &[u64]) {
    let charged = parts.extensions.get_or_insert_default::<Charged>();
    if fingerprints.iter().any(|fingerprint| charged.0.contains(fingerprint)) {
        warnings::DOUBLE_COUNT.log();
    }
    charged.0.extend_from_slice(fingerprints);
}

/// Returns whether a request is being handled on this thread now.
pub(crate) fn is_handling() -> bool {
    HANDLING.get()
}

/// Counts the layers that exist.
pub(crate) struct LayerCount(());

static ALIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether a request is being handled on this thread now.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `handle` and marks this thread as handling a request meanwhile, so that layers created in it are detected.
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

impl Default for LayerCount {
    fn default() -> Self {
        if ALIVE.fetch_add(1, Relaxed) >= MOST_LAYERS || HANDLING.get() {
            tidegate::warning::limiter_per_request();
        }
        Self(())
    }
}

impl Clone for LayerCount {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for LayerCount {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
    }
}
