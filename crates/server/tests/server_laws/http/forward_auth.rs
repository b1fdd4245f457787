//! `GET /v1/forward-auth`: requests that a proxy describes by headers.

use http::Request;
use http_body_util::Full;

use super::support::{Answer, Service};

const RULES: &str = r"
domain: web
forward_auth:
  proxy: nginx
  deny_status: 403
  descriptors:
    - [{ key: client, from: client_ip }]
    - [{ key: api_key, header: X-Api-Key, default: anonymous }, { key: path, from: path }]
    - [{ key: call, from: method }, { key: host, from: host }, { key: agent, header: user-agent }]
descriptors:
  - key: client
    limits: [{ name: calm, algorithm: token_bucket, requests: 3, per: day }]
  - key: api_key
    descriptors:
      - key: path
        value: /reports/*
        name: reports
        limits: [{ name: once, algorithm: token_bucket, requests: 1, per: day }]
  - key: call
    value: DELETE
    descriptors:
      - key: host
        value: shop.example
        descriptors:
          - key: agent
            name: deletes
            limits: [{ name: once, algorithm: token_bucket, requests: 1, per: day }]
";

async fn web() -> Service {
    Service::with(RULES, &[]).await
}

async fn ask(service: &mut Service, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get("/v1/forward-auth?domain=web").header("host", "tidegate");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    service.send(request.body(Full::default()).unwrap()).await
}

#[tokio::test]
async fn a_request_passes_until_its_limit_and_is_then_denied_with_the_status_of_the_rules() {
    let mut service = web().await;
    for left in ["2", "1", "0"] {
        let answer = ask(&mut service, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-remaining")), (200, Some(left)));
    }
    let denied = ask(&mut service, &[]).await;
    assert_eq!(denied.status, 403);
    assert!(denied.header("retry-after").is_some());
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!(denied.json()["status"], 403, "the problem has the status it came with");
    assert_eq!(denied.json()["violated-policies"][0], "client:calm");
}

#[tokio::test]
async fn only_a_trusted_proxy_is_believed_about_the_client() {
    let mut service = web().await;
    for number in 0..5 {
        let claimed = format!("198.51.100.{number}");
        let answer = ask(&mut service, &[("x-forwarded-for", &claimed)]).await;
        assert_eq!(
            answer.status.as_u16(),
            if number < 3 { 200 } else { 403 },
            "nobody is trusted by default"
        );
    }
    // By its address, or by how many there are.
    for trusted in ["127.0.0.0/8", "1"] {
        let mut service = Service::with(RULES, &[("http.trusted_proxies", trusted)]).await;
        for number in 0..5 {
            let client = format!("1.2.3.4, 198.51.100.{number}");
            assert_eq!(ask(&mut service, &[("x-forwarded-for", &client)]).await.status, 200);
        }
        for number in 0..3 {
            let spoofed = format!("1.2.3.{number}, 198.51.100.1");
            let status = ask(&mut service, &[("x-forwarded-for", &spoofed)]).await.status.as_u16();
            assert_eq!(
                status,
                if number < 2 { 200 } else { 403 },
                "what the client itself says does not count"
            );
        }
    }
}

#[tokio::test]
async fn entries_come_from_headers_path_method_and_host() {
    let mut service = web().await;
    let report = |key: &'static str| {
        [("x-api-key", key), ("x-original-uri", "/reports/7?page=2"), ("x-original-method", "GET")]
    };
    assert_eq!(ask(&mut service, &report("ann")).await.status, 200);
    assert_eq!(ask(&mut service, &report("ann")).await.json()["scope"], "reports");
    for written in ["/%72eports/7", "//reports/7", "/x/../reports/./7"] {
        let again = [("x-api-key", "ann"), ("x-original-uri", written)];
        assert_eq!(ask(&mut service, &again).await.status, 403, "{written} is the same path");
    }

    let mut service = web().await;
    let delete =
        [("x-original-method", "DELETE"), ("x-original-host", "shop.example"), ("user-agent", "curl")];
    assert_eq!(ask(&mut service, &delete).await.status, 200);
    assert_eq!(ask(&mut service, &delete).await.json()["scope"], "deletes");
}

#[tokio::test]
async fn only_the_headers_of_the_proxy_that_asks_are_read() {
    for (proxy, own, others) in
        [("nginx", "x-original-uri", "x-forwarded-uri"), ("traefik", "x-forwarded-uri", "x-original-uri")]
    {
        let rules = RULES.replace("proxy: nginx", &format!("proxy: {proxy}"));
        let mut service = Service::with(&rules, &[]).await;
        for (number, status) in [(0, 200), (1, 403)] {
            let claimed = format!("/elsewhere/{number}");
            let headers = [("x-api-key", "ann"), (own, "/reports/7"), (others, claimed.as_str())];
            assert_eq!(ask(&mut service, &headers).await.status, status, "{proxy}");
        }
    }
}

#[tokio::test]
async fn a_missing_value_has_its_default_or_leaves_its_descriptor_out() {
    let mut service = web().await;
    let nobody = [("x-original-uri", "/reports/7")];
    assert_eq!(ask(&mut service, &nobody).await.status, 200);
    let denied = ask(&mut service, &nobody).await;
    assert_eq!((denied.status.as_u16(), &denied.json()["scope"]), (403, &"reports".into()));
    let left: Vec<_> = ask(&mut service, &[]).await.json()["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["rule"].clone())
        .collect();
    assert_eq!(left, ["client"], "without a path and an agent there is only the address");
}

#[tokio::test]
async fn the_only_domain_need_not_be_named_and_mistakes_are_told() {
    let mut service = web().await;
    assert_eq!(service.get("/v1/forward-auth").await.status, 200);
    for (path, said) in [
        ("/v1/forward-auth?domain=nowhere", "no `forward_auth` in its rules"),
        ("/v1/forward-auth?realm=web", "must be domain=NAME"),
        ("/v1/forward-auth?domain=web&domain=web", "must be domain=NAME"),
    ] {
        let answer = service.get(path).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.detail().contains(said), "{path}: {}", answer.detail());
    }
    let answer = service.post("/v1/forward-auth", "{}").await;
    assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, Some("GET, HEAD")));
    let mut without = Service::start().await;
    let answer = without.get("/v1/forward-auth").await;
    assert!(answer.detail().contains("no domain has `forward_auth`"), "{}", answer.detail());
    let mut empty = Service::with("", &[]).await;
    assert_eq!(empty.get("/v1/forward-auth").await.status, 503, "as where any other request is asked about");
}

#[tokio::test]
async fn values_that_are_too_long_or_not_text_are_counted() {
    let mut service = Service::with(RULES, &[("bounds.value_bytes", "50B")]).await;
    let long = "x".repeat(51).into_bytes();
    for key in [&long[..], b"\xff\xfe"] {
        for status in [200, 403] {
            let mut request = Request::get("/v1/forward-auth").header("host", "tidegate");
            request = request.header("x-api-key", key).header("x-original-uri", "/reports/1");
            assert_eq!(service.send(request.body(Full::default()).unwrap()).await.status, status);
        }
    }
}

#[tokio::test]
async fn no_header_of_a_client_makes_it_fail() {
    let mut service = Service::with(RULES, &[("bounds.value_bytes", "64B")]).await;
    let long = vec![b'z'; 5_000];
    for agent in [&b"me\xff"[..], b"\x80\x81", &long] {
        let mut statuses = Vec::new();
        for _ in 0..2 {
            let request = Request::get("/v1/forward-auth?domain=web")
                .header("host", "tidegate")
                .header("x-original-method", "DELETE")
                .header("x-original-host", "shop.example")
                .header("x-original-uri", &b"/a%ff%00/\xff"[..])
                .header("user-agent", agent)
                .header("x-forwarded-for", agent);
            statuses.push(service.send(request.body(Full::default()).unwrap()).await.status.as_u16());
        }
        assert_eq!(statuses, [200, 403], "{:?}", &agent[..2]);
    }
}
