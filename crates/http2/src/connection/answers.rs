//! Writes responses as frames.

use std::task::Waker;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use tokio::time::Instant;

use super::{ANSWER_WORK, CALL_BYTES, Connection, Fault, MESSAGE_BYTES_PER_WORK, PIECE_WORK};
use crate::Reason;
use crate::calm::MISDIRECTED;
use crate::frame::{self, HEADER_BYTES, MAX_PAYLOAD_BYTES, flag, kind};
use crate::hpack::encode;
use crate::service::{Answer, Refusal, Service, Whole};
use crate::streams::{Incoming, Stream, Then, Unsent};
use crate::tasks::{Step, Task};

/// The smallest DATA frame that earns tokens in [`Calm`](crate::calm::Calm), unless it is the last of its response.
const EARNING_BYTES: usize = 256;
/// Length of the gRPC message prefix: the compression flag, which is never set here, and the message length.
const PREFIX_BYTES: usize = 5;
/// The encoded response headers: `:status: 200` by its index, and `content-type: application/grpc` with indexed name
/// 31.
const OK_HEAD: &[u8; 20] = b"\x88\x0f\x10\x10application/grpc";
/// The encoded trailers `grpc-status: 0`.
const OK_TRAILERS: &[u8; 15] = b"\x00\x0bgrpc-status\x010";

type StreamOf<S> = Stream<<S as Service>::Call, <S as Service>::Body>;

impl<S: Service> Connection<S> {
    /// Responds to a request whose body was collected, or could not be. The stream is no longer in the table.
    #[inline]
    pub(super) fn answer_whole(
        &mut self,
        mut stream: StreamOf<S>,
        call: &S::Call,
        whole: Whole<'_>,
        now: Instant,
    ) -> Result<(), Fault> {
        if let Whole::Bytes(message) = whole {
            self.charge(ANSWER_WORK, message.len() / MESSAGE_BYTES_PER_WORK);
        }
        let before = (self.out.len(), self.drops_table);
        let data = self.begin_message(stream.id);
        let answer = self.service.answer(call, whole, &mut self.out);
        if !matches!(answer, Answer::Message) {
            self.out.truncate(before.0);
            self.drops_table = before.1;
        }
        match answer {
            Answer::Message => self.end_message(stream, data),
            Answer::Refused(refusal) => self.refuse(&stream, &refusal),
            Answer::Misdirected(refusal) => {
                self.refuse(&stream, &refusal);
                return self.spend(MISDIRECTED, now);
            }
            Answer::Later(later) => {
                stream.task = Some(self.tasks.begin(stream.id, Task::Later(later)));
                self.streams.add(stream);
            }
        }
        Ok(())
    }

    /// Writes the response headers, a DATA frame header and the gRPC prefix. Returns the offset of the DATA frame.
    #[inline]
    fn begin_message(&mut self, id: u32) -> usize {
        if self.drops_table {
            self.write_head(id, StatusCode::OK, &content_type(), false);
        } else {
            frame::write_header(&mut self.out, OK_HEAD.len(), kind::HEADERS, flag::END_HEADERS, id);
            self.out.extend_from_slice(OK_HEAD);
        }
        let data = self.out.len();
        frame::write_header(&mut self.out, 0, kind::DATA, 0, id);
        self.out.extend_from_slice(&[0; PREFIX_BYTES]);
        data
    }

    /// Completes the message whose DATA frame starts at `data`, and ends the stream unless flow control holds it
    /// back.
    #[inline]
    fn end_message(&mut self, stream: StreamOf<S>, data: usize) {
        let message = data + HEADER_BYTES + PREFIX_BYTES;
        let message_bytes = (self.out.len() - message) as u32;
        self.out[message - 4..message].copy_from_slice(&message_bytes.to_be_bytes());
        let bytes = message_bytes as usize + PREFIX_BYTES;
        if self.sending.take_whole(stream.window, bytes) {
            frame::set_length(&mut self.out, data, bytes);
            self.calm.earn();
            self.write_ok_trailers(stream.id);
            self.finish(&stream);
            return;
        }
        let unsent = Bytes::copy_from_slice(&self.out[data + HEADER_BYTES..]);
        self.out.truncate(data);
        let at = self.streams.add(stream);
        self.send_at(at, Unsent { data: unsent, then: Then::Ok });
    }

    #[inline]
    fn write_ok_trailers(&mut self, id: u32) {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        frame::write_header(&mut self.out, OK_TRAILERS.len(), kind::HEADERS, flags, id);
        self.out.extend_from_slice(OK_TRAILERS);
    }

    fn refuse(&mut self, stream: &StreamOf<S>, refusal: &Refusal) {
        self.write_head(stream.id, StatusCode::OK, refusal, true);
        self.finish(stream);
    }

    /// Responds to a request whose headers are too large. Its stream was never added to the table.
    pub(super) fn answer_too_large(&mut self, id: u32, ends: bool) {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        self.write_head(id, status, &HeaderMap::new(), true);
        if !ends {
            frame::write_reset(&mut self.out, id, Reason::NO_ERROR);
            self.recent.add(id);
        }
    }

    /// Sends as much of a response as flow control allows. Removes the stream once all of it is sent.
    fn send_at(&mut self, at: usize, mut unsent: Unsent<S::Body>) {
        let stream = self.streams.at(at);
        let (id, mut window) = (stream.id, stream.window);
        let before = unsent.data.len();
        let fits = loop {
            let bytes = self.sending.room(window, unsent.data.len());
            if bytes == 0 && !unsent.data.is_empty() {
                break false;
            }
            let is_last = bytes == unsent.data.len();
            let ends = is_last && matches!(unsent.then, Then::End);
            if bytes > 0 || ends {
                let flags = if ends { flag::END_STREAM } else { 0 };
                frame::write_header(&mut self.out, bytes, kind::DATA, flags, id);
                self.out.extend_from_slice(&unsent.data.split_to(bytes));
                self.sending.take(&mut window, bytes);
                // A frame that is short because the client granted little earns nothing.
                if is_last || bytes >= EARNING_BYTES {
                    self.calm.earn();
                }
            }
            if is_last {
                break true;
            }
        };
        let stream = self.streams.at(at);
        stream.window = window;
        if unsent.data.len() < before {
            stream.stalled = None;
        }
        if !fits {
            stream.unsent = Some(Box::new(unsent));
            self.keep_unsent(at);
            return;
        }
        match unsent.then {
            Then::End => {}
            Then::Ok => self.write_ok_trailers(id),
            Then::Trailers(trailers) => self.write_trailers(id, &trailers),
            Then::More(body) => {
                stream.task = Some(self.tasks.begin(id, Task::Body(body)));
                return;
            }
        }
        if let Some(stream) = self.streams.remove(at) {
            self.finish(&stream);
        }
    }

    /// Keeps the unsent bytes if the shared budget has room for them, and resets the stream otherwise.
    fn keep_unsent(&mut self, at: usize) {
        let stream = self.streams.at(at);
        let id = stream.id;
        if stream.reclaim(&self.budget, CALL_BYTES) {
            self.streams.queue(at);
        } else {
            self.reset(id, Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// Continues the responses that wait for the connection's window, in turn, as far as it allows.
    pub(super) fn send_ready(&mut self) {
        while self.sending.window > 0
            && !self.is_full()
            && !self.turn_is_over()
            && let Some(at) = self.streams.next_ready()
        {
            self.charge(PIECE_WORK, 0);
            if let Some(unsent) = self.streams.at(at).unsent.take() {
                self.send_at(at, *unsent);
            }
        }
    }

    /// Handles a step that a task completed for a stream, if the stream is still open.
    pub(super) fn take_step(&mut self, id: u32, step: Step<S::Body>) {
        match step {
            Step::Answered(answer) => {
                let Some(stream) = self.streams.find(id).and_then(|at| self.streams.remove(at)) else {
                    return;
                };
                match answer {
                    Ok(message) => {
                        let data = self.begin_message(id);
                        self.out.extend_from_slice(&message);
                        self.end_message(stream, data);
                    }
                    Err(refusal) => self.refuse(&stream, &refusal),
                }
            }
            Step::Begun(response) => self.begin_answer(id, response),
            Step::Piece(piece, body) => {
                let ended = || Bytes::new();
                let (data, then) = match piece.map(http_body::Frame::into_data) {
                    None => (ended(), Then::End),
                    Some(Ok(data)) if body.is_end_stream() => (data, Then::End),
                    Some(Ok(data)) => (data, Then::More(body)),
                    Some(Err(other)) => match other.into_trailers() {
                        Ok(trailers) => (ended(), Then::Trailers(trailers)),
                        Err(_unknown) => (ended(), Then::More(body)),
                    },
                };
                if let Some(at) = self.streams.find(id) {
                    self.send_at(at, Unsent { data, then });
                }
            }
            Step::Broken => self.reset(id, Reason::INTERNAL_ERROR),
        }
    }

    fn begin_answer(&mut self, id: u32, response: Response<S::Body>) {
        let Some(at) = self.streams.find(id) else { return };
        let (parts, body) = response.into_parts();
        let ends = body.is_end_stream();
        self.write_head(id, parts.status, &parts.headers, ends);
        if !ends {
            self.send_at(at, Unsent { data: Bytes::new(), then: Then::More(body) });
        } else if let Some(stream) = self.streams.remove(at) {
            self.finish(&stream);
        }
    }

    /// Ends a stream whose response is complete. A client that is still sending is asked to stop.
    #[inline]
    fn finish(&mut self, stream: &StreamOf<S>) {
        match stream.incoming {
            Incoming::Ended => {}
            Incoming::Unread(_) => self.release(stream),
            Incoming::Whole(..) | Incoming::Fed(..) => {
                frame::write_reset(&mut self.out, stream.id, Reason::NO_ERROR);
                self.release(stream);
                self.recent.add(stream.id);
            }
        }
    }

    /// Resets a stream.
    pub(super) fn reset(&mut self, id: u32, reason: Reason) {
        frame::write_reset(&mut self.out, id, reason);
        self.recent.add(id);
        if let Some(at) = self.streams.find(id) {
            self.close(at);
        }
    }

    /// Removes a stream and cancels its task.
    pub(super) fn close(&mut self, at: usize) {
        let Some(stream) = self.streams.remove(at) else { return };
        if let Some(task) = &stream.task {
            task.abort();
        }
        self.release(&stream);
    }

    /// Releases what is held for a stream.
    fn release(&mut self, stream: &StreamOf<S>) {
        let held = match &stream.incoming {
            Incoming::Ended => 0,
            Incoming::Whole(_, body) => body.len(),
            Incoming::Fed(feed, _) | Incoming::Unread(feed) => feed.held_bytes(),
        };
        self.receiving.free(held, &mut self.out);
    }

    /// Returns flow control credit for streamed bodies that have been read. `waker` is woken on further reads.
    pub(super) fn replenish(&mut self, waker: &Waker) {
        for id in self.reads.take(waker) {
            self.charge(1, 0);
            if let Some(at) = self.streams.find(id) {
                self.replenish_at(at);
            }
        }
    }

    fn replenish_at(&mut self, at: usize) {
        let stream = self.streams.at(at);
        let has_ended = match &mut stream.incoming {
            Incoming::Fed(feed, unannounced) => {
                let read = feed.freed();
                self.receiving.free(read, &mut self.out);
                *unannounced += read as u32;
                if *unannounced >= self.stream_window / 2 {
                    let more = std::mem::take(unannounced);
                    frame::write_window_update(&mut self.out, stream.id, more);
                }
                false
            }
            Incoming::Unread(feed) => {
                self.receiving.free(feed.freed(), &mut self.out);
                feed.held_bytes() == 0
            }
            Incoming::Ended | Incoming::Whole(..) => return,
        };
        // This cannot fail: less is held than before.
        let _ = stream.reclaim(&self.budget, CALL_BYTES);
        if has_ended {
            self.streams.end_unread(at);
        }
    }

    fn write_head(&mut self, id: u32, status: StatusCode, headers: &HeaderMap, ends: bool) {
        let mut block = Vec::with_capacity(64);
        if std::mem::take(&mut self.drops_table) {
            encode::table_size(&mut block, 0);
        }
        encode::field(&mut block, ":status", status.as_str().as_bytes());
        self.write_block(id, block, headers, ends);
    }

    fn write_trailers(&mut self, id: u32, trailers: &HeaderMap) {
        self.write_block(id, Vec::with_capacity(64), trailers, true);
    }

    /// Writes a header block in as many frames as it needs.
    fn write_block(&mut self, id: u32, mut block: Vec<u8>, headers: &HeaderMap, ends: bool) {
        for (name, value) in headers {
            encode::field(&mut block, name.as_str(), value.as_bytes());
        }
        let mut pieces = block.chunks(MAX_PAYLOAD_BYTES).peekable();
        let mut kind = kind::HEADERS;
        // An empty header block still needs one frame.
        let mut piece = pieces.next().unwrap_or_default();
        loop {
            let is_last = pieces.peek().is_none();
            let mut flags = if is_last { flag::END_HEADERS } else { 0 };
            if ends && kind == kind::HEADERS {
                flags |= flag::END_STREAM;
            }
            frame::write_header(&mut self.out, piece.len(), kind, flags, id);
            self.out.extend_from_slice(piece);
            kind = kind::CONTINUATION;
            match pieces.next() {
                Some(next) => piece = next,
                None => return,
            }
        }
    }
}

fn content_type() -> HeaderMap {
    let value = http::HeaderValue::from_static("application/grpc");
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, value)])
}
