//! Levels with very many rules.

use tidegate::{Domain, Request, Rule, per_minute};

use super::expect_rules;
use crate::support::{limiter_of, limits_of};

fn rules(count: usize, rule: impl Fn(usize) -> Rule) -> Domain {
    (0..count).fold(Domain::new("d"), |domain, number| domain.rule(rule(number).limit(per_minute(9))))
}

#[test]
fn every_key_of_a_level_is_found_however_many_there_are() {
    for count in 1..=20 {
        let (limiter, _) = limiter_of(rules(count, |number| Rule::by(&format!("key {number}"))));
        for number in 0..count {
            let key = format!("key {number}");
            let found = limits_of(&limiter, &Request::new("d", [(key.as_str(), "v")]));
            assert_eq!(found, [format!("{key} (minute)")], "of {count}");
        }
        expect_rules(&limiter, &[(&[("key", "v")], ""), (&[("key 20", "v")], ""), (&[("", "v")], "")]);
    }
}

#[test]
fn keys_below_a_rule_are_found_however_many_there_are() {
    let parent = (0..50).fold(Rule::by("a"), |parent, number| {
        parent.rule(Rule::by(&format!("b{number}")).value("x*").limit(per_minute(9)))
    });
    let (limiter, _) = limiter_of(Domain::new("d").rule(parent));
    for number in 0..50 {
        let key = format!("b{number}");
        let found = limits_of(&limiter, &Request::new("d", [("a", "1"), (key.as_str(), "xy")]));
        assert_eq!(found, [format!("a/{key}=x* (minute)")]);
    }
    expect_rules(&limiter, &[(&[("a", "1"), ("b50", "xy")], ""), (&[("a", "1"), ("b7", "y")], "")]);
}

#[test]
fn a_hundred_thousand_keys_of_one_level_are_found() {
    let count = 100_000;
    let (limiter, _) = limiter_of(rules(count, |number| Rule::by(&format!("key {number}"))));
    for number in (0..count).step_by(997).chain([count - 1]) {
        let key = format!("key {number}");
        let found = limits_of(&limiter, &Request::new("d", [(key.as_str(), "v")]));
        assert_eq!(found, [format!("{key} (minute)")]);
    }
    expect_rules(&limiter, &[(&[("key 100000", "v")], ""), (&[("key 01", "v")], "")]);
}

/// The rule of a number.
type Kind = fn(usize) -> Rule;

#[test]
fn a_hundred_thousand_patterns_or_values_of_one_level_load() {
    let kinds: [Kind; 2] = [
        |number| Rule::by("k").value(&format!("value {number}*")),
        |number| Rule::by("k").value(&format!("value {number}")),
    ];
    for rule in kinds {
        let (limiter, _) = limiter_of(rules(100_000, rule));
        let decision = limiter.check_now(&Request::new("d", [("k", "value 99999")]));
        assert_eq!(decision.limits().count(), 1);
        assert_eq!(limiter.check_now(&Request::new("d", [("k", "other")])).limits().count(), 0);
    }
}
