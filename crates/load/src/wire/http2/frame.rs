//! HTTP/2 frames (RFC 9113, sections 4 and 6).

/// Bytes of a frame's header.
pub(super) const HEADER_BYTES: usize = 9;
/// The largest payload either side may send, unless told otherwise. We never tell.
pub(super) const MAX_PAYLOAD_BYTES: usize = 16_384;
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 0x1;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

pub(super) const SETTING_HEADER_TABLE_SIZE: u16 = 1;
pub(super) const SETTING_ENABLE_PUSH: u16 = 2;
pub(super) const SETTING_MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const SETTING_INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const SETTING_MAX_FRAME_SIZE: u16 = 5;

pub(super) const NO_ERROR: u32 = 0;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;

/// One received frame.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame of the input, once it is complete; or its length, if that is too large.
    pub(super) fn parse(input: &'a [u8]) -> Result<Option<Self>, usize> {
        let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [a, b, c, kind, flags, stream @ ..] = *header;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Err(length);
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        Ok(Some(Self { kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff, payload }))
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload of a DATA or HEADERS frame without padding and priority.
    pub(super) fn content(&self) -> Option<&'a [u8]> {
        let mut content = self.payload;
        if self.has(PADDED) {
            let (&padding, rest) = content.split_first()?;
            content = rest.get(..rest.len().checked_sub(padding.into())?)?;
        }
        if self.kind == HEADERS && self.has(PRIORITY) {
            content = content.get(5..)?;
        }
        Some(content)
    }

    /// The 32-bit number at this place of the payload.
    pub(super) fn number_at(&self, at: usize) -> Option<u32> {
        self.payload.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// Writes a frame's header.
pub(super) fn write_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let mut header = [0; HEADER_BYTES];
    header[..3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
    (header[3], header[4]) = (kind, flags);
    header[5..].copy_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(&header);
}

/// Writes a frame whose payload is one number: `RST_STREAM` or `WINDOW_UPDATE`.
pub(super) fn write_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    write_header(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes a SETTINGS frame.
pub(super) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    write_header(out, settings.len() * 6, SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// The name of an error code.
pub(super) fn error_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("an unknown error code")
}

#[cfg(test)]
mod tests {
    use super::{DATA, Frame, HEADERS, write_header};

    #[test]
    fn a_frame_is_parsed_only_when_complete() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, 3, DATA, 1, 7);
        bytes.extend_from_slice(b"abcrest");
        for cut in 0..12 {
            assert!(matches!(Frame::parse(&bytes[..cut]), Ok(None)));
        }
        let frame = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.flags, frame.stream, frame.payload), (DATA, 1, 7, &b"abc"[..]));
    }

    #[test]
    fn padding_and_priority_are_no_content() {
        let frame = |kind, flags, payload| Frame { kind, flags, stream: 1, payload };
        assert_eq!(frame(DATA, 0x8, b"\x02abc..").content(), Some(&b"abc"[..]));
        assert_eq!(frame(HEADERS, 0x28, b"\x01ppppwabc.").content(), Some(&b"abc"[..]));
        assert_eq!(frame(DATA, 0x8, b"\x09abc").content(), None);
        assert_eq!(frame(DATA, 0x8, b"").content(), None);
        assert_eq!(frame(HEADERS, 0x20, b"pri").content(), None);
    }
}
