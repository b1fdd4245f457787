//! A staged roll-out: some keys are enforced, the rest is shadow.

use std::collections::HashSet;

use tidegate::{Domain, Limiter, Request, Rule, per_minute};

use crate::support::limiter_of;

const KEYS: usize = 5_000;

/// Which of many keys are denied once their limit of 1 is used up.
fn enforced(percent: u8) -> HashSet<usize> {
    let rule = Rule::by("user").limit(per_minute(1)).enforce_percent(percent);
    let (limiter, _) = limiter_of(Domain::new("d").rule(rule));
    (0..KEYS).filter(|number| denies_second(&limiter, *number)).collect()
}

fn denies_second(limiter: &Limiter, number: usize) -> bool {
    let user = format!("user {number}");
    let request = Request::new("d", [("user", user.as_str())]);
    assert!(limiter.check_now(&request).allowed());
    let second = limiter.check_now(&request);
    let limit = second.limits().next().expect("it has a limit");
    // It is evaluated and counted, enforced or not.
    assert!(!limit.allowed);
    assert_eq!(limit.remaining, 0);
    assert_eq!(limit.shadow, second.allowed());
    !second.allowed()
}

#[test]
fn none_at_0_and_all_at_100() {
    assert_eq!(enforced(0).len(), 0);
    assert_eq!(enforced(100).len(), KEYS);
}

#[test]
fn about_as_many_keys_as_asked_for() {
    for percent in [1, 10, 33, 50, 90, 99] {
        let found = enforced(percent).len();
        let asked = KEYS * usize::from(percent) / 100;
        // Four standard deviations of a fair draw at most; and the draw is the same every time.
        assert!(found.abs_diff(asked) < 142, "{percent} percent: {found} of {KEYS}");
    }
}

#[test]
fn every_limiter_picks_the_same_keys() {
    // Each has counters with a secret of its own.
    assert_eq!(enforced(30), enforced(30));
}

#[test]
fn a_key_once_enforced_stays_so_as_the_percentage_grows() {
    let steps = [1, 5, 25, 60].map(enforced);
    for pair in steps.windows(2) {
        assert!(pair[0].is_subset(&pair[1]));
    }
}

#[test]
fn two_rules_pick_different_keys() {
    let domain = Domain::new("d")
        .rule(Rule::by("a").limit(per_minute(0)).enforce_percent(50))
        .rule(Rule::by("b").limit(per_minute(0)).enforce_percent(50));
    let (limiter, _) = limiter_of(domain);
    let differ = (0..1_000).filter(|number| {
        let value = number.to_string();
        let denies = |key| !limiter.check_now(&Request::new("d", [(key, value.as_str())])).allowed();
        denies("a") != denies("b")
    });
    let differ = differ.count();
    assert!((400..600).contains(&differ), "{differ} of 1000");
}

#[test]
fn values_that_share_a_counter_share_their_fate() {
    let mut fates = HashSet::new();
    for rule in 0..40 {
        let text = format!(
            "domain: d\ndescriptors: [{{key: k, value: '{rule}/*', share_threshold: true, \
             enforce_percent: 50, rate_limit: {{unit: minute, requests_per_unit: 0}}}}]"
        );
        let (limiter, _) = crate::support::limiter(&text);
        let fate = |value: &str| {
            let value = format!("{rule}/{value}");
            limiter.check_now(&Request::new("d", [("k", value.as_str())])).allowed()
        };
        let first = fate("a");
        assert!((0..20).all(|number| fate(&number.to_string()) == first));
        fates.insert(first);
    }
    assert_eq!(fates.len(), 2);
}
