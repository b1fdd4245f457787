//! Reading a `RateLimitRequest` from its bytes, borrowing every text.
//!
//! Written by hand because this runs for every request: nothing is copied, and nothing is allocated
//! for a request of a few entries. Unknown fields are skipped, as protobuf has it; the last of a
//! repeated single field wins. A test holds it against prost, message by message.

use smallvec::SmallVec;
use thiserror::Error;
use tidegate::spelling;

use crate::bounds::{Bounds, Refusal};

/// A request as it came over the wire, within bounds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked<'m> {
    /// The domain; may be empty.
    pub domain: &'m str,
    /// Units each descriptor takes that does not say so itself; 0 counts as 1.
    pub hits_addend: u32,
    /// The entries of all descriptors, one after the other.
    pub entries: SmallVec<[(&'m str, &'m str); 4]>,
    /// The descriptors, in order.
    pub descriptors: SmallVec<[AskedDescriptor; 2]>,
    /// Descriptors beyond `bounds.descriptors`, which came after the others and are not decided.
    pub left_out: usize,
}

/// One descriptor: a piece of the entries, and what it says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedDescriptor {
    /// Where its entries begin.
    pub start: usize,
    /// Where they end.
    pub end: usize,
    /// The limit it brings along: requests, and the number of the unit.
    pub limit: Option<(u32, i32)>,
    /// Units it takes, if it says so.
    pub hits_addend: Option<u64>,
    /// Whether the units are given back.
    pub is_negative_hits: bool,
}

/// Why a message is no request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The bytes are not this message.
    #[error("not a RateLimitRequest: {0}")]
    Malformed(&'static str),
    /// It is, but beyond a bound.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

impl<'m> Asked<'m> {
    /// Reads a message.
    ///
    /// # Errors
    /// If it is none, or beyond a bound.
    pub fn read(message: &'m [u8], bounds: &Bounds) -> Result<Self, ReadError> {
        let mut asked = Self::default();
        let mut fields = Fields(message);
        while let Some((number, field)) = fields.next()? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => asked.domain = text("the domain", bytes)?,
                (2, Field::Bytes(bytes)) => {
                    bounds.descriptors(asked.descriptors.len() + 1)?;
                    asked.read_descriptor(bytes, bounds)?;
                }
                // A varint wider than the field keeps its low bits, as everywhere in protobuf.
                (3, Field::Varint(value)) => asked.hits_addend = value as u32,
                (1..=3, _) => return Err(ReadError::Malformed("a field has the wrong wire type")),
                _ => {}
            }
        }
        bounds.domain(asked.domain)?;
        Ok(asked)
    }

    fn read_descriptor(&mut self, message: &'m [u8], bounds: &Bounds) -> Result<(), ReadError> {
        let start = self.entries.len();
        let mut descriptor =
            AskedDescriptor { start, end: start, limit: None, hits_addend: None, is_negative_hits: false };
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

/// A submessage that occurs twice is merged, so this begins with what was read before.
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

/// The fields of a message that are yet to be read.
pub(super) struct Fields<'m>(pub(super) &'m [u8]);

pub(super) enum Field<'m> {
    Varint(u64),
    Bytes(&'m [u8]),
    /// Of fixed width, or a group: nothing here has such a field.
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
        // Most are one byte long.
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
