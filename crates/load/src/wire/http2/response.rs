//! The header blocks of responses.

use tidegate_http2::hpack::{Decoder, Known};

use crate::error::Fault;

/// The fields of a header block that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeaderFields {
    pub(super) http_status: Option<u16>,
    pub(super) grpc_status: Option<u32>,
    pub(super) grpc_message: Option<String>,
}

/// Decodes header blocks, and caches the results, because most blocks are byte-identical.
#[derive(Default)]
pub(super) struct ResponseBlocks {
    decoder: Decoder,
    known: Known<HeaderFields>,
}

impl ResponseBlocks {
    pub(super) fn read(&mut self, block: &[u8]) -> Result<HeaderFields, Fault> {
        if let Some(fields) = self.known.get(block) {
            return Ok(fields.clone());
        }
        let mut fields = HeaderFields::default();
        let decoded = self.decoder.decode(block, |name, value| {
            let text = || str::from_utf8(value).ok();
            match name {
                b":status" => fields.http_status = text().and_then(|text| text.parse().ok()),
                b"grpc-status" => fields.grpc_status = text().and_then(|text| text.parse().ok()),
                b"grpc-message" => fields.grpc_message = text().map(str::to_owned),
                _ => {}
            }
        });
        let fault = |error| Fault::Protocol(format!("a header block does not decode: {error}"));
        if decoded.map_err(fault)? {
            self.known.forget();
        } else {
            self.known.remember(block, fields.clone());
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderFields, ResponseBlocks};

    fn status(http: u16) -> HeaderFields {
        HeaderFields { http_status: Some(http), ..HeaderFields::default() }
    }

    #[test]
    fn a_known_block_is_forgotten_when_the_table_changes() {
        let mut blocks = ResponseBlocks::default();
        // `:status: 201` is added to the table as entry 62, and then referenced.
        assert_eq!(blocks.read(b"\x48\x03201").unwrap(), status(201));
        assert_eq!(blocks.read(b"\xbe").unwrap(), status(201));
        assert_eq!(blocks.read(b"\xbe").unwrap(), status(201));
        // Now entry 62 is another one.
        assert_eq!(blocks.read(b"\x48\x03202").unwrap(), status(202));
        assert_eq!(blocks.read(b"\xbe").unwrap(), status(202));
    }

    #[test]
    fn a_broken_block_is_an_error() {
        assert!(ResponseBlocks::default().read(b"\xff\xff\xff\xff\xff\xff").is_err());
        assert!(ResponseBlocks::default().read(b"\xc0").is_err());
    }
}
