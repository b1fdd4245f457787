//! No two lists of texts share a counter.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Key, KeySeed};

use crate::for_all;

const SEED: KeySeed = KeySeed(0x7469_6465);

fn key(texts: &[&str]) -> Key {
    SEED.texts(texts.iter().copied())
}

#[test]
fn texts_do_not_run_together() {
    let lists: [&[&str]; 22] = [
        &[],
        &[""],
        &["", ""],
        &["", "", ""],
        &["a"],
        &["a", ""],
        &["", "a"],
        &["a", "b"],
        &["b", "a"],
        &["ab"],
        &["ab", ""],
        &["", "ab"],
        &["a", "b_c"],
        &["a_b", "c"],
        &["a", "b", "c"],
        &["a", "c", "b"],
        &["a_b_c"],
        &["a", "a"],
        &["a", "a", "a"],
        &["a\0b"],
        &["a", "\0b"],
        &["a\0", "b"],
    ];
    for (index, one) in lists.iter().enumerate() {
        for other in &lists[..index] {
            let (left, right) = (key(one), key(other));
            assert_ne!(left.home, right.home, "{one:?} and {other:?}");
            assert_ne!(left.mark, right.mark, "{one:?} and {other:?}");
        }
    }
}

#[test]
fn no_two_random_lists_share_a_key() {
    let texts = vec(vec("[ab_/=]{0,3}", 0..4), 200);
    for_all(100, texts, |lists| {
        let mut seen: HashMap<Key, &Vec<String>> = HashMap::new();
        for list in &lists {
            let key = SEED.texts(list.iter().map(String::as_str));
            let first = seen.entry(key).or_insert(list);
            assert_eq!(*first, list, "share {key:?}");
        }
    });
}

#[test]
fn the_same_texts_make_the_same_key_under_the_same_seed_only() {
    for_all(200, (vec(".{0,8}", 0..4), any::<u64>(), any::<u64>()), |(list, one, other)| {
        let under = |seed| KeySeed(seed).texts(list.iter().map(String::as_str));
        assert_eq!(under(one), under(one));
        assert!(one == other || under(one) != under(other));
    });
}

/// The fingerprint is part of the snapshot format.
#[test]
fn the_function_has_not_changed() {
    let found = key(&["api", "user", "ann"]);
    assert_eq!((found.home, found.mark), (6_521_991_106_821_323_401, 16_625_773_325_815_840_259));
}

#[test]
fn limits_of_one_key_share_its_home_and_differ_in_their_mark() {
    let key = key(&["api", "ann"]);
    let (one, other) = (key.of_limit(1), key.of_limit(2));
    assert_eq!((one.home, other.home), (key.home, key.home));
    assert_ne!(one.mark, other.mark);
}
