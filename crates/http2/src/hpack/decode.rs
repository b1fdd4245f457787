//! Blocks to fields.

use thiserror::Error;

use super::DEFAULT_TABLE_BYTES;
use super::table::Table;
use super::{huffman, integer};

/// Why a block cannot be read. The table is lost with it, and so is the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HpackError {
    /// It ends within a field.
    #[error("it is cut off")]
    CutOff,
    /// A number of too many bytes.
    #[error("a number is too large")]
    Integer,
    /// A field of a number that has none.
    #[error("it refers to a field that is not there")]
    Index,
    /// Not the Huffman code.
    #[error("a text is not in the Huffman code")]
    Huffman,
    /// A table larger than was allowed, or changed in the midst of a block.
    #[error("it asks for a table that it may not have")]
    TableSize,
}

/// Reads blocks, and keeps the table they refer to.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// What the table may be enlarged to.
    max_table_bytes: usize,
    /// Where Huffman's texts are decoded; kept for the next one.
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
    /// Passes every field of a block on. Answers whether the block changed the table: if not, the
    /// same bytes say the same again until one does.
    ///
    /// # Errors
    /// If it is no block; the connection cannot go on then.
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<bool, HpackError> {
        let (mut rest, mut changed, mut begun) = (block, false, false);
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let (index, further) = integer::read(rest, 7)?;
                let (name, value) = self.table.get(index).ok_or(HpackError::Index)?;
                field(name, value);
                rest = further;
            } else if first & 0xe0 == 0x20 {
                // Only before the first field (RFC 7541, section 4.2).
                let (bytes, further) = integer::read(rest, 5)?;
                if begun || bytes > self.max_table_bytes {
                    return Err(HpackError::TableSize);
                }
                self.table.resize(bytes);
                (rest, changed) = (further, true);
                continue;
            } else {
                // To be kept, or not, or never by anybody: the last two are the same to us.
                let kept = first & 0x40 != 0;
                let (index, further) = integer::read(rest, if kept { 6 } else { 4 })?;
                rest = self.literal(index, further, kept, &mut field)?;
                changed |= kept;
            }
            begun = true;
        }
        Ok(changed)
    }

    /// A field that is spelt out; its name may be that of another.
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
            // Adding a field may remove the one whose name it has.
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

    /// Bytes in the table, as the standard counts.
    #[cfg(test)]
    fn table_bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// A text as it is, or none if it had to be decoded into `buffer`; and what follows it.
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
