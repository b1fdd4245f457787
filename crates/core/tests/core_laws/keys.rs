//! Different lists of texts have different keys.

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
    assert_eq!((found.home, found.mark), (4_378_971_021_296_965_440, 6_895_015_315_589_405_772));
}

#[test]
fn limits_of_one_key_share_its_home_and_differ_in_their_mark() {
    let key = key(&["api", "ann"]);
    let (one, other) = (key.of_limit(1), key.of_limit(2));
    assert_eq!((one.home, other.home), (key.home, key.home));
    assert_ne!(one.mark, other.mark);
}

/// The memory store selects shards by the highest bits of `home`, pages by the highest bits of `mark`, and
/// slots by the bits below the middle of `mark`.
#[test]
fn texts_that_differ_little_spread_evenly() {
    const TEXTS: u64 = 1 << 14;
    let families: [fn(u64) -> String; 8] = [
        |number| number.to_string(),
        |number| format!("{number:05}-user"),
        |number| format!("user-{number:08}"),
        |number| format!("{number:07}@mail.org"),
        |number| format!("10.{}.0.{}", number >> 7, number & 127),
        |number| format!("/v1/items/{number:06}"),
        |number| format!("{number:020}"),
        |number| char::from_u32(0x4e00 + number as u32).unwrap_or_default().to_string(),
    ];
    for seed in 0..16 {
        for family in families {
            let mut bins = [[0_u64; 256]; 3];
            for number in 0..TEXTS {
                let key = KeySeed(seed).text(&family(number));
                bins[0][(key.home >> 56) as usize] += 1;
                bins[1][(key.mark >> 56) as usize] += 1;
                bins[2][(key.mark >> 24 & 255) as usize] += 1;
            }
            for bins in bins {
                let mean = TEXTS / 256;
                let squares: u64 = bins.iter().map(|count| count.abs_diff(mean).pow(2)).sum();
                // Random bins give 255 on average, with a standard deviation of 23.
                assert!(squares / mean < 450, "{}: chi-squared {}", family(1), squares / mean);
            }
        }
    }
}

/// Texts with the same word at both ends, with exchanged ends, and with the same ends at another distance
/// have different keys under every seed.
#[test]
fn texts_of_the_same_words_do_not_collide() {
    let texts = [
        "aaaaaaaa",
        "aaaaaaaaa",
        "aaaaaaaaaaaaaaaa",
        "a",
        "aa",
        "a\0",
        "\0",
        "",
        "\0\0\0\0\0\0\0\0",
        "abcdefgh12345678",
        "12345678abcdefgh",
        "abbbbbbbb",
        "abaaaaaaa",
        "abaaaaaaaa",
    ];
    for seed in 0..1_000 {
        let keys: Vec<_> = texts.iter().map(|text| KeySeed(seed).text(text)).collect();
        for (index, one) in keys.iter().enumerate() {
            for (other, text) in keys[..index].iter().zip(texts) {
                assert!(one.home != other.home && one.mark != other.mark, "{:?} and {text:?}", texts[index]);
            }
        }
    }
}
