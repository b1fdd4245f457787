//! Snapshots whose checksums are right and whose content is not: what a bug or a stranger would write.

use tidegate_core::{Clock, VirtualClock};
use tidegate_stores::MemoryStore;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::world::config;

/// A cell as it is written, apart from what is in it.
fn cell(mark: u64, home: u16, kind: u8, rest: &[u8]) -> Vec<u8> {
    let expires_us = VirtualClock::new().now().0 + 1_000_000;
    let head = [&mark.to_le_bytes()[..], &home.to_le_bytes(), &expires_us.to_le_bytes(), &[kind, 9]];
    [&head.concat(), rest].concat()
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// What a small cell holds: two counts and a trace.
fn small_rest(a: u64, b: u64, trace: u16) -> Vec<u8> {
    [numbers(&[a, b]), trace.to_le_bytes().to_vec()].concat()
}

/// A whole snapshot of these blocks that says it has `count` cells.
fn forge(blocks: &[Vec<u8>], count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut before = 0;
    let mut put = |bytes: &mut Vec<u8>, part: &[u8]| {
        before = xxh3_64_with_seed(part, before);
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(&before.to_le_bytes());
    };
    let header = [b"TIDEGATE".as_slice(), &2_u32.to_le_bytes(), &numbers(&[7, 8])].concat();
    put(&mut bytes, &header);
    for block in blocks {
        bytes.extend_from_slice(&(block.len() as u32).to_le_bytes());
        put(&mut bytes, block);
    }
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    put(&mut bytes, &count.to_le_bytes());
    bytes
}

fn restore(blocks: &[Vec<u8>], count: u64) -> Result<u64, &'static str> {
    let restored = MemoryStore::restore_bytes(&forge(blocks, count), config(1_000, &VirtualClock::new()));
    restored.map(|(_, summary)| summary.keys)
}

#[test]
fn a_forged_snapshot_that_is_right_is_accepted() {
    assert_eq!(restore(&[], 0), Ok(0));
    let blocks = [cell(1, 2, 0, &small_rest(3, 0, 0)), cell(2, 2, 5, &numbers(&[1, 4, 1, 9]))];
    assert_eq!(restore(&blocks, 2), Ok(2));
}

#[test]
fn impossible_counters_are_refused_with_the_reason() {
    let too_many = (1 << 53) + 1;
    let most = 1 << 53;
    let cases = [
        (cell(0, 2, 0, &small_rest(3, 0, 0)), "a counter has an impossible key"),
        (cell(1, 1 << 12, 0, &small_rest(3, 0, 0)), "a counter has an impossible key"),
        (cell(1, 2, 0, &small_rest(too_many, 0, 0)), "a counter is impossibly large"),
        (cell(1, 2, 1, &small_rest(0, too_many, 0)), "a counter is impossibly large"),
        (cell(1, 2, 2, &small_rest(0, 1, 1 << 10)), "a counter has an impossible trace"),
        (cell(1, 2, 0, &small_rest(0, 0, 1)), "a counter has an impossible trace"),
        (cell(1, 2, 0, &[0; 17]), "a counter is cut off"),
        (cell(1, 2, 0, &[0; 19]), "a counter is cut off"),
        (cell(1, 2, 6, &small_rest(3, 0, 0)), "a counter is of an unknown kind"),
        (cell(1, 2, 3, &numbers(&[0, 10_001])), "a counter has impossibly many parts"),
        (cell(1, 2, 3, &numbers(&[0, 2, most, 1])), "a counter is impossibly large"),
        (cell(1, 2, 4, &numbers(&[1_000_001])), "a counter has impossibly many parts"),
        (cell(1, 2, 4, &numbers(&[2, 5, 1, 5, 1])), "the stamps of a log are out of order"),
        (cell(1, 2, 4, &numbers(&[2, 5, most, 6, 1])), "a counter is impossibly large"),
        (cell(1, 2, 5, &numbers(&[2, 1, 1])), "a counter is cut off"),
        (cell(1, 2, 5, &numbers(&[2, 1, most, 1, 2, 1, 1])), "a counter is impossibly large"),
    ];
    for (bytes, reason) in cases {
        assert_eq!(restore(&[bytes], 1), Err(reason));
    }
}

#[test]
fn a_wrong_number_of_counters_is_refused() {
    let blocks = [cell(1, 2, 0, &small_rest(3, 0, 0))];
    for count in [0, 2, u64::MAX] {
        assert_eq!(restore(&blocks, count), Err("it does not hold as many counters as it says"));
    }
}

#[test]
fn blocks_can_be_neither_exchanged_nor_left_out() {
    let blocks = [cell(1, 2, 0, &small_rest(3, 0, 0)), cell(2, 2, 0, &small_rest(4, 0, 0))];
    let bytes = forge(&blocks, 2);
    let (header, block) = (36, 4 + blocks[0].len() + 8);
    let (one, two) = (&bytes[header..header + block], &bytes[header + block..header + 2 * block]);
    let end = &bytes[header + 2 * block..];
    let damaged = Err("a checksum does not match, it is damaged");
    for parts in [&[two, one][..], &[one], &[two], &[], &[one, one], &[one, two, two]] {
        let forged = [&bytes[..header], &parts.concat(), end].concat();
        let restored = MemoryStore::restore_bytes(&forged, config(1_000, &VirtualClock::new()));
        assert_eq!(restored.map(|(_, summary)| summary.keys), damaged);
    }
}

/// Cells that share their marks would split a page for ever.
#[test]
fn cells_that_are_no_fingerprints_do_no_harm() {
    let of_one_mark = |home| cell(7, home, 0, &small_rest(1, 0, 0));
    let in_a_row = |mark| cell(mark, 1, 0, &small_rest(1, 0, 0));
    let blocks = [(0..4_096).flat_map(of_one_mark).collect(), (1..5_000).flat_map(in_a_row).collect()];
    let held = restore(&blocks, 4_096 + 4_999).expect("it is whole");
    assert!(held <= 1_000);
}
