//! The open streams of a connection.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::future::AbortHandle;
use http::HeaderMap;
use slab::Slab;
use tokio::time::Instant;

use crate::budget::{MemoryBudget, MemoryClaim};
use crate::inbox::Feed;

/// A table that has held more streams than this frees its memory when it becomes empty.
const KEPT_STREAMS: usize = 64;

/// The open streams in the order of their IDs. IDs only grow and most streams are short, so a stream is nearly always
/// added, found and removed at the end. Removing another one moves a few bytes for each later stream, but not the
/// streams themselves.
pub(crate) struct Streams<C, B> {
    /// The IDs in order, each with its index in `open`.
    order: VecDeque<(u32, u32)>,
    open: Slab<Stream<C, B>>,
    /// Streams with unsent bytes that wait only for the connection's window, in the order of their turns.
    ready: VecDeque<u32>,
    /// Number of streamed bodies not yet read to their end.
    pub(crate) feeding: usize,
    /// Number of streamed calls.
    pub(crate) calls: usize,
}

/// A request and its response.
pub(crate) struct Stream<C, B> {
    pub(crate) id: u32,
    pub(crate) opened: Instant,
    /// Flow control window for the response. Negative if the client reduced the initial window.
    pub(crate) window: i64,
    pub(crate) incoming: Incoming<C>,
    /// Remaining bytes of the body, if the head has a `content-length`.
    pub(crate) expected: Option<u64>,
    /// Cancels the task that produces the response.
    pub(crate) task: Option<AbortHandle>,
    /// The part of the response that could not be sent yet.
    pub(crate) unsent: Option<Box<Unsent<B>>>,
    /// Since when no unsent bytes could be sent, as of the last check.
    pub(crate) stalled: Option<Instant>,
    /// Whether the stream is in the `ready` queue.
    queued: bool,
    /// Whether this is a streamed call.
    pub(crate) is_call: bool,
    /// The memory claimed for this stream, beyond the stream itself.
    pub(crate) claim: Option<MemoryClaim>,
}

/// The receiving side of a stream.
pub(crate) enum Incoming<C> {
    /// The request is complete.
    Ended,
    /// A body that is being collected.
    Whole(C, Vec<u8>),
    /// A streamed body, and the bytes of it for which window may be granted again.
    Fed(Feed, u32),
    /// A streamed body that is complete but not fully read.
    Unread(Feed),
}

/// The unsent part of a response that waits for flow control.
pub(crate) struct Unsent<B> {
    pub(crate) data: Bytes,
    pub(crate) then: Then<B>,
}

/// What follows a piece of a response.
pub(crate) enum Then<B> {
    /// The trailers of a successful response.
    Ok,
    /// These trailers.
    Trailers(HeaderMap),
    /// Nothing: it is the last piece.
    End,
    /// Further pieces, from this body.
    More(B),
}

impl<C, B> Stream<C, B> {
    /// Creates a stream that is opened at `opened`.
    pub(crate) fn new(id: u32, incoming: Incoming<C>, window: i64, opened: Instant) -> Self {
        Self {
            id,
            opened,
            window,
            incoming,
            expected: None,
            task: None,
            unsent: None,
            stalled: None,
            queued: false,
            is_call: false,
            claim: None,
        }
    }

    /// Returns whether the client has ended its side.
    pub(crate) fn is_half_closed(&self) -> bool {
        matches!(self.incoming, Incoming::Ended | Incoming::Unread(_))
    }

    /// Resizes the claim to what is held: the call itself, its body and the unsent bytes. Returns `false` and changes
    /// nothing if the budget has no room.
    pub(crate) fn reclaim(&mut self, budget: &MemoryBudget, call_bytes: usize) -> bool {
        let body = match &self.incoming {
            Incoming::Ended => 0,
            Incoming::Whole(_, body) => body.len(),
            Incoming::Fed(feed, _) | Incoming::Unread(feed) => feed.held_bytes(),
        };
        let unsent = self.unsent.as_ref().map_or(0, |unsent| unsent.data.len());
        let held = body + unsent + if self.is_call { call_bytes } else { 0 };
        match &mut self.claim {
            Some(claim) if held > claim.bytes() => claim.grow(held - claim.bytes()),
            Some(claim) => {
                claim.shrink(claim.bytes() - held);
                true
            }
            None if held == 0 => true,
            None => {
                self.claim = budget.take(held);
                self.claim.is_some()
            }
        }
    }
}

impl<C, B> Streams<C, B> {
    pub(crate) fn new() -> Self {
        Self { order: VecDeque::new(), open: Slab::new(), ready: VecDeque::new(), feeding: 0, calls: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds a stream, whose ID must be the highest or have been in the table before. Returns its index.
    pub(crate) fn add(&mut self, stream: Stream<C, B>) -> usize {
        if let Incoming::Fed(..) | Incoming::Unread(_) = stream.incoming {
            self.feeding += 1;
        }
        self.calls += usize::from(stream.is_call);
        let id = stream.id;
        let at = match self.order.back() {
            Some((last, _)) if *last > id => self.order.partition_point(|(open, _)| *open < id),
            _ => self.order.len(),
        };
        let slot = self.open.insert(stream) as u32;
        self.order.insert(at, (id, slot));
        at
    }

    /// Returns the index of a stream.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<usize> {
        match self.order.back() {
            Some((last, _)) if *last == id => Some(self.order.len() - 1),
            Some((last, _)) if *last > id => self.order.binary_search_by_key(&id, |(open, _)| *open).ok(),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn at(&mut self, at: usize) -> &mut Stream<C, B> {
        &mut self.open[self.order[at].1 as usize]
    }

    /// Queues a stream for the connection's window, if that is all it waits for.
    pub(crate) fn queue(&mut self, at: usize) {
        let stream = self.at(at);
        if stream.unsent.is_some() && stream.window > 0 && !stream.queued {
            stream.queued = true;
            let id = stream.id;
            self.ready.push_back(id);
        }
    }

    /// Returns the index of the next stream in the `ready` queue.
    pub(crate) fn next_ready(&mut self) -> Option<usize> {
        while let Some(id) = self.ready.pop_front() {
            let Some(at) = self.find(id) else { continue };
            let stream = self.at(at);
            stream.queued = false;
            if stream.unsent.is_some() && stream.window > 0 {
                return Some(at);
            }
        }
        None
    }

    /// Marks a streamed body as complete but not fully read.
    pub(crate) fn end_fed(&mut self, at: usize) {
        let stream = self.at(at);
        stream.incoming = match std::mem::replace(&mut stream.incoming, Incoming::Ended) {
            Incoming::Fed(feed, _) => Incoming::Unread(feed),
            other => other,
        };
    }

    /// Marks a streamed body as fully read.
    pub(crate) fn end_unread(&mut self, at: usize) {
        let stream = self.at(at);
        if let Incoming::Unread(_) = stream.incoming {
            stream.incoming = Incoming::Ended;
            self.feeding -= 1;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Option<Stream<C, B>> {
        let (_, slot) = self.order.remove(at)?;
        let stream = self.open.remove(slot as usize);
        if let Incoming::Fed(..) | Incoming::Unread(_) = stream.incoming {
            self.feeding -= 1;
        }
        self.calls -= usize::from(stream.is_call);
        if self.order.is_empty() && self.open.capacity() > KEPT_STREAMS {
            (self.order, self.open, self.ready) = (VecDeque::new(), Slab::new(), VecDeque::new());
        }
        Some(stream)
    }
}
