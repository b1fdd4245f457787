//! HTTP/2 error codes.

use std::fmt;

/// An error code that tells why a stream or connection ends (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u32);

impl Reason {
    /// No error.
    pub const NO_ERROR: Self = Self(0);
    /// A protocol violation without a more specific code.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// An internal error of the server.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// A peer exceeded the flow control window, or granted more than the maximum.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame arrived for a closed stream.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame has an invalid length.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was refused before any processing, so it may be retried.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The response is no longer needed.
    pub const CANCEL: Self = Self(8);
    /// A header block cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer causes too much load.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        f.write_str(NAMES.get(self.0 as usize).copied().unwrap_or("an unknown error code"))
    }
}
