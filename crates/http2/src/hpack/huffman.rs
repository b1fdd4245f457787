//! Decodes strings in the Huffman code of RFC 7541, appendix B.
//!
//! The code is canonical: codes of one length are consecutive and in the order of their symbols, and shorter codes
//! come first. So the code is fully defined by the code lengths.

use super::HpackError;

/// The code length of each byte in bits. The last entry is the end-of-string symbol, which must not occur in a
/// string.
#[rustfmt::skip]
const BITS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const SYMBOLS: usize = 257;
const END_OF_TEXT: u16 = 256;
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// The symbols in the order of their codes.
const ORDER: [u16; SYMBOLS] = CODES.order;
/// For each length: the first 32-bit word that begins with a longer code. All smaller words begin with a code of at
/// most this length.
const END: [u64; LONGEST + 1] = CODES.end;
/// For each length: the first code, and the index of its symbol in [`ORDER`].
const FIRST: [(u32, u16); LONGEST + 1] = CODES.first;

struct Codes {
    order: [u16; SYMBOLS],
    end: [u64; LONGEST + 1],
    first: [(u32, u16); LONGEST + 1],
}

const CODES: Codes = {
    let (mut order, mut end, mut first) = ([0; SYMBOLS], [0; LONGEST + 1], [(0, 0); LONGEST + 1]);
    let (mut code, mut place, mut bits) = (0_u32, 0, SHORTEST);
    while bits <= LONGEST {
        first[bits] = (code, place as u16);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if BITS[symbol] as usize == bits {
                order[place] = symbol as u16;
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        end[bits] = (code as u64) << (32 - bits);
        code <<= 1;
        bits += 1;
    }
    Codes { order, end, first }
};

/// Appends the decoded string to `out`.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    // The bits still to be decoded, left-aligned.
    let (mut word, mut filled, mut rest) = (0_u64, 0_u32, text);
    loop {
        while filled <= 56
            && let Some((&byte, further)) = rest.split_first()
        {
            word |= u64::from(byte) << (56 - filled);
            filled += 8;
            rest = further;
        }
        let top = word >> 32;
        let Some(bits) = (SHORTEST..=LONGEST).find(|&bits| top < END[bits]) else {
            return padding(word, filled);
        };
        if bits as u32 > filled {
            return padding(word, filled);
        }
        let (first, place) = FIRST[bits];
        let symbol = ORDER[usize::from(place) + ((top as u32 >> (32 - bits)) - first) as usize];
        if symbol == END_OF_TEXT {
            return Err(HpackError::Huffman);
        }
        out.push(symbol as u8);
        word <<= bits;
        filled -= bits as u32;
    }
}

/// Checks the padding: fewer than eight bits, all ones.
fn padding(word: u64, filled: u32) -> Result<(), HpackError> {
    let ones = filled == 0 || word >> (64 - filled) == (1 << filled) - 1;
    if filled < 8 && ones { Ok(()) } else { Err(HpackError::Huffman) }
}

#[cfg(test)]
mod tests {
    use super::{BITS, FIRST, ORDER, decode};

    /// A simple encoder, to produce input for the decoder.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &byte in text {
            let length = usize::from(BITS[usize::from(byte)]);
            let (first, place) = FIRST[length];
            let found = ORDER.iter().position(|&symbol| symbol == u16::from(byte)).unwrap();
            let code = first + (found - usize::from(place)) as u32;
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push(true);
        }
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        bits.chunks(8).map(byte).collect()
    }

    #[test]
    fn every_byte_is_decoded_as_it_was_encoded() {
        let all: Vec<u8> = (0..=255).collect();
        for text in [&all[..], b"", b"www.example.com", b"no-cache", &[0xff; 100], b"aaaaaaaaaaaaaaaaaaaaa"] {
            let mut decoded = Vec::new();
            decode(&encode(text), &mut decoded).unwrap();
            assert_eq!(decoded, text);
        }
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        // From appendix B: `0` is 00000, `w` is 1111000, NUL is 1111111111000.
        assert_eq!(encode(b"0"), [0b0000_0111]);
        assert_eq!(encode(b"w"), [0b1111_0001]);
        assert_eq!(encode(&[0]), [0xff, 0b1100_0111]);
        assert_eq!(encode(b"www.example.com"), b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff");
    }

    #[test]
    fn wrong_padding_is_refused() {
        let mut out = Vec::new();
        // Padding of zeros; a whole byte of padding; the end-of-string symbol.
        assert!(decode(&[0b0000_0000], &mut out).is_err());
        assert!(decode(&[0b0000_0111, 0xff], &mut out).is_err());
        assert!(decode(&[0xff, 0xff, 0xff, 0xff], &mut out).is_err());
    }
}
