//! HPACK header compression (RFC 7541).
//!
//! Written by hand: existing crates build a table for every string they decode, and offer no way to skip a block that
//! was decoded before.
//!
//! - [`decode`](Decoder): decodes blocks, with the help of `table`, `huffman` and `integer`
//! - [`encode`]: encodes fields without changing the peer's table
//! - [`Known`]: a cache of decoded blocks

mod decode;
pub mod encode;
mod huffman;
mod integer;
mod known;
mod table;

pub use self::decode::{Decoder, HpackError};
pub use self::known::Known;

/// The default size of the dynamic table in bytes (RFC 9113, section 6.5.2).
pub const DEFAULT_TABLE_BYTES: usize = 4096;
