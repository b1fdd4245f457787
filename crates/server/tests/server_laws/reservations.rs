//! Reservations over gRPC, beside those over HTTP, and on nodes that share a store.

use serde_json::{Value, json};
use tidegate_testkit::redis::RedisServer;
use tonic::{Code, Status};

use crate::support::clients::tidegate::v1::reservations_client::ReservationsClient;
use crate::support::clients::tidegate::v1::{
    Entry, EstimatedDescriptor, InlineLimit, LimitStatus, ReserveRequest, ReserveResponse, SettleRequest,
    SettleResponse,
};
use crate::support::grpc::Client;
use crate::support::service::{Service, Setup, get, post, service};

const RULES: &str = "
domain: llm
descriptors:
  - {key: team, limits: [{name: tokens, requests: 1000, per: day}]}
  - {key: calls, limits: [{requests: 5, per: day}]}
";

fn estimate(team: &str, cost: u64) -> ReserveRequest {
    let entries = vec![Entry { key: "team".to_owned(), value: team.to_owned() }];
    let descriptors = vec![EstimatedDescriptor { entries, cost: None, limits: Vec::new() }];
    ReserveRequest { domain: "llm".to_owned(), descriptors, cost: Some(cost), ttl_ms: None }
}

fn reserve(client: &Client, request: ReserveRequest) -> Result<ReserveResponse, Status> {
    let reserved = client.block_on(ReservationsClient::new(client.channel.clone()).reserve(request));
    reserved.map(tonic::Response::into_inner)
}

fn settle(client: &Client, id: &str, cost: u64) -> Result<SettleResponse, Status> {
    let request = SettleRequest { id: id.to_owned(), cost };
    client
        .block_on(ReservationsClient::new(client.channel.clone()).settle(request))
        .map(tonic::Response::into_inner)
}

fn over_http(service: &Service, path: &str, body: &Value) -> (u16, Value) {
    let answer = post(service.http, path, &body.to_string());
    (answer.status, serde_json::from_str(&answer.body).expect("JSON"))
}

/// Limits as HTTP tells them, the times left out: they differ by when they were asked for.
fn told(limits: &[LimitStatus]) -> Value {
    let limit = |limit: &LimitStatus| {
        json!({
            "rule": limit.rule, "name": limit.name, "limit": limit.limit, "remaining": limit.remaining,
            "shadow": limit.shadow, "waits": limit.retry_after.is_some(),
        })
    };
    limits.iter().map(limit).collect()
}

fn told_over_http(answer: &Value) -> Value {
    let limit = |limit: &Value| {
        json!({
            "rule": limit["rule"], "name": limit["name"], "limit": limit["limit"],
            "remaining": limit["remaining"], "shadow": limit["shadow"],
            "waits": !limit["retry_after_ms"].is_null(),
        })
    };
    answer["limits"].as_array().expect("a list").iter().map(limit).collect()
}

#[test]
fn grpc_answers_as_http_does() {
    let service = service(RULES);
    let client = Client::new(&service);
    let body = |cost: u64| json!({ "domain": "llm", "descriptor": { "team": "http" }, "cost": cost });
    for (cost, used) in [(400, 100), (500, 800), (200, 0)] {
        let reserved = reserve(&client, estimate("grpc", cost)).expect("an answer");
        let (status, by_http) = over_http(&service, "/v1/reserve", &body(cost));
        assert_eq!((reserved.allowed, reserved.id.is_empty()), (status == 200, status != 200));
        assert_eq!(told(&reserved.limits), told_over_http(&by_http));
        assert_eq!(reserved.source, by_http["source"]);
        assert_eq!(reserved.retry_after.is_some(), status == 429);
        let by = reserved.decided_by.expect("a limit decided");
        assert_eq!(json!({ "rule": by.rule, "name": by.name }), by_http["decided_by"]);
        let settled = settle(&client, &reserved.id, used);
        let (status, by_http) = over_http(
            &service,
            "/v1/settle",
            &json!({ "id": by_http["id"].as_str().unwrap_or(""), "cost": used }),
        );
        match settled {
            Ok(settled) => {
                assert_eq!(status, 200);
                assert_eq!((settled.estimate, settled.cost), (cost, used));
                assert_eq!((&by_http["estimate"], &by_http["cost"]), (&json!(cost), &json!(used)));
                assert_eq!(told(&settled.limits), told_over_http(&by_http));
            }
            Err(refused) => {
                assert_eq!((status, refused.code()), (410, Code::NotFound));
                assert_eq!(by_http["detail"], refused.message());
            }
        }
    }
}

#[test]
fn a_settlement_over_the_other_protocol_is_the_same() {
    let service = service(RULES);
    let client = Client::new(&service);
    let id = reserve(&client, estimate("ann", 400)).expect("an answer").id;
    let (status, settled) = over_http(&service, "/v1/settle", &json!({ "id": id, "cost": 250 }));
    assert_eq!((status, &settled["limits"][0]["remaining"]), (200, &json!(750)));
    assert_eq!(settle(&client, &id, 0).expect_err("it is settled").code(), Code::NotFound);
}

#[test]
fn what_is_wrong_with_a_reservation_is_an_invalid_argument() {
    let service = service(RULES);
    let client = Client::new(&service);
    let good = || estimate("ann", 1);
    let mut own_cost = good();
    own_cost.descriptors[0].cost = Some((1 << 53) + 1);
    let mut no_entries = good();
    no_entries.descriptors[0].entries.clear();
    let cases = [
        (ReserveRequest { domain: String::new(), ..good() }, "the domain must not be empty"),
        (ReserveRequest { descriptors: Vec::new(), ..good() }, "the descriptors must not be empty"),
        (no_entries, "the entries of a descriptor must not be empty"),
        (ReserveRequest { cost: Some(u64::MAX), ..good() }, "cost must be at most"),
        (own_cost, "cost must be at most"),
        (ReserveRequest { ttl_ms: Some(0), ..good() }, "ttl_ms must be from 1 to 86400000"),
        (ReserveRequest { ttl_ms: Some(86_400_001), ..good() }, "ttl_ms must be from 1 to 86400000"),
    ];
    for (request, reason) in cases {
        let refused = reserve(&client, request).expect_err(reason);
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(reason), "{refused}");
    }
    let refused = settle(&client, "x", u64::MAX).expect_err("too much");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let defaults = ReserveRequest { cost: None, ..good() };
    assert_eq!(reserve(&client, defaults).expect("an answer").limits[0].remaining, 999, "a cost of 1");
}

#[test]
fn a_cost_of_ones_own_is_left_alone_over_grpc_too() {
    let service = service(RULES);
    let client = Client::new(&service);
    let mut request = estimate("ann", 600);
    let entries = vec![Entry { key: "calls".to_owned(), value: "ann".to_owned() }];
    request.descriptors.push(EstimatedDescriptor { entries, cost: Some(1), limits: Vec::new() });
    let reserved = reserve(&client, request).expect("an answer");
    let remaining = |limits: &[LimitStatus]| limits.iter().map(|limit| limit.remaining).collect::<Vec<_>>();
    assert_eq!(remaining(&reserved.limits), [400, 4]);
    assert_eq!(remaining(&settle(&client, &reserved.id, 100).expect("an answer").limits), [900, 4]);
}

fn limit(requests: u64, per: &str) -> InlineLimit {
    InlineLimit { requests, per: per.to_owned(), ..InlineLimit::default() }
}

fn with_limits(domain: &str, limits: Vec<InlineLimit>) -> ReserveRequest {
    let mut request = ReserveRequest { domain: domain.to_owned(), ..estimate("ann", 4) };
    request.descriptors[0].limits = limits;
    request
}

#[test]
fn limits_that_a_reservation_brings_over_grpc_are_those_of_http() {
    let service = service("{domain: apps, inline_limits: {max: 2}}");
    let client = Client::new(&service);
    let slow = InlineLimit {
        name: Some("slow".to_owned()),
        algorithm: Some("token_bucket".to_owned()),
        burst: Some(50),
        ..limit(200, "hour")
    };
    let reserved = reserve(&client, with_limits("apps", vec![limit(10, "minute"), slow])).expect("an answer");
    let body = json!({
        "domain": "apps", "descriptor": { "team": "http" }, "cost": 4,
        "limits": [
            { "requests": 10, "per": "minute" },
            { "requests": 200, "per": "hour", "algorithm": "token_bucket", "burst": 50, "name": "slow" },
        ],
    });
    let (status, by_http) = over_http(&service, "/v1/reserve", &body);
    assert_eq!((reserved.allowed, status), (true, 200), "{by_http}");
    assert_eq!(told(&reserved.limits), told_over_http(&by_http));
    let settled = settle(&client, &reserved.id, 1).expect("an answer");
    let remaining: Vec<_> = settled.limits.iter().map(|limit| (&*limit.name, limit.remaining)).collect();
    assert_eq!(remaining, [("minute", 9), ("slow", 49)]);
}

#[test]
fn limits_that_a_reservation_may_not_bring_are_refused_over_grpc() {
    let service = service("{domain: apps, inline_limits: {max: 1}}");
    let client = Client::new(&service);
    let unknown = InlineLimit { algorithm: Some("sliding".to_owned()), ..limit(1, "minute") };
    let crowd = vec![limit(1, "minute"); 17];
    let invalid = [
        (vec![limit(1, "fortnight")], "descriptors[0]: limits[0]: per: "),
        (vec![limit(1, "minute"), unknown], "descriptors[0]: limits[1]: algorithm: must be one of"),
        (vec![InlineLimit { burst: Some(0), ..limit(5, "minute") }], "descriptors[0].limits: "),
        (crowd, "descriptors[0]: limits of a descriptor must be at most 16, got 17"),
    ];
    for (limits, reason) in invalid {
        let refused = reserve(&client, with_limits("apps", limits)).expect_err(reason);
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(reason), "{refused}");
    }
    let elsewhere = reserve(&client, with_limits("llm", vec![limit(10, "minute")]));
    assert_eq!(elsewhere.expect_err("not allowed there").code(), Code::PermissionDenied);
    reserve(&client, with_limits("apps", vec![limit(10, "minute")])).expect("an answer");
    let second = reserve(&client, with_limits("apps", vec![limit(11, "minute")]));
    assert_eq!(second.expect_err("one at most").code(), Code::PermissionDenied);
}

#[test]
fn what_is_too_long_to_be_kept_is_refused_over_both() {
    let service = service(RULES);
    let client = Client::new(&service);
    let long = "v".repeat(17 * 1024);
    let refused = reserve(&client, estimate(&long, 1)).expect_err("it is too long");
    let body = json!({ "domain": "llm", "descriptor": { "team": long } });
    let (status, problem) = over_http(&service, "/v1/reserve", &body);
    assert_eq!((refused.code(), status), (Code::InvalidArgument, 400), "{problem}");
    assert_eq!(problem["detail"], refused.message());
}

#[test]
fn what_becomes_of_reservations_is_counted() {
    let service = service(RULES);
    let client = Client::new(&service);
    let first = reserve(&client, estimate("ann", 600)).expect("an answer");
    reserve(&client, estimate("ann", 600)).expect("a denial is an answer");
    over_http(&service, "/v1/reserve", &json!({ "domain": "llm", "descriptor": { "team": "ann" } }));
    settle(&client, &first.id, 1).expect("an answer");
    settle(&client, &first.id, 1).expect_err("it is settled");
    let metrics = get(service.admin, "/metrics").body;
    for line in [
        "ratelimit_reservations_total{outcome=\"reserved\"} 2",
        "ratelimit_reservations_total{outcome=\"denied\"} 1",
        "ratelimit_reservations_total{outcome=\"settled\"} 1",
        "ratelimit_reservations_total{outcome=\"gone\"} 1",
        "ratelimit_reservations_total{outcome=\"failed\"} 0",
        "ratelimit_reservations_held 1",
        "ratelimit_decisions_total{domain=\"llm\",rule=\"team\",outcome=\"allowed\"} 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in {metrics}");
    }
}

#[test]
fn a_reservation_of_one_node_is_settled_on_another_and_while_the_store_is_gone_on_none() {
    let server = RedisServer::start();
    let node = || {
        let setup = Setup::rules(RULES).with("store", &server.url());
        setup.with("redis.secret", "nodes that share").with("redis.deadline", "5s").start()
    };
    let (one, two) = (node(), node());
    let body = json!({ "domain": "llm", "descriptor": { "team": "ann" }, "cost": 600 });
    let (status, reserved) = over_http(&one, "/v1/reserve", &body);
    assert_eq!((status, &reserved["source"]), (200, &json!("redis")), "{reserved}");
    let (status, settled) = over_http(&two, "/v1/settle", &json!({ "id": reserved["id"], "cost": 100 }));
    assert_eq!((status, &settled["limits"][0]["remaining"]), (200, &json!(900)), "{settled}");
    let (_, kept) = over_http(&one, "/v1/reserve", &body);
    server.kill();
    let (status, problem) = over_http(&two, "/v1/settle", &json!({ "id": kept["id"], "cost": 100 }));
    assert_eq!(status, 503, "{problem}");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("try again")), "{problem}");
    // Half of its share is left to each node: 1000 / nodes / 2.
    let small = json!({ "domain": "llm", "descriptor": { "team": "ann" }, "cost": 200 });
    let (status, reserved) = over_http(&one, "/v1/reserve", &small);
    assert_eq!((status, &reserved["source"]), (200, &json!("fallback")), "{reserved}");
    let (status, settled) = over_http(&one, "/v1/settle", &json!({ "id": reserved["id"], "cost": 50 }));
    assert_eq!((status, &settled["estimate"]), (200, &json!(200)), "{settled}");
}
