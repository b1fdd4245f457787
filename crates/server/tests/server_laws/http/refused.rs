//! What is wrong with a request is said, and changes no counter.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::support::{RULES, Service};

/// A body, and a piece of what must be said about it. All are 400.
const BAD: [(&str, &str); 38] = [
    ("", "the body is empty"),
    ("  ", "the body is empty"),
    ("nonsense", "line 1 column 2"),
    (r#"{"domain":"api","descriptor":{"user":"ann"}"#, "EOF while parsing an object at line 1 column 43"),
    (r#"{"domain":"api","descriptor":{"user":"an"#, "EOF while parsing a string"),
    (r#"{"domain":"api","descriptor":{"user":"ann"}} x"#, "trailing characters at line 1 column 46"),
    (r#"{"domain":"api","descriptor":{"user":"ann"},}"#, "trailing comma"),
    (r#""api""#, "invalid type: string \"api\", expected an object"),
    ("null", "invalid type: null, expected an object"),
    (r#"{"descriptor":{"user":"ann"}}"#, "missing field `domain`"),
    (r#"{"domain":"","descriptor":{"user":"ann"}}"#, "domain must not be empty"),
    (r#"{"domain":null,"descriptor":{"user":"ann"}}"#, "invalid type: null, expected a string"),
    (r#"{"domain":5,"descriptor":{"user":"ann"}}"#, "invalid type: integer `5`, expected a string"),
    (
        r#"{"domain":"api\u0000","descriptor":{"user":"ann"}}"#,
        "the domain must not contain control characters",
    ),
    (r#"{"domain":"api"}"#, "missing field `descriptors`"),
    (r#"{"domain":"api","descriptors":[]}"#, "descriptors must not be empty"),
    (r#"{"domain":"api","descriptors":{}}"#, "expected a sequence"),
    (r#"{"domain":"api","descriptors":[{}]}"#, "missing field `entries`"),
    (
        r#"{"domain":"api","descriptors":[{"entries":[]}]}"#,
        "descriptors[0]: the entries of a descriptor must not be empty",
    ),
    (
        r#"{"domain":"api","descriptors":[[[{"key":"user","value":"ann"}]]]}"#,
        "invalid type: sequence, expected an object",
    ),
    (
        r#"{"domain":"api","descriptors":[{"entries":[["user","ann"]]}]}"#,
        "invalid type: sequence, expected an object",
    ),
    (r#"{"domain":"api","descriptors":[{"entries":[{"key":"user"}]}]}"#, "missing field `value`"),
    (
        r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"},{"key":"","value":"x"}]}]}"#,
        "descriptors[0]: entries[1]: the key of an entry must not be empty",
    ),
    (
        r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann","weight":1}]}]}"#,
        "unknown field `weight`",
    ),
    (r#"{"domain":"api","descriptor":{}}"#, "descriptor: the entries of a descriptor must not be empty"),
    (
        r#"{"domain":"api","descriptor":{"user":"ann"},"descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#,
        "both `descriptor` and `descriptors`",
    ),
    (r#"{"domain":"api","descriptor":{"user":"ann","user":"bob"}}"#, "key \"user\" occurs twice"),
    (
        r#"{"domain":"api","domain":"api","descriptor":{"user":"ann"}}"#,
        "duplicate field `domain` at line 1 column 24",
    ),
    (
        r#"{"domain":"api","descriptor":{"user":7}}"#,
        "invalid type: integer `7`, expected a string (put numbers and booleans in quotes)",
    ),
    (
        r#"{"domain":"api","descriptor":{"user":true}}"#,
        "invalid type: boolean `true`, expected a string (put numbers",
    ),
    (
        r#"{"domain":"api","descriptor":{"user":"a\u0007"}}"#,
        "descriptors[0]: entries[0]: the value of an entry must not contain control characters",
    ),
    (r#"{"domain":"api","descriptor":{"user":"\ud800"}}"#, "line 1 column"),
    (
        r#"{"domain":"api","descriptor":{"user":"ann"},"costs":1}"#,
        "unknown field `costs`, expected one of `domain`, `descriptors`, `descriptor`, `limits`, `cost`",
    ),
    (
        r#"{"domain":"api","descriptor":{"user":"ann"},"cost":-1}"#,
        "integer `-1`, expected a whole number from 0 to 9007199254740992",
    ),
    (
        r#"{"domain":"api","descriptor":{"user":"ann"},"cost":1.5}"#,
        "floating point `1.5`, expected a whole number",
    ),
    (r#"{"domain":"api","descriptor":{"user":"ann"},"cost":"1"}"#, "expected a whole number"),
    (
        r#"{"domain":"api","descriptor":{"user":"ann"},"cost":9007199254740993}"#,
        "cost must be at most 9007199254740992 (2^53), got 9007199254740993",
    ),
    (
        r#"{"domain":"api","descriptor":{"user":"ann"},"cost":99999999999999999999}"#,
        "expected a whole number",
    ),
];

#[tokio::test]
async fn every_bad_body_is_400_with_its_reason_and_charges_nothing() {
    let mut service = Service::start().await;
    for path in ["/v1/check", "/v1/acquire"] {
        for (body, reason) in BAD {
            let answer = service.post(path, body).await;
            assert_eq!(answer.status, 400, "{path} {body}: {answer:?}");
            assert!(answer.detail().contains(reason), "{path} {body}: {}", answer.detail());
        }
    }
    assert_eq!(service.left("user", "ann").await, Some(5));
    for rule in ["user", "order", "job"] {
        let decided = ["allowed", "denied"].map(|outcome| service.decisions("api", rule, outcome));
        assert_eq!(decided, [0, 0], "{rule}");
    }
}

#[tokio::test]
async fn bytes_that_are_not_utf8_are_400() {
    let mut service = Service::start().await;
    let answer = service.check(&b"{\"domain\":\"api\",\"descriptor\":{\"user\":\"\xff\"}}"[..]).await;
    assert_eq!(answer.status, 400);
    assert!(answer.detail().contains("line 1 column"), "{}", answer.detail());
}

#[tokio::test]
async fn a_request_beyond_a_bound_is_400_and_names_it() {
    let bounds = [
        ("bounds.descriptors", "2"),
        ("bounds.entries", "2"),
        ("bounds.key_bytes", "4B"),
        ("bounds.value_bytes", "5B"),
    ];
    let mut service = Service::with(RULES, &bounds).await;
    let entry = r#"{"key":"user","value":"ann"}"#;
    let of = |entries: &str, times| vec![format!(r#"{{"entries":[{entries}]}}"#); times].join(",");
    let list = |descriptors: &str| format!(r#"{{"domain":"api","descriptors":[{descriptors}]}}"#);
    for (body, reason) in [
        (list(&of(entry, 3)), "descriptors must be at most 2 (bounds.descriptors), got 3"),
        (
            list(&of(&[entry; 3].join(","), 1)),
            "entries of a descriptor must be at most 2 (bounds.entries), got 3",
        ),
        (r#"{"domain":"apiii","descriptor":{"user":"ann"}}"#.to_owned(), "(bounds.key_bytes), got 5"),
        (r#"{"domain":"api","descriptor":{"users":"ann"}}"#.to_owned(), "(bounds.key_bytes), got 5"),
        (r#"{"domain":"api","descriptor":{"user":"annann"}}"#.to_owned(), "(bounds.value_bytes), got 6"),
        (r#"{"domain":"api","descriptor":{"a":"1","b":"2","c":"3"}}"#.to_owned(), "(bounds.entries), got 3"),
    ] {
        let answer = service.check(body.clone()).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.detail().contains(reason), "{body}: {}", answer.detail());
    }
    assert_eq!(service.left("user", "ann").await, Some(5));
    assert_eq!(service.check(list(&of(&[entry; 2].join(","), 2))).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_413_and_names_the_bound() {
    let mut service = Service::with(RULES, &[("bounds.message_bytes", "1KiB")]).await;
    let body = |length: usize| format!("{:<length$}", r#"{"domain":"api","descriptor":{"user":"ann"}}"#);
    assert_eq!(service.check(body(1024)).await.status, 200);
    for path in ["/v1/check", "/v1/acquire", "/v1/renew", "/v1/release", "/json"] {
        let answer = service.post(path, body(1025)).await;
        assert_eq!(answer.status, 413, "{path}");
        assert_eq!(
            answer.detail(),
            "the bytes of a request must be at most 1024 (bounds.message_bytes), got 1025"
        );
    }
    assert_eq!(service.left("user", "ann").await, Some(4));
}

#[tokio::test]
async fn another_content_type_is_415_and_none_is_json() {
    let mut service = Service::start().await;
    let body = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
    for fine in [None, Some("application/json"), Some("Application/JSON ; charset=utf-8")] {
        assert_eq!(service.post_as(fine, "/v1/check", body).await.status, 200, "{fine:?}");
    }
    for other in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application", ""] {
        let answer = service.post_as(Some(other), "/v1/check", body).await;
        assert_eq!(answer.status, 415, "{other}");
        let detail = format!("the content type must be application/json, got {other:?}");
        assert_eq!(answer.detail(), detail);
    }
    assert_eq!(service.left("user", "ann").await, Some(2));
}

#[tokio::test]
async fn another_method_is_405_and_says_which_there_are() {
    let mut service = Service::start().await;
    for (method, path, allow) in [
        ("GET", "/v1/check", "POST"),
        ("PUT", "/v1/check", "POST"),
        ("DELETE", "/v1/release", "POST"),
        ("GET", "/json", "POST"),
        ("POST", "/healthcheck", "GET, HEAD"),
        ("POST", "/readyz", "GET, HEAD"),
    ] {
        let request = Request::builder().method(method).uri(path).header("host", "tidegate");
        let answer = service.send(request.body(Full::<Bytes>::default()).unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, Some(allow)), "{method} {path}");
        assert_eq!(answer.detail(), format!("the method must be {allow}, got {method}"));
    }
}

#[tokio::test]
async fn another_path_is_404_and_says_which_there_are() {
    let mut service = Service::start().await;
    for path in ["/", "/v1/chec", "/v1/check/", "/V1/CHECK", "/v2/check"] {
        let answer = service.post(path, "{}").await;
        assert_eq!(answer.status, 404, "{path}");
        let detail = answer.detail();
        assert!(detail.starts_with(&format!("there is no {path}; available: POST /v1/check")), "{detail}");
    }
    assert_eq!(service.post("/v1/check?why", r#"{"domain":"x","descriptor":{"a":"b"}}"#).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_compressed_is_not_supported_and_one_as_it_is_may_say_so() {
    let mut service = Service::start().await;
    let body = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
    let paths = [
        "/v1/check",
        "/v1/refund",
        "/v1/reserve",
        "/v1/settle",
        "/v1/acquire",
        "/v1/renew",
        "/v1/release",
        "/json",
    ];
    for path in paths {
        for coding in ["gzip", "identity, br", "x"] {
            let request =
                Request::post(path).header("host", "tidegate").header("content-type", "application/json");
            let request = request.header("content-encoding", coding);
            let answer = service.send(request.body(Full::<Bytes>::from("\x1f\u{8b}")).unwrap()).await;
            assert_eq!(answer.status, 415, "{path} {coding}: {answer:?}");
            assert_eq!(answer.header("accept-encoding"), Some("identity"), "{path} {coding}");
            assert!(answer.detail().contains("must be identity"), "{path} {coding}: {answer:?}");
        }
    }
    let request = Request::post("/v1/check")
        .header("host", "tidegate")
        .header("content-encoding", "Identity")
        .body(Full::from(body));
    assert_eq!(service.send(request.unwrap()).await.status, 200);
}
