//! The open streams of a connection.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::future::AbortHandle;
use http::HeaderMap;
use tokio::time::Instant;

use crate::inbox::Feed;

/// Streams in the order of their ids. A client's ids only grow, and most streams are short: nearly
/// always one is added, found and removed at the end.
pub(crate) struct Streams<C, B> {
    open: VecDeque<Stream<C, B>>,
    /// How many bodies are being waited for.
    pub(crate) collecting: usize,
    /// How many bodies are passed on and not yet read to their end.
    pub(crate) feeding: usize,
    /// How many answers wait for the client to grant more.
    pub(crate) blocked: usize,
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

impl<C, B> Streams<C, B> {
    pub(crate) fn new() -> Self {
        Self { open: VecDeque::new(), collecting: 0, feeding: 0, blocked: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Adds a stream whose id is above all others, or was among them before.
    pub(crate) fn add(&mut self, stream: Stream<C, B>) {
        match stream.incoming {
            Incoming::Ended => {}
            Incoming::Whole(..) => self.collecting += 1,
            Incoming::Fed(..) | Incoming::Unread(_) => self.feeding += 1,
        }
        self.blocked += usize::from(stream.unsent.is_some());
        let at = match self.open.back() {
            Some(last) if last.id > stream.id => self.open.partition_point(|open| open.id < stream.id),
            _ => self.open.len(),
        };
        self.open.insert(at, stream);
    }

    /// The place of a stream.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<usize> {
        match self.open.back() {
            Some(last) if last.id == id => Some(self.open.len() - 1),
            Some(last) if last.id > id => self.open.binary_search_by_key(&id, |stream| stream.id).ok(),
            _ => None,
        }
    }

    pub(crate) fn at(&mut self, at: usize) -> &mut Stream<C, B> {
        &mut self.open[at]
    }

    /// The oldest stream whose body is being waited for: its place, and since when.
    pub(crate) fn first_collecting(&self) -> Option<(usize, Instant)> {
        if self.collecting == 0 {
            return None;
        }
        let is_collecting = |stream: &Stream<C, B>| matches!(stream.incoming, Incoming::Whole(..));
        let at = self.open.iter().position(is_collecting)?;
        Some((at, self.open[at].opened))
    }

    /// A body that is passed on has come, and something of it is left to read.
    pub(crate) fn end_fed(&mut self, at: usize) {
        let stream = &mut self.open[at];
        stream.incoming = match std::mem::replace(&mut stream.incoming, Incoming::Ended) {
            Incoming::Fed(feed, _) => Incoming::Unread(feed),
            other => other,
        };
    }

    /// All of it is read.
    pub(crate) fn end_unread(&mut self, at: usize) {
        if let Incoming::Unread(_) = self.open[at].incoming {
            self.open[at].incoming = Incoming::Ended;
            self.feeding -= 1;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Option<Stream<C, B>> {
        let stream = self.open.remove(at)?;
        self.count_out(&stream.incoming);
        self.blocked -= usize::from(stream.unsent.is_some());
        Some(stream)
    }

    fn count_out(&mut self, incoming: &Incoming<C>) {
        match incoming {
            Incoming::Ended => {}
            Incoming::Whole(..) => self.collecting -= 1,
            Incoming::Fed(..) | Incoming::Unread(_) => self.feeding -= 1,
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<C, B>> {
        self.open.iter_mut()
    }
}
