//! Turns HEADERS frames into calls.

use std::collections::VecDeque;
use std::time::Duration;

use http::Request;
use tokio::time::Instant;

use super::control::Leaving;
use super::{BLOCK_BYTES_PER_WORK, CALL_BYTES, CALL_WORK, Connection, Fault};
use crate::Reason;
use crate::budget::{MemoryBudget, MemoryClaim};
use crate::calm::{CALL, NOISE, ODD};
use crate::frame::{self, Frame, MAX_PAYLOAD_BYTES, flag};
use crate::head::{Fields, Head, HeadError};
use crate::inbox::inbox;
use crate::service::{Service, Whole};
use crate::streams::{Incoming, Stream};
use crate::tasks::Task;

/// How many streams that we closed first are remembered, because the client may still send frames for them.
const MAX_RECENT: usize = 64;
/// Maximum size of a header block; a larger one closes the connection. A proxy copies less than this from its
/// clients.
pub(super) const MAX_BLOCK_BYTES: usize = 128 << 10;
/// A client that resets a stream earlier than this was not waiting for the response.
const YOUNG: Duration = Duration::from_millis(5);

/// An incomplete header block.
pub(super) struct Block {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
    /// The budget claim for bytes beyond those that every connection may hold.
    claim: Option<MemoryClaim>,
}

impl Block {
    /// Claims memory for the bytes beyond the first `free_bytes`. Returns `false` if the budget is exhausted.
    fn claim_beyond(&mut self, free_bytes: usize, budget: &MemoryBudget) -> bool {
        let wanted_bytes = self.bytes.len() - free_bytes;
        if let Some(claim) = &mut self.claim {
            return claim.grow(wanted_bytes - claim.bytes());
        }
        self.claim = budget.take(wanted_bytes);
        self.claim.is_some()
    }
}

/// The decoded result of a header block seen before.
#[derive(Clone)]
pub(super) struct Remembered<C> {
    call: C,
    content_length: Option<u64>,
}

/// IDs of streams that we closed before the client did. Further frames for them are ignored.
#[derive(Default)]
pub(super) struct Recent(VecDeque<u32>);

impl Recent {
    pub(super) fn add(&mut self, id: u32) {
        if self.0.len() == MAX_RECENT {
            self.0.pop_front();
        }
        self.0.push_back(id);
    }

    pub(super) fn has(&self, id: u32) -> bool {
        self.0.contains(&id)
    }
}

impl<S: Service> Connection<S> {
    #[inline]
    pub(super) fn take_headers(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        if frame.stream.is_multiple_of(2) {
            return Err(Fault::protocol("the streams of clients have odd numbers"));
        }
        let block = frame.content().ok_or(Fault::protocol("HEADERS are shorter than their padding"))?;
        let ends_stream = frame.has(flag::END_STREAM);
        if frame.has(flag::END_HEADERS) {
            return self.take_block(frame.stream, block, ends_stream, now);
        }
        self.hold_block(Block { stream: frame.stream, ends_stream, bytes: block.to_vec(), claim: None }, now)
    }

    pub(super) fn take_continuation(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        let Some(mut block) = self.block.take().filter(|block| block.stream == frame.stream) else {
            return Err(Fault::protocol("a CONTINUATION of nothing"));
        };
        block.bytes.extend_from_slice(frame.payload);
        if frame.has(flag::END_HEADERS) {
            return self.take_block(block.stream, &block.bytes, block.ends_stream, now);
        }
        self.hold_block(block, now)
    }

    /// Keeps a block until its end arrives. A block that is too long closes the connection and cannot be skipped,
    /// because later blocks may refer to it.
    fn hold_block(&mut self, mut block: Block, now: Instant) -> Result<(), Fault> {
        if block.bytes.len() > self.settings.header_bytes.max(MAX_BLOCK_BYTES) {
            return Err(Fault::new(Reason::ENHANCE_YOUR_CALM, "a header block is too long"));
        }
        let free_bytes = self.settings.header_bytes.max(MAX_PAYLOAD_BYTES);
        if block.bytes.len() > free_bytes && !block.claim_beyond(free_bytes, &self.budget) {
            return Err(Fault::new(Reason::ENHANCE_YOUR_CALM, "there is no memory for a long header block"));
        }
        self.block = Some(block);
        self.spend(NOISE, now)
    }

    #[inline]
    fn take_block(&mut self, id: u32, block: &[u8], ends: bool, now: Instant) -> Result<(), Fault> {
        if id <= self.last_id {
            return self.take_trailers(id, block, ends, now);
        }
        let Some(known) = self.known.get(block) else {
            return self.take_new_block(id, block, ends, now);
        };
        let Remembered { call, content_length } = known.clone();
        if self.opens(id, now)? {
            self.open_whole(id, call, content_length, ends, now)?;
        }
        Ok(())
    }

    /// Decodes a header block that was not seen before.
    fn take_new_block(&mut self, id: u32, block: &[u8], ends: bool, now: Instant) -> Result<(), Fault> {
        let mut fields = Fields::of_request(self.settings.header_bytes);
        let changed = self.decode(block, &mut fields)?;
        if !self.opens(id, now)? {
            return Ok(());
        }
        let Head { request, content_length, is_cut } = match fields.into_head() {
            Ok(head) => head,
            Err(HeadError::Malformed) => return self.refuse_frame(id, now),
            Err(HeadError::TooLarge) => {
                self.answer_too_large(id, ends);
                return self.spend(ODD, now);
            }
        };
        let call = self.service.route(&request);
        if is_cut && !call.as_ref().is_some_and(|call| self.service.takes_cut_head(call)) {
            self.answer_too_large(id, ends);
            return self.spend(ODD, now);
        }
        if let Some(call) = call {
            if !changed {
                self.known.remember(block, Remembered { call: call.clone(), content_length });
            }
            return self.open_whole(id, call, content_length, ends, now);
        }
        if ends && content_length.is_some_and(|length| length > 0) {
            return self.refuse_frame(id, now);
        }
        self.open_call(id, request, content_length, ends, now)
    }

    /// Opens a stream whose body is streamed to the service.
    fn open_call(
        &mut self,
        id: u32,
        request: Request<()>,
        content_length: Option<u64>,
        ends: bool,
        now: Instant,
    ) -> Result<(), Fault> {
        let (feed, body) = inbox(id, &self.reads);
        let incoming = if ends {
            feed.end(None);
            Incoming::Ended
        } else {
            Incoming::Fed(feed, 0)
        };
        let mut stream = Stream::new(id, incoming, self.sending.initial, now);
        (stream.is_call, stream.expected) = (true, content_length);
        let request = request.map(|()| body);
        let has_room = stream.reclaim(&self.budget, CALL_BYTES) || self.service.is_exempt(&request);
        if self.streams.calls >= self.settings.max_calls || !has_room {
            return self.refuse_stream(id, now);
        }
        self.spend(CALL, now)?;
        self.charge(CALL_WORK, 0);
        let call = Box::pin(self.service.call(request));
        stream.task = Some(self.tasks.begin(id, Task::Call(call)));
        self.streams.add(stream);
        Ok(())
    }

    pub(super) fn decode(&mut self, block: &[u8], fields: &mut Fields) -> Result<bool, Fault> {
        self.charge(0, block.len() / BLOCK_BYTES_PER_WORK);
        let decoded = self.decoder.decode(block, |name, value| fields.add(name, value));
        let fault = |_| Fault::new(Reason::COMPRESSION_ERROR, "a header block cannot be read");
        let changed = decoded.map_err(fault)?;
        if changed {
            self.known.forget();
        }
        Ok(changed)
    }

    /// Returns whether a new stream should be handled. Its header block has been decoded in either case.
    #[inline]
    fn opens(&mut self, id: u32, now: Instant) -> Result<bool, Fault> {
        if matches!(self.leaving, Leaving::After(_)) {
            // The GOAWAY frame told the client that this stream would be ignored.
            return Ok(false);
        }
        self.last_id = id;
        self.requests += 1;
        if self.streams.len() < self.settings.max_streams as usize {
            return Ok(true);
        }
        self.refuse_stream(id, now)?;
        Ok(false)
    }

    /// Refuses a stream before any processing, so that the client may retry it.
    fn refuse_stream(&mut self, id: u32, now: Instant) -> Result<(), Fault> {
        frame::write_reset(&mut self.out, id, Reason::REFUSED_STREAM);
        self.recent.add(id);
        self.spend(NOISE, now)
    }

    /// Opens a stream whose body, if any, is collected.
    #[inline]
    fn open_whole(
        &mut self,
        id: u32,
        call: S::Call,
        content_length: Option<u64>,
        ends: bool,
        now: Instant,
    ) -> Result<(), Fault> {
        if !ends {
            let incoming = Incoming::Whole(call, Vec::new());
            let mut stream = Stream::new(id, incoming, self.sending.initial, now);
            stream.expected = content_length;
            self.streams.add(stream);
            return Ok(());
        }
        if content_length.is_some_and(|length| length > 0) {
            return self.refuse_frame(id, now);
        }
        let stream = Stream::new(id, Incoming::Ended, self.sending.initial, now);
        self.answer_whole(stream, &call, Whole::Bytes(&[]), now)
    }

    pub(super) fn take_reset(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        if frame.payload.len() != 4 {
            return Err(Fault::size("an RST_STREAM must have 4 bytes"));
        }
        let Some(at) = self.streams.find(frame.stream) else {
            self.check_opened(frame.stream)?;
            return self.spend(NOISE, now);
        };
        let age = now.saturating_duration_since(self.streams.at(at).opened);
        self.close(at);
        self.spend(if age < YOUNG { ODD } else { NOISE }, now)
    }

    /// Handles a PRIORITY frame of the wrong length. A stream that was never opened cannot be reset, so the
    /// connection ends.
    pub(super) fn refuse_priority(&mut self, id: u32, now: Instant) -> Result<(), Fault> {
        self.check_opened(id).map_err(|_| Fault::size("a PRIORITY must have 5 bytes"))?;
        self.reset(id, Reason::FRAME_SIZE_ERROR);
        self.spend(ODD, now)
    }

    /// Handles a frame for a stream that is not open.
    pub(super) fn take_frame_of_closed(&mut self, id: u32, now: Instant) -> Result<(), Fault> {
        self.check_opened(id)?;
        if self.recent.has(id) || id > self.last_id {
            return self.spend(NOISE, now);
        }
        frame::write_reset(&mut self.out, id, Reason::STREAM_CLOSED);
        self.spend(ODD, now)
    }

    /// Returns an error if the stream was never opened. Frames for closed streams are legal.
    pub(super) fn check_opened(&self, id: u32) -> Result<(), Fault> {
        let ignored = matches!(self.leaving, Leaving::After(last) if id > last);
        let opened = !id.is_multiple_of(2) && (id <= self.last_id || ignored);
        if opened { Ok(()) } else { Err(Fault::protocol("a frame of a stream that was never opened")) }
    }

    /// Resets a stream because of a client error.
    pub(super) fn refuse_frame(&mut self, id: u32, now: Instant) -> Result<(), Fault> {
        self.reset(id, Reason::PROTOCOL_ERROR);
        self.spend(ODD, now)
    }
}
