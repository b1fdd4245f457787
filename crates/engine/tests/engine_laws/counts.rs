//! What rules have done, counted for metrics.

use tidegate::{Counts, Limiter, Request, per_minute};

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
fn values_stand_in_the_path_as_envoyproxy_ratelimit_has_them_and_long_ones_are_cut() {
    let text = "
domain: d
descriptors:
  - {key: vtm, value_to_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: wild, value: a*, value_to_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: k
    value: x
    descriptors:
      - {key: det, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
";
    let (limiter, _) = limiter(text);
    ask(&limiter, &Request::new("d", [("vtm", "a")]));
    ask(&limiter, &Request::new("d", [("wild", "abc")]));
    ask(&limiter, &Request::new("d", [("k", "x"), ("det", "b.c")]));
    let long = "ä".repeat(10_000);
    ask(&limiter, &Request::new("d", [("vtm", &*long)]));
    let counts = limiter.counts();
    let mut paths: Vec<_> = counts.iter().filter(|count| count.value.is_some()).map(|c| &*c.path).collect();
    paths.sort_unstable();
    let long = format!("vtm_{}", "ä".repeat(128));
    assert_eq!(paths, ["k_x.det_b.c", "vtm_a", &long, "wild_abc"]);
}

#[test]
fn what_costs_nothing_is_not_counted() {
    let (limiter, _) =
        limiter("domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 1}}]");
    ask(&limiter, &by("ann").cost(0));
    assert_eq!(counts_of(&limiter, "k", None), Counts::default());
}

#[test]
fn limits_that_requests_bring_count_as_one_rule_of_the_domain() {
    let (limiter, _) = limiter("domain: d\ndescriptors: [{key: k}]");
    for (requests, user) in [(1, "ann"), (1, "ann"), (2, "bea")] {
        let limits = limiter.limit_override("d", per_minute(requests), ("k", "v")).expect("a limit");
        ask(&limiter, &by(user).limits(&limits.expect("a domain")));
    }
    let counts = counts_of(&limiter, "inline", None);
    assert_eq!((counts.allowed, counts.denied), (2, 1));
}

#[test]
fn acquisitions_are_counted() {
    let (limiter, _) = limiter("domain: d\ndescriptors: [{key: k, concurrency: {max: 1, timeout: 60s}}]");
    let first = limiter.acquire_now(&by("ann"));
    limiter.count_acquired(&by("ann"), &first);
    let second = limiter.acquire_now(&by("ann"));
    limiter.count_acquired(&by("ann"), &second);
    let counts = counts_of(&limiter, "k", None);
    assert_eq!((counts.allowed, counts.denied), (1, 1));
}

#[test]
fn values_of_rules_that_are_gone_make_room_for_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.yaml");
    let rules = |key: &str| {
        format!(
            "domain: d\ndescriptors: [{{key: {key}, value_to_metric: true, rate_limit: {{unit: day, requests_per_unit: 9}}}}]\n"
        )
    };
    std::fs::write(&file, rules("k")).expect("it is written");
    let limiter = Limiter::builder().rules(&file).watch(false).build().expect("valid rules");
    for number in 0..2_000 {
        ask(&limiter, &by(&number.to_string()));
    }
    std::fs::write(&file, rules("other_key")).expect("it is written");
    limiter.reload().expect("valid rules");
    ask(&limiter, &Request::new("d", [("other_key", "ann")]));
    assert_eq!(counts_of(&limiter, "other_key", Some("ann")).allowed, 1);
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
