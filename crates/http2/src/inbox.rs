//! Streamed request bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use parking_lot::Mutex;
use thiserror::Error;

/// Maximum length of a piece passed to the reader. The reader may hold that many bytes outside the connection's
/// accounting.
const PIECE_BYTES: usize = 4 << 10;

/// The error of reading a body whose stream or connection ended before the body was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the request was reset before its body had come")]
pub struct Reset;

/// The body of a request, read while it arrives. It holds at most the stream's flow control window, which is
/// replenished as the body is read.
#[derive(Debug)]
pub struct Inbox(Arc<Mutex<Held>>);

/// The connection's end of an [`Inbox`].
#[derive(Debug)]
pub(crate) struct Feed(Arc<Mutex<Held>>);

/// Records the streams whose bodies have been read, and wakes the connection.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    streams: Vec<u32>,
    waker: Option<Waker>,
}

impl Reads {
    /// Records that some of a stream's body was read, or that the body ended.
    pub(crate) fn note(&self, stream: u32) {
        let mut noted = self.0.lock();
        noted.streams.push(stream);
        let waker = noted.waker.take();
        drop(noted);
        wake(waker);
    }

    /// Returns the streams recorded since the last call. `waker` is woken on the next one.
    pub(crate) fn take(&self, waker: &Waker) -> Vec<u32> {
        let mut noted = self.0.lock();
        if !noted.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            noted.waker = Some(waker.clone());
        }
        std::mem::take(&mut noted.streams)
    }
}

/// The state shared by [`Inbox`] and [`Feed`]. Small pieces are merged, so memory use is close to the number of bytes
/// held.
#[derive(Debug)]
struct Held {
    stream: u32,
    data: BytesMut,
    end: Option<End>,
    /// Bytes read or discarded since the connection last asked. The connection is notified of the first.
    freed: usize,
    reader: Option<Waker>,
    /// Notifies the connection, which then grants more window.
    reads: Arc<Reads>,
    /// Whether the reader was dropped.
    is_gone: bool,
    /// Whether the connection has ended the stream and needs no more notifications.
    is_orphaned: bool,
}

#[derive(Debug)]
enum End {
    Plain,
    Trailers(HeaderMap),
    Reset,
}

impl Held {
    /// Counts bytes that are no longer held.
    fn free(&mut self, bytes: usize) {
        self.freed += bytes;
        if !self.is_orphaned {
            self.reads.note(self.stream);
        }
    }
}

pub(crate) fn inbox(stream: u32, reads: &Arc<Reads>) -> (Feed, Inbox) {
    let (data, reads) = (BytesMut::new(), Arc::clone(reads));
    let held =
        Held { stream, data, end: None, freed: 0, reader: None, reads, is_gone: false, is_orphaned: false };
    let held = Arc::new(Mutex::new(held));
    (Feed(Arc::clone(&held)), Inbox(held))
}

impl Feed {
    pub(crate) fn push(&self, data: &[u8]) {
        let mut held = self.0.lock();
        if held.is_gone {
            held.free(data.len());
        } else {
            held.data.extend_from_slice(data);
            wake(held.reader.take());
        }
    }

    pub(crate) fn end(&self, trailers: Option<HeaderMap>) {
        self.end_with(trailers.map_or(End::Plain, End::Trailers));
    }

    fn end_with(&self, end: End) {
        let mut held = self.0.lock();
        held.end.get_or_insert(end);
        wake(held.reader.take());
    }

    /// Returns the bytes that have arrived and have not been reported by [`Feed::freed`].
    pub(crate) fn held_bytes(&self) -> usize {
        let held = self.0.lock();
        held.data.len() + held.freed
    }

    /// Returns the bytes for which window may be granted again, and resets the count.
    pub(crate) fn freed(&self) -> usize {
        std::mem::take(&mut self.0.lock().freed)
    }
}

impl Drop for Feed {
    /// Resets a body that has not ended.
    fn drop(&mut self) {
        self.0.lock().is_orphaned = true;
        self.end_with(End::Reset);
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut held = self.0.lock();
        held.is_gone = true;
        let unread = std::mem::take(&mut held.data).len();
        held.free(unread);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Body for Inbox {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        let mut held = self.0.lock();
        if !held.data.is_empty() {
            let bytes = held.data.len().min(PIECE_BYTES);
            let data = held.data.split_to(bytes).freeze();
            held.free(data.len());
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match held.end.take() {
            None => {
                held.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(end) => {
                // Later reads see the end again, but trailers are returned once.
                held.end = Some(if matches!(end, End::Reset) { End::Reset } else { End::Plain });
                Poll::Ready(match end {
                    End::Plain => None,
                    End::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
                    End::Reset => Some(Err(Reset)),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let held = self.0.lock();
        held.data.is_empty() && matches!(held.end, Some(End::Plain))
    }
}
