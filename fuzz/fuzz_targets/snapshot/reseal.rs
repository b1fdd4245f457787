//! Makes of any bytes a snapshot whose frame is right, so that only its content can be wrong.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What the snapshot says was written.
pub struct Written {
    pub at_us: u64,
    pub cells: Vec<Cell>,
}

/// Whose counter, and of what kind.
pub struct Cell {
    pub mark: u64,
    pub home: u16,
    pub kind: u8,
}

const HEADER: usize = 28;

struct Sealed {
    bytes: Vec<u8>,
    checksum: u64,
}

impl Sealed {
    fn put(&mut self, part: &[u8]) {
        self.checksum = xxh3_64_with_seed(part, self.checksum);
        self.bytes.extend_from_slice(part);
        self.bytes.extend_from_slice(&self.checksum.to_le_bytes());
    }
}

/// The bytes with magic, version, lengths, checksums and the number of cells put right.
pub fn reseal(bytes: &[u8]) -> (Vec<u8>, Written) {
    let mut header = [0; HEADER];
    let given = bytes.len().min(HEADER);
    header[..given].copy_from_slice(&bytes[..given]);
    header[..8].copy_from_slice(b"TIDEGATE");
    header[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let at_us = u64::from_le_bytes(header[20..].try_into().expect("eight bytes"));
    let (mut sealed, mut cells) = (Sealed { bytes: Vec::new(), checksum: 0 }, Vec::new());
    sealed.put(&header);
    let mut rest = bytes.get(HEADER + 8..).unwrap_or_default();
    while let Some((length, after)) = rest.split_at_checked(4) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        let length = length.min(after.len());
        if length == 0 {
            break;
        }
        let (block, after) = after.split_at(length);
        count(block, &mut cells);
        sealed.bytes.extend_from_slice(&(length as u32).to_le_bytes());
        sealed.put(block);
        rest = after.get(8..).unwrap_or_default();
    }
    sealed.bytes.extend_from_slice(&0_u32.to_le_bytes());
    sealed.put(&(cells.len() as u64).to_le_bytes());
    (sealed.bytes, Written { at_us, cells })
}

/// Adds the cells of a block, as far as they can be told apart.
fn count(mut block: &[u8], cells: &mut Vec<Cell>) {
    let number = |at: usize, block: &[u8]| {
        let bytes = block.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    };
    while let (Some(mark), Some([home_low, home_high])) = (number(0, block), block.get(8..10)) {
        let Some(kind) = block.get(18).copied() else { return };
        let parts = |at, bytes| number(at, block).map(|parts: u64| parts.min(1 << 32) as usize * bytes);
        let length = match kind {
            0..=2 => Some(20 + 18),
            3 => parts(28, 8).map(|bytes| 36 + bytes.max(8)),
            4 => parts(20, 16).map(|bytes| 28 + bytes),
            _ => parts(20, 24).map(|bytes| 28 + bytes),
        };
        cells.push(Cell { mark, home: u16::from_le_bytes([*home_low, *home_high]) & 0xfff, kind });
        match length.and_then(|length| block.get(length..)) {
            Some(rest) => block = rest,
            None => return,
        }
    }
}
