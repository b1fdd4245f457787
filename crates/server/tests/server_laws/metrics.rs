//! What the admin listener tells about decisions.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::grpc::{Client, descriptor, with_hits, with_limit};
use crate::support::service::{Service, Setup, get, post, send, service, until};
use crate::support::wall_time;

const RULES: &str = "
domain: api
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: job, concurrency: {max: 1, timeout: 60s}}
  - {key: route, quota_mode: true, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: app, value_to_metric: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: free, rate_limit: {unlimited: true}}
";

fn number(service: &Service, series: &str) -> u64 {
    let text = get(service.admin, "/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("no {series} in {text}"));
    value.trim().parse().unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn decisions(service: &Service, rule: &str, outcome: &str) -> u64 {
    let domain = if rule.is_empty() { "" } else { "api" };
    let labels = format!("{{domain=\"{domain}\",rule=\"{rule}\",outcome=\"{outcome}\"}}");
    number(service, &format!("ratelimit_decisions_total{labels}"))
}

#[test]
fn promtool_has_nothing_to_find_fault_with() {
    let service = service(RULES);
    Client::new(&service).check("api", &[descriptor(&[("route", "/a\"b\\\\c")])]);
    let text = get(service.admin, "/metrics");
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool of Debian's prometheus; `make test-tools` installs it");
    promtool.stdin.take().expect("it is piped").write_all(text.body.as_bytes()).expect("it reads");
    let found = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&found.stderr).into_owned() + &String::from_utf8_lossy(&found.stdout);
    assert!(found.status.success() && said.trim().is_empty(), "{said}\n{}", text.body);
}

#[test]
fn who_asks_for_openmetrics_gets_it() {
    let service = service(RULES);
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4";
    let text = send(
        service.admin,
        &format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\nconnection: close\r\n\r\n"),
    );
    let content_type = text.header("content-type");
    assert_eq!(content_type, Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(text.body.contains("# TYPE ratelimit_decisions counter\n"), "{}", text.body);
    assert!(text.body.ends_with("# EOF\n"), "{}", text.body);
}

#[test]
fn errors_are_requests_that_asked_for_a_decision_and_got_none() {
    let service = service(RULES);
    for path in ["/favicon.ico", "/v1/check", "/healthcheck"] {
        get(service.http, path);
    }
    post(service.http, "/v1/renew", "{}");
    assert_eq!(decisions(&service, "", "error"), 0, "nobody asked for a decision");
    post(service.http, "/v1/check", "{");
    post(service.http, "/v1/acquire", "{");
    post(service.http, "/json", "{");
    post(service.http, "/json", r#"{"domain":"","descriptors":[]}"#);
    assert_eq!(decisions(&service, "", "error"), 4);
    post(service.http, "/v1/check", r#"[{"domain":"api","descriptor":{"user":"ann"}},{},1]"#);
    assert_eq!(decisions(&service, "", "error"), 6, "each of a batch counts");
    let mut client = Client::new(&service);
    let empty = crate::support::clients::envoy::service::ratelimit::v3::RateLimitRequest::default();
    client.ask(empty).expect_err("no domain");
    assert_eq!(decisions(&service, "", "error"), 7);
    assert_eq!(decisions(&service, "user", "allowed"), 1);
}

#[test]
fn acquisitions_and_limits_that_requests_bring_are_decisions_and_peeks_are_not() {
    let service = service(RULES);
    for _ in 0..3 {
        post(service.http, "/v1/acquire", r#"{"domain":"api","descriptor":{"job":"1"}}"#);
    }
    assert_eq!((decisions(&service, "job", "allowed"), decisions(&service, "job", "denied")), (1, 2));
    let mut client = Client::new(&service);
    for _ in 0..2 {
        client.check("api", &[with_limit(&[("some", "thing")], 1, 4)]);
    }
    assert_eq!((decisions(&service, "inline", "allowed"), decisions(&service, "inline", "denied")), (1, 1));
    client.check("api", &[with_hits(&[("user", "ann")], 0)]);
    assert_eq!(decisions(&service, "user", "allowed"), 0);
}

#[test]
fn snapshots_are_dated_timed_and_their_failures_counted() {
    let service = Setup::rules(RULES).with("memory.snapshot_every", "200ms").start();
    let written_at_s = || number(&service, "ratelimit_snapshot_timestamp_seconds ");
    until("one is written", || written_at_s() > 0);
    let now_s = wall_time().as_second().cast_unsigned();
    assert!((now_s - 60..=now_s + 60).contains(&written_at_s()), "{} at {now_s}", written_at_s());
    let metrics = get(service.admin, "/metrics").body;
    let took = metrics.lines().find_map(|line| line.strip_prefix("ratelimit_snapshot_duration_seconds "));
    assert!(took.and_then(|took| took.parse::<f64>().ok()).is_some_and(|took| took >= 0.0), "{took:?}");
    assert_eq!(number(&service, "ratelimit_snapshot_failures_total "), 0);

    // One that is being written may be in the way of what is put in its way.
    let partial = service.file("data/counters.partial");
    until("something is in the way", || fs::create_dir(&partial).is_ok());
    until("that is counted", || number(&service, "ratelimit_snapshot_failures_total ") > 1);
    let stale = written_at_s();
    fs::remove_dir(&partial).expect("it was there");
    until("it goes on", || written_at_s() > stale);
}

#[test]
fn json_is_timed_as_http() {
    let service = service(RULES);
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    assert_eq!(post(service.http, "/json", body).status, 200);
    let count =
        |api: &str| number(&service, &format!("ratelimit_check_duration_seconds_count{{api=\"{api}\"}}"));
    assert_eq!((count("http"), count("grpc")), (1, 0));
}

#[test]
fn stats_and_rlconfig_have_the_lines_of_envoyproxy_ratelimit() {
    let service = Setup::rules(RULES).with("compat", "envoy-ratelimit").start();
    let mut client = Client::new(&service);
    client.check("api", &[descriptor(&[("route", "/a")]), descriptor(&[("app", "shop")])]);
    let stats = get(service.admin, "/stats").body;
    for line in [
        "ratelimit.service.rate_limit.api.route_/a.total_hits: 1",
        "ratelimit.service.rate_limit.api.app_shop.within_limit: 1",
        "ratelimit.service.rate_limit.api.user.total_hits: 0",
    ] {
        assert!(stats.lines().any(|found| found == line), "no {line} in {stats}");
    }
    let rules = get(service.admin, "/rlconfig").body;
    for start in [
        "api.user: unit=DAY requests_per_unit=10, shadow_mode: false, quota_mode: false",
        "api.route: unit=DAY requests_per_unit=10, shadow_mode: false, quota_mode: true",
        "api.app: unit=HOUR requests_per_unit=10, shadow_mode: true, quota_mode: false",
        "api.free: unlimited=true, shadow_mode: false, quota_mode: false",
    ] {
        assert!(rules.lines().any(|line| line.starts_with(start)), "no {start} in {rules}");
    }
}
