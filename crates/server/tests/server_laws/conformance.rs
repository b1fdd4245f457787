//! Envoy's protocol over the real binary, as envoyproxy/ratelimit answers it. The same rules over HTTP are in
//! [`crate::http::conformance`].

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use tonic::Code as GrpcCode;

use crate::support::clients::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::support::clients::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::support::clients::envoy::service::ratelimit::v3::rate_limit_response::{Code, RateLimit};
use crate::support::clients::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::support::grpc::{Client, descriptor, only, with_hits, with_limit};
use crate::support::service::{Service, Setup, get, post, service};

pub(crate) const RULES: &str = "
domain: api
descriptors:
  - {key: user, rate_limit: {name: per_user, unit: minute, requests_per_unit: 20}}
  - {key: user, value: vip, rate_limit: {unlimited: true}}
  - {key: hourly, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: quota_a, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: quota_b, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: path, value: /api/*, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: shared, value: a*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: big, limits: [{requests: 5000000000, per: day}]}
  - {key: odd, limits: [{name: burst, algorithm: token_bucket, requests: 10, per: 90s, burst: 3}]}
  - {key: tight, limits: [{name: a, requests: 9, per: day}, {name: b, requests: 4, per: day}]}
  - key: outer
    descriptors:
      - {key: inner, rate_limit: {unit: week, requests_per_unit: 5}}
";

fn api() -> (Service, Client) {
    let service = service(RULES);
    let client = Client::new(&service);
    (service, client)
}

fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response.statuses.iter().map(super::support::clients::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus::code).collect()
}

fn request(descriptors: &[RateLimitDescriptor], hits_addend: u32) -> RateLimitRequest {
    RateLimitRequest { domain: "api".to_owned(), descriptors: descriptors.to_vec(), hits_addend }
}

#[test]
fn of_25_calls_on_20_a_minute_20_pass() {
    let (_service, mut client) = api();
    let answers: Vec<_> = (0..25).map(|_| client.check_one("api", "user", "ann")).collect();
    for (index, answer) in answers.iter().enumerate() {
        let expected = if index < 20 { Code::Ok } else { Code::OverLimit };
        assert_eq!((answer.overall_code(), codes(answer)), (expected, vec![expected]), "call {}", index + 1);
        let status = only(answer);
        let limit =
            RateLimit { requests_per_unit: 20, unit: Unit::Minute.into(), name: "per_user".to_owned() };
        assert_eq!(status.current_limit, Some(limit));
        assert_eq!(status.limit_remaining, 19_u32.saturating_sub(index as u32));
        let reset = status.duration_until_reset.expect("a limit has a reset");
        assert!((1..=120).contains(&reset.seconds) && reset.nanos == 0, "{reset:?}");
    }
    assert_eq!(client.passes("api", "user", "bob", 25), 20, "another key has its own counter");
}

#[test]
fn two_limits_together_are_charged_all_or_none() {
    let (_service, mut client) = api();
    let both = [descriptor(&[("user", "ann")]), descriptor(&[("hourly", "ann")])];
    for call in 1..=12 {
        let answer = client.check("api", &both);
        let hourly = if call <= 10 { Code::Ok } else { Code::OverLimit };
        assert_eq!((answer.overall_code(), codes(&answer)), (hourly, vec![Code::Ok, hourly]), "call {call}");
    }
    let left = only(&client.check("api", &[with_hits(&[("user", "ann")], 0)])).limit_remaining;
    assert_eq!(left, 10, "what the other limit denied was not charged here");
}

#[test]
fn no_match_unknown_domain_and_deeper_descriptors_have_no_limit() {
    let (_service, mut client) = api();
    for (domain, entries) in [
        ("nowhere", &[("user", "ann")][..]),
        ("api", &[("unknown", "ann")]),
        ("api", &[("outer", "x")]),
        ("api", &[("user", "ann"), ("more", "x")]),
        ("api", &[("path", "/other")]),
    ] {
        let answer = client.check(domain, &[descriptor(entries)]);
        assert_eq!((answer.overall_code(), codes(&answer)), (Code::Ok, vec![Code::Ok]), "{entries:?}");
        let status = only(&answer);
        assert!(status.current_limit.is_none() && status.duration_until_reset.is_none(), "{entries:?}");
        assert_eq!(status.limit_remaining, 0);
        assert!(answer.dynamic_metadata.is_none());
    }
}

#[test]
fn unlimited_has_everything_left_and_no_limit() {
    let (_service, mut client) = api();
    let answer = client.check_one("api", "user", "vip");
    assert_eq!(answer.overall_code(), Code::Ok);
    assert_eq!((only(&answer).limit_remaining, &only(&answer).current_limit), (u32::MAX, &None));
}

#[test]
fn nested_descriptors_and_units_are_told() {
    let (_service, mut client) = api();
    let answer = client.check("api", &[descriptor(&[("outer", "x"), ("inner", "y")])]);
    let limit = only(&answer).current_limit.clone().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit(), &*limit.name), (5, Unit::Week, ""));
    let odd = only(&client.check_one("api", "odd", "x")).clone();
    let limit = odd.current_limit.expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit(), &*limit.name), (10, Unit::Unknown, "burst"));
    assert_eq!(odd.limit_remaining, 2);
    let big = only(&client.check_one("api", "big", "x")).clone();
    assert_eq!(big.current_limit.expect("a limit").requests_per_unit, u32::MAX);
    assert_eq!(big.limit_remaining, u32::MAX);
}

#[test]
fn a_descriptor_shows_its_most_restrictive_limit() {
    let (_service, mut client) = api();
    let status = only(&client.check_one("api", "tight", "x")).clone();
    assert_eq!((status.limit_remaining, &*status.current_limit.expect("a limit").name), (3, "b"));
}

#[test]
fn hits_of_the_descriptor_win_over_those_of_the_request_and_0_peeks() {
    let (_service, mut client) = api();
    let entries = &[("user", "ann")][..];
    let mut left = |descriptor, hits| {
        only(&client.ask(request(&[descriptor], hits)).expect("an answer")).limit_remaining
    };
    assert_eq!(left(descriptor(entries), 0), 19, "0 in the request counts as 1");
    assert_eq!(left(descriptor(entries), 5), 14);
    assert_eq!(left(with_hits(entries, 4), 9), 10);
    assert_eq!(left(with_hits(entries, 0), 9), 10, "0 in the descriptor peeks");
    assert_eq!(left(with_hits(entries, 11), 0), 10, "too many at once take nothing");
    assert_eq!(left(with_hits(entries, 10), 0), 0);
}

#[test]
fn negative_hits_are_given_back_and_never_above_full() {
    let (_service, mut client) = api();
    let entries = &[("user", "ann")][..];
    let back = |hits| RateLimitDescriptor { is_negative_hits: true, ..with_hits(entries, hits) };
    client.check("api", &[with_hits(entries, 12)]);
    let answer = client.check("api", &[back(5)]);
    assert_eq!((answer.overall_code(), only(&answer).limit_remaining), (Code::Ok, 13));
    assert_eq!(only(&client.check("api", &[back(1000)])).limit_remaining, 20);
    let mixed = client.check("api", &[with_hits(entries, 20), back(3), descriptor(&[("hourly", "x")])]);
    assert_eq!(mixed.statuses[2].limit_remaining, 9);
    assert_eq!(codes(&mixed), [Code::Ok; 3]);
}

#[test]
fn a_request_brings_its_own_limit() {
    let (_service, mut client) = api();
    let (minute, hour) = (2, 3);
    let asked = with_limit(&[("anything", "x")], 2, minute);
    let answers: Vec<_> = (0..3).map(|_| client.check("api", std::slice::from_ref(&asked))).collect();
    let passed: Vec<_> = answers.iter().map(RateLimitResponse::overall_code).collect();
    assert_eq!(passed, [Code::Ok, Code::Ok, Code::OverLimit]);
    let limit = only(&answers[0]).current_limit.clone().expect("a limit");
    assert_eq!((limit.requests_per_unit, limit.unit()), (2, Unit::Minute));
    let over_rule = client.check("api", &[with_limit(&[("user", "ann")], 1000, hour)]);
    assert_eq!(only(&over_rule).limit_remaining, 999, "it stands in for the rule");
    let elsewhere = client.check("nowhere", &[asked]);
    assert!(only(&elsewhere).current_limit.is_none(), "the domain must exist");
}

#[test]
fn an_override_without_a_unit_is_refused() {
    let (_service, mut client) = api();
    for unit in [0, 8, -1] {
        let refused =
            client.ask(request(&[with_limit(&[("user", "ann")], 5, unit)], 0)).expect_err("refused");
        assert_eq!(refused.code(), GrpcCode::InvalidArgument);
        assert!(refused.message().contains("limit.unit must be SECOND, MINUTE"), "{refused}");
    }
}

#[test]
fn shadow_counts_and_passes() {
    let (_service, mut client) = api();
    for call in 0..3 {
        let answer = client.check_one("api", "shadow", "x");
        assert_eq!((answer.overall_code(), codes(&answer)), (Code::Ok, vec![Code::Ok]), "call {call}");
        assert!(only(&answer).current_limit.is_some());
        assert_eq!(only(&answer).limit_remaining, 0);
    }
}

#[test]
fn quotas_deny_only_together() {
    let (_service, mut client) = api();
    let both = [descriptor(&[("quota_a", "x")]), descriptor(&[("quota_b", "x")])];
    let overall: Vec<_> = (0..4).map(|_| client.check("api", &both).overall_code()).collect();
    assert_eq!(overall, [Code::Ok, Code::Ok, Code::OverLimit, Code::OverLimit]);
}

#[test]
fn wildcards_count_apart_unless_they_share() {
    let (_service, mut client) = api();
    assert_eq!(client.passes("api", "path", "/api/a", 4), 2);
    assert_eq!(client.passes("api", "path", "/api/b", 4), 2);
    assert_eq!(client.passes("api", "shared", "ab", 2), 2);
    assert_eq!(client.passes("api", "shared", "ac", 4), 1);
}

#[test]
fn the_deciding_rule_is_named_in_the_metadata() {
    let (_service, mut client) = api();
    let answer = client.check("api", &[descriptor(&[("user", "ann")]), descriptor(&[("hourly", "ann")])]);
    let metadata = answer.dynamic_metadata.expect("a limit decided").fields;
    let text = |name: &str| match metadata[name].kind.clone() {
        Some(Kind::StringValue(text)) => text,
        other => panic!("{name} is {other:?}"),
    };
    assert_eq!(
        (text("rule"), text("limit"), text("source")),
        ("hourly".into(), "hour".into(), "memory".into())
    );
}

#[test]
fn the_metadata_of_the_deciding_rule_comes_along() {
    let rules = "
domain: api
descriptors:
  - key: user
    metadata:
      owner: payments
      since: 2026
      share: 0.5
      urgent: true
      nothing: null
      pages: [\"https://example.org/runbooks/42\", {deep: {}}, []]
    rate_limit: {unit: day, requests_per_unit: 5}
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 1}}
";
    let service = service(rules);
    let mut client = Client::new(&service);
    let of_rule = |answer: RateLimitResponse| answer.dynamic_metadata.expect("a limit decided");
    let alone = of_rule(client.check_one("api", "user", "ann"));
    assert_eq!(alone.fields.len(), 4, "beside rule, limit and source: {alone:?}");
    let text = |text: &str| Kind::StringValue(text.to_owned());
    let structure = |fields: Vec<(&str, Kind)>| {
        let field = |(name, kind): (&str, Kind)| (name.to_owned(), Value { kind: Some(kind) });
        Kind::StructValue(Struct { fields: fields.into_iter().map(field).collect() })
    };
    let list = |kinds: Vec<Kind>| {
        let values = kinds.into_iter().map(|kind| Value { kind: Some(kind) }).collect();
        Kind::ListValue(ListValue { values })
    };
    let deep = structure(vec![("deep", structure(vec![]))]);
    let expected = structure(vec![
        ("owner", text("payments")),
        ("since", Kind::NumberValue(2026.0)),
        ("share", Kind::NumberValue(0.5)),
        ("urgent", Kind::BoolValue(true)),
        ("nothing", Kind::NullValue(0)),
        ("pages", list(vec![text("https://example.org/runbooks/42"), deep, list(vec![])])),
    ]);
    assert_eq!(alone.fields["metadata"].kind, Some(expected));
    let both = [descriptor(&[("user", "ann")]), descriptor(&[("plain", "ann")])];
    let other = of_rule(client.check("api", &both));
    assert_eq!(other.fields["rule"].kind, Some(text("plain")));
    assert!(!other.fields.contains_key("metadata"), "another rule decided, which has none: {other:?}");
    let json = post(
        service.http,
        "/json",
        r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}"#,
    );
    assert_eq!(json.json()["dynamicMetadata"]["metadata"]["owner"], "payments");
}

#[test]
fn its_three_errors() {
    let (_service, mut client) = api();
    let empty =
        client.ask(RateLimitRequest { domain: String::new(), ..request(&[descriptor(&[("a", "b")])], 0) });
    let empty = empty.expect_err("refused");
    assert_eq!(
        (empty.code(), empty.message()),
        (GrpcCode::InvalidArgument, "rate limit domain must not be empty")
    );
    let none = client.ask(request(&[], 0)).expect_err("refused");
    let message = "rate limit descriptor list must not be empty";
    assert_eq!((none.code(), none.message()), (GrpcCode::InvalidArgument, message));
    let bare = Setup::rules(RULES);
    std::fs::remove_file(bare.path().join("rules/rules.yaml")).expect("it was there");
    let bare = bare.start();
    let unloaded = Client::new(&bare).ask(request(&[descriptor(&[("a", "b")])], 0)).expect_err("refused");
    assert_eq!(unloaded.message(), "no rate limit configuration loaded");
}

#[test]
fn headers_come_along_where_they_are_wanted() {
    let service = Setup::rules(RULES).with("headers.rls", "true").with("headers.draft06", "true").start();
    let mut client = Client::new(&service);
    client.check("api", &[with_hits(&[("user", "ann")], 20)]);
    let headers: Vec<_> = client.check_one("api", "user", "ann").response_headers_to_add;
    let value =
        |name: &str| headers.iter().find(|header| header.key == name).map(|header| header.value.as_str());
    assert_eq!(value("ratelimit-limit"), Some("20"));
    assert_eq!(value("ratelimit-remaining"), Some("0"));
    assert!(value("ratelimit-policy").is_some_and(|policy| policy.contains(";q=20;w=60")), "{headers:?}");
    assert!(value("retry-after").is_some());
}

#[test]
fn compat_counts_as_envoyproxy_ratelimit_does() {
    let rules = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 4}}]
";
    let service = Setup::rules(rules).with("compat", "envoy-ratelimit").start();
    let mut client = Client::new(&service);
    assert_eq!(only(&client.check("api", &[with_hits(&[("user", "ann")], 3)])).limit_remaining, 1);
    assert_eq!(only(&client.check("api", &[with_hits(&[("user", "ann")], 3)])).limit_remaining, 0);
    assert_eq!(client.passes("api", "user", "ann", 1), 0, "the denied hits have counted");
    let config = get(service.admin, "/rlconfig").body;
    assert!(
        config
            .contains("api.user: unit=DAY requests_per_unit=4, shadow_mode: false, quota_mode: false, algorithm: fixed_window")
    );
}

#[test]
fn the_reset_ticks_down() {
    let rules = "
domain: api
descriptors: [{key: user, limits: [{algorithm: fixed_window, requests: 100, per: 20s}]}]
";
    let service = service(rules);
    let mut client = Client::new(&service);
    let mut seen = Vec::new();
    crate::support::service::until("the reset has ticked down thrice", || {
        let reset =
            only(&client.check_one("api", "user", "ann")).duration_until_reset.expect("a reset").seconds;
        if seen.last() != Some(&reset) {
            seen.push(reset);
        }
        seen.len() > 3
    });
    let steps: Vec<_> = seen.windows(2).map(|pair| pair[0] - pair[1]).collect();
    assert!(steps.iter().all(|step| *step == 1 || *step == -19), "one second at a time, then anew: {seen:?}");
}

#[test]
fn a_reload_adds_and_removes_rules_and_keeps_counters() {
    let (service, mut client) = api();
    client.check("api", &[with_hits(&[("user", "ann")], 15)]);
    service.change_rules(
        &RULES.replace("key: hourly", "key: fresh").replace("requests_per_unit: 20", "requests_per_unit: 16"),
    );
    assert!(only(&client.check_one("api", "hourly", "x")).current_limit.is_none(), "it is gone");
    assert_eq!(client.passes("api", "fresh", "x", 12), 10, "it is there");
    assert_eq!(client.passes("api", "user", "ann", 5), 1, "15 of now 16 are taken");
    std::fs::write(service.file("rules/rules.yaml"), "domain: [").expect("it is written");
    crate::support::service::until("the bad file is refused", || {
        get(service.http, "/readyz").json()["rules"]["refused"].is_array()
    });
    assert_eq!(client.passes("api", "fresh", "y", 12), 10, "the last good rules stay");
}
