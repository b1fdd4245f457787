//! Values that are no text, made into text.
//!
//! Envoy hands on what clients send: bytes of a header that are not UTF-8, or `%00` of a query. Refusing
//! the call would let such a request pass, so there is a way to count it.

use super::read::{Field, Fields, ReadError};
use crate::bounds::{Bounds, Refusal, is_control};

/// From a request to its values, by field: descriptors, entries, value.
const WAY_TO_VALUES: [u32; 3] = [2, 1, 2];

/// Whether a value that is no text may be why a message cannot be read.
pub(super) fn is_why(error: &ReadError) -> bool {
    matches!(error, ReadError::NotUtf8 { .. } | ReadError::Refused(Refusal::Control { .. }))
}

/// The same message, with the odd bytes of every value written as `%FF`, and the bounds it is to be held
/// against: what was written longer was within bounds before.
pub(super) fn escaped(message: &[u8], bounds: &Bounds) -> Result<(Vec<u8>, Bounds), ReadError> {
    let mut out = Vec::with_capacity(message.len() + 64);
    rewrite(message, &WAY_TO_VALUES, bounds, &mut out)?;
    Ok((out, Bounds { value_bytes: bounds.value_bytes.saturating_mul(3), ..*bounds }))
}

fn rewrite(message: &[u8], way: &[u32], bounds: &Bounds, out: &mut Vec<u8>) -> Result<(), ReadError> {
    let Some((next, way)) = way.split_first() else {
        bounds.value(message.len())?;
        escape(message, out);
        return Ok(());
    };
    let mut fields = Fields(message);
    loop {
        let before = fields.0;
        let Some((number, field)) = fields.next()? else { return Ok(()) };
        match field {
            Field::Bytes(inner) if number == *next => {
                let mut piece = Vec::with_capacity(inner.len());
                rewrite(inner, way, bounds, &mut piece)?;
                out.push((number << 3 | 2) as u8);
                prost::encoding::encode_varint(piece.len() as u64, out);
                out.extend_from_slice(&piece);
            }
            _ => out.extend_from_slice(&before[..before.len() - fields.0.len()]),
        }
    }
}

fn escape(value: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let percent = |byte: u8| [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    for chunk in value.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            if is_control(byte) {
                out.extend_from_slice(&percent(byte));
            } else {
                out.push(byte);
            }
        }
        out.extend(chunk.invalid().iter().flat_map(|byte| percent(*byte)));
    }
}
