//! Reading a trail.

use std::fs;

use proptest::prelude::*;
use serde_json::json;
use tempfile::tempdir;
use tidegate_audit::{Entry, Event, Filter, Settings, read};
use tidegate_core::Micros;

use crate::support::{change, close, denial, open, segments, settings, written};

fn numbers(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq).collect()
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(24))]

    #[test]
    fn pages_are_the_whole_trail_newest_first(
        records in 1..200_u64, limit in 1..50_usize, segment_bytes in 500..100_000_u64,
    ) {
        let folder = tempdir().unwrap();
        written(folder.path(), &Settings { segment_bytes, ..settings() }, records);
        let (mut all, mut filter) = (Vec::new(), Filter::default());
        loop {
            let page = read(folder.path(), &filter, limit).unwrap();
            prop_assert!(page.entries.len() <= limit);
            all.extend(numbers(&page.entries));
            if page.next.is_none() {
                break;
            }
            filter.before = page.next;
        }
        prop_assert_eq!(all, (1..=records).rev().collect::<Vec<_>>());
    }
}

#[test]
fn what_was_recorded_is_what_is_read() {
    let folder = tempdir().unwrap();
    let trail = open(folder.path(), &settings());
    let (first, second) = (change(1), denial(2));
    trail.record(first.clone());
    trail.record(second.clone());
    close(&trail);
    let page = read(folder.path(), &Filter::default(), 10).unwrap();
    assert_eq!(page.entries[1].event, Event::Change(first));
    assert_eq!(page.entries[0].event, Event::Denial(second));
    let shown = serde_json::to_value(&page.entries[1]).unwrap();
    assert_eq!(shown["at"], "2023-11-14T22:13:20.000001Z");
    assert_eq!((&shown["seq"], &shown["kind"]), (&json!(1), &json!("change")));
}

#[test]
fn filters_take_what_they_name_only() {
    let folder = tempdir().unwrap();
    let trail = open(folder.path(), &settings());
    for number in 1..=9 {
        trail.record(change(number));
    }
    crate::support::until("written", || trail.written() == 9);
    trail.record(denial(10));
    close(&trail);
    let shown = |filter: Filter| numbers(&read(folder.path(), &filter, 100).unwrap().entries);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(shown(Filter { actor: some("actor-1"), ..Filter::default() }), [7, 4, 1]);
    assert_eq!(shown(Filter { object: some("tenant/3"), ..Filter::default() }), [3]);
    assert_eq!(shown(Filter { object: some("tenant/*"), ..Filter::default() }).len(), 9);
    assert_eq!(shown(Filter { object: some("per_user"), ..Filter::default() }), [10]);
    assert_eq!(shown(Filter { action: some("quota.delete"), ..Filter::default() }), [0; 0]);
    assert_eq!(shown(Filter { kind: some("denial"), ..Filter::default() }), [10]);
    let at = |number: u64| Some(Micros(1_700_000_000_000_000 + number));
    assert_eq!(shown(Filter { from: at(3), to: at(5), ..Filter::default() }), [4, 3]);
    assert_eq!(shown(Filter { before: Some(3), ..Filter::default() }), [2, 1]);
}

#[test]
fn lines_longer_than_a_block_and_an_unfinished_one_do_not_disturb() {
    let folder = tempdir().unwrap();
    let trail = open(folder.path(), &settings());
    for number in 1..=5 {
        let mut long = change(number);
        long.after = Some("y".repeat(150_000 * (number as usize % 3)).into());
        trail.record(long);
    }
    close(&trail);
    let file = &segments(folder.path())[0];
    let mut bytes = fs::read(file).unwrap();
    bytes.extend_from_slice(b"{\"seq\":6,\"prev\":");
    fs::write(file, bytes).unwrap();
    let page = read(folder.path(), &Filter::default(), 100).unwrap();
    assert_eq!(numbers(&page.entries), [5, 4, 3, 2, 1]);
}
