//! The header blocks of answers.

use loona_hpack::Decoder;

use crate::error::Fault;

/// Blocks that are remembered. A server sends about two kinds of them.
const MAX_KNOWN: usize = 8;

/// What a header block says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) http_status: Option<u16>,
    pub(super) grpc_status: Option<u32>,
    pub(super) grpc_message: Option<String>,
}

/// Reads header blocks. One that neither changed the table nor has seen it change since says the
/// same whenever it comes again, so its bytes are compared and not decoded anew.
pub(super) struct AnswerBlocks {
    decoder: Decoder<'static>,
    known: Vec<(Vec<u8>, Said)>,
    /// The last block that was not remembered.
    other: Said,
}

impl AnswerBlocks {
    pub(super) fn new() -> Self {
        let mut decoder = Decoder::new();
        // The size that holds as long as we set no other.
        decoder.set_max_allowed_table_size(4096);
        Self { decoder, known: Vec::new(), other: Said::default() }
    }

    pub(super) fn read(&mut self, block: &[u8]) -> Result<&Said, Fault> {
        if let Some(at) = self.known.iter().position(|(bytes, _)| bytes == block) {
            return Ok(&self.known[at].1);
        }
        let mut said = Said::default();
        let decoded = self.decoder.decode_with_cb(block, |name, value| {
            let text = || str::from_utf8(&value).ok();
            match &*name {
                b":status" => said.http_status = text().and_then(|text| text.parse().ok()),
                b"grpc-status" => said.grpc_status = text().and_then(|text| text.parse().ok()),
                b"grpc-message" => said.grpc_message = text().map(str::to_owned),
                _ => {}
            }
        });
        decoded.map_err(|error| Fault::Protocol(format!("a header block does not decode: {error}")))?;
        if changes_table(block) {
            self.known.clear();
        } else if self.known.len() < MAX_KNOWN {
            self.known.push((block.to_vec(), said.clone()));
        }
        self.other = said;
        Ok(&self.other)
    }
}

/// Whether decoding this block, which is valid, changes the table.
fn changes_table(block: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&first) = block.get(at) {
        if first & 0x80 != 0 {
            // Indexed.
            at = skip_integer(block, at, 7).0;
        } else if first & 0xe0 == 0x20 || first & 0x40 != 0 {
            // A new size, or a literal to be kept.
            return true;
        } else {
            // A literal that is not kept: the index of its name or the name, and the value.
            let (after, index) = skip_integer(block, at, 4);
            at = if index == 0 { skip_text(block, after) } else { after };
            at = skip_text(block, at);
        }
    }
    false
}

fn skip_text(block: &[u8], at: usize) -> usize {
    let (after, length) = skip_integer(block, at, 7);
    after.saturating_add(length)
}

/// Where the integer at this place ends, and its value.
fn skip_integer(block: &[u8], mut at: usize, prefix_bits: u32) -> (usize, usize) {
    let mask = (1_usize << prefix_bits) - 1;
    let mut value = block.get(at).map_or(0, |&byte| usize::from(byte)) & mask;
    at += 1;
    if value < mask {
        return (at, value);
    }
    let mut shift = 0;
    while let Some(&byte) = block.get(at) {
        at += 1;
        // The decoder has taken the block, so the integer is short.
        value = value.saturating_add(usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(usize::MAX));
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (at, value)
}

#[cfg(test)]
mod tests {
    use super::{AnswerBlocks, Said, changes_table};

    fn status(http: u16) -> Said {
        Said { http_status: Some(http), ..Said::default() }
    }

    #[test]
    fn a_known_block_is_forgotten_when_the_table_changes() {
        let mut blocks = AnswerBlocks::new();
        // `:status: 201` is kept as number 62, and then referred to.
        assert_eq!(*blocks.read(b"\x48\x03201").unwrap(), status(201));
        assert_eq!(*blocks.read(b"\xbe").unwrap(), status(201));
        assert_eq!(*blocks.read(b"\xbe").unwrap(), status(201));
        // Now 62 is another.
        assert_eq!(*blocks.read(b"\x48\x03202").unwrap(), status(202));
        assert_eq!(*blocks.read(b"\xbe").unwrap(), status(202));
    }

    #[test]
    fn only_kept_literals_and_new_sizes_change_the_table() {
        assert!(!changes_table(b"\x88\x89"));
        assert!(!changes_table(b"\x08\x03201\x88"));
        assert!(!changes_table(b"\x00\x0bgrpc-status\x010"));
        assert!(!changes_table(b"\x10\x0bgrpc-status\x010"));
        assert!(changes_table(b"\x00\x0bgrpc-status\x010\x40\x01a\x01b"));
        assert!(changes_table(b"\x20\x88"));
        // A long text that is not kept, whose bytes look like a literal that is.
        let long = [&b"\x0f\x2b\x7f\x49"[..], &[0x40; 200], b"\x88"].concat();
        assert!(!changes_table(&long));
    }

    #[test]
    fn a_broken_block_is_an_error() {
        assert!(AnswerBlocks::new().read(b"\xff\xff\xff\xff\xff\xff").is_err());
        assert!(AnswerBlocks::new().read(b"\xc0").is_err());
    }
}
