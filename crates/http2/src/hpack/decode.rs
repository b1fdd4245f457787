//! Decodes header blocks.

use thiserror::Error;

use super::DEFAULT_TABLE_BYTES;
use super::table::Table;
use super::{huffman, integer};

/// Errors of decoding a header block. The dynamic table is then out of sync, so the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HpackError {
    /// The block ends within a field.
    #[error("it is cut off")]
    CutOff,
    /// An integer has too many bytes.
    #[error("a number is too large")]
    Integer,
    /// An index refers to no table entry.
    #[error("it refers to a field that is not there")]
    Index,
    /// A string is not valid Huffman code.
    #[error("a text is not in the Huffman code")]
    Huffman,
    /// A table size update is larger than allowed, or not at the start of the block.
    #[error("it asks for a table that it may not have")]
    TableSize,
}

/// A decoder of header blocks, with its dynamic table.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The largest table size that the peer may choose.
    max_table_bytes: usize,
    /// Buffers for Huffman-decoded strings, reused between fields.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            table: Table::new(DEFAULT_TABLE_BYTES),
            max_table_bytes: DEFAULT_TABLE_BYTES,
            name: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Decoder {
    /// Decodes a block and calls `field` with each name and value. Returns whether the block changed the dynamic
    /// table: if not, the same bytes decode to the same fields until a later block changes it.
    ///
    /// # Errors
    /// Returns an error if the block is invalid. The connection must then be closed.
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<bool, HpackError> {
        let (mut rest, mut changed, mut begun) = (block, false, false);
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let (index, further) = integer::read(rest, 7)?;
                let (name, value) = self.table.get(index).ok_or(HpackError::Index)?;
                field(name, value);
                rest = further;
            } else if first & 0xe0 == 0x20 {
                // Allowed only before the first field (RFC 7541, section 4.2).
                let (bytes, further) = integer::read(rest, 5)?;
                if begun || bytes > self.max_table_bytes {
                    return Err(HpackError::TableSize);
                }
                self.table.resize(bytes);
                (rest, changed) = (further, true);
                continue;
            } else {
                // With indexing, without indexing or never indexed: the last two are the same for a decoder.
                let kept = first & 0x40 != 0;
                let (index, further) = integer::read(rest, if kept { 6 } else { 4 })?;
                rest = self.literal(index, further, kept, &mut field)?;
                changed |= kept;
            }
            begun = true;
        }
        Ok(changed)
    }

    /// Decodes a literal field, whose name may be an index.
    fn literal<'b>(
        &mut self,
        index: usize,
        block: &'b [u8],
        kept: bool,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<&'b [u8], HpackError> {
        let (name, rest) = if index == 0 { text(block, &mut self.name)? } else { (None, block) };
        let (value, rest) = text(rest, &mut self.value)?;
        let value = value.unwrap_or(&self.value);
        if index != 0 {
            let (name, _) = self.table.get(index).ok_or(HpackError::Index)?;
            if !kept {
                field(name, value);
                return Ok(rest);
            }
            // Adding a field may evict the entry that its name comes from.
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        let name = name.unwrap_or(&self.name);
        field(name, value);
        if kept {
            self.table.add(name, value);
        }
        Ok(rest)
    }

    /// Returns the size of the dynamic table as RFC 7541 counts it.
    #[cfg(test)]
    fn table_bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// Reads a string. Returns it, or `None` if it was Huffman-decoded into `buffer`, and the rest of the block.
fn text<'b>(block: &'b [u8], buffer: &mut Vec<u8>) -> Result<(Option<&'b [u8]>, &'b [u8]), HpackError> {
    let coded = block.first().ok_or(HpackError::CutOff)? & 0x80 != 0;
    let (length, rest) = integer::read(block, 7)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(HpackError::CutOff)?;
    if !coded {
        return Ok((Some(text), rest));
    }
    buffer.clear();
    huffman::decode(text, buffer)?;
    Ok((None, rest))
}

#[cfg(test)]
mod tests;
