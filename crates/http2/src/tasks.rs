//! Futures that produce responses. All of them are polled by the connection's own task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, Stream as _};
use http::Response;
use http_body::{Body, Frame};

use crate::service::{Later, Refusal};

/// The pending futures of a connection. Dropping this cancels them.
pub(crate) struct Tasks<B>(FuturesUnordered<Abortable<Work<B>>>);

/// A future of one stream, which completes when there is something to send.
struct Work<B> {
    stream: u32,
    task: Option<Task<B>>,
}

/// The kinds of futures.
pub(crate) enum Task<B> {
    /// Produces the response to a request with a collected body.
    Later(Later),
    /// Produces the response to a streamed call.
    Call(Pin<Box<dyn Future<Output = Response<B>> + Send>>),
    /// Produces the next piece of the response body of a streamed call.
    Body(B),
}

/// The result of a [`Task`].
pub(crate) enum Step<B> {
    Answered(Result<Vec<u8>, Refusal>),
    Begun(Response<B>),
    /// The next piece, or `None` at the end, and the body it came from.
    Piece(Option<Frame<Bytes>>, B),
    /// The response body failed.
    Broken,
}

impl<B: Body<Data = Bytes> + Unpin> Tasks<B> {
    pub(crate) fn new() -> Self {
        Self(FuturesUnordered::new())
    }

    /// Adds a task. The returned handle cancels it.
    pub(crate) fn begin(&self, stream: u32, task: Task<B>) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        self.0.push(Abortable::new(Work { stream, task: Some(task) }, registration));
        handle
    }

    /// Returns the next completed task and its stream ID.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(u32, Step<B>)> {
        loop {
            match Pin::new(&mut self.0).poll_next(cx) {
                Poll::Ready(Some(Ok(done))) => return Poll::Ready(done),
                Poll::Ready(Some(Err(_aborted))) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Future for Work<B> {
    type Output = (u32, Step<B>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.task {
            Some(Task::Later(later)) => later.as_mut().poll(cx).map(Step::Answered),
            Some(Task::Call(call)) => call.as_mut().poll(cx).map(Step::Begun),
            Some(Task::Body(body)) => {
                let Poll::Ready(piece) = Pin::new(body).poll_frame(cx) else { return Poll::Pending };
                Poll::Ready(match (piece.transpose(), self.task.take()) {
                    (Ok(piece), Some(Task::Body(body))) => Step::Piece(piece, body),
                    _ => Step::Broken,
                })
            }
            None => Poll::Pending,
        };
        polled.map(|step| (self.stream, step))
    }
}
