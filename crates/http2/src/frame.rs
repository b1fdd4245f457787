//! Parses and writes HTTP/2 frames (RFC 9113, sections 4 and 6).

use crate::Reason;

/// Length of a frame header in bytes.
pub const HEADER_BYTES: usize = 9;
/// The default maximum payload length of a frame. This server never raises it.
pub const MAX_PAYLOAD_BYTES: usize = 16_384;
/// The first bytes a client sends.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The initial flow control window of a stream and of the connection.
pub const INITIAL_WINDOW_BYTES: u32 = 65_535;
/// The largest flow control window, and the largest stream ID.
pub const MAX_NUMBER: u32 = 0x7fff_ffff;

/// Frame types.
pub mod kind {
    /// Carries part of a body.
    pub const DATA: u8 = 0;
    /// Starts a header block.
    pub const HEADERS: u8 = 1;
    /// Sets the priority of a stream. Deprecated by RFC 9113 and ignored.
    pub const PRIORITY: u8 = 2;
    /// Ends a stream early.
    pub const RST_STREAM: u8 = 3;
    /// Carries settings that the peer must respect.
    pub const SETTINGS: u8 = 4;
    /// Announces a server push. Never sent.
    pub const PUSH_PROMISE: u8 = 5;
    /// Checks that the peer is alive.
    pub const PING: u8 = 6;
    /// Asks the peer to open no more streams.
    pub const GOAWAY: u8 = 7;
    /// Grants more bytes of flow control window.
    pub const WINDOW_UPDATE: u8 = 8;
    /// Continues a header block.
    pub const CONTINUATION: u8 = 9;
}

/// Frame flags.
pub mod flag {
    /// On SETTINGS and PING: acknowledges one.
    pub const ACK: u8 = 0x1;
    /// On DATA and HEADERS: the last frame of the stream in this direction.
    pub const END_STREAM: u8 = 0x1;
    /// On HEADERS and CONTINUATION: the last frame of the header block.
    pub const END_HEADERS: u8 = 0x4;
    /// On DATA and HEADERS: the payload is padded.
    pub const PADDED: u8 = 0x8;
    /// On HEADERS: the payload starts with five bytes of priority.
    pub const PRIORITY: u8 = 0x20;
}

/// Identifiers of settings.
pub mod setting {
    /// Maximum size of the HPACK dynamic table, in bytes.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether server push is allowed.
    pub const ENABLE_PUSH: u16 = 2;
    /// Maximum number of concurrent streams.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// Initial flow control window of a stream, in bytes.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// Maximum length of a frame payload, in bytes.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// Maximum size of a header list, in bytes.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The frame type; see [`kind`].
    pub kind: u8,
    /// The frame flags; see [`flag`].
    pub flags: u8,
    /// The stream ID; 0 is the connection.
    pub stream: u32,
    /// The bytes after the frame header.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses the first frame of the input. Returns `None` if it is incomplete.
    ///
    /// # Errors
    /// Returns the payload length if it is larger than [`MAX_PAYLOAD_BYTES`].
    #[inline]
    pub fn parse(input: &'a [u8]) -> Result<Option<Self>, usize> {
        let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [a, b, c, kind, flags, stream @ ..] = *header;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Err(length);
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        Ok(Some(Self { kind, flags, stream: u32::from_be_bytes(stream) & MAX_NUMBER, payload }))
    }

    /// Returns whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the payload of a DATA or HEADERS frame without padding and priority, or `None` if the payload is too
    /// short for them.
    #[inline]
    pub fn content(&self) -> Option<&'a [u8]> {
        let mut content = self.payload;
        if self.has(flag::PADDED) {
            let (&padding, rest) = content.split_first()?;
            content = rest.get(..rest.len().checked_sub(padding.into())?)?;
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..)?;
        }
        Some(content)
    }

    /// Returns the 32-bit number at offset `at` of the payload, or `None` if the payload is too short.
    pub fn number_at(&self, at: usize) -> Option<u32> {
        self.payload.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Returns the identifiers and values of a SETTINGS frame.
    pub fn settings(&self) -> impl Iterator<Item = (u16, u32)> + use<'a> {
        self.payload.as_chunks::<6>().0.iter().map(|&[a, b, value @ ..]| {
            let name = u16::from_be_bytes([a, b]);
            (name, u32::from_be_bytes(value))
        })
    }
}

/// Writes a frame header.
#[inline]
pub fn write_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let mut header = [0; HEADER_BYTES];
    header[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    (header[3], header[4]) = (kind, flags);
    header[5..].copy_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(&header);
}

/// Sets the payload length in the frame header at offset `start`.
#[inline]
pub fn set_length(out: &mut [u8], start: usize, length: usize) {
    out[start..start + 3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
}

/// Writes a `WINDOW_UPDATE` frame; stream 0 is the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, more: u32) {
    write_header(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&more.to_be_bytes());
}

/// Writes a `RST_STREAM` frame.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, reason: Reason) {
    write_header(out, 4, kind::RST_STREAM, 0, stream);
    out.extend_from_slice(&reason.0.to_be_bytes());
}

/// Writes a SETTINGS frame.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    write_header(out, settings.len() * 6, kind::SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes a PING frame, or the acknowledgement of one.
pub fn write_ping(out: &mut Vec<u8>, flags: u8, payload: &[u8; 8]) {
    write_header(out, payload.len(), kind::PING, flags, 0);
    out.extend_from_slice(payload);
}

/// Writes a GOAWAY frame: streams up to `last` are handled, later ones are not.
pub fn write_goaway(out: &mut Vec<u8>, last: u32, reason: Reason, why: &str) {
    write_header(out, 8 + why.len(), kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&reason.0.to_be_bytes());
    out.extend_from_slice(why.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{Frame, kind, write_header};

    #[test]
    fn a_frame_is_parsed_only_when_complete() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, 3, kind::DATA, 1, 7);
        bytes.extend_from_slice(b"abcrest");
        for cut in 0..12 {
            assert!(matches!(Frame::parse(&bytes[..cut]), Ok(None)));
        }
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.flags, frame.stream, frame.payload), (kind::DATA, 1, 7, &b"abc"[..]));
    }

    #[test]
    fn padding_and_priority_are_no_content() {
        let frame = |kind, flags, payload| Frame { kind, flags, stream: 1, payload };
        assert_eq!(frame(kind::DATA, 0x8, b"\x02abc..").content(), Some(&b"abc"[..]));
        assert_eq!(frame(kind::HEADERS, 0x28, b"\x01ppppwabc.").content(), Some(&b"abc"[..]));
        assert_eq!(frame(kind::DATA, 0x8, b"\x09abc").content(), None);
        assert_eq!(frame(kind::DATA, 0x8, b"").content(), None);
        assert_eq!(frame(kind::HEADERS, 0x20, b"pri").content(), None);
    }
}
