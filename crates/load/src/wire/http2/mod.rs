//! gRPC over cleartext HTTP/2, as far as unary calls need it.
//!
//! - `request`, `response`: the header blocks; `status`: the texts of gRPC errors
//! - `streams`: the open calls; `windows`: flow control

mod request;
mod response;
mod status;
mod streams;
mod windows;

use tidegate_http2::Reason;
use tidegate_http2::frame::{self, Frame, INITIAL_WINDOW_BYTES, flag, kind, setting};

use crate::dispatcher::Dispatcher;
use crate::error::Fault;
use crate::payload::Decision;
use crate::traffic::Call;
use crate::wire::MAX_RESPONSE_BYTES;

use self::request::RequestBlock;
use self::response::{HeaderFields, ResponseBlocks};
use self::streams::{Stream, Streams};
use self::windows::Windows;

/// The receive window of each stream. It is larger than any response, so it is never replenished.
const STREAM_WINDOW_BYTES: u32 = 2 * MAX_RESPONSE_BYTES as u32;
/// The receive window of the connection. It is replenished when half of it is used.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// The longest header block that is accepted in several frames.
const MAX_BLOCK_BYTES: usize = 64 << 10;
/// A connection is replaced after this stream ID. The protocol allows IDs below 2^31.
const LAST_ID: u32 = 0x7fff_0000;
/// The size of the prefix of each gRPC message: a flag and the length.
const PREFIX_BYTES: usize = 5;

/// The client's side of one connection.
pub(crate) struct Http2 {
    request: RequestBlock,
    answers: ResponseBlocks,
    streams: Streams,
    windows: Windows,
    /// The number of concurrent calls in the plan.
    max_streams: usize,
    /// The number of concurrent streams that the server allows.
    allowed_streams: usize,
    is_ready: bool,
    /// Why the server is going away, if it is.
    going_away: Option<String>,
    /// Bytes received since the window of the connection was replenished.
    used_bytes: u32,
    /// An incomplete header block: its stream, whether the stream ends with it, and its bytes so far.
    unfinished: Option<(u32, bool, Vec<u8>)>,
}

impl Http2 {
    pub(crate) fn new(path: &str, authority: &str, max_streams: usize) -> Self {
        Self {
            request: RequestBlock::new(path, authority),
            answers: ResponseBlocks::default(),
            streams: Streams::new(),
            windows: Windows::new(),
            max_streams,
            allowed_streams: usize::MAX,
            is_ready: false,
            going_away: None,
            used_bytes: 0,
            unfinished: None,
        }
    }

    pub(crate) fn greet(out: &mut Vec<u8>) {
        out.extend_from_slice(frame::PREFACE);
        let settings = [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES)];
        frame::write_settings(out, &settings);
        let more = CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES;
        frame::write_window_update(out, 0, more);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(crate) fn has_room(&self) -> bool {
        self.is_ready
            && self.streams.len() < self.max_streams.min(self.allowed_streams)
            && self.windows.is_open()
            && !self.is_retired()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.going_away.is_some() || self.streams.next_id() > LAST_ID
    }

    pub(crate) fn goodbye(&self) -> Option<&str> {
        self.going_away.as_deref()
    }

    pub(crate) fn open_calls(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn start(&mut self, call: Call, dispatcher: &mut Dispatcher<'_>, out: &mut Vec<u8>) {
        let stream = self.streams.open(call, dispatcher.now_ns);
        let block = self.request.next();
        frame::write_header(out, block.len(), kind::HEADERS, flag::END_HEADERS, stream.id);
        out.extend_from_slice(block);

        // The message is written in place. The lengths before it are filled in afterwards.
        let start = out.len();
        frame::write_header(out, 0, kind::DATA, flag::END_STREAM, stream.id);
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        let message = out.len();
        dispatcher.payload.request(call.key, out);
        let message_bytes = (out.len() - message) as u32;
        out[message - 4..message].copy_from_slice(&message_bytes.to_be_bytes());

        let content_bytes = message_bytes as usize + PREFIX_BYTES;
        if self.windows.take_whole(content_bytes) {
            frame::set_length(out, start, content_bytes);
        } else {
            stream.unsent = out.split_off(start + frame::HEADER_BYTES);
            out.truncate(start);
            self.windows.wait(stream);
            self.windows.send_waiting(&mut self.streams, out);
        }
    }

    pub(crate) fn receive(
        &mut self,
        input: &[u8],
        dispatcher: &mut Dispatcher<'_>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        if !self.is_ready
            && (input.starts_with(b"HTTP/1") || (input.len() < 6 && b"HTTP/1".starts_with(input)))
        {
            return if input.len() < 6 { Ok(0) } else { Err(Fault::AnswersHttp1) };
        }
        let mut done = 0;
        loop {
            let parsed = Frame::parse(&input[done..]);
            let too_large = |bytes| Fault::Protocol(format!("a frame of {bytes} bytes; is this not HTTP/2?"));
            let Some(frame) = parsed.map_err(too_large)? else { break };
            self.take(frame, dispatcher, out)?;
            done += frame::HEADER_BYTES + frame.payload.len();
        }
        if self.used_bytes >= CONNECTION_WINDOW_BYTES / 2 {
            frame::write_window_update(out, 0, std::mem::take(&mut self.used_bytes));
        }
        Ok(done)
    }

    fn take(
        &mut self,
        frame: Frame<'_>,
        dispatcher: &mut Dispatcher<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if !self.is_ready && frame.kind != kind::SETTINGS {
            return Err(Fault::Protocol("its first frame is not SETTINGS".to_owned()));
        }
        if self.unfinished.is_some() && frame.kind != kind::CONTINUATION {
            return Err(Fault::Protocol("a header block was not continued".to_owned()));
        }
        match frame.kind {
            kind::DATA => self.take_data(frame, dispatcher, out)?,
            kind::HEADERS => {
                let block = content(frame)?;
                let ends = frame.has(flag::END_STREAM);
                if frame.has(flag::END_HEADERS) {
                    self.take_block(frame.stream, block, ends, dispatcher)?;
                } else {
                    self.unfinished = Some((frame.stream, ends, block.to_vec()));
                }
            }
            kind::CONTINUATION => self.take_continuation(frame, dispatcher)?,
            kind::SETTINGS if !frame.has(flag::ACK) => self.take_settings(frame, out),
            kind::PING if !frame.has(flag::ACK) => {
                if let Ok(payload) = frame.payload.try_into() {
                    frame::write_ping(out, flag::ACK, payload);
                }
            }
            kind::WINDOW_UPDATE => {
                let more = frame.number_at(0).unwrap_or(0) & 0x7fff_ffff;
                self.windows.grant(frame.stream, more, &mut self.streams);
                self.windows.send_waiting(&mut self.streams, out);
            }
            kind::RST_STREAM => self.take_reset(frame, dispatcher),
            kind::GOAWAY => self.take_goaway(frame, dispatcher),
            kind::PUSH_PROMISE => return Err(Fault::Protocol("a push, which was forbidden".to_owned())),
            // Acknowledgements, priorities and frames of unknown types.
            _ => {}
        }
        Ok(())
    }

    fn take_data(
        &mut self,
        frame: Frame<'_>,
        dispatcher: &mut Dispatcher<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        // Padding counts, and so do the bytes of streams that were cancelled.
        self.used_bytes += frame.payload.len() as u32;
        let bytes = content(frame)?;
        let Some(stream) = self.streams.get(frame.stream) else {
            return self.check_opened(frame.stream);
        };
        if stream.partial.is_empty() && is_whole(bytes) {
            stream.decision = Some(judge(bytes, dispatcher));
        } else if stream.partial.len() + bytes.len() > MAX_RESPONSE_BYTES {
            frame::write_reset(out, frame.stream, Reason::CANCEL);
            self.fail(
                frame.stream,
                &format!("a response of more than {MAX_RESPONSE_BYTES} bytes"),
                dispatcher,
            );
            return Ok(());
        } else if !bytes.is_empty() {
            stream.partial.extend_from_slice(bytes);
            if is_whole(&stream.partial) {
                stream.decision = Some(judge(&stream.partial, dispatcher));
            }
        }
        if frame.has(flag::END_STREAM) {
            let fields = HeaderFields { http_status: stream.error_status, ..HeaderFields::default() };
            self.fail(frame.stream, &status::text(&fields), dispatcher);
        }
        Ok(())
    }

    fn take_continuation(&mut self, frame: Frame<'_>, dispatcher: &mut Dispatcher<'_>) -> Result<(), Fault> {
        let Some((stream, ends, mut block)) = self.unfinished.take() else {
            return Err(Fault::Protocol("a CONTINUATION without a header block".to_owned()));
        };
        if stream != frame.stream || block.len() + frame.payload.len() > MAX_BLOCK_BYTES {
            return Err(Fault::Protocol("a header block is too long, or of two streams".to_owned()));
        }
        block.extend_from_slice(frame.payload);
        if frame.has(flag::END_HEADERS) {
            return self.take_block(stream, &block, ends, dispatcher);
        }
        self.unfinished = Some((stream, ends, block));
        Ok(())
    }

    /// Handles headers or trailers.
    fn take_block(
        &mut self,
        id: u32,
        block: &[u8],
        ends: bool,
        dispatcher: &mut Dispatcher<'_>,
    ) -> Result<(), Fault> {
        // Even the headers of a cancelled stream may change the table.
        let fields = self.answers.read(block)?;
        if !ends {
            if let Some(status) = fields.http_status
                && status != 200
                && let Some(stream) = self.streams.get(id)
            {
                stream.error_status = Some(status);
            }
            return Ok(());
        }
        let Some(Stream { call, decision, .. }) = self.streams.close(id) else {
            return self.check_opened(id);
        };
        match (fields, decision) {
            (HeaderFields { grpc_status: Some(0), .. }, Some(decision)) => {
                dispatcher.settle(&call, &decision);
            }
            (fields, _) => dispatcher.fail(&call, &status::text(&fields)),
        }
        Ok(())
    }

    fn take_settings(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) {
        for (name, value) in frame.settings() {
            match name {
                setting::HEADER_TABLE_SIZE => self.request.set_table_bytes(value),
                setting::MAX_CONCURRENT_STREAMS => self.allowed_streams = value as usize,
                setting::INITIAL_WINDOW_SIZE => self.windows.set_initial(value, &mut self.streams),
                setting::MAX_FRAME_SIZE => self.windows.set_frame_bytes(value),
                _ => {}
            }
        }
        self.is_ready = true;
        frame::write_header(out, 0, kind::SETTINGS, flag::ACK, 0);
        self.windows.send_waiting(&mut self.streams, out);
    }

    fn take_reset(&mut self, frame: Frame<'_>, dispatcher: &mut Dispatcher<'_>) {
        let reason = Reason(frame.number_at(0).unwrap_or(0));
        if reason != Reason::REFUSED_STREAM {
            self.fail(frame.stream, &format!("the stream was reset: {reason}"), dispatcher);
        } else if let Some(stream) = self.streams.close(frame.stream) {
            dispatcher.refuse(stream.call);
        }
    }

    /// Handles a GOAWAY frame. The server still responds to streams up to the one it names, and has not
    /// processed the others.
    fn take_goaway(&mut self, frame: Frame<'_>, dispatcher: &mut Dispatcher<'_>) {
        let last = frame.number_at(0).unwrap_or(0) & 0x7fff_ffff;
        let reason = Reason(frame.number_at(4).unwrap_or(0));
        let debug = String::from_utf8_lossy(frame.payload.get(8..).unwrap_or_default());
        let why = if debug.is_empty() { String::new() } else { format!(": {debug}") };
        self.going_away = Some(format!("{reason}{why}"));
        let refused: Vec<u32> =
            self.streams.iter_mut().map(|stream| stream.id).filter(|&id| id > last).collect();
        for id in refused {
            if let Some(stream) = self.streams.close(id) {
                dispatcher.refuse(stream.call);
            }
        }
    }

    pub(crate) fn expire(&mut self, sent_before_ns: u64, dispatcher: &mut Dispatcher<'_>, out: &mut Vec<u8>) {
        let late = |stream: &mut Stream| (stream.sent_ns < sent_before_ns).then_some(stream.id);
        let late: Vec<u32> = self.streams.iter_mut().filter_map(late).collect();
        for id in late {
            frame::write_reset(out, id, Reason::CANCEL);
            self.fail(id, "no answer in time", dispatcher);
        }
    }

    pub(crate) fn lose(&mut self, fault: &Fault, dispatcher: &mut Dispatcher<'_>) {
        let open: Vec<u32> = self.streams.iter_mut().map(|stream| stream.id).collect();
        let text = fault.to_string();
        for id in open {
            self.fail(id, &text, dispatcher);
        }
    }

    fn fail(&mut self, id: u32, text: &str, dispatcher: &mut Dispatcher<'_>) {
        if let Some(stream) = self.streams.close(id) {
            dispatcher.fail(&stream.call, text);
        }
    }

    /// Checks that a stream was opened. Frames may still arrive for cancelled streams, but not for streams
    /// that were never opened.
    fn check_opened(&self, id: u32) -> Result<(), Fault> {
        if self.streams.was_opened(id) {
            Ok(())
        } else {
            Err(Fault::Protocol(format!("a response on stream {id}, which was never opened")))
        }
    }
}

fn content(frame: Frame<'_>) -> Result<&[u8], Fault> {
    frame.content().ok_or_else(|| Fault::Protocol("a frame is shorter than its padding".to_owned()))
}

/// Returns whether this is one complete gRPC message with its prefix.
fn is_whole(bytes: &[u8]) -> bool {
    match bytes {
        [_, a, b, c, d, message @ ..] => message.len() == u32::from_be_bytes([*a, *b, *c, *d]) as usize,
        _ => false,
    }
}

fn judge(bytes: &[u8], dispatcher: &mut Dispatcher<'_>) -> Decision {
    match bytes {
        [0, _, _, _, _, message @ ..] => dispatcher.judge(200, message),
        _ => Decision::Error("the message is compressed, although the request did not allow that".to_owned()),
    }
}
