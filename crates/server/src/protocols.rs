//! The protocols that are compiled from `proto/`.
//!
//! Envoy's messages are parsed and written by hand in [`crate::grpc`], so they have no types here.

use prost_types::Timestamp;
use tidegate::Micros;

/// The file descriptor set of all protocols, for reflection and protojson.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/protocols.bin"));

/// The messages of `tidegate.v1`.
#[expect(missing_docs, clippy::pedantic, reason = "generated")]
pub mod tidegate_v1 {
    tonic::include_proto!("tidegate.v1");
}

/// Returns a time as a message, which prints as RFC 3339.
pub fn timestamp(at: Micros) -> Timestamp {
    let (seconds, us) = (at.0 / 1_000_000, at.0 % 1_000_000);
    Timestamp { seconds: seconds.cast_signed(), nanos: us as i32 * 1_000 }
}
