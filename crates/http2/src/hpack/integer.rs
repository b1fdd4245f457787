//! Reads and writes HPACK integers, which start within a byte (RFC 7541, section 5.1).

use super::HpackError;

/// Maximum number of bytes after the first. No valid index or length needs more.
const MAX_FURTHER_BYTES: usize = 4;

/// Reads an integer with a prefix of `prefix_bits` bits. Returns it and the rest of the block.
#[inline]
pub(super) fn read(block: &[u8], prefix_bits: u32) -> Result<(usize, &[u8]), HpackError> {
    let (&first, mut rest) = block.split_first().ok_or(HpackError::CutOff)?;
    let mask = (1_usize << prefix_bits) - 1;
    let mut value = usize::from(first) & mask;
    if value < mask {
        return Ok((value, rest));
    }
    for at in 0..MAX_FURTHER_BYTES {
        let (&byte, further) = rest.split_first().ok_or(HpackError::CutOff)?;
        rest = further;
        value += usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(HpackError::Integer)
}

/// Writes an integer with a prefix of `prefix_bits` bits. `pattern` holds the bits before the prefix.
pub(super) fn write(block: &mut Vec<u8>, mut value: usize, prefix_bits: u32, pattern: u8) {
    let mask = (1_usize << prefix_bits) - 1;
    if value < mask {
        block.push(pattern | value as u8);
        return;
    }
    block.push(pattern | mask as u8);
    value -= mask;
    while value >= 0x80 {
        block.push(value as u8 | 0x80);
        value >>= 7;
    }
    block.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::{read, write};

    #[test]
    fn integers_are_read_as_they_were_written() {
        for prefix_bits in 4..=7 {
            for value in [0, 1, 14, 15, 16, 30, 31, 127, 128, 254, 255, 1337, 65_535, (1 << 28) - 1] {
                let mut block = Vec::new();
                write(&mut block, value, prefix_bits, 0);
                block.push(9);
                assert_eq!(read(&block, prefix_bits), Ok((value, &[9][..])));
                assert!(read(&block[..block.len() - 2], prefix_bits).is_err());
            }
        }
    }

    #[test]
    fn endless_integers_are_refused() {
        assert!(read(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], 7).is_err());
        assert!(read(&[0xff; 20], 5).is_err());
    }
}
