//! Why a stream or a connection ends.

use std::fmt;

/// An error code (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u32);

impl Reason {
    /// Nothing is wrong.
    pub const NO_ERROR: Self = Self(0);
    /// The protocol was broken in a way that has no name of its own.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The server's fault.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More was sent than was granted, or more granted than there can be.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame on a stream that has ended.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame of the wrong length.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// Nothing has been done yet: it may be tried again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// Nobody wants the answer any more.
    pub const CANCEL: Self = Self(8);
    /// A header block that cannot be read.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// Too much of something that costs more than it is worth.
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
