//! What rules have done, counted for metrics.

use tidegate::{Counts, Limiter, Request};

use crate::support::{by, limiter};

fn ask(limiter: &Limiter, request: &Request<'_>) {
    limiter.check_now(request).count(request);
}

fn counts_of(limiter: &Limiter, rule: &str, value: Option<&str>) -> Counts {
    let counts = limiter.counts();
    let found = counts.iter().find(|count| count.rule == rule && count.value.as_deref() == value);
    found.unwrap_or_else(|| panic!("no {rule} {value:?} in {counts:?}")).counts
}

#[test]
fn outcomes_and_hits_are_counted_by_rule() {
    let text = "
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
";
    let (limiter, _) = limiter(text);
    for _ in 0..3 {
        ask(&limiter, &by("ann").cost(4));
    }
    let expected =
        Counts { allowed: 2, denied: 1, total_hits: 12, within_limit: 8, over_limit: 4, ..Counts::default() };
    assert_eq!(counts_of(&limiter, "k", None), expected);
    ask(&limiter, &by("ann").cost(2));
    assert_eq!(counts_of(&limiter, "k", None).near_limit, 2, "the ninth and tenth hit are above 80 %");
    for _ in 0..2 {
        ask(&limiter, &Request::new("d", [("s", "x")]));
    }
    let shadow = counts_of(&limiter, "s", None);
    assert_eq!((shadow.allowed, shadow.denied, shadow.shadow_denied, shadow.shadow_mode), (1, 0, 1, 1));
}

#[test]
fn values_are_told_apart_where_a_rule_asks_and_bounded() {
    let text = "
domain: d
descriptors:
  - key: k
    value_to_metric: true
    rate_limit: {unit: minute, requests_per_unit: 10}
    descriptors:
      - {key: l, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
";
    let (limiter, _) = limiter(text);
    ask(&limiter, &by("ann"));
    ask(&limiter, &Request::new("d", [("k", "ann"), ("l", "x")]));
    assert_eq!(counts_of(&limiter, "k", Some("ann")).allowed, 1);
    assert_eq!(counts_of(&limiter, "k/l", Some("k=ann/l=x")).allowed, 1);
    for number in 0..2_000 {
        ask(&limiter, &by(&number.to_string()));
    }
    let series = limiter.counts().iter().filter(|count| count.value.is_some()).count();
    assert!(series <= tidegate::counts::MAX_VALUES + 1, "{series} series");
    assert!(counts_of(&limiter, "k", Some("other")).allowed > 1_000);
    assert_eq!(counts_of(&limiter, "k", None).allowed, 2_001);
}

#[test]
fn counts_go_on_over_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.yaml");
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 10}}]\n";
    std::fs::write(&file, rules).expect("it is written");
    let limiter = Limiter::builder().rules(&file).watch(false).build().expect("valid rules");
    ask(&limiter, &by("ann"));
    std::fs::write(&file, rules.replace("10", "20")).expect("it is written");
    limiter.reload().expect("valid rules");
    ask(&limiter, &by("ann"));
    assert_eq!(counts_of(&limiter, "k", None).allowed, 2);
    assert_eq!(limiter.counts()[0].path, "k");
}
