//! `vectors/rendering.json` through the ways in: the same bytes over HTTP, and for Envoy.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use prost::Message as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate::rules::file;
use tidegate::{Defaults, Limiter, Micros, VirtualClock};
use tidegate_middleware::{ClientIp, DenialBody, Headers, Renderer};
use tidegate_server::bounds::Bounds;
use tidegate_server::decider::Decider;
use tidegate_server::grpc::rate_limit::RateLimit;
use tidegate_server::health::Health;
use tidegate_server::http::HttpApi;
use tidegate_server::metrics::Metrics;
use tidegate_server::request_id::RequestId;

use crate::support::clients::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::support::envoy::workspace;
use crate::support::grpc::with_hits;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    rules: String,
    families: Vec<String>,
    denial: Option<Denial>,
    now_us: u64,
    ask: String,
    before: Vec<Value>,
    request: Value,
    expect: Expect,
}

#[derive(Deserialize)]
struct Denial {
    body: String,
    content_type: String,
}

#[derive(Deserialize)]
struct Expect {
    #[serde(flatten)]
    answer: Answer,
    problem: Option<String>,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
struct Answer {
    status: u16,
    content_type: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Expect {
    /// What those get who accept problems, and batches.
    fn for_programs(&self) -> Answer {
        let answer = self.answer.clone();
        match self.problem.clone() {
            Some(body) => Answer { content_type: "application/problem+json".to_owned(), body, ..answer },
            None => answer,
        }
    }
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(workspace().join("vectors/rendering.json")).expect("the vectors are there");
    serde_json::from_str::<Vectors>(&text).expect("they are JSON").cases
}

impl Case {
    fn renderer(&self) -> Renderer {
        let has = |family: &str| self.families.iter().any(|known| known == family);
        let read = |denial: &Denial| {
            Arc::new(DenialBody::new(&denial.body, &denial.content_type).expect("a body of denials"))
        };
        Renderer::new(Headers {
            ratelimit: has("ratelimit"),
            draft06: has("draft06"),
            x_ratelimit: has("x_ratelimit"),
            partition_key: has("partition_key"),
        })
        .denial_body(self.denial.as_ref().map(read))
    }

    fn limiter(&self) -> Limiter {
        let domain = file::load("vector.yaml", &self.rules, &Defaults::default()).expect("rules");
        let clock = VirtualClock::at(Micros(self.now_us));
        Limiter::builder().domain(domain).clock(clock).build().expect("a limiter")
    }

    fn rate_limit(&self, limiter: &Limiter) -> RateLimit {
        RateLimit {
            decider: Decider::new("test", limiter.clone(), Metrics::default()),
            bounds: Bounds::default(),
            headers: Some(self.renderer()),
            body: self.denial.as_ref().map(|_| self.renderer()),
        }
    }

    fn http(&self) -> HttpApi {
        let limiter = self.limiter();
        let rate_limit = self.rate_limit(&limiter);
        HttpApi {
            decider: rate_limit.decider.clone(),
            renderer: self.renderer(),
            bounds: Bounds::default(),
            health: Health::new(limiter),
            rate_limit,
            tokens: None,
            client_ip: Arc::new(ClientIp::new()),
            peer: Ipv4Addr::LOCALHOST.into(),
            cross_site: false,
            json_forms: false,
            memory: tidegate_server::memory::Memory::of(1 << 30, tidegate_server::memory::Source::Setting),
            links: None,
        }
    }
}

/// The headers among those of the renderer's families, in the order of the case.
fn told(find: impl Fn(&str) -> Vec<String>) -> Vec<(String, String)> {
    const NAMES: [&str; 9] = [
        "ratelimit-policy",
        "ratelimit",
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "retry-after",
    ];
    let one =
        |name: &&str| find(name).into_iter().map(|value| ((*name).to_owned(), value)).collect::<Vec<_>>();
    NAMES.iter().flat_map(one).collect()
}

async fn post(api: &HttpApi, path: &str, accept: &str, body: &Value) -> http::Response<Full<Bytes>> {
    let body = Full::new(Bytes::from(body.to_string()));
    api.answer(Request::post(path).header("accept", accept).body(body).expect("a request")).await
}

/// What the request of a case is answered over HTTP.
async fn answered(case: &Case, accept: &str) -> Answer {
    let api = case.http();
    let path = if case.ask == "acquire" { "/v1/acquire" } else { "/v1/check" };
    for before in &case.before {
        assert_eq!(post(&api, path, accept, before).await.status(), 200, "{}", case.name);
    }
    let (head, body) = post(&api, path, accept, &case.request).await.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let text = |value: &http::HeaderValue| value.to_str().expect("a text").to_owned();
    Answer {
        status: head.status.as_u16(),
        content_type: text(&head.headers["content-type"]),
        headers: told(|name| head.headers.get_all(name).iter().map(text).collect()),
        body: String::from_utf8(body.to_vec()).expect("a text"),
    }
}

#[tokio::test]
async fn over_http_every_vector_is_the_bytes_of_the_file() {
    for case in cases() {
        assert_eq!(answered(&case, "*/*").await, case.expect.answer, "{}", case.name);
        let for_programs = answered(&case, "application/problem+json").await;
        assert_eq!(for_programs, case.expect.for_programs(), "{}", case.name);
    }
}

#[tokio::test]
async fn in_a_batch_every_vector_has_the_same_status_headers_and_body() {
    for case in cases().into_iter().filter(|case| case.ask == "check") {
        let requests: Vec<&Value> = case.before.iter().chain([&case.request]).collect();
        let answer = post(&case.http(), "/v1/check", "*/*", &json!(requests)).await;
        let expect = case.expect.for_programs();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("a text");
        assert!(text.ends_with(&format!(r#""body":{}}}]"#, expect.body)), "{}: {text}", case.name);
        let answers: Value = serde_json::from_str(&text).expect("JSON");
        let last = answers.as_array().and_then(|list| list.last()).expect("an answer");
        assert_eq!(last["status"], expect.status, "{}", case.name);
        let found = told(|name| last["headers"][name].as_str().map(str::to_owned).into_iter().collect());
        assert_eq!(found, expect.headers, "{}", case.name);
    }
}

/// The message of a request in the shape of `/v1/check`.
fn message(asked: &Value) -> Vec<u8> {
    let cost = asked["cost"].as_u64().unwrap_or(1);
    let descriptors = asked["descriptors"].as_array().expect("a list").iter().map(|descriptor| {
        let entries: Vec<(&str, &str)> = descriptor["entries"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| (entry["key"].as_str().expect("a key"), entry["value"].as_str().expect("a value")))
            .collect();
        with_hits(&entries, descriptor["cost"].as_u64().unwrap_or(cost))
    });
    let domain = asked["domain"].as_str().expect("a domain").to_owned();
    RateLimitRequest { domain, descriptors: descriptors.collect(), hits_addend: 0 }.encode_to_vec()
}

#[tokio::test]
async fn for_envoy_every_vector_is_the_headers_of_the_file_and_the_body_if_it_is_the_operators() {
    for case in cases().into_iter().filter(|case| case.ask == "check") {
        let rate_limit = case.rate_limit(&case.limiter());
        let mut last = RateLimitResponse::default();
        for asked in case.before.iter().chain([&case.request]) {
            let mut out = Vec::new();
            rate_limit.answer(&message(asked), RequestId::NONE, &mut out).await.expect("it is decided");
            last = RateLimitResponse::decode(out.as_slice()).expect("a response");
        }
        let headers = last.response_headers_to_add;
        let found: Vec<_> = headers.into_iter().map(|header| (header.key, header.value)).collect();
        let Answer { content_type, mut headers, body, .. } = case.expect.answer;
        // Envoy sends a body only where there is one of the operator's.
        let own = case.expect.problem.is_some();
        if own {
            headers.push(("content-type".to_owned(), content_type));
        }
        assert_eq!(found, headers, "{}", case.name);
        assert_eq!(last.raw_body, if own { body.as_bytes() } else { b"" }, "{}", case.name);
    }
}
