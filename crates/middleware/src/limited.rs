//! What handlers get to see, and what they may do themselves.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use parking_lot::Mutex;
use tidegate::Decision;

use crate::question::Question;
use crate::reject;
use crate::settings::{RenderedHeaders, Settings};

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
    question: Arc<Question>,
    late: LateHeaders,
}

/// A denial as a response.
#[derive(Debug)]
pub struct Denied {
    /// Why.
    pub decision: Box<Decision>,
    /// What to answer.
    pub response: Response<Bytes>,
}

/// Headers that are known when the handler has checked.
#[derive(Clone, Default)]
pub(crate) struct LateHeaders(Arc<Mutex<RenderedHeaders>>);

impl LateHeaders {
    pub(crate) fn take(&self) -> RenderedHeaders {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Limited {
    pub(crate) fn new(settings: &Arc<Settings>, question: Question, late: &LateHeaders) -> Self {
        Self { settings: Arc::clone(settings), question: Arc::new(question), late: late.clone() }
    }

    /// Decides the request at this cost and charges it. The headers go with the response.
    ///
    /// # Errors
    /// The denial, to be answered with.
    pub async fn check(&self, cost: u64) -> Result<Decision, Denied> {
        let request = self.question.request().cost(cost);
        let decision = self.settings.limiter.check(&request).await;
        self.judge(&request, decision)
    }

    fn judge(&self, request: &tidegate::Request<'_>, decision: Decision) -> Result<Decision, Denied> {
        if !self.settings.passes(&decision) {
            let response = reject::response(&self.settings, request, &decision);
            return Err(Denied { decision: Box::new(decision), response });
        }
        *self.late.0.lock() = self.settings.headers(request, &decision);
        Ok(decision)
    }
}

#[cfg(feature = "remote")]
mod reserving {
    use std::time::Duration;

    use tidegate::{Decision, Limiter, RemoteError, RemoteReservation, RemoteReserved};

    use super::{Denied, Limited};

    /// An estimate that is charged until it is settled.
    #[must_use = "an estimate that is not settled stays charged"]
    pub struct Reservation {
        limiter: Limiter,
        /// `None` where the service could not be asked.
        id: Option<String>,
        /// What the limits said.
        pub decision: Decision,
    }

    impl Limited {
        /// Charges an estimate in the remote service, to be settled within `ttl`. While the service does
        /// not answer, the limiter's fallback decides, and there is nothing to settle.
        ///
        /// # Errors
        /// The denial, to be answered with.
        pub async fn reserve(&self, estimate: u64, ttl: Duration) -> Result<Reservation, Denied> {
            let request = self.question.request().cost(estimate);
            let limiter = self.settings.limiter.clone();
            let (id, decision) = match limiter.reserve_remote(&request, ttl).await {
                Ok(RemoteReserved::Reservation(RemoteReservation { id, decision, .. })) => {
                    (Some(id), decision)
                }
                Ok(RemoteReserved::Denied(decision)) => (None, decision),
                Err(_) => (None, limiter.check_without_service(&request)),
            };
            let decision = self.judge(&request, decision)?;
            Ok(Reservation { limiter, id, decision })
        }
    }

    impl Reservation {
        /// Charges what it really cost. False if its time was over: then the estimate stays charged.
        ///
        /// # Errors
        /// If the service does not answer; the estimate then stays charged.
        pub async fn settle(self, cost: u64) -> Result<bool, RemoteError> {
            match self.id {
                Some(id) => Ok(self.limiter.settle_remote(&id, cost).await?.is_some()),
                None => Ok(true),
            }
        }
    }
}

#[cfg(feature = "remote")]
pub use reserving::Reservation;

#[cfg(feature = "axum")]
mod axum_extractors {
    use axum::extract::FromRequestParts;
    use axum::response::{IntoResponse, Response};
    use http::StatusCode;
    use http::request::Parts;

    use super::{Denied, Limited, RateLimited};

    /// A handler that wants to know about limits, and no layer that does.
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
            self.response.map(Into::into)
        }
    }
}

#[cfg(feature = "axum")]
pub use axum_extractors::NoLayer;
