//! A body of the operator's for denials: everywhere the same, and the problem for programs that ask for it.

use serde_json::json;
use tidegate::{Request, Source};

use crate::support::grpc::Client;
use crate::support::service::{Answer, PATIENCE, Service, Setup, post, send};

const RULES: &str = "
domain: api
forward_auth:
  deny_status: 403
  descriptors: [[{key: user, header: x-user}]]
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]
";

const ANN: &str = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;

/// A service that says this to whoever is denied, and ann is.
fn saying(body: &str, content_type: &str) -> Service {
    let setup = Setup::rules(RULES).with("denial.body", body).with("denial.content_type", content_type);
    let service = setup.start();
    let first = post(service.http, "/v1/check", ANN);
    assert_eq!((first.status, first.json()["allowed"].clone()), (200, json!(true)), "what passes is as ever");
    service
}

fn check_accepting(service: &Service, accept: &str) -> Answer {
    let length = ANN.len();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: {accept}\r\n"
    );
    send(service.http, &format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n{ANN}"))
}

#[test]
fn a_denial_has_the_body_and_the_type_of_the_settings_with_what_the_decision_says() {
    let text = r#"{"error": "slow down", "seconds": {retry_after}, "most": {limit}, "per": {window}, "by": "{policy}"}"#;
    let service = saying(text, "application/vnd.shop+json");
    let denied = post(service.http, "/v1/check", ANN);
    assert_eq!((denied.status, denied.header("content-type")), (429, Some("application/vnd.shop+json")));
    let retry_after: u64 = denied.header("retry-after").and_then(|text| text.parse().ok()).expect("a number");
    let expected =
        json!({"error": "slow down", "seconds": retry_after, "most": 1, "per": 86400, "by": "user:day"});
    assert_eq!(denied.json(), expected);
    assert!(denied.header("ratelimit").is_some(), "headers are as ever");
    let reserved = post(service.http, "/v1/reserve", ANN);
    assert_eq!((reserved.status, reserved.json()["error"].clone()), (429, json!("slow down")));
}

#[test]
fn forward_auth_says_the_same_with_the_status_of_the_rules() {
    let service = saying("come back in {retry_after} s", "text/plain; charset=utf-8");
    let asked = "GET /v1/forward-auth HTTP/1.1\r\nhost: localhost\r\nx-user: ann\r\naccept: application/problem+json\r\nconnection: close\r\n\r\n";
    let denied = send(service.http, asked);
    assert_eq!((denied.status, denied.header("content-type")), (403, Some("text/plain; charset=utf-8")));
    let retry_after = denied.header("retry-after").expect("it is denied for a while").to_owned();
    assert_eq!(denied.body, format!("come back in {retry_after} s"), "its headers are the client's own");
}

#[test]
fn envoy_is_given_the_same_to_send() {
    let service = saying("enough of {policy}", "text/html");
    let mut client = Client::new(&service);
    let denied = client.check_one("api", "user", "ann");
    assert_eq!(denied.raw_body, b"enough of user:day");
    let types: Vec<_> = denied.response_headers_to_add.iter().map(|one| (&*one.key, &*one.value)).collect();
    assert_eq!(types, [("content-type", "text/html")]);
    let allowed = client.check_one("api", "user", "bob");
    assert!(allowed.raw_body.is_empty() && allowed.response_headers_to_add.is_empty());
}

#[test]
fn programs_that_ask_for_a_problem_get_one() {
    let service = saying("enough", "text/plain");
    for (accept, own) in [
        ("*/*", true),
        ("application/json", true),
        ("application/problem+json", false),
        ("text/html, application/PROBLEM+json;q=0.5", false),
        ("text/html, application/problem+json; q=0.0", true),
    ] {
        let denied = check_accepting(&service, accept);
        assert_eq!(denied.status, 429);
        if own {
            assert_eq!((denied.header("content-type"), &*denied.body), (Some("text/plain"), "enough"));
        } else {
            assert_eq!(denied.header("content-type"), Some("application/problem+json"));
            assert_eq!(denied.json()["violated-policies"], json!(["user:day"]));
        }
    }
    let listed = post(service.http, "/v1/check", &format!("[{ANN}]"));
    assert_eq!(listed.json()[0]["body"]["violated-policies"], json!(["user:day"]), "a list is for programs");
}

#[tokio::test]
async fn a_client_reads_denials_whatever_their_body() {
    let service = tokio::task::spawn_blocking(|| saying("enough", "text/plain")).await.expect("it starts");
    let client = tidegate_client::Client::builder(format!("http://{}", service.http)).deadline(PATIENCE);
    let client = client.build().expect("an address");
    let denied = client.check(&Request::new("api", [("user", "ann")])).await;
    assert_eq!((denied.allowed(), denied.source()), (false, Source::Memory));
    assert_eq!(denied.decided_by().map(|by| by.name), Some("day"));
}

#[test]
fn a_body_that_cannot_be_is_refused_at_the_start() {
    for (body, content_type, said) in [
        ("in {seconds} s", "text/plain", "{seconds} is not a placeholder; use {retry_after}, {limit}"),
        ("slow down", "application/json", "it is not valid JSON (expected value"),
        (
            r#"{"by": {policy}}"#,
            "application/problem+json",
            "but the content type is application/problem+json",
        ),
        ("slow down", "plain", r#""plain" is not a content type; write one such as text/plain"#),
        ("slow down", "text/", "is not a content type"),
        ("slow down", "text/plain; charset=\u{fc}tf-8", "is not a content type"),
        ("", "text/html", "needs denial.body too"),
    ] {
        let setup = Setup::rules(RULES).with("denial.body", body);
        let ended = setup.with("denial.content_type", content_type).fail();
        assert_eq!(ended.status.code(), Some(1), "{body}");
        assert!(
            ended.errors.contains(said) && ended.errors.contains("TIDEGATE_DENIAL__"),
            "{}",
            ended.errors
        );
    }
}
