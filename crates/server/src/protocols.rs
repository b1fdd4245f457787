//! The protocols compiled from `proto/`.
//!
//! Envoy's messages are read and written by hand, in [`crate::grpc`], so there are no types for them.

/// All of them as a file descriptor set, for reflection and protojson.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/protocols.bin"));

/// Tidegate's own.
#[expect(missing_docs, unused_qualifications, clippy::pedantic, reason = "generated")]
pub mod tidegate_v1 {
    tonic::include_proto!("tidegate.v1");
}
