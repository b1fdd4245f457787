//! What each rule did in one decision, and which limits it brought near their end.

use tidegate::{Request, RuleResult};

use crate::support::{by, limiter};

const RULES: &str = "
domain: d
tenant: k
hierarchical: true
descriptors:
  - key: k
    limits:
      - {name: few, requests: 2, per: 365d, algorithm: fixed_window}
      - {name: many, requests: 100, per: 365d, algorithm: fixed_window}
    descriptors:
      - {key: p, shadow_mode: true, hide_keys: true, rate_limit: {unit: year, requests_per_unit: 1}}
";

#[test]
fn every_rule_of_a_decision_has_its_outcome_and_its_key() {
    let (limiter, _) = limiter(RULES);
    let request = Request::new("d", [("k", "ann"), ("p", "/x")]);
    let outcomes = |request: &Request<'_>| {
        let decision = limiter.check_now(request);
        let of = |outcome: tidegate::RuleOutcome<'_>| {
            (outcome.rule.to_owned(), outcome.entries.len(), outcome.result, outcome.limit.name.to_owned())
        };
        decision.outcomes(request).map(of).collect::<Vec<_>>()
    };
    let first = outcomes(&request);
    assert_eq!(first[0], ("k".to_owned(), 1, RuleResult::Allowed, "few".to_owned()));
    assert_eq!(first[1].2, RuleResult::Allowed);
    let second = outcomes(&request);
    assert_eq!(second[1], ("k/p".to_owned(), 2, RuleResult::ShadowDenied, "year".to_owned()));
    let third = outcomes(&request);
    assert_eq!(third[0].2, RuleResult::Denied);
    let decision = limiter.check_now(&request);
    let all: Vec<_> = decision.outcomes(&request).collect();
    assert!(all.iter().all(|outcome| outcome.tenant == Some("ann")));
    assert_eq!(all.iter().map(|outcome| outcome.hide_keys).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_limit_crosses_each_percentage_once_on_its_way_up() {
    let text = "
domain: d
descriptors:
  - {key: k, warn_at: [100, 80], limits: [{name: n, requests: 10, per: 365d, algorithm: fixed_window}]}
";
    let (limiter, _) = limiter(text);
    let mut crossed = Vec::new();
    for number in 1..=12 {
        let request = by("ann");
        let decision = limiter.check_now(&request);
        let crossings = decision.crossings(&request);
        assert_eq!(decision.count(&request), !crossings.is_empty());
        crossed.extend(crossings.iter().map(|crossing| (number, crossing.percent)));
    }
    assert_eq!(crossed, [(8, 80), (10, 100)]);
    let request = by("bob").cost(10);
    let decision = limiter.check_now(&request);
    let at_once: Vec<u8> = decision.crossings(&request).iter().map(|crossing| crossing.percent).collect();
    assert_eq!(at_once, [80, 100], "one request may cross several");
}
