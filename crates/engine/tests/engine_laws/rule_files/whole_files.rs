//! Files as people write them.

use std::time::Duration;

use tidegate::rules::file;
use tidegate::{Defaults, Domain, LimitChange, LimitSpec, Rule, TierLimit, per_day, per_hour, per_minute};
use tidegate_core::{Calendar, CalendarUnit, Window};

use super::{load, problems};

/// The example of the design.
pub(super) const DESIGN: &str = r#"
domain: api_platform
tenant: api_key              # which entry names the tenant (tiers, overrides, fairness, top lists)
hierarchical: true           # every limit on the matched path applies, not only the leaf's
descriptors:
  - key: api_key
    limits:
      - { name: steady, algorithm: token_bucket, requests: 100, per: minute, burst: 20 }
      - { name: daily,  algorithm: fixed_window, requests: 50000, per: day, calendar: Europe/Berlin }
    tiers:
      pro:        { steady: { requests: 1000, burst: 2000 } }
      enterprise: { steady: { requests: 10000, burst: 50000 }, daily: unlimited }
    concurrency: { max: 20, timeout: 60s }
    on_store_error: local    # allow | deny | local
    consistency: exact       # leased and synced come later; until built they are refused
    enforce_percent: 100     # staged roll-out; the rest is shadow
    descriptors:
      - key: endpoint
        value: "POST /api/v1/orders"
        rate_limit: { unit: minute, requests_per_unit: 20 }
"#;

fn steady(requests: u64, burst: u64) -> TierLimit {
    TierLimit::Change(LimitChange { requests: Some(requests), burst: Some(burst), ..LimitChange::default() })
}

#[test]
fn the_example_of_the_design_is_the_same_in_code() {
    let berlin = Window::Calendar(Calendar::new(CalendarUnit::Day, "Europe/Berlin").unwrap());
    let in_code = Domain::new("api_platform").tenant_key("api_key").hierarchical().rule(
        Rule::by("api_key")
            .limit(per_minute(100).named("steady").burst(20))
            .limit(LimitSpec::new(50_000, berlin).named("daily").fixed_window())
            .tier("pro", "steady", steady(1_000, 2_000))
            .tier("enterprise", "steady", steady(10_000, 50_000))
            .tier("enterprise", "daily", TierLimit::Unlimited)
            .concurrency(20, Duration::from_mins(1))
            .rule(Rule::by("endpoint").value("POST /api/v1/orders").limit(per_minute(20))),
    );
    assert_eq!(file::load("code", DESIGN, &Defaults::default()).unwrap(), in_code);
}

/// Every field that envoyproxy/ratelimit knows.
const ENVOY: &str = r"
# Edge limits.
domain: edge
descriptors:
  # Everybody, by address.
  - key: remote_address
    rate_limit:
      name: per_address
      unit: HOUR
      requests_per_unit: 1200
    detailed_metric: true
    metadata:
      owner: platform
      pages: true
      levels: [1, 2]

  # Partners are not limited, and are not held to the limit above either.
  - key: partner
    value: yes
    rate_limit:
      unlimited: true
      replaces:
        - name: per_address
        - name: per_path

  - key: path
    value: /files/*
    share_threshold: true
    value_to_metric: true
    shadow_mode: true
    rate_limit:
      name: per_path
      unit: day
      requests_per_unit: 4294967295
    descriptors:
      - key: method
        value: DELETE
        quota_mode: true
        rate_limit:
          unit: Minute
          requests_per_unit: 0
      - key: method
        value: GET
";

#[test]
fn a_file_of_envoy_ratelimit_loads_whole() {
    let loaded = file::load("code", ENVOY, &Defaults::envoy_ratelimit()).unwrap();
    let found = format!("{loaded:?}");
    let fragments = [
        r#"key: "remote_address", value: None, name: Some("per_address")"#,
        r#"detailed_metric: true, value_to_metric: false, share_threshold: false, metadata: {"owner": String("platform"), "pages": Bool(true), "levels": Array [Number(1), Number(2)]}"#,
        r#"key: "partner", value: Some("yes"), name: None, limits: [], unlimited: true, replaces: ["per_address", "per_path"]"#,
        r#"key: "path", value: Some("/files/*"), name: Some("per_path"), limits: [LimitSpec { name: Some("per_path"), requests: 4294967295, window: Period { us: 86400000000 }"#,
        "shadow_mode: true, quota_mode: false, detailed_metric: false, value_to_metric: true, share_threshold: true",
        r#"key: "method", value: Some("DELETE"), name: None, limits: [LimitSpec { name: None, requests: 0,"#,
        "shadow_mode: false, quota_mode: true",
    ];
    for fragment in fragments {
        assert!(found.contains(fragment), "{fragment}\n{found}");
    }
    let plain = Domain::new("edge").rule(Rule::by("a").limit(per_hour(1)).limit(per_day(2)));
    let text = "domain: edge\ndescriptors:\n- {key: a, rate_limit: {unit: hour, requests_per_unit: 1}, limits: [{requests: 2, per: day}]}";
    assert_eq!(file::load("code", text, &Defaults::envoy_ratelimit()).unwrap(), plain);
}

#[test]
fn defaults_decide_what_a_limit_without_an_algorithm_may_have() {
    let text =
        "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1, calendar: UTC}}";
    file::load("r.yaml", text, &Defaults::envoy_ratelimit()).unwrap();
    assert_eq!(
        problems(text),
        [
            "r.yaml:3:68: descriptors[0].rate_limit.calendar: calendar windows need algorithm fixed_window, got sliding_window: only its windows have a beginning"
        ]
    );
}

#[test]
fn ten_mistakes_are_ten_problems_in_the_order_of_the_file() {
    let text = r#"domain: ""
tenant: api_key
heirarchical: true
tenants:
  acme: gold
descriptors:
  - key: api_key
    limits:
      - { name: steady, algorithm: token_bukket, requests: 100, per: minute, burst: 20 }
      - { name: daily, requests: "50000", per: day }
      - { name: hourly, requests: 5, per: fortnight, burst: 3 }
    tiers:
      pro: { stead: { requests: 1000 } }
    on_store_error: panic
    enforce_percent: 200
"#;
    let found = problems(text);
    let places: Vec<&str> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    let expected = [
        "r.yaml:1:9",   // an empty domain
        "r.yaml:3:1",   // an unknown field
        "r.yaml:5:9",   // an unknown tier
        "r.yaml:9:36",  // an unknown algorithm
        "r.yaml:10:34", // a quoted number
        "r.yaml:11:43", // an unknown window
        "r.yaml:11:61", // a burst that the algorithm does not have
        "r.yaml:13:14", // a limit that the rule does not have
        "r.yaml:14:21", // an unknown policy
        "r.yaml:15:22", // more than all
    ];
    assert_eq!(places, expected, "{}", found.join("\n"));
}

#[test]
fn what_is_wrong_below_an_alias_is_told_where_it_is_written() {
    let text = "
domain: d
descriptors:
  - {key: a, rate_limit: &r {unit: dai, requests_per_unit: 1}}
  - {key: b, rate_limit: *r}
  - {key: c, rate_limit: {unit: &u day, requests_per_unit: *u}}
";
    let unit = "must be one of second, minute, hour, day, week, month, year, got \"dai\"; did you mean day?";
    assert_eq!(
        problems(text),
        [
            format!("r.yaml:4:36: descriptors[0].rate_limit.unit: {unit}"),
            format!("r.yaml:4:36: descriptors[1].rate_limit.unit: {unit}"),
            "r.yaml:6:60: descriptors[2].rate_limit.requests_per_unit: must be a whole number from 0 to 4294967295, got \"day\"".to_owned(),
        ]
    );
    assert!(load("domain: d").is_ok());
}
