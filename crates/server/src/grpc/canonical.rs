//! Rewrites requests that exceed the bounds into a canonical form.
//!
//! Envoy forwards what its clients send: header bytes that are not UTF-8, `%00` in a query, a path of any length. If
//! such a call were rejected, Envoy would let the request pass. So the message is rewritten and then decided: each
//! text is replaced by its [`canonical_text`], and descriptors and entries beyond a bound are dropped.

use super::rls_request::{Field, Fields, ReadError, RlsRequest};
use crate::bounds::{Bounds, OddValues, canonical_text};

/// A rewritten request.
pub(super) struct Canonical {
    message: Vec<u8>,
    /// Number of descriptors beyond the bound, which were dropped from the message.
    left_out: usize,
}

/// Bounds for the rewritten message. It is within bounds already, except that encoding may have made a text longer.
const UNBOUNDED: Bounds = Bounds {
    descriptors: usize::MAX,
    entries: usize::MAX,
    key_bytes: usize::MAX,
    value_bytes: usize::MAX,
    batch: usize::MAX,
    message_bytes: usize::MAX,
    odd_values: OddValues::Count,
};

impl Canonical {
    /// Rewrites a request into its canonical form.
    ///
    /// # Errors
    /// Returns an error if `message` is not a `RateLimitRequest`.
    pub(super) fn of(message: &[u8], bounds: &Bounds) -> Result<Self, ReadError> {
        let mut out = Vec::with_capacity(message.len() + 64);
        let (mut decided, mut left_out) = (0, 0);
        each_field(message, |raw, number, field| match (number, field) {
            (1, Field::Bytes(domain)) => {
                put(&mut out, 1, canonical_text(domain, bounds.key_bytes).as_bytes());
                Ok(())
            }
            (2, Field::Bytes(_)) if decided == bounds.descriptors => {
                left_out += 1;
                Ok(())
            }
            (2, Field::Bytes(descriptor)) => {
                decided += 1;
                put(&mut out, 2, &rewrite_descriptor(descriptor, bounds)?);
                Ok(())
            }
            _ => {
                out.extend_from_slice(raw);
                Ok(())
            }
        })?;
        Ok(Self { message: out, left_out })
    }

    /// Parses the rewritten request.
    ///
    /// # Errors
    /// Returns an error if the message is not a `RateLimitRequest`.
    pub(super) fn read(&self) -> Result<RlsRequest<'_>, ReadError> {
        let rls = RlsRequest::read(&self.message, &UNBOUNDED)?;
        Ok(RlsRequest { left_out: self.left_out, ..rls })
    }
}

fn rewrite_descriptor(descriptor: &[u8], bounds: &Bounds) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::with_capacity(descriptor.len() + 16);
    let mut entries = 0;
    each_field(descriptor, |raw, number, field| {
        match (number, field) {
            (1, Field::Bytes(entry)) => {
                if entries < bounds.entries {
                    put(&mut out, 1, &rewrite_entry(entry, bounds)?);
                }
                entries += 1;
            }
            _ => out.extend_from_slice(raw),
        }
        Ok(())
    })?;
    Ok(out)
}

fn rewrite_entry(entry: &[u8], bounds: &Bounds) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::with_capacity(entry.len() + 16);
    each_field(entry, |raw, number, field| {
        match (number, field) {
            (1, Field::Bytes(key)) => put(&mut out, 1, canonical_text(key, bounds.key_bytes).as_bytes()),
            (2, Field::Bytes(value)) => {
                put(&mut out, 2, canonical_text(value, bounds.value_bytes).as_bytes());
            }
            _ => out.extend_from_slice(raw),
        }
        Ok(())
    })?;
    Ok(out)
}

/// Calls `take` with every field: its bytes with the tag, its number and its content.
fn each_field<'m>(
    message: &'m [u8],
    mut take: impl FnMut(&'m [u8], u32, Field<'m>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut fields = Fields(message);
    loop {
        let before = fields.0;
        let Some((number, field)) = fields.next()? else { return Ok(()) };
        take(&before[..before.len() - fields.0.len()], number, field)?;
    }
}

/// Appends a length-delimited field, whose number must be below 16.
fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    prost::encoding::encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
