//! Frames from and to bytes (RFC 9113, sections 4 and 6).

use crate::Reason;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 9;
/// The largest payload either side may send, unless told otherwise. We never tell.
pub const MAX_PAYLOAD_BYTES: usize = 16_384;
/// What a client begins with.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What either side may send on a stream and on the connection before the other grants more.
pub const INITIAL_WINDOW_BYTES: u32 = 65_535;
/// The largest window, and the last stream.
pub const MAX_NUMBER: u32 = 0x7fff_ffff;

/// The kinds of frames.
pub mod kind {
    /// A piece of a body.
    pub const DATA: u8 = 0;
    /// The beginning of a header block.
    pub const HEADERS: u8 = 1;
    /// Once said which stream goes first; nobody heeds it any more.
    pub const PRIORITY: u8 = 2;
    /// Ends one stream.
    pub const RST_STREAM: u8 = 3;
    /// What the other side is to keep to.
    pub const SETTINGS: u8 = 4;
    /// Announces an answer nobody asked for.
    pub const PUSH_PROMISE: u8 = 5;
    /// Asks whether the other side is there.
    pub const PING: u8 = 6;
    /// No more streams from now on.
    pub const GOAWAY: u8 = 7;
    /// Grants more bytes.
    pub const WINDOW_UPDATE: u8 = 8;
    /// More of a header block.
    pub const CONTINUATION: u8 = 9;
}

/// The flags of frames.
pub mod flag {
    /// SETTINGS or PING: the answer to one.
    pub const ACK: u8 = 0x1;
    /// DATA or HEADERS: the last of the stream.
    pub const END_STREAM: u8 = 0x1;
    /// HEADERS or CONTINUATION: the last of the block.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA or HEADERS: the payload is padded.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: five bytes of priority come first.
    pub const PRIORITY: u8 = 0x20;
}

/// The names of settings.
pub mod setting {
    /// Bytes of the table that header blocks refer to.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether answers may be pushed.
    pub const ENABLE_PUSH: u16 = 2;
    /// Streams at once.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// Bytes that may be sent on a new stream.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// Bytes of a frame's payload.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// Bytes of a header list.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// One received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// See [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame of the input, once it is complete; or its length, if that is too large.
    ///
    /// # Errors
    /// If the payload is longer than [`MAX_PAYLOAD_BYTES`].
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

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload of a DATA or HEADERS frame without padding and priority; none if it is too short
    /// for them.
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

    /// The 32-bit number at this place of the payload.
    pub fn number_at(&self, at: usize) -> Option<u32> {
        self.payload.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// The names and values of a SETTINGS frame.
    pub fn settings(&self) -> impl Iterator<Item = (u16, u32)> + use<'a> {
        self.payload.as_chunks::<6>().0.iter().map(|&[a, b, value @ ..]| {
            let name = u16::from_be_bytes([a, b]);
            (name, u32::from_be_bytes(value))
        })
    }
}

/// Writes a frame's header.
#[inline]
pub fn write_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let mut header = [0; HEADER_BYTES];
    header[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    (header[3], header[4]) = (kind, flags);
    header[5..].copy_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(&header);
}

/// Writes the length into the header that begins at `start`, when it is known at last.
#[inline]
pub fn set_length(out: &mut [u8], start: usize, length: usize) {
    out[start..start + 3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
}

/// Grants more bytes to a stream, or to the connection as stream 0.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, more: u32) {
    write_header(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&more.to_be_bytes());
}

/// Ends one stream.
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

/// Writes a PING, or the answer to one.
pub fn write_ping(out: &mut Vec<u8>, flags: u8, payload: &[u8; 8]) {
    write_header(out, payload.len(), kind::PING, flags, 0);
    out.extend_from_slice(payload);
}

/// Says that streams up to the last one named are answered, and no others.
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
