//! Flow control: how much the server allows us to send (RFC 9113, section 5.2).

use std::collections::VecDeque;

use tidegate_http2::frame::{self, INITIAL_WINDOW_BYTES, MAX_PAYLOAD_BYTES, flag, kind};

use super::streams::{Stream, Streams};

/// The send windows, and the streams that wait for them.
#[derive(Debug)]
pub(super) struct Windows {
    connection: i64,
    /// The window of a new stream.
    initial: i64,
    frame_bytes: usize,
    /// The IDs of streams with unsent bytes. Some of them may be closed already.
    waiting: VecDeque<u32>,
}

impl Windows {
    pub(super) fn new() -> Self {
        Self {
            connection: INITIAL_WINDOW_BYTES.into(),
            initial: INITIAL_WINDOW_BYTES.into(),
            frame_bytes: MAX_PAYLOAD_BYTES,
            waiting: VecDeque::new(),
        }
    }

    /// Returns whether the window of the connection is open. If not, no further stream is started.
    pub(super) fn is_open(&self) -> bool {
        self.connection > 0
    }

    /// Reserves room for the whole content of a new stream in one frame. Returns whether there was enough.
    pub(super) fn take_whole(&mut self, bytes: usize) -> bool {
        let room = self.connection.min(self.initial);
        let fits = bytes as u64 <= room.max(0).cast_unsigned() && bytes <= self.frame_bytes;
        if fits {
            self.connection -= bytes.cast_signed() as i64;
        }
        fits
    }

    /// Registers a new stream whose content is not sent yet.
    pub(super) fn wait(&mut self, stream: &mut Stream) {
        stream.window = self.initial;
        self.waiting.push_back(stream.id);
    }

    /// Enlarges the window of a stream, or of the connection if `stream` is 0.
    pub(super) fn grant(&mut self, stream: u32, more: u32, streams: &mut Streams) {
        if stream == 0 {
            self.connection += i64::from(more);
        } else if let Some(stream) = streams.get(stream) {
            stream.window += i64::from(more);
        }
    }

    /// Changes the initial window of streams. This also changes the windows of open streams.
    pub(super) fn set_initial(&mut self, bytes: u32, streams: &mut Streams) {
        let difference = i64::from(bytes) - self.initial;
        self.initial = bytes.into();
        for &id in &self.waiting {
            if let Some(stream) = streams.get(id) {
                stream.window += difference;
            }
        }
    }

    pub(super) fn set_frame_bytes(&mut self, bytes: u32) {
        self.frame_bytes = bytes as usize;
    }

    /// Sends as much as the windows allow.
    pub(super) fn send_waiting(&mut self, streams: &mut Streams, out: &mut Vec<u8>) {
        for _ in 0..self.waiting.len() {
            let Some(id) = self.waiting.pop_front() else { return };
            let Some(stream) = streams.get(id) else { continue };
            while !stream.unsent.is_empty() {
                let room = self.connection.min(stream.window).max(0) as usize;
                let bytes = room.min(self.frame_bytes).min(stream.unsent.len());
                if bytes == 0 {
                    break;
                }
                let ends = bytes == stream.unsent.len();
                frame::write_header(out, bytes, kind::DATA, u8::from(ends) * flag::END_STREAM, id);
                out.extend(stream.unsent.drain(..bytes));
                stream.window -= bytes.cast_signed() as i64;
                self.connection -= bytes.cast_signed() as i64;
            }
            if !stream.unsent.is_empty() {
                self.waiting.push_back(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Windows;
    use crate::traffic::Call;
    use crate::wire::http2::streams::Streams;

    #[test]
    fn what_does_not_fit_waits_and_is_sent_in_order_as_windows_open() {
        let (mut windows, mut streams, mut out) = (Windows::new(), Streams::new(), Vec::new());
        windows.set_initial(3, &mut streams);
        assert!(!windows.take_whole(4));
        let stream = streams.open(Call { key: 0, due_ns: 0, measured: true, refusals: 0 }, 0);
        stream.unsent = b"abcdefgh".to_vec();
        windows.wait(stream);
        windows.send_waiting(&mut streams, &mut out);
        assert_eq!(out, b"\0\0\x03\0\0\0\0\0\x01abc");
        out.clear();
        // The window of an open stream may become negative.
        windows.set_initial(1, &mut streams);
        windows.grant(1, 3, &mut streams);
        windows.send_waiting(&mut streams, &mut out);
        assert_eq!(out, b"\0\0\x01\0\0\0\0\0\x01d");
        out.clear();
        windows.grant(1, 100, &mut streams);
        windows.send_waiting(&mut streams, &mut out);
        assert_eq!(out, b"\0\0\x04\0\x01\0\0\0\x01efgh");
        assert_eq!(windows.connection, 65_535 - 8);
    }
}
