//! The header blocks of answers.

use tidegate_http2::hpack::{Decoder, Known};

use crate::error::Fault;

/// What a header block says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) http_status: Option<u16>,
    pub(super) grpc_status: Option<u32>,
    pub(super) grpc_message: Option<String>,
}

/// Reads header blocks, each kind once.
#[derive(Default)]
pub(super) struct AnswerBlocks {
    decoder: Decoder,
    known: Known<Said>,
}

impl AnswerBlocks {
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Said, Fault> {
        if let Some(said) = self.known.get(block) {
            return Ok(said.clone());
        }
        let mut said = Said::default();
        let decoded = self.decoder.decode(block, |name, value| {
            let text = || str::from_utf8(value).ok();
            match name {
                b":status" => said.http_status = text().and_then(|text| text.parse().ok()),
                b"grpc-status" => said.grpc_status = text().and_then(|text| text.parse().ok()),
                b"grpc-message" => said.grpc_message = text().map(str::to_owned),
                _ => {}
            }
        });
        let fault = |error| Fault::Protocol(format!("a header block does not decode: {error}"));
        if decoded.map_err(fault)? {
            self.known.forget();
        } else {
            self.known.remember(block, said.clone());
        }
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerBlocks, Said};

    fn status(http: u16) -> Said {
        Said { http_status: Some(http), ..Said::default() }
    }

    #[test]
    fn a_known_block_is_forgotten_when_the_table_changes() {
        let mut blocks = AnswerBlocks::default();
        // `:status: 201` is kept as number 62, and then referred to.
        assert_eq!(blocks.read(b"\x48\x03201").unwrap(), status(201));
        assert_eq!(blocks.read(b"\xbe").unwrap(), status(201));
        assert_eq!(blocks.read(b"\xbe").unwrap(), status(201));
        // Now 62 is another.
        assert_eq!(blocks.read(b"\x48\x03202").unwrap(), status(202));
        assert_eq!(blocks.read(b"\xbe").unwrap(), status(202));
    }

    #[test]
    fn a_broken_block_is_an_error() {
        assert!(AnswerBlocks::default().read(b"\xff\xff\xff\xff\xff\xff").is_err());
        assert!(AnswerBlocks::default().read(b"\xc0").is_err());
    }
}
