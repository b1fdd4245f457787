//! Extractors for handlers: the decision on a request, and checks that a handler makes itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use parking_lot::Mutex;
use tidegate::{Decision, Reservation, ReservationId, Reserved, spelling};

use crate::decider::Decider;
use crate::owned_request::OwnedRequest;
use crate::settings::{RenderedHeaders, Settings};

/// The number of times settling is retried after a failure. The first wait is [`FIRST_WAIT`]; each further one is
/// four times as long.
const MORE_TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The decision that admitted a request. It is an extension of the request and an Axum extractor.
///
/// ```
/// use tidegate_middleware::RateLimited;
///
/// async fn handler(RateLimited(decision): RateLimited) -> String {
///     format!("{} left", decision.remaining().unwrap_or(0))
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RateLimited(pub Decision);

/// Lets a handler check the limits itself, because only the handler knows the cost; see
/// [`crate::RateLimitLayer::deferred`]. It is an extension of the request and an Axum extractor.
///
/// ```
/// use tidegate_middleware::{Denied, Limited};
///
/// async fn handler(limited: Limited, body: String) -> Result<&'static str, Denied> {
///     limited.check(body.len() as u64).await?;
///     Ok("done")
/// }
/// ```
#[derive(Clone)]
pub struct Limited {
    settings: Arc<Settings>,
    request: Arc<OwnedRequest>,
    /// The head of the request, for the response to a denial.
    parts: Arc<Parts>,
    late: LateHeaders,
}

/// A charged estimate that is to be settled; see [`Limited::reserve`].
#[must_use = "an estimate that is not settled stays charged"]
pub struct Estimate {
    decider: Decider,
    id: Option<ReservationId>,
    /// The decision on the estimate.
    pub decision: Decision,
}

impl Estimate {
    /// Replaces the estimate by the real cost in units: gives the rest back, or charges the difference. Returns false
    /// if the estimate stays charged, because it has expired or the store or service did not respond. In the latter
    /// case settling is retried a few times in the background, and a final failure is logged.
    pub async fn settle(self, cost: u64) -> bool {
        let Some(id) = self.id else { return false };
        settle(self.decider, id, spelling::cost(cost)).await
    }
}

async fn settle(decider: Decider, id: ReservationId, cost: u64) -> bool {
    match decider.settle(id, cost).await {
        Ok(settled) => settled,
        Err(error) => {
            tracing::debug!(%error, "an estimate is not settled yet");
            tokio::spawn(settle_later(decider, id, cost));
            false
        }
    }
}

/// Retries until the store or service responds, a limited number of times.
async fn settle_later(decider: Decider, id: ReservationId, cost: u64) {
    let mut wait = FIRST_WAIT;
    for tries_left in (0..MORE_TRIES).rev() {
        tokio::time::sleep(wait).await;
        match decider.settle(id, cost).await {
            Ok(_) => return,
            Err(error) if tries_left == 0 => tracing::warn!(%error, "an estimate stays charged"),
            Err(_) => wait *= 4,
        }
    }
}

/// A denial, and the response to it.
#[derive(Debug)]
pub struct Denied {
    /// The decision that denied the request.
    pub decision: Box<Decision>,
    /// The response to return.
    pub response: Box<Response<Bytes>>,
}

/// Headers that are known only after the handler has made its check.
#[derive(Clone, Default)]
pub(crate) struct LateHeaders(Arc<Mutex<RenderedHeaders>>);

impl LateHeaders {
    pub(crate) fn take(&self) -> RenderedHeaders {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Limited {
    pub(crate) fn new(
        settings: &Arc<Settings>,
        request: OwnedRequest,
        late: &LateHeaders,
        parts: Parts,
    ) -> Self {
        let (request, parts) = (Arc::new(request), Arc::new(parts));
        Self { settings: Arc::clone(settings), request, parts, late: late.clone() }
    }

    /// Decides the request at this cost in units, and charges it. The rate limit headers are added to the response.
    ///
    /// # Errors
    /// Returns the denial, which the handler can return as its response.
    pub async fn check(&self, cost: u64) -> Result<Decision, Denied> {
        let request = self.request.request().cost(spelling::cost(cost));
        let decision = self.settings.decider.check(&request).await;
        self.judge(&request, decision)
    }

    /// Charges an estimated cost in units, to be settled within `ttl`.
    ///
    /// ```
    /// # async fn answer(_: String) -> u64 { 70 }
    /// use std::time::Duration;
    /// use tidegate_middleware::{Denied, Limited};
    ///
    /// async fn handler(limited: Limited, prompt: String) -> Result<String, Denied> {
    ///     let estimate = limited.reserve(1_000, Duration::from_secs(60)).await?;
    ///     let used = answer(prompt).await;
    ///     estimate.settle(used).await;
    ///     Ok(format!("{used} used"))
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the denial, which the handler can return as its response.
    pub async fn reserve(&self, estimate: u64, ttl: Duration) -> Result<Estimate, Denied> {
        let request = self.request.request().cost(spelling::cost(estimate));
        let decider = self.settings.decider.clone();
        let (id, decision) = match decider.reserve(&request, ttl).await {
            Ok(Reserved::Reservation(Reservation { id, decision, .. })) => (Some(id), decision),
            Ok(Reserved::Denied(decision)) => (None, decision),
            Err(error) => {
                // It is better to charge the estimate for good than not to charge it at all.
                tracing::warn!(%error, "an estimate was charged that cannot be settled");
                (None, decider.check(&request).await)
            }
        };
        match self.judge(&request, decision) {
            Ok(decision) => Ok(Estimate { decider, id, decision }),
            Err(denied) => {
                // The estimate was charged, but the layer denies the request: give all of it back.
                if let Some(id) = id {
                    settle(decider, id, 0).await;
                }
                Err(denied)
            }
        }
    }

    fn judge(&self, request: &tidegate::Request<'_>, decision: Decision) -> Result<Decision, Denied> {
        if !self.settings.passes(&decision) {
            let response = self.settings.reject(request, &decision, &self.parts);
            return Err(Denied { decision: Box::new(decision), response: Box::new(response) });
        }
        *self.late.0.lock() = self.settings.headers(request, &decision);
        Ok(decision)
    }
}

#[cfg(feature = "axum")]
mod axum_extractors {
    use axum::extract::FromRequestParts;
    use axum::response::{IntoResponse, Response};
    use http::StatusCode;
    use http::request::Parts;

    use super::{Denied, Limited, RateLimited};

    /// The response of an extractor of this crate if no layer around the handler provides its value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NoLayer(&'static str);

    impl IntoResponse for NoLayer {
        fn into_response(self) -> Response {
            tracing::error!("{}", self.0);
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }

    impl<S: Sync> FromRequestParts<S> for RateLimited {
        type Rejection = NoLayer;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoLayer> {
            let found = parts.extensions.get::<Self>().cloned();
            found.ok_or(NoLayer("a handler takes RateLimited, but no RateLimitLayer is around it; add one"))
        }
    }

    impl<S: Sync> FromRequestParts<S> for Limited {
        type Rejection = NoLayer;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoLayer> {
            let found = parts.extensions.get::<Self>().cloned();
            found.ok_or(NoLayer(
                "a handler takes Limited, but no RateLimitLayer with deferred() is around it; add one",
            ))
        }
    }

    impl IntoResponse for Denied {
        fn into_response(self) -> Response {
            (*self.response).map(Into::into)
        }
    }
}

#[cfg(feature = "axum")]
pub use axum_extractors::NoLayer;
