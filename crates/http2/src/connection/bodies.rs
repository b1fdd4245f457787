//! Receives request bodies, collected or streamed.

use http::HeaderMap;
use tokio::time::Instant;

use super::{CALL_BYTES, Connection, Fault};
use crate::Reason;
use crate::calm::{NOISE, ODD};
use crate::frame::{Frame, flag};
use crate::head::Fields;
use crate::service::{Service, Whole};
use crate::streams::Incoming;

impl<S: Service> Connection<S> {
    #[inline]
    pub(super) fn take_data(&mut self, frame: Frame<'_>, now: Instant) -> Result<(), Fault> {
        let bytes = frame.payload.len();
        if !self.receiving.take(bytes) {
            return Err(Fault::new(Reason::FLOW_CONTROL_ERROR, "more was sent than was granted"));
        }
        let content = frame.content().ok_or(Fault::protocol("DATA is shorter than its padding"))?;
        let ends = frame.has(flag::END_STREAM);
        let Some(at) = self.streams.find(frame.stream) else {
            self.receiving.free(bytes, &mut self.out);
            return self.take_frame_of_closed(frame.stream, now);
        };
        let stream = self.streams.at(at);
        if stream.is_half_closed() {
            self.receiving.free(bytes, &mut self.out);
            self.reset(frame.stream, Reason::STREAM_CLOSED);
            return self.spend(ODD, now);
        }
        if let Some(expected) = &mut stream.expected {
            let left = expected.checked_sub(content.len() as u64);
            let Some(left) = left.filter(|left| !ends || *left == 0) else {
                self.receiving.free(bytes, &mut self.out);
                return self.refuse_frame(frame.stream, now);
            };
            *expected = left;
        }
        match &mut stream.incoming {
            Incoming::Whole(_, body)
                if body.is_empty() && ends && content.len() <= self.settings.body_bytes =>
            {
                self.receiving.free(bytes, &mut self.out);
                self.answer_collected(at, Some(content), now)
            }
            Incoming::Whole(_, body) => {
                // Held bytes are not credited back to the client, so a connection holds at most its window.
                self.receiving.free(bytes - content.len(), &mut self.out);
                body.extend_from_slice(content);
                if body.len() > self.settings.body_bytes {
                    self.give_up_body(at, Whole::TooLong, now)?;
                } else if ends {
                    self.answer_collected(at, None, now)?;
                } else if !stream.reclaim(&self.budget, CALL_BYTES) {
                    // Respond instead of resetting: a client may treat a reset as a failure and let every request
                    // pass.
                    self.give_up_body(at, Whole::NoRoom, now)?;
                }
                if content.is_empty() && !ends { self.spend(NOISE, now) } else { Ok(()) }
            }
            Incoming::Fed(..) => self.take_fed(at, content, bytes - content.len(), ends, now),
            Incoming::Ended | Incoming::Unread(_) => Ok(()),
        }
    }

    /// Passes a piece of the body to its reader.
    fn take_fed(
        &mut self,
        at: usize,
        content: &[u8],
        padding: usize,
        ends: bool,
        now: Instant,
    ) -> Result<(), Fault> {
        self.receiving.free(padding, &mut self.out);
        let stream = self.streams.at(at);
        let id = stream.id;
        let Incoming::Fed(feed, unannounced) = &mut stream.incoming else { return Ok(()) };
        *unannounced += padding as u32;
        feed.push(content);
        if feed.held_bytes() + *unannounced as usize > self.stream_window as usize {
            self.reset(id, Reason::FLOW_CONTROL_ERROR);
            return self.spend(ODD, now);
        }
        if !stream.reclaim(&self.budget, CALL_BYTES) {
            self.reset(id, Reason::ENHANCE_YOUR_CALM);
            return self.spend(ODD, now);
        }
        if ends {
            self.end_fed(at, None);
            return Ok(());
        }
        if content.is_empty() { self.spend(NOISE, now) } else { Ok(()) }
    }

    /// Ends a streamed body.
    fn end_fed(&mut self, at: usize, trailers: Option<HeaderMap>) {
        let stream = self.streams.at(at);
        let (id, Incoming::Fed(feed, _)) = (stream.id, &stream.incoming) else { return };
        feed.end(trailers);
        self.streams.end_fed(at);
        // The reader may have read all of it already.
        self.reads.note(id);
    }

    /// Handles the trailers of a request.
    pub(super) fn take_trailers(
        &mut self,
        id: u32,
        block: &[u8],
        ends: bool,
        now: Instant,
    ) -> Result<(), Fault> {
        let mut fields = Fields::of_trailers(self.settings.header_bytes);
        self.decode(block, &mut fields)?;
        let Some(at) = self.streams.find(id) else {
            return if self.recent.has(id) {
                self.spend(NOISE, now)
            } else {
                Err(Fault::new(Reason::STREAM_CLOSED, "HEADERS of a stream that has ended"))
            };
        };
        let stream = self.streams.at(at);
        if stream.is_half_closed() {
            self.reset(id, Reason::STREAM_CLOSED);
            return self.spend(ODD, now);
        }
        let incomplete = stream.expected.is_some_and(|left| left > 0);
        let (Ok(trailers), true, false) = (fields.into_trailers(), ends, incomplete) else {
            return self.refuse_frame(id, now);
        };
        match &stream.incoming {
            Incoming::Ended | Incoming::Unread(_) => {}
            Incoming::Whole(..) => self.answer_collected(at, None, now)?,
            Incoming::Fed(..) => self.end_fed(at, Some(trailers)),
        }
        Ok(())
    }

    /// Responds to a request whose body is complete. `content` is the body if it came in one piece; otherwise the
    /// held bytes are used.
    #[inline]
    fn answer_collected(&mut self, at: usize, content: Option<&[u8]>, now: Instant) -> Result<(), Fault> {
        let Some(mut stream) = self.streams.remove(at) else { return Ok(()) };
        let Incoming::Whole(call, held) = std::mem::replace(&mut stream.incoming, Incoming::Ended) else {
            return Ok(());
        };
        self.receiving.free(held.len(), &mut self.out);
        stream.claim = None;
        self.answer_whole(stream, &call, Whole::Bytes(content.unwrap_or(&held)), now)
    }

    /// Responds to a request whose body will not be completed.
    fn give_up_body(&mut self, at: usize, whole: Whole<'_>, now: Instant) -> Result<(), Fault> {
        let Some(mut stream) = self.streams.remove(at) else { return Ok(()) };
        let Incoming::Whole(call, held) = &mut stream.incoming else { return Ok(()) };
        let call = call.clone();
        self.receiving.free(std::mem::take(held).len(), &mut self.out);
        stream.claim = None;
        self.answer_whole(stream, &call, whole, now)
    }

    /// Ends streams whose client is late in sending the body or in granting window for the response. Returns when to
    /// check again.
    pub(super) fn give_up_late(&mut self, now: Instant) -> Option<Instant> {
        let patience = self.settings.body_patience;
        let mut next = None;
        // In reverse, so that removing one does not move those still to be checked.
        for at in (0..self.streams.len()).rev() {
            let stream = self.streams.at(at);
            let id = stream.id;
            // The service has no deadline here, but the client may be waited for next, so check again.
            let mut due = if stream.is_half_closed() { now } else { stream.opened } + patience;
            if stream.unsent.is_some() {
                due = due.min(*stream.stalled.get_or_insert(now) + patience);
            }
            if due > now {
                next = Some(next.map_or(due, |known: Instant| known.min(due)));
                continue;
            }
            let given_up = if matches!(stream.incoming, Incoming::Whole(..)) {
                self.give_up_body(at, Whole::Late(patience), now)
            } else {
                self.reset(id, Reason::CANCEL);
                Ok(())
            };
            if let Err(fault) = given_up {
                self.fail(fault);
                return None;
            }
        }
        next
    }
}
