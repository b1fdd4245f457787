//! Every limit on the matched path applies.

use tidegate::{Limiter, Request, VirtualClock};

use crate::support::{left, limiter, limits_of, names};

const RULES: &str = "
domain: d
hierarchical: true
descriptors:
  - key: org
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - key: team
        descriptors:
          - key: user
            rate_limit: {unit: minute, requests_per_unit: 3}
          - {key: user, value: root, rate_limit: {unlimited: true}}
";

fn rules() -> (Limiter, VirtualClock) {
    limiter(RULES)
}

fn user<'a>(org: &'a str, team: &'a str, user: &'a str) -> Request<'a> {
    Request::new("d", [("org", org), ("team", team), ("user", user)])
}

#[test]
fn every_limit_on_the_path_applies_from_the_root_on() {
    let (limiter, _) = rules();
    let decision = limiter.check_now(&user("acme", "red", "ann"));
    assert_eq!(names(&decision), ["org (minute)", "org/team/user (minute)"]);
    assert_eq!(decision.limits().map(|limit| limit.remaining).collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn without_it_only_the_last_applies() {
    let (limiter, _) = limiter(&RULES.replace("hierarchical: true\n", ""));
    assert_eq!(limits_of(&limiter, &user("acme", "red", "ann")), ["org/team/user (minute)"]);
}

#[test]
fn what_the_lower_denies_is_not_charged_to_the_upper() {
    let (limiter, _) = rules();
    for _ in 0..3 {
        assert!(limiter.check_now(&user("acme", "red", "ann")).allowed());
    }
    for _ in 0..3 {
        let denied = limiter.check_now(&user("acme", "red", "ann"));
        assert_eq!(denied.decided_by().map(|limit| limit.rule), Some("org/team/user"));
    }
    assert_eq!(left(&limiter, &Request::new("d", [("org", "acme")]).cost(0)), [2]);
}

#[test]
fn the_upper_is_shared_by_everybody_below() {
    let (limiter, _) = rules();
    for (team, name) in [("red", "ann"), ("red", "bob"), ("blue", "ann"), ("blue", "root")] {
        assert!(limiter.check_now(&user("acme", team, name)).allowed());
    }
    assert!(limiter.check_now(&Request::new("d", [("org", "acme"), ("team", "green")])).allowed());
    let denied = limiter.check_now(&user("acme", "red", "eve"));
    assert_eq!(denied.decided_by().map(|limit| limit.rule), Some("org"));
    assert_eq!(denied.limits().map(|limit| limit.remaining).collect::<Vec<_>>(), [0, 3]);
    assert!(limiter.check_now(&user("other", "red", "ann")).allowed());
}

#[test]
fn an_unlimited_rule_lifts_its_own_limit_and_not_those_above() {
    let (limiter, _) = rules();
    assert_eq!(limits_of(&limiter, &user("acme", "red", "root")), ["org (minute)"]);
}

#[test]
fn entries_that_match_nothing_do_not_lift_the_limits_before_them() {
    let (limiter, _) = rules();
    let strange = Request::new("d", [("org", "acme"), ("colour", "red"), ("user", "ann")]);
    assert_eq!(limits_of(&limiter, &strange), ["org (minute)"]);
    let longer = Request::new("d", [("org", "a"), ("team", "b"), ("user", "c"), ("x", "y")]);
    assert_eq!(limits_of(&limiter, &longer), ["org (minute)", "org/team/user (minute)"]);
    assert_eq!(limits_of(&limiter, &Request::new("d", [("team", "red")])), [""; 0]);
}

#[test]
fn two_descriptors_below_one_rule_charge_it_twice() {
    let (limiter, _) = rules();
    let both = user("acme", "red", "ann").and([("org", "acme"), ("team", "red"), ("user", "bob")]);
    let decision = limiter.check_now(&both);
    assert_eq!(
        decision.limits().map(|limit| (limit.descriptor, limit.remaining)).collect::<Vec<_>>(),
        [(0, 4), (0, 2), (1, 3), (1, 2)].map(|(descriptor, left)| (Some(descriptor), left))
    );
}
