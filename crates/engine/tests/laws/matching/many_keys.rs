//! Levels with very many rules.

use tidegate::{Clock, Domain, Limiter, Request, Rule, per_minute};
use tidegate_stores::SystemClock;

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

/// Time to build a limiter in microseconds: the best of three, so that other work on the machine
/// does not count.
fn build_us(domain: &Domain) -> u64 {
    let clock = SystemClock::new();
    let times = (0..3).map(|_| {
        let (domain, start) = (domain.clone(), clock.now());
        Limiter::builder().domain(domain).build().expect("good rules");
        clock.now().since(start)
    });
    times.min().unwrap_or(0)
}

/// The rule of a number.
type Kind = fn(usize) -> Rule;

#[test]
fn the_time_to_load_rules_grows_with_their_number_and_not_with_its_square() {
    let kinds: [(&str, Kind); 3] = [
        ("keys", |number| Rule::by(&format!("key {number}"))),
        ("patterns", |number| Rule::by("k").value(&format!("value {number}*"))),
        ("values", |number| Rule::by("k").value(&format!("value {number}"))),
    ];
    for (kind, rule) in kinds {
        let (few_us, many_us) = (build_us(&rules(10_000, rule)), build_us(&rules(100_000, rule)));
        println!("{kind}: 10,000 in {few_us} us, 100,000 in {many_us} us");
        // Ten times as many: about 10 if linear, 100 if quadratic.
        assert!(many_us < 40 * few_us.max(1_000), "{kind}: {few_us} us, then {many_us} us");
    }
}
