//! `vectors/limits.json`: limits as people write them.

use serde::Deserialize;
use tidegate::{LimitSpec, Window};
use tidegate_middleware::limits;

use crate::support::vectors;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    text: String,
    expect: Option<Vec<Expect>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    requests: u64,
    per: String,
}

/// A window as it goes to the service: a name, or a number and a letter.
fn window(per: &str) -> Window {
    Window::named(per).unwrap_or_else(|| {
        let unit = per.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let number: u64 = per[..per.len() - unit.len()].parse().unwrap();
        let us = match unit {
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            "w" => 7 * 86_400_000_000,
            other => panic!("no unit {other}"),
        };
        Window::Period { us: number * us }
    })
}

#[test]
fn every_vector_is_read_as_in_the_file() {
    let cases: Vec<Case> = vectors("limits.json");
    assert!(cases.len() > 40);
    for Case { text, expect } in cases {
        let expected = expect.map(|all| {
            all.iter().map(|one| LimitSpec::new(one.requests, window(&one.per))).collect::<Vec<_>>()
        });
        match (limits::parse(&text), expected) {
            (Ok(found), Some(expected)) => assert_eq!(found, expected, "{text:?}"),
            (Err(error), None) => assert!(error.to_string().contains(&format!("{text:?}")), "{error}"),
            (found, expected) => panic!("{text:?} is {found:?}, not {expected:?}"),
        }
    }
}
