//! Parses a `RateLimitRequest`.
//!
//! The parser is written by hand because it runs for every request: texts are borrowed, and nothing is allocated for
//! a request of a few entries. As protobuf requires, unknown fields are skipped, and the last occurrence of a single
//! field wins. A test compares it with prost, message by message.

use smallvec::SmallVec;
use thiserror::Error;
use tidegate::spelling;

use crate::bounds::{Bounds, Refusal};

/// A parsed request that is within bounds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RlsRequest<'m> {
    /// The domain; may be empty.
    pub domain: &'m str,
    /// The cost of each descriptor without its own `hits_addend`; 0 counts as 1.
    pub hits_addend: u32,
    /// The entries of all descriptors, in order.
    pub entries: SmallVec<[(&'m str, &'m str); 4]>,
    /// The descriptors, in order.
    pub descriptors: SmallVec<[RlsDescriptor; 2]>,
    /// The number of descriptors beyond `bounds.descriptors`, which are not decided.
    pub left_out: usize,
}

/// One descriptor: a range of the entries, with an optional cost and limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlsDescriptor {
    /// Index of the descriptor's first entry.
    pub start: usize,
    /// Index after the descriptor's last entry.
    pub end: usize,
    /// The limit given in the request: the number of requests, and the number of the unit.
    pub limit: Option<(u32, i32)>,
    /// The cost of this descriptor, if it has its own.
    pub hits_addend: Option<u64>,
    /// Whether the cost is refunded instead of charged.
    pub is_negative_hits: bool,
}

/// Reasons to reject a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The bytes are not a `RateLimitRequest`.
    #[error("not a RateLimitRequest: {0}")]
    Malformed(&'static str),
    /// The request exceeds a bound.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

impl<'m> RlsRequest<'m> {
    /// Parses a message.
    ///
    /// # Errors
    /// Returns an error if the message is not a `RateLimitRequest`, or exceeds a bound.
    pub fn read(message: &'m [u8], bounds: &Bounds) -> Result<Self, ReadError> {
        let mut rls = Self::default();
        let mut fields = Fields(message);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => rls.domain = text("the domain", bytes)?,
                (2, Field::Bytes(bytes)) => {
                    bounds.descriptors(rls.descriptors.len() + 1)?;
                    rls.read_descriptor(bytes, bounds)?;
                }
                // A varint that is wider than the field keeps its low bits, as protobuf requires.
                (3, Field::Varint(value)) => rls.hits_addend = value as u32,
                (1..=3, _) => return Err(ReadError::Malformed("a field has the wrong wire type")),
                _ => {}
            }
        }
        bounds.domain(rls.domain)?;
        Ok(rls)
    }

    fn read_descriptor(&mut self, message: &'m [u8], bounds: &Bounds) -> Result<(), ReadError> {
        let start = self.entries.len();
        let mut descriptor =
            RlsDescriptor { start, end: start, limit: None, hits_addend: None, is_negative_hits: false };
        let mut fields = Fields(message);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => {
                    let (key, value) = read_entry(bytes)?;
                    bounds.entry(key, value)?;
                    bounds.entries(self.entries.len() + 1 - start)?;
                    self.entries.push((key, value));
                }
                (2, Field::Bytes(bytes)) => {
                    descriptor.limit = Some(read_override(bytes, descriptor.limit.unwrap_or_default())?);
                }
                (3, Field::Bytes(bytes)) => {
                    let hits = read_wrapped(bytes, descriptor.hits_addend.unwrap_or(0))?;
                    descriptor.hits_addend = Some(hits);
                }
                (4, Field::Varint(value)) => descriptor.is_negative_hits = value != 0,
                (1..=4, _) => return Err(ReadError::Malformed("a field has the wrong wire type")),
                _ => {}
            }
        }
        descriptor.end = self.entries.len();
        bounds.entries(descriptor.end - start)?;
        if bounds.counts_odd_values() {
            descriptor.hits_addend = descriptor.hits_addend.map(spelling::cost);
        } else {
            bounds.cost(descriptor.hits_addend.unwrap_or(0))?;
        }
        self.descriptors.push(descriptor);
        Ok(())
    }
}

fn read_entry(message: &[u8]) -> Result<(&str, &str), ReadError> {
    let (mut key, mut value) = ("", "");
    let mut fields = Fields(message);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => key = text("the key of an entry", bytes)?,
            (2, Field::Bytes(bytes)) => value = text("the value of an entry", bytes)?,
            (1..=2, _) => return Err(ReadError::Malformed("a field has the wrong wire type")),
            _ => {}
        }
    }
    Ok((key, value))
}

/// Parses a limit override. A submessage that occurs twice is merged, so parsing starts with the values of the first.
fn read_override(message: &[u8], (mut requests, mut unit): (u32, i32)) -> Result<(u32, i32), ReadError> {
    let mut fields = Fields(message);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Varint(value)) => requests = value as u32,
            (2, Field::Varint(value)) => unit = value as i32,
            (1..=2, _) => return Err(ReadError::Malformed("a field has the wrong wire type")),
            _ => {}
        }
    }
    Ok((requests, unit))
}

fn read_wrapped(message: &[u8], mut wrapped: u64) -> Result<u64, ReadError> {
    let mut fields = Fields(message);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Varint(value)) => wrapped = value,
            (1, _) => return Err(ReadError::Malformed("a field has the wrong wire type")),
            _ => {}
        }
    }
    Ok(wrapped)
}

fn text<'m>(what: &'static str, bytes: &'m [u8]) -> Result<&'m str, ReadError> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::NotUtf8 { what }.into())
}

/// The remaining fields of a message.
pub(super) struct Fields<'m>(pub(super) &'m [u8]);

pub(super) enum Field<'m> {
    Varint(u64),
    Bytes(&'m [u8]),
    /// A fixed-width value. No known field has this type.
    Other,
}

impl<'m> Fields<'m> {
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Field<'m>)>, ReadError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ReadError::Malformed("a tag is too large"))?;
        if number == 0 || number >= 1 << 29 {
            return Err(ReadError::Malformed("a field number is out of range"));
        }
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => self.take(8).map(|_| Field::Other)?,
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => self.take(4).map(|_| Field::Other)?,
            _ => return Err(ReadError::Malformed("a wire type that proto3 does not have")),
        };
        Ok(Some((number, field)))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'m [u8], ReadError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ReadError::Malformed("it is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ReadError> {
        // Fast path: most varints are one byte long.
        if let [first @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*first));
        }
        let mut value = 0_u64;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            if index == 9 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(ReadError::Malformed("a number is cut off or too long"))
    }
}
