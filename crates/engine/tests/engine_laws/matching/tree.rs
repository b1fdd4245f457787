//! Entry by entry down the tree, greedily; the last entry's node decides.

use tidegate::Request;

use super::expect_rules;
use crate::support::{limiter, limits_of};

const NESTED: &str = "
domain: d
descriptors:
  - key: a
    value: '1'
    descriptors:
      - {key: b, value: x, rate_limit: {unit: minute, requests_per_unit: 9}}
  - key: a
    value: 2*
    rate_limit: {unit: minute, requests_per_unit: 9}
    descriptors:
      - key: b
        descriptors:
          - {key: c, value: z, rate_limit: {unit: minute, requests_per_unit: 9}}
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 9}
    descriptors:
      - {key: b, rate_limit: {unit: minute, requests_per_unit: 9}}
";

#[test]
fn the_limit_of_the_last_entry_applies() {
    let (limiter, _) = limiter(NESTED);
    expect_rules(
        &limiter,
        &[
            (&[("a", "3")], "a"),
            (&[("a", "3"), ("b", "y")], "a/b"),
            (&[("a", "1"), ("b", "x")], "a=1/b=x"),
            (&[("a", "20")], "a=2*"),
            (&[("a", "20"), ("b", "y"), ("c", "z")], "a=2*/b/c=z"),
        ],
    );
}

#[test]
fn a_better_match_is_not_left_for_one_that_leads_further() {
    let (limiter, _) = limiter(NESTED);
    expect_rules(
        &limiter,
        &[
            // `a` alone has a rule for any `b`, but `a=1` has been taken.
            (&[("a", "1"), ("b", "y")], ""),
            (&[("a", "20"), ("b", "y"), ("c", "y")], ""),
        ],
    );
}

#[test]
fn a_matched_node_without_a_limit_lets_the_request_pass() {
    let (limiter, _) = limiter(NESTED);
    expect_rules(
        &limiter,
        &[
            // Not the limit of `a` alone, nor that of the node above.
            (&[("a", "1")], ""),
            (&[("a", "20"), ("b", "y")], ""),
        ],
    );
    let decision = limiter.check_now(&Request::new("d", [("a", "1")]));
    assert!(decision.allowed());
    assert_eq!(decision.remaining(), None);
    assert_eq!(limiter.stats().keys, 0);
}

#[test]
fn more_entries_than_the_tree_is_deep_have_no_limit() {
    let (limiter, _) = limiter(NESTED);
    expect_rules(
        &limiter,
        &[
            (&[("a", "3"), ("b", "y"), ("c", "z")], ""),
            (&[("a", "1"), ("b", "x"), ("b", "x")], ""),
            (&[("a", "20"), ("b", "y"), ("c", "z"), ("d", "")], ""),
        ],
    );
}

#[test]
fn entries_match_in_their_order() {
    let (limiter, _) = limiter(NESTED);
    expect_rules(&limiter, &[(&[("b", "x"), ("a", "1")], ""), (&[("b", "x")], ""), (&[], "")]);
}

#[test]
fn no_rule_applies_in_a_domain_that_is_not_known() {
    let (limiter, _) = limiter(NESTED);
    for name in ["", "D", "dd", "other"] {
        let request = Request::new(name, [("a", "3")]);
        assert_eq!(limits_of(&limiter, &request), [""; 0], "{name:?}");
        assert!(limiter.check_now(&request).allowed());
    }
}

#[test]
fn each_domain_has_its_own_rules_and_counters() {
    let rules = |name: &str| {
        let text = "descriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 1}}]";
        crate::support::domain(&format!("domain: {name}\n{text}"))
    };
    let limiter =
        tidegate::Limiter::builder().domain(rules("one")).domain(rules("two")).build().expect("good rules");
    assert!(limiter.check_now(&Request::new("one", [("k", "v")])).allowed());
    assert!(!limiter.check_now(&Request::new("one", [("k", "v")])).allowed());
    assert!(limiter.check_now(&Request::new("two", [("k", "v")])).allowed());
    assert!(limiter.check_now(&Request::new("three", [("k", "v")])).decided_by().is_none());
}
