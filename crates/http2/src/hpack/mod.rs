//! Header blocks (RFC 7541).
//!
//! Written by hand: the crates there are build a table for every text they decode, and none can be
//! told that a block is known already.
//!
//! - [`decode`](Decoder): blocks to fields; `table`, `huffman`, `integer`: what that takes
//! - [`encode`]: fields to blocks that change no table
//! - [`Known`]: blocks that need not be decoded again

mod decode;
pub mod encode;
mod huffman;
mod integer;
mod known;
mod table;

pub use self::decode::{Decoder, HpackError};
pub use self::known::Known;

/// What a table may hold before either side says otherwise (RFC 9113, section 6.5.2).
pub const DEFAULT_TABLE_BYTES: usize = 4096;
