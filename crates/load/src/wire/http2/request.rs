//! The header block of a request, which never changes.

use loona_hpack::encoder::encode_integer_into;

/// What a peer's table holds before it says otherwise (RFC 9113, section 6.5.2).
const DEFAULT_TABLE_BYTES: u32 = 4096;
/// `:method: POST` and `:scheme: http`, as indices of the static table.
const METHOD_AND_SCHEME: [u8; 2] = [0x83, 0x86];

/// The header blocks of one connection: the first request writes its fields into the server's table,
/// all later ones refer to them and are byte-identical, as Envoy's are.
#[derive(Debug)]
pub(super) struct RequestBlock {
    fields: [(Name, String); 5],
    first: Vec<u8>,
    rest: Vec<u8>,
    is_first: bool,
    table_bytes: u32,
}

#[derive(Debug)]
enum Name {
    Static(usize, &'static str),
    Literal(&'static str),
}

impl RequestBlock {
    pub(super) fn new(path: &str, authority: &str) -> Self {
        let fields = [
            (Name::Static(4, ":path"), path.to_owned()),
            (Name::Static(1, ":authority"), authority.to_owned()),
            (Name::Static(31, "content-type"), "application/grpc".to_owned()),
            (Name::Literal("te"), "trailers".to_owned()),
            (Name::Static(58, "user-agent"), concat!("tidegate-load/", env!("CARGO_PKG_VERSION")).to_owned()),
        ];
        let (first, rest) = (literals(&fields, 0x40, 6), references(fields.len()));
        Self { fields, first, rest, is_first: true, table_bytes: DEFAULT_TABLE_BYTES }
    }

    /// The block of the next request.
    pub(super) fn next(&mut self) -> &[u8] {
        if std::mem::take(&mut self.is_first) { &self.first } else { &self.rest }
    }

    /// The server has set the size of its table.
    pub(super) fn set_table_bytes(&mut self, bytes: u32) {
        // A larger table need not be used.
        let bytes = bytes.min(DEFAULT_TABLE_BYTES);
        if bytes == self.table_bytes {
            return;
        }
        self.table_bytes = bytes;
        // A change begins with saying what is used of it from now on (RFC 7541, section 4.2); where
        // the fields do not all fit, none are kept there.
        let fits = self.fields.iter().map(Self::entry_bytes).sum::<usize>() <= bytes as usize;
        self.first.clear();
        write_integer(&mut self.first, if fits { bytes as usize } else { 0 }, 5, 0x20);
        if fits {
            // Evicts nothing that is counted on: the fields are written anew, and the newest stay.
            self.first.extend(literals(&self.fields, 0x40, 6));
            self.rest = references(self.fields.len());
        } else {
            self.rest = literals(&self.fields, 0x00, 4);
            self.first.extend_from_slice(&self.rest);
        }
        self.is_first = true;
    }

    fn entry_bytes((name, value): &(Name, String)) -> usize {
        let (Name::Static(_, name) | Name::Literal(name)) = name;
        name.len() + value.len() + 32
    }
}

/// All fields spelt out, with the pattern that says whether they are to be kept.
fn literals(fields: &[(Name, String)], pattern: u8, prefix_bits: u8) -> Vec<u8> {
    let mut block = METHOD_AND_SCHEME.to_vec();
    for (name, value) in fields {
        match name {
            Name::Static(index, _) => write_integer(&mut block, *index, prefix_bits, pattern),
            Name::Literal(name) => {
                block.push(pattern);
                write_text(&mut block, name);
            }
        }
        write_text(&mut block, value);
    }
    block
}

/// All fields by their place in the table, where the newest is number 62.
fn references(count: usize) -> Vec<u8> {
    let mut block = METHOD_AND_SCHEME.to_vec();
    for age in (0..count).rev() {
        write_integer(&mut block, 62 + age, 7, 0x80);
    }
    block
}

fn write_text(block: &mut Vec<u8>, text: &str) {
    write_integer(block, text.len(), 7, 0);
    block.extend_from_slice(text.as_bytes());
}

fn write_integer(block: &mut Vec<u8>, value: usize, prefix_bits: u8, pattern: u8) {
    // Writing to a vector cannot fail.
    let _ = encode_integer_into(value, prefix_bits, pattern, block);
}

#[cfg(test)]
mod tests {
    use loona_hpack::Decoder;

    use super::RequestBlock;

    fn fields(decoder: &mut Decoder<'_>, block: &[u8]) -> Vec<String> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let list = decoder.decode(block).unwrap();
        list.into_iter().map(|(name, value)| format!("{}={}", text(name), text(value))).collect()
    }

    #[test]
    fn every_block_says_the_same_whatever_the_table_of_the_server() {
        let mut expected = None;
        for sizes in [&[][..], &[4096], &[65_536], &[0], &[100], &[1000], &[0, 4096], &[2000, 0, 1000]] {
            let mut block = RequestBlock::new("/a.B/C", "127.0.0.1:8081");
            let mut decoder = Decoder::new();
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
