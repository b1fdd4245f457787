//! The open streams of a connection.

use std::collections::VecDeque;

use crate::payload::Decision;
use crate::traffic::Call;

const CLOSED: u32 = u32::MAX;

/// A call in progress.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) call: Call,
    pub(super) id: u32,
    pub(super) sent_ns: u64,
    /// The content that did not fit into the send windows yet.
    pub(super) unsent: Vec<u8>,
    /// The send window of this stream; only maintained while there is unsent content.
    pub(super) window: i64,
    /// The received bytes of a message that arrives in several frames.
    pub(super) partial: Vec<u8>,
    /// The HTTP status in the headers, unless it is 200.
    pub(super) error_status: Option<u16>,
    /// The decision of the message. It counts once the trailers have arrived with status OK.
    pub(super) decision: Option<Decision>,
}

/// The open streams by ID. IDs are assigned in order, so a queue of slot indexes serves as the map.
#[derive(Debug)]
pub(super) struct Streams {
    slot_indexes: VecDeque<u32>,
    /// The stream ID of the first element of `slot_indexes`.
    first_id: u32,
    slots: Vec<Option<Stream>>,
    free: Vec<u32>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { slot_indexes: VecDeque::new(), first_id: 1, slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the ID of the next stream.
    pub(super) fn next_id(&self) -> u32 {
        self.first_id + 2 * self.slot_indexes.len() as u32
    }

    pub(super) fn open(&mut self, call: Call, sent_ns: u64) -> &mut Stream {
        let id = self.next_id();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slot_indexes.push_back(slot);
        self.slots[slot as usize].insert(Stream {
            call,
            id,
            sent_ns,
            unsent: Vec::new(),
            window: 0,
            partial: Vec::new(),
            error_status: None,
            decision: None,
        })
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let slot = *self.slot_indexes.get(self.index_of(id)?)?;
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn close(&mut self, id: u32) -> Option<Stream> {
        let index = self.index_of(id)?;
        let slot = std::mem::replace(self.slot_indexes.get_mut(index)?, CLOSED);
        let stream = self.slots.get_mut(slot as usize)?.take();
        self.free.push(slot);
        while self.slot_indexes.front() == Some(&CLOSED) {
            self.slot_indexes.pop_front();
            self.first_id += 2;
        }
        stream
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().flatten()
    }

    /// Returns whether a stream with this ID was opened. It may be closed again.
    pub(super) fn was_opened(&self, id: u32) -> bool {
        id % 2 == 1 && id < self.next_id()
    }

    /// Returns the position of a stream ID in `slot_indexes`.
    fn index_of(&self, id: u32) -> Option<usize> {
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
