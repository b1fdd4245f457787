//! Which requests share a counter.

use tidegate::Request;

use crate::support::{limiter, passes};

/// How many of each request pass, one after the other, under limits of 2.
fn passed(text: &str, requests: &[&[(&str, &str)]]) -> Vec<usize> {
    let (limiter, _) = limiter(text);
    requests.iter().map(|entries| passes(&limiter, &Request::new("d", entries), 5)).collect()
}

#[test]
fn each_value_has_its_own_counter() {
    let text = "
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 2}}
";
    assert_eq!(passed(text, &[&[("k", "a")], &[("k", "b")], &[("k", "")], &[("k", "a")]]), [2, 2, 2, 0]);
}

#[test]
fn values_of_a_wildcard_share_a_counter_only_if_the_rule_says_so() {
    let rules = |more: &str| {
        format!(
            "domain: d\ndescriptors: [{{key: k, value: a*, rate_limit: {{unit: minute, requests_per_unit: 2}}{more}}}]"
        )
    };
    let requests: [&[(&str, &str)]; 3] = [&[("k", "a1")], &[("k", "a2")], &[("k", "a1")]];
    assert_eq!(passed(&rules(""), &requests), [2, 2, 0]);
    assert_eq!(passed(&rules(", share_threshold: false"), &requests), [2, 2, 0]);
    assert_eq!(passed(&rules(", share_threshold: true"), &requests), [2, 0, 0]);
}

#[test]
fn a_shared_wildcard_is_shared_by_the_rules_below_it_too() {
    let text = "
domain: d
descriptors:
  - key: k
    value: a*
    share_threshold: true
    descriptors:
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}
";
    let requests: [&[(&str, &str)]; 3] =
        [&[("k", "a1"), ("user", "ann")], &[("k", "a2"), ("user", "ann")], &[("k", "a2"), ("user", "bob")]];
    assert_eq!(passed(text, &requests), [2, 0, 2]);
}

#[test]
fn values_on_the_way_tell_counters_apart() {
    let text = "
domain: d
descriptors:
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 2}}
";
    let requests: [&[(&str, &str)]; 5] = [
        &[("a", "1"), ("b", "1")],
        &[("a", "2"), ("b", "1")],
        &[("a", "1"), ("b", "2")],
        &[("a", "12"), ("b", "")],
        &[("a", "1"), ("b", "1")],
    ];
    assert_eq!(passed(text, &requests), [2, 2, 2, 2, 0]);
}

#[test]
fn texts_do_not_run_together() {
    let text = "
domain: d
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: a_b, value: c, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: a_b_c, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: x
    descriptors: [{key: y, rate_limit: {unit: minute, requests_per_unit: 2}}]
  - {key: x_y, rate_limit: {unit: minute, requests_per_unit: 2}}
";
    let requests: [&[(&str, &str)]; 7] = [
        &[("a", "b_c")],
        &[("a_b", "c")],
        &[("a_b_c", "")],
        &[("x", "1"), ("y", "23")],
        &[("x", "12"), ("y", "3")],
        &[("x_y", "123")],
        &[("x_y", "1_23")],
    ];
    assert_eq!(passed(text, &requests), [2; 7]);
}

#[test]
fn a_value_that_looks_like_a_pattern_is_just_a_value_of_it() {
    let text = "
domain: d
descriptors:
  - {key: k, value: '*', rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: l, rate_limit: {unit: minute, requests_per_unit: 2}}
";
    let requests: [&[(&str, &str)]; 4] = [&[("k", "*")], &[("k", "a")], &[("l", "*")], &[("l", "any")]];
    assert_eq!(passed(text, &requests), [2; 4]);
}

#[test]
fn limits_of_one_rule_have_their_own_counters() {
    let text = "
domain: d
descriptors:
  - key: k
    limits:
      - {requests: 3, per: minute}
      - {requests: 5, per: hour}
      - {name: other, requests: 4, per: hour}
";
    let (limiter, clock) = limiter(text);
    assert_eq!(passes(&limiter, &Request::new("d", [("k", "v")]), 9), 3);
    clock.advance_us(120_000_000);
    // One is left of `other`, two of `hour`.
    assert_eq!(passes(&limiter, &Request::new("d", [("k", "v")]), 9), 1);
}
