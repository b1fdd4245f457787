//! The Tower service that limits the requests to an inner service.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::future::ResponseFuture;
use crate::response_body::LimitedBody;
use crate::settings::Settings;

/// Limits the requests to an inner service; see [`crate::RateLimitLayer`].
#[derive(Clone)]
pub struct RateLimit<S> {
    pub(crate) inner: S,
    pub(crate) settings: Arc<Settings>,
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    B: Send + 'static,
    R: Body,
    R::Data: From<Bytes>,
{
    type Response = Response<LimitedBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        // `poll_ready` was called on this service, not on its clone, so this one handles the call.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let settings = Arc::clone(&self.settings);
        let deciding = async move {
            let (mut parts, body) = request.into_parts();
            let admission = settings.decide(&mut parts).await?;
            Ok((Request::from_parts(parts, body), admission))
        };
        ResponseFuture::new(deciding.boxed(), inner)
    }
}
