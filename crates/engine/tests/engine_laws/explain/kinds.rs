//! Each way a request can be matched, as text.

use tidegate::{Limiter, Request, VirtualClock};

use super::expect;
use crate::support::limiter;

fn rules() -> (Limiter, VirtualClock) {
    limiter(
        "
domain: api
tenant: api_key
tenants: {acme: pro, big: enterprise}
descriptors:
  - key: api_key
    limits:
      - {name: steady, requests: 3, per: minute, algorithm: token_bucket}
      - {name: daily, requests: 100, per: day, algorithm: fixed_window}
    tiers:
      pro: {steady: {requests: 30}}
      enterprise: {steady: unlimited, daily: unlimited}
    descriptors:
      - {key: path, value: /health, rate_limit: {unlimited: true}}
      - {key: path, value: /admin}
      - {key: path, value: '/v*', shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: ip, enforce_percent: 0, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: export, concurrency: {max: 2, timeout: 60s}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}}
",
    )
}

fn key(key: &str) -> Request<'_> {
    Request::new("api", [("api_key", key)])
}

fn path(path: &str) -> Request<'_> {
    Request::new("api", [("api_key", "ann"), ("path", path)])
}

#[test]
fn a_request_that_passes() {
    let (limiter, _) = rules();
    expect(
        &limiter,
        &key("ann"),
        "
        allowed by api_key (steady), domain api
        descriptor 1: rule api_key is the last entry's
          api_key=ann  ->  rule api_key for any value
          tenant ann, tier none
          * api_key (steady): token_bucket, 3 per minute, burst 3; allows cost 1, 3 left before, 2 after
          - api_key (daily): fixed_window, 100 per day; allows cost 1, 100 left before, 99 after
        ",
    );
}

#[test]
fn a_request_that_is_denied() {
    let (limiter, _) = rules();
    limiter.check_now(&key("ann").cost(2));
    expect(
        &limiter,
        &key("ann").cost(2),
        "
        denied by api_key (steady), domain api
        descriptor 1: rule api_key is the last entry's
          api_key=ann  ->  rule api_key for any value
          tenant ann, tier none
          * api_key (steady): token_bucket, 3 per minute, burst 3; denies cost 2, 1 left before, 1 after, retry after 20.0s
          - api_key (daily): fixed_window, 100 per day; allows cost 2, 98 left before, 98 after
        ",
    );
    expect(
        &limiter,
        &key("ann").cost(4),
        "
        denied by api_key (steady), domain api
        descriptor 1: rule api_key is the last entry's
          api_key=ann  ->  rule api_key for any value
          tenant ann, tier none
          * api_key (steady): token_bucket, 3 per minute, burst 3; denies cost 4, 1 left before, 1 after, never fits
          - api_key (daily): fixed_window, 100 per day; allows cost 4, 98 left before, 98 after
        ",
    );
}

#[test]
fn a_tenant_on_a_tier() {
    let (limiter, _) = rules();
    expect(
        &limiter,
        &key("acme"),
        "
        allowed by api_key (steady), domain api
        descriptor 1: rule api_key is the last entry's
          api_key=acme  ->  rule api_key for any value
          tenant acme, tier pro
          * api_key (steady): token_bucket, 30 per minute, burst 30 (tier pro); allows cost 1, 30 left before, 29 after
          - api_key (daily): fixed_window, 100 per day; allows cost 1, 100 left before, 99 after
        ",
    );
    expect(
        &limiter,
        &key("big"),
        "
        allowed, domain api
        descriptor 1: rule api_key has no limits for tier enterprise
          api_key=big  ->  rule api_key for any value
          tenant big, tier enterprise
        ",
    );
}

#[test]
fn a_pattern_in_shadow_mode() {
    let (limiter, _) = rules();
    limiter.check_now(&path("/v1").cost(9));
    expect(
        &limiter,
        &path("/v1"),
        "
        allowed, domain api
        descriptor 1: rule api_key/path=/v* is the last entry's
          api_key=ann  ->  rule api_key for any value
          path=/v1  ->  rule api_key/path=/v* by a pattern
          tenant ann, tier none
          - api_key/path=/v* (hour): sliding_window, 9 per hour; denies cost 1, 0 left before, 0 after, retry after 3200.0s, not enforced: shadow_mode
        ",
    );
}

#[test]
fn a_key_outside_a_staged_roll_out() {
    let (limiter, _) = rules();
    expect(
        &limiter,
        &Request::new("api", [("ip", "::1")]),
        "
        allowed, domain api
        descriptor 1: rule ip is the last entry's
          ip=::1  ->  rule ip for any value
          - ip (minute): sliding_window, 1 per minute; allows cost 1, 1 left before, 0 after, not enforced: this key is outside enforce_percent: 0
        ",
    );
}

#[test]
fn a_quota() {
    let (limiter, _) = rules();
    expect(
        &limiter,
        &Request::new("api", [("quota", "")]),
        "
        allowed by quota (minute), domain api
        descriptor 1: rule quota is the last entry's
          quota=  ->  rule quota for any value
          * quota (minute): sliding_window, 5 per minute; allows cost 1, 5 left before, 4 after, not enforced: quota_mode: it denies only together with every other quota
        ",
    );
}

#[test]
fn rules_without_limits() {
    let (limiter, _) = rules();
    let of_path = |why: &str, value: &str, rule: &str| {
        format!(
            "allowed, domain api\ndescriptor 1: {why}\n  api_key=ann  ->  rule api_key for any value\n  \
             path={value}  ->  rule {rule} by this very value\n  tenant ann, tier none"
        )
    };
    let (health, admin) = ("api_key/path=/health", "api_key/path=/admin");
    expect(&limiter, &path("/health"), &of_path(&format!("rule {health} is unlimited"), "/health", health));
    expect(
        &limiter,
        &path("/admin"),
        &of_path(&format!("rule {admin} has no limits of its own"), "/admin", admin),
    );
    expect(
        &limiter,
        &Request::new("api", [("export", "x")]),
        "
        allowed, domain api
        descriptor 1: rule export limits holders only, which acquire takes
          export=x  ->  rule export for any value
        ",
    );
}

#[test]
fn entries_that_match_nothing() {
    let (limiter, _) = rules();
    expect(
        &limiter,
        &Request::new("api", [("api_key", "ann"), ("path", "/x"), ("more", "")])
            .and([("colour", "red")])
            .and([]),
        r#"
        allowed, domain api
        descriptor 1: not all entries matched a rule, so no limit applies
          api_key=ann  ->  rule api_key for any value
          path=/x  ->  nothing: no rule for this value of "path"
          more=  ->  not looked up: the entry before it matched nothing
          tenant ann, tier none
        descriptor 2: not all entries matched a rule, so no limit applies
          colour=red  ->  nothing: no rule for key "colour" here
          tenant ann, tier none
        descriptor 3: the descriptor has no entries
          tenant ann, tier none
        "#,
    );
}

#[test]
fn a_domain_that_is_not_known() {
    let (limiter, _) = rules();
    expect(
        &limiter,
        &Request::new("other", [("api_key", "ann")]),
        "
        allowed, domain other
        descriptor 1: the domain has no rules, so no limit applies
          api_key=ann  ->  nothing
        ",
    );
}

#[test]
fn several_descriptors() {
    let (limiter, _) = rules();
    limiter.check_now(&key("ann").cost(3));
    expect(
        &limiter,
        &Request::new("api", [("quota", "a")]).and([("api_key", "ann")]),
        "
        denied by api_key (steady), domain api
        descriptor 1: rule quota is the last entry's
          quota=a  ->  rule quota for any value
          tenant ann, tier none
          - quota (minute): sliding_window, 5 per minute; allows cost 1, 5 left before, 5 after, not enforced: quota_mode: it denies only together with every other quota
        descriptor 2: rule api_key is the last entry's
          api_key=ann  ->  rule api_key for any value
          tenant ann, tier none
          * api_key (steady): token_bucket, 3 per minute, burst 3; denies cost 1, 0 left before, 0 after, retry after 20.0s
          - api_key (daily): fixed_window, 100 per day; allows cost 1, 97 left before, 97 after
        ",
    );
}

#[test]
fn a_hierarchical_domain() {
    let (limiter, _) = limiter(
        "
domain: d
hierarchical: true
descriptors:
  - key: org
    rate_limit: {name: everybody, unit: minute, requests_per_unit: 5}
    descriptors:
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}
      - {key: user, value: root, rate_limit: {unlimited: true, replaces: [{name: everybody}]}}
",
    );
    expect(
        &limiter,
        &Request::new("d", [("org", "a"), ("user", "b")]),
        "
        allowed by org/user (minute), domain d
        descriptor 1: rule org/user is the last entry's, and the domain is hierarchical: rules on the way apply too
          org=a  ->  rule everybody for any value
          user=b  ->  rule org/user for any value
          - everybody (everybody): sliding_window, 5 per minute; allows cost 1, 5 left before, 4 after
          * org/user (minute): sliding_window, 3 per minute; allows cost 1, 3 left before, 2 after
        ",
    );
    expect(
        &limiter,
        &Request::new("d", [("org", "a"), ("team", "b")]),
        r#"
        allowed by everybody (everybody), domain d
        descriptor 1: not all entries matched, but the domain is hierarchical: rules on the way apply
          org=a  ->  rule everybody for any value
          team=b  ->  nothing: no rule for key "team" here
          * everybody (everybody): sliding_window, 5 per minute; allows cost 1, 5 left before, 4 after
        "#,
    );
    expect(
        &limiter,
        &Request::new("d", [("org", "a"), ("user", "root")]),
        "
        allowed, domain d
        descriptor 1: rule org/user=root is unlimited
          org=a  ->  rule everybody for any value
          user=root  ->  rule org/user=root by this very value
          replaced: everybody (everybody), by rule org/user=root
        ",
    );
}
