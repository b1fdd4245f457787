//! How much may be sent, either way (RFC 9113, section 5.2).

use crate::frame::{self, INITIAL_WINDOW_BYTES, MAX_NUMBER, MAX_PAYLOAD_BYTES};

/// What the client lets us send.
#[derive(Debug)]
pub(crate) struct Sending {
    /// On the connection.
    pub(crate) window: i64,
    /// On a new stream.
    pub(crate) initial: i64,
}

/// What we let the client send on the connection.
#[derive(Debug)]
pub(crate) struct Receiving {
    window: u32,
    /// Bytes that came and are not granted anew: they are held, or yet to be announced.
    taken: u32,
    /// Those of them that are yet to be announced.
    freed: u32,
}

impl Sending {
    pub(crate) fn new() -> Self {
        let initial = INITIAL_WINDOW_BYTES.into();
        Self { window: initial, initial }
    }

    /// How much of this fits into one frame of a stream with that window. A client may allow for
    /// larger frames than the usual ones; nothing is gained by them.
    #[inline]
    pub(crate) fn room(&self, stream: i64, bytes: usize) -> usize {
        let window = usize::try_from(self.window.min(stream)).unwrap_or(0);
        bytes.min(MAX_PAYLOAD_BYTES).min(window)
    }

    /// Takes so much of both windows.
    pub(crate) fn take(&mut self, stream: &mut i64, bytes: usize) {
        self.window -= bytes.cast_signed() as i64;
        *stream -= bytes.cast_signed() as i64;
    }

    /// Takes what the last frame of a stream needs, if there is room for all of it.
    #[inline]
    pub(crate) fn take_whole(&mut self, mut stream: i64, bytes: usize) -> bool {
        let fits = self.room(stream, bytes) == bytes;
        if fits {
            self.take(&mut stream, bytes);
        }
        fits
    }
}

/// Grants more to a window; false if that is more than there can be.
pub(crate) fn grant(window: &mut i64, more: i64) -> bool {
    *window += more;
    *window <= MAX_NUMBER.into()
}

impl Receiving {
    /// Says in `out` what the client may send, which is at least what it may before it is told.
    pub(crate) fn new(window: u32, out: &mut Vec<u8>) -> Self {
        let window = window.clamp(INITIAL_WINDOW_BYTES, MAX_NUMBER);
        if window > INITIAL_WINDOW_BYTES {
            frame::write_window_update(out, 0, window - INITIAL_WINDOW_BYTES);
        }
        Self { window, taken: 0, freed: 0 }
    }

    /// Takes the bytes of a frame; false if they were not granted.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        self.taken += bytes as u32;
        self.taken <= self.window
    }

    /// Bytes that are held no more. They are granted anew when they are many.
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
