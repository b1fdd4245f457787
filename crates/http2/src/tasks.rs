//! What answers are made by that take a while. All of it is polled by the connection's own task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, Stream as _};
use http::Response;
use http_body::{Body, Frame};

use crate::service::{Later, Refusal};

/// The work of a connection; dropped, it ends.
pub(crate) struct Tasks<B>(FuturesUnordered<Abortable<Work<B>>>);

/// Works on one stream until there is something to send.
struct Work<B> {
    stream: u32,
    task: Option<Task<B>>,
}

/// What is worked on.
pub(crate) enum Task<B> {
    /// The answer to a collected request.
    Later(Later),
    /// The beginning of any other.
    Call(Pin<Box<dyn Future<Output = Response<B>> + Send>>),
    /// Its next piece.
    Body(B),
}

/// What came of it.
pub(crate) enum Step<B> {
    Answered(Result<Vec<u8>, Refusal>),
    Begun(Response<B>),
    /// The next piece, if there is one, and where further ones come from.
    Piece(Option<Frame<Bytes>>, B),
    /// The body broke off.
    Broken,
}

impl<B: Body<Data = Bytes> + Unpin> Tasks<B> {
    pub(crate) fn new() -> Self {
        Self(FuturesUnordered::new())
    }

    /// Begins to work. The handle ends it early.
    pub(crate) fn begin(&self, stream: u32, task: Task<B>) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        self.0.push(Abortable::new(Work { stream, task: Some(task) }, registration));
        handle
    }

    /// The next stream for which something is to be done.
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
