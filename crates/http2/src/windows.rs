//! Flow control windows in both directions (RFC 9113, section 5.2).

use crate::frame::{self, INITIAL_WINDOW_BYTES, MAX_NUMBER, MAX_PAYLOAD_BYTES};

/// Flow control for what we send.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The window of the connection.
    pub(crate) window: i64,
    /// The initial window of a stream.
    pub(crate) initial: i64,
}

/// Flow control for what the client sends on the connection.
#[derive(Debug)]
pub(crate) struct Receiving {
    window: u32,
    /// Bytes received and not yet granted again: they are held, or waiting to be granted.
    taken: u32,
    /// Bytes waiting to be granted with a `WINDOW_UPDATE`.
    freed: u32,
}

impl Sending {
    pub(crate) fn new() -> Self {
        let initial = INITIAL_WINDOW_BYTES.into();
        Self { window: initial, initial }
    }

    /// Returns how many of `bytes` fit into one frame on a stream with window `stream`. Frames above the default
    /// maximum length are never sent, because they gain nothing.
    #[inline]
    pub(crate) fn room(&self, stream: i64, bytes: usize) -> usize {
        let window = usize::try_from(self.window.min(stream)).unwrap_or(0);
        bytes.min(MAX_PAYLOAD_BYTES).min(window)
    }

    /// Takes `bytes` from both windows.
    pub(crate) fn take(&mut self, stream: &mut i64, bytes: usize) {
        self.window -= bytes.cast_signed() as i64;
        *stream -= bytes.cast_signed() as i64;
    }

    /// Takes `bytes` for the last frame of a stream, if all of them fit.
    #[inline]
    pub(crate) fn take_whole(&mut self, mut stream: i64, bytes: usize) -> bool {
        let fits = self.room(stream, bytes) == bytes;
        if fits {
            self.take(&mut stream, bytes);
        }
        fits
    }
}

/// Adds `more` to a window. Returns `false` if the result exceeds the maximum.
pub(crate) fn grant(window: &mut i64, more: i64) -> bool {
    *window += more;
    *window <= MAX_NUMBER.into()
}

impl Receiving {
    /// Creates the window and writes it to `out`. It is never smaller than the initial window of RFC 9113.
    pub(crate) fn new(window: u32, out: &mut Vec<u8>) -> Self {
        let window = window.clamp(INITIAL_WINDOW_BYTES, MAX_NUMBER);
        if window > INITIAL_WINDOW_BYTES {
            frame::write_window_update(out, 0, window - INITIAL_WINDOW_BYTES);
        }
        Self { window, taken: 0, freed: 0 }
    }

    /// Takes the bytes of a received frame. Returns `false` if they exceed the window.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        self.taken += bytes as u32;
        self.taken <= self.window
    }

    /// Counts bytes that are no longer held. They are granted again once there are enough of them.
    #[inline]
    pub(crate) fn free(&mut self, bytes: usize, out: &mut Vec<u8>) {
        self.freed += bytes as u32;
        if self.freed >= self.window / 2 {
            frame::write_window_update(out, 0, self.freed);
            self.taken -= self.freed;
            self.freed = 0;
        }
    }
}
