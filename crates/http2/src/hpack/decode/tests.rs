//! The examples of RFC 7541, appendix C, and invalid blocks.

use super::{Decoder, HpackError};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn decoded(decoder: &mut Decoder, hex: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let field = |name: &[u8], value: &[u8]| fields.push(format!("{}: {}", text(name), text(value)));
    decoder.decode(&bytes(hex), field).unwrap();
    fields
}

#[test]
fn single_fields_of_appendix_c2() {
    let literal = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    let cases = [
        (literal, "custom-key: custom-header", 55),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret", 0),
        ("82", ":method: GET", 0),
    ];
    for (hex, field, table) in cases {
        let mut decoder = Decoder::default();
        assert_eq!(decoded(&mut decoder, hex), [field]);
        assert_eq!(decoder.table_bytes(), table);
    }
}

#[test]
fn requests_of_appendices_c3_and_c4() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        let usual = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
        assert_eq!(decoded(&mut decoder, blocks[0]), usual);
        assert_eq!(decoder.table_bytes(), 57);
        assert_eq!(decoded(&mut decoder, blocks[1]), [&usual[..], &["cache-control: no-cache"]].concat());
        assert_eq!(decoder.table_bytes(), 110);
        let last = [
            ":method: GET",
            ":scheme: https",
            ":path: /index.html",
            ":authority: www.example.com",
            "custom-key: custom-value",
        ];
        assert_eq!(decoded(&mut decoder, blocks[2]), last);
        assert_eq!(decoder.table_bytes(), 164);
    }
}

#[test]
fn answers_of_appendices_c5_and_c6_evict() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
         3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
    ];
    let coded = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
         1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
    ];
    let rest = [
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        decoder.table.resize(256);
        assert_eq!(decoded(&mut decoder, blocks[0]), [&[":status: 302"], &rest[..]].concat());
        assert_eq!(decoder.table_bytes(), 222);
        assert_eq!(decoded(&mut decoder, blocks[1]), [&[":status: 307"], &rest[..]].concat());
        assert_eq!(decoder.table_bytes(), 222);
    }
}

#[test]
fn what_is_no_block_is_refused() {
    let cases = [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("7e 0161", HpackError::Index),
        ("ff ffff ffff ffff", HpackError::Integer),
        ("40 0161", HpackError::CutOff),
        ("00 0561", HpackError::CutOff),
        ("04 8100", HpackError::Huffman),
        // Larger than the default of 4,096 bytes; and after a field.
        ("3f e2 1f", HpackError::TableSize),
        ("82 20", HpackError::TableSize),
    ];
    for (hex, error) in cases {
        assert_eq!(Decoder::default().decode(&bytes(hex), |_, _| {}), Err(error), "{hex}");
    }
}

#[test]
fn only_kept_fields_and_new_sizes_change_the_table() {
    let changes = |hex: &str| Decoder::default().decode(&bytes(hex), |_, _| {}).unwrap();
    assert!(!changes("82 86 84"));
    assert!(!changes("04 0161 10 0161 0162 00 0161 0162"));
    assert!(changes("82 40 0161 0162"));
    assert!(changes("20 82"));
    assert!(changes("3f e1 1f 82"));
}

#[test]
fn a_field_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::default();
    decoded(&mut decoder, "40 0161 0162");
    assert_eq!(decoder.table_bytes(), 34);
    let mut block = vec![0x40, 1, b'a', 0x7f, 0x81, 0x1f];
    block.extend([b'x'; 4096]);
    assert_eq!(decoder.decode(&block, |_, value| assert_eq!(value.len(), 4096)), Ok(true));
    assert_eq!(decoder.table_bytes(), 0);
}

#[test]
fn a_name_outlives_the_field_it_is_taken_from() {
    let mut decoder = Decoder::default();
    decoder.table.resize(40);
    decoded(&mut decoder, "40 0361 6263 0131");
    // The new field takes its name from the entry that it evicts.
    assert_eq!(decoded(&mut decoder, "7e 0132"), ["abc: 2"]);
    assert_eq!(decoded(&mut decoder, "be"), ["abc: 2"]);
}
