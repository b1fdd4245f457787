//! Encodes header blocks. Except with [`Keep::Yes`], fields are not added to the peer's dynamic table, so neither
//! side has to keep state.

use super::integer;
use super::table::STATIC;

/// Whether the peer adds a field to its dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The peer adds the field.
    Yes,
    /// The peer does not add the field.
    No,
}

/// Writes a field by its table index.
pub fn indexed(block: &mut Vec<u8>, index: usize) {
    integer::write(block, index, 7, 0x80);
}

/// Writes a dynamic table size update. Allowed only before the first field of a block.
pub fn table_size(block: &mut Vec<u8>, bytes: usize) {
    integer::write(block, bytes, 5, 0x20);
}

/// Writes a field without indexing, as short as the static table allows.
pub fn field(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    let same = |(_, entry): &(usize, &(&str, &str))| entry.0 == name && entry.1.as_bytes() == value;
    match STATIC.iter().enumerate().find(same) {
        Some((at, _)) if !value.is_empty() => indexed(block, at + 1),
        _ => literal(block, name, value, Keep::No),
    }
}

/// Writes a literal field. Its name is written as an index if the static table has it.
pub fn literal(block: &mut Vec<u8>, name: &str, value: &[u8], keep: Keep) {
    let (prefix_bits, pattern) = match keep {
        Keep::Yes => (6, 0x40),
        Keep::No => (4, 0x00),
    };
    let known = STATIC.iter().position(|entry| entry.0 == name);
    integer::write(block, known.map_or(0, |at| at + 1), prefix_bits, pattern);
    if known.is_none() {
        text(block, name.as_bytes());
    }
    text(block, value);
}

fn text(block: &mut Vec<u8>, text: &[u8]) {
    integer::write(block, text.len(), 7, 0);
    block.extend_from_slice(text);
}
