//! What handlers see of limits, and the checks that they make themselves.

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

/// How often settling is tried again after a failure: after this time, and then after four times as long each.
const MORE_TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The decision that let a request pass: an extension of the request, and an extractor of Axum's.
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

/// Limits that a handler checks itself, because only it knows the cost; from
/// [`crate::RateLimitLayer::deferred`]. An extension of the request, and an extractor of Axum's.
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

/// An estimate that is charged until it is settled; see [`Limited::reserve`].
#[must_use = "an estimate that is not settled stays charged"]
pub struct Estimate {
    decider: Decider,
    id: Option<ReservationId>,
    /// What the limits said.
    pub decision: Decision,
}

impl Estimate {
    /// Charges what it really cost: the rest is given back, or the overrun taken. Returns false if the estimate stays
    /// charged, because its time was over or neither store nor service responded. In the latter case it is tried a
    /// few times more in the background, and the log says if that fails too.
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

/// Tries again a few times, until the store or service responds.
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

/// A denial as a response.
#[derive(Debug)]
pub struct Denied {
    /// The decision.
    pub decision: Box<Decision>,
    /// The response to return.
    pub response: Box<Response<Bytes>>,
}

/// Headers that are known only after the handler has checked.
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

    /// Decides the request at this cost and charges it. The headers go with the response.
    ///
    /// # Errors
    /// The denial, to be returned as the response.
    pub async fn check(&self, cost: u64) -> Result<Decision, Denied> {
        let request = self.request.request().cost(spelling::cost(cost));
        let decision = self.settings.decider.check(&request).await;
        self.judge(&request, decision)
    }

    /// Charges an estimate, to be settled within `ttl`.
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
    /// The denial, to be returned as the response.
    pub async fn reserve(&self, estimate: u64, ttl: Duration) -> Result<Estimate, Denied> {
        let request = self.request.request().cost(spelling::cost(estimate));
        let decider = self.settings.decider.clone();
        let (id, decision) = match decider.reserve(&request, ttl).await {
            Ok(Reserved::Reservation(Reservation { id, decision, .. })) => (Some(id), decision),
            Ok(Reserved::Denied(decision)) => (None, decision),
            Err(error) => {
                // Better charged for good than not at all.
                tracing::warn!(%error, "an estimate is charged that cannot be settled");
                (None, decider.check(&request).await)
            }
        };
        match self.judge(&request, decision) {
            Ok(decision) => Ok(Estimate { decider, id, decision }),
            Err(denied) => {
                // It was charged although the layer does not let it pass: nothing is used of it.
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

    /// The response where a handler takes an extractor of this crate and no layer around it provides it.
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
