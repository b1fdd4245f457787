//! The open streams of a connection.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::future::AbortHandle;
use http::HeaderMap;
use slab::Slab;
use tokio::time::Instant;

use crate::budget::{MemoryBudget, MemoryClaim};
use crate::inbox::Feed;

/// A table of streams that has had more than these gives its memory back when it is empty.
const KEPT_STREAMS: usize = 64;

/// Streams in the order of their ids. A client's ids only grow, and most streams are short: nearly
/// always one is added, found and removed at the end. One that ends elsewhere moves a few bytes for each
/// stream after it, and no stream itself.
pub(crate) struct Streams<C, B> {
    /// The ids in order, each with its place in `open`.
    order: VecDeque<(u32, u32)>,
    open: Slab<Stream<C, B>>,
    /// Streams with unsent bytes that only the connection's window holds up, in the order of their turns.
    ready: VecDeque<u32>,
    /// How many bodies are passed on and not yet read to their end.
    pub(crate) feeding: usize,
    /// How many streams are calls, answered piece by piece.
    pub(crate) calls: usize,
}

/// One request and its answer.
pub(crate) struct Stream<C, B> {
    pub(crate) id: u32,
    pub(crate) opened: Instant,
    /// What the client lets us send; less than nothing if it changed its mind.
    pub(crate) window: i64,
    pub(crate) incoming: Incoming<C>,
    /// Bytes of the body that are yet to come, if the head has said.
    pub(crate) expected: Option<u64>,
    /// Whatever makes the answer.
    pub(crate) task: Option<AbortHandle>,
    /// What could not be sent yet.
    pub(crate) unsent: Option<Box<Unsent<B>>>,
    /// Since when nothing of the unsent bytes could be sent, as far as anybody has looked.
    pub(crate) stalled: Option<Instant>,
    /// Whether it waits among the ready ones.
    queued: bool,
    /// Whether it was passed on as it came.
    pub(crate) is_call: bool,
    /// What is held for it, where that is more than the stream itself.
    pub(crate) claim: Option<MemoryClaim>,
}

/// The request's side of a stream.
pub(crate) enum Incoming<C> {
    /// All of it has come.
    Ended,
    /// A body that is collected.
    Whole(C, Vec<u8>),
    /// A body that is passed on, and the bytes of it that may be granted anew.
    Fed(Feed, u32),
    /// All of such a body has come, and not all of it is read.
    Unread(Feed),
}

/// The answer's side of a stream that has to wait for the client.
pub(crate) struct Unsent<B> {
    pub(crate) data: Bytes,
    pub(crate) then: Then<B>,
}

/// What follows a piece of an answer.
pub(crate) enum Then<B> {
    /// The trailers that say that all went well.
    Ok,
    /// These trailers.
    Trailers(HeaderMap),
    /// Nothing: it is the last piece.
    End,
    /// Another piece.
    More(B),
}

impl<C, B> Stream<C, B> {
    /// A stream that begins now.
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

    /// Whether the client has ended its side.
    pub(crate) fn is_half_closed(&self) -> bool {
        matches!(self.incoming, Incoming::Ended | Incoming::Unread(_))
    }

    /// Makes the claim as large as what is held: what a call takes by itself, the body and the unsent bytes.
    /// `false`, and nothing changed, if the budget has no room for it.
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

    /// Adds a stream whose id is above all others, or was among them before. Answers its place.
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

    /// The place of a stream.
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

    /// Gives a stream its turn when the connection's window allows, if that is all it waits for.
    pub(crate) fn queue(&mut self, at: usize) {
        let stream = self.at(at);
        if stream.unsent.is_some() && stream.window > 0 && !stream.queued {
            stream.queued = true;
            let id = stream.id;
            self.ready.push_back(id);
        }
    }

    /// The stream whose turn it is.
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

    /// A body that is passed on has come, and something of it is left to read.
    pub(crate) fn end_fed(&mut self, at: usize) {
        let stream = self.at(at);
        stream.incoming = match std::mem::replace(&mut stream.incoming, Incoming::Ended) {
            Incoming::Fed(feed, _) => Incoming::Unread(feed),
            other => other,
        };
    }

    /// All of it is read.
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
