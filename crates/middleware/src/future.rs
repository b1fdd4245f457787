//! The future that resolves to a response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::response_body::LimitedBody;
use crate::settings::{Admission, handling};

/// An admitted request, or the response to a denied one.
type Decided<B> = Result<(Request<B>, Admission), Response<Bytes>>;

pin_project! {
    /// The response future of a [`crate::RateLimit`] service.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
    }
}

pin_project! {
    #[project = Stage]
    enum State<S, B, F> {
        Deciding { deciding: BoxFuture<'static, Decided<B>>, inner: S },
        // If the client disconnects, the permit is dropped with this future.
        Serving { #[pin] serving: F, admission: Option<Admission> },
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    pub(crate) fn new(deciding: BoxFuture<'static, Decided<B>>, inner: S) -> Self {
        Self { state: State::Deciding { deciding, inner } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
    R::Data: From<Bytes>,
{
    type Output = Result<Response<LimitedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                Stage::Deciding { deciding, inner } => match ready!(deciding.as_mut().poll(context)) {
                    Err(denied) => return Poll::Ready(Ok(denied.map(LimitedBody::text))),
                    Ok((request, admission)) => {
                        let serving = handling(|| inner.call(request));
                        state.set(State::Serving { serving, admission: Some(admission) });
                    }
                },
                Stage::Serving { serving, admission } => {
                    let response = ready!(handling(|| serving.poll(context)))?;
                    return Poll::Ready(Ok(with_headers(response, admission.take().unwrap_or_default())));
                }
            }
        }
    }
}

/// Adds the rate limit headers to a response, except those that the application has set itself.
fn with_headers<R>(mut response: Response<R>, admission: Admission) -> Response<LimitedBody<R>> {
    let late = admission.late.map(|late| late.take()).unwrap_or_default();
    let headers = response.headers_mut();
    for (name, value) in admission.headers.into_iter().chain(late) {
        headers.entry(name).or_insert(value);
    }
    response.map(|body| LimitedBody::new(body, admission.permit))
}
