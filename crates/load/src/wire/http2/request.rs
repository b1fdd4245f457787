//! The header block of requests, which are all alike.

use tidegate_http2::hpack::DEFAULT_TABLE_BYTES;
use tidegate_http2::hpack::encode::{self, Keep};

/// `:method: POST` and `:scheme: http`, as indices of the static table.
const METHOD_AND_SCHEME: [u8; 2] = [0x83, 0x86];

/// The header blocks of one connection. The first request adds its fields to the server's table; all later
/// ones reference them and are byte-identical, as those of Envoy are.
#[derive(Debug)]
pub(super) struct RequestBlock {
    fields: [(&'static str, String); 5],
    first: Vec<u8>,
    rest: Vec<u8>,
    is_first: bool,
    table_bytes: usize,
}

impl RequestBlock {
    pub(super) fn new(path: &str, authority: &str) -> Self {
        let fields = [
            (":path", path.to_owned()),
            (":authority", authority.to_owned()),
            ("content-type", "application/grpc".to_owned()),
            ("te", "trailers".to_owned()),
            ("user-agent", concat!("tidegate-load/", env!("CARGO_PKG_VERSION")).to_owned()),
        ];
        let (first, rest) = (literals(&fields, Keep::Yes), references(fields.len()));
        Self { fields, first, rest, is_first: true, table_bytes: DEFAULT_TABLE_BYTES }
    }

    /// Returns the block of the next request.
    pub(super) fn next(&mut self) -> &[u8] {
        if std::mem::take(&mut self.is_first) { &self.first } else { &self.rest }
    }

    /// Adapts to the table size that the server has set.
    pub(super) fn set_table_bytes(&mut self, bytes: u32) {
        // A larger table need not be used.
        let bytes = DEFAULT_TABLE_BYTES.min(bytes as usize);
        if bytes == self.table_bytes {
            return;
        }
        self.table_bytes = bytes;
        // After a change, the next block begins with the new size (RFC 7541, section 4.2). If the fields do
        // not all fit, none are added to the table.
        let fits = self.fields.iter().map(Self::entry_bytes).sum::<usize>() <= bytes;
        self.first.clear();
        encode::table_size(&mut self.first, if fits { bytes } else { 0 });
        if fits {
            // The fields are added again, so it does not matter which old entries are evicted.
            self.first.extend(literals(&self.fields, Keep::Yes));
            self.rest = references(self.fields.len());
        } else {
            self.rest = literals(&self.fields, Keep::No);
            self.first.extend_from_slice(&self.rest);
        }
        self.is_first = true;
    }

    fn entry_bytes((name, value): &(&str, String)) -> usize {
        name.len() + value.len() + 32
    }
}

/// Encodes all fields as literals, which the server adds to its table or not.
fn literals(fields: &[(&str, String)], keep: Keep) -> Vec<u8> {
    let mut block = METHOD_AND_SCHEME.to_vec();
    for (name, value) in fields {
        encode::literal(&mut block, name, value.as_bytes(), keep);
    }
    block
}

/// Encodes all fields as references to the table, whose newest entry is number 62.
fn references(count: usize) -> Vec<u8> {
    let mut block = METHOD_AND_SCHEME.to_vec();
    for age in (0..count).rev() {
        encode::indexed(&mut block, 62 + age);
    }
    block
}

#[cfg(test)]
mod tests {
    use tidegate_http2::hpack::Decoder;

    use super::RequestBlock;

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let field = |name: &[u8], value: &[u8]| fields.push(format!("{}={}", text(name), text(value)));
        decoder.decode(block, field).unwrap();
        fields
    }

    #[test]
    fn every_block_says_the_same_whatever_the_table_of_the_server() {
        let mut expected = None;
        for sizes in [&[][..], &[4096], &[65_536], &[0], &[100], &[1000], &[0, 4096], &[2000, 0, 1000]] {
            let mut block = RequestBlock::new("/a.B/C", "127.0.0.1:8081");
            let mut decoder = Decoder::default();
            let mut check = |block: &mut RequestBlock| {
                let seen = fields(&mut decoder, block.next());
                assert_eq!(&seen, expected.get_or_insert_with(|| seen.clone()), "{sizes:?}");
            };
            check(&mut block);
            for &size in sizes {
                block.set_table_bytes(size);
                (0..3).for_each(|_| check(&mut block));
            }
        }
        let expected = expected.unwrap();
        assert_eq!(
            expected[..4],
            [":method=POST", ":scheme=http", ":path=/a.B/C", ":authority=127.0.0.1:8081"]
        );
    }

    #[test]
    fn later_blocks_are_short_and_identical() {
        let mut block = RequestBlock::new("/a.B/C", "localhost");
        block.next();
        let second = block.next().to_vec();
        assert_eq!((second.len(), second.as_slice()), (7, block.next()));
    }
}
