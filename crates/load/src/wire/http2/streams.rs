//! The open streams of a connection.

use std::collections::VecDeque;

use crate::payload::Decision;
use crate::traffic::Call;

const CLOSED: u32 = u32::MAX;

/// One call under way.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) call: Call,
    pub(super) id: u32,
    pub(super) sent_ns: u64,
    /// What did not fit into the server's windows yet.
    pub(super) unsent: Vec<u8>,
    /// The server's window for this stream; kept only while something is unsent.
    pub(super) window: i64,
    /// The parts of a message that came in several frames.
    pub(super) partial: Vec<u8>,
    /// The status in the headers, unless it is the usual 200.
    pub(super) odd_status: Option<u16>,
    /// What the message decided; counts once the trailers agree.
    pub(super) decision: Option<Decision>,
}

/// Finds streams by id. Ids only grow, so a queue of places does for a map.
#[derive(Debug)]
pub(super) struct Streams {
    places: VecDeque<u32>,
    /// The id of the queue's first place.
    first_id: u32,
    slots: Vec<Option<Stream>>,
    free: Vec<u32>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { places: VecDeque::new(), first_id: 1, slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The id of the next stream.
    pub(super) fn next_id(&self) -> u32 {
        self.first_id + 2 * self.places.len() as u32
    }

    pub(super) fn open(&mut self, call: Call, sent_ns: u64) -> &mut Stream {
        let id = self.next_id();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.places.push_back(slot);
        self.slots[slot as usize].insert(Stream {
            call,
            id,
            sent_ns,
            unsent: Vec::new(),
            window: 0,
            partial: Vec::new(),
            odd_status: None,
            decision: None,
        })
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let slot = *self.places.get(self.place(id)?)?;
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn close(&mut self, id: u32) -> Option<Stream> {
        let place = self.place(id)?;
        let slot = std::mem::replace(self.places.get_mut(place)?, CLOSED);
        let stream = self.slots.get_mut(slot as usize)?.take();
        self.free.push(slot);
        while self.places.front() == Some(&CLOSED) {
            self.places.pop_front();
            self.first_id += 2;
        }
        stream
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().flatten()
    }

    /// Whether an id was given to a stream, open or closed.
    pub(super) fn was_opened(&self, id: u32) -> bool {
        id % 2 == 1 && id < self.next_id()
    }

    fn place(&self, id: u32) -> Option<usize> {
        let distance = id.checked_sub(self.first_id)?;
        distance.is_multiple_of(2).then_some(distance as usize / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::Streams;
    use crate::traffic::Call;

    #[test]
    fn streams_are_found_by_id_in_whatever_order_they_close() {
        let mut streams = Streams::new();
        let call = |key| Call { key, due_ns: 0, measured: true, refusals: 0 };
        for key in 0..4 {
            assert_eq!(streams.open(call(key), 0).id, 1 + 2 * key as u32);
        }
        for id in [3, 1, 7] {
            assert_eq!(streams.close(id).unwrap().call.key, u64::from(id / 2));
            assert!(streams.close(id).is_none() && streams.get(id).is_none());
        }
        assert_eq!((streams.len(), streams.next_id()), (1, 9));
        assert_eq!(streams.open(call(9), 0).id, 9);
        assert_eq!(streams.get(5).unwrap().call.key, 2);
        assert_eq!(streams.get(9).unwrap().call.key, 9);
        assert!(streams.get(0).is_none() && streams.get(2).is_none() && streams.get(11).is_none());
        assert!(streams.was_opened(1) && !streams.was_opened(11) && !streams.was_opened(2));
    }
}
