//! The service of a client that paces itself.

use std::future::poll_fn;
use std::mem;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::layer::PacingLayer;
use super::learn::learn;
use super::retry::{Replay, wait_after_error, wait_after_response};

/// An HTTP client that paces itself; see [`PacingLayer`].
#[derive(Clone)]
pub struct Paced<S> {
    pub(super) inner: S,
    pub(super) pacing: PacingLayer,
}

impl<S, B, R> Service<Request<B>> for Paced<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Replay + Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // `poll_ready` was called on this service, not on its clone, so this one handles the call.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        send(inner, self.pacing.clone(), request).boxed()
    }
}

async fn send<S, B, R>(
    mut inner: S,
    pacing: PacingLayer,
    request: Request<B>,
) -> Result<Response<R>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    B: Replay,
{
    let (head, body) = request.into_parts();
    let host = pacing.pacer.host(&(pacing.settings.key)(&head));
    let now = Instant::now();
    let deadline = now.checked_add(pacing.settings.deadline).unwrap_or(now + Duration::from_hours(24 * 365));
    let mut next = Some(body);
    let mut tries = 0;
    // A wait beyond the deadline is not begun: the request is sent now, and the caller gets its response.
    let mut in_flight = host.turn(deadline).await.unwrap_or_else(|| host.start());
    loop {
        let Some(body) = next.take() else { unreachable!("a loop goes on only with a body") };
        let again = body.replay().filter(|_| tries < pacing.settings.max_retries);
        let result = inner.call(Request::from_parts(head.clone(), body)).await;
        let random = &*pacing.settings.random;
        let wait = if let Ok(response) = &result {
            let status = response.status();
            let learned = learn(status, response.headers(), (pacing.settings.wall_clock)());
            let wait = wait_after_response(&head, status, &learned, random, tries);
            let denied = learned.is_denial(status);
            in_flight.respond(learned, denied);
            wait
        } else {
            drop(in_flight);
            wait_after_error(&head, random, tries)
        };
        let (Some(wait), Some(body)) = (wait, again) else { return result };
        if Instant::now().checked_add(wait).is_none_or(|at| at > deadline) {
            return result;
        }
        sleep(wait).await;
        let Some(next_turn) = host.turn(deadline).await else { return result };
        in_flight = next_turn;
        poll_fn(|context| inner.poll_ready(context)).await?;
        next = Some(body);
        tries += 1;
    }
}
