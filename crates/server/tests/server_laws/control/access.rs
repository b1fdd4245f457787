//! Nobody does anything without a token that may.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{ask_at, start};
use crate::bad_input::raw_call_of;
use crate::support::clients::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::support::grpc::{Client, descriptor};
use crate::support::service::{Answer, Service, Setup, get, post, until};

const ROLES: [&str; 4] = ["check", "viewer", "operator", "admin"];

struct Operation {
    method: String,
    path: String,
    role: String,
}

/// Every operation, from the document itself: a new one cannot be forgotten.
fn operations(service: &Service) -> Vec<Operation> {
    let document = get(service.admin, "/openapi.json").json();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            // Who signs in has no session yet; `recorder::access` has the laws of that.
            if operation["security"].as_array().is_some_and(Vec::is_empty) {
                assert_eq!((method.as_str(), path.as_str()), ("post", "/admin/v1/session"));
                continue;
            }
            let role = &operation["security"][0]["token"][0];
            let role = role.as_str().unwrap_or_else(|| panic!("{method} {path} names no role"));
            assert!(path.starts_with("/admin/v1/"), "{path}");
            let path = path.replace("{tenant}", "t").replace("{domain}", "d").replace("{rule}", "r");
            let (method, path) = (method.to_uppercase(), path.replace("{id}", "0000"));
            operations.push(Operation { method, path, role: role.to_owned() });
        }
    }
    operations
}

fn make_token(service: &Service, name: &str, role: &str) -> (String, String) {
    let answer = service.ask("POST", "/admin/v1/tokens", &json!({ "name": name, "role": role }));
    assert_eq!(answer.status, 201, "{}", answer.body);
    let made = answer.json();
    let text = |field: &str| made[field].as_str().expect("a text").to_owned();
    (text("id"), text("token"))
}

fn asked(service: &Service, token: Option<&str>, operation: &Operation) -> Answer {
    ask_at(service.admin, token, &operation.method, &operation.path, &[], "{}")
}

#[test]
fn every_operation_needs_a_token_that_counts_and_may() {
    let service = start();
    let operations = operations(&service);
    assert!(operations.len() > 20, "{}", operations.len());
    let tokens: Vec<_> = ROLES.iter().map(|role| (*role, make_token(&service, role, role).1)).collect();
    let (revoked_id, revoked) = make_token(&service, "gone", "admin");
    assert_eq!(service.ask("DELETE", &format!("/admin/v1/tokens/{revoked_id}"), &Value::Null).status, 204);
    let of_another = "tg_0123456789abcdef_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for operation in &operations {
        let name = format!("{} {}", operation.method, operation.path);
        for token in [None, Some(revoked.as_str()), Some(of_another), Some("nonsense"), Some("")] {
            let answer = asked(&service, token, operation);
            assert_eq!(answer.status, 401, "{name} with {token:?}: {}", answer.body);
            assert!(
                answer.header("www-authenticate").is_some_and(|text| text.starts_with("Bearer")),
                "{name}"
            );
        }
        // Who may watch is answered without end.
        if operation.path == "/admin/v1/live" {
            assert_eq!(operation.role, "viewer");
            assert_eq!(asked(&service, Some(&tokens[0].1), operation).status, 403);
            continue;
        }
        let needed = ROLES.iter().position(|role| *role == operation.role).expect("a role");
        for (rank, (role, token)) in tokens.iter().enumerate() {
            let answer = asked(&service, Some(token), operation);
            let refused = answer.status == 403;
            assert_eq!(refused, rank < needed, "{name} as {role}: {} {}", answer.status, answer.body);
            assert_ne!(answer.status, 401, "{name} as {role}");
            assert!(answer.status < 500, "{name} as {role}: {} {}", answer.status, answer.body);
        }
    }
}

#[test]
fn a_revoked_or_expired_token_counts_no_more_and_lists_show_no_secret() {
    let service = start();
    let (id, token) = make_token(&service, "ci", "viewer");
    let look = || ask_at(service.admin, Some(&token), "GET", "/admin/v1/quotas", &[], "").status;
    assert_eq!(look(), 200);
    let list = service.ask("GET", "/admin/v1/tokens", &Value::Null);
    let secret = &token["tg_0123456789abcdef_".len()..];
    assert!(list.body.contains(&id) && !list.body.contains(secret), "{}", list.body);
    assert_eq!(service.ask("DELETE", &format!("/admin/v1/tokens/{id}"), &Value::Null).status, 204);
    assert_eq!(look(), 401);
    let expired = json!({ "name": "old", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z" });
    let answer = service.ask("POST", "/admin/v1/tokens", &expired);
    assert_eq!((answer.status, super::fields(&answer)), (422, vec!["expires_at".to_owned()]));
    let all = std::fs::read_dir(service.file("data")).expect("a folder");
    for file in all.flatten().filter(|file| file.path().is_file() && file.file_name() != "admin-token") {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "the secret is in {}", file.path().display());
    }
}

#[test]
fn names_of_tokens_tell_who_changed_what() {
    let service = start();
    make_token(&service, "ci", "viewer");
    for taken in ["ci", "node", "token_file"] {
        let answer = service.ask("POST", "/admin/v1/tokens", &json!({ "name": taken, "role": "admin" }));
        assert_eq!((answer.status, super::fields(&answer)), (422, vec!["name".to_owned()]), "{taken}");
    }
}

#[test]
fn the_token_a_node_makes_is_for_its_user_alone_and_stays() {
    let service = start();
    let file = service.file("data/admin-token");
    let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = service.token();
    let service = Setup::after(service.stop()).start();
    assert_eq!(service.token(), token);
    assert_eq!(service.ask("GET", "/admin/v1/tokens", &Value::Null).status, 200);
}

#[test]
fn metrics_and_probes_need_no_token() {
    let service = start();
    for path in ["/metrics", "/healthcheck", "/readyz", "/rlconfig", "/stats", "/openapi.json", "/docs/", "/"]
    {
        assert_eq!(get(service.admin, path).status, 200, "{path}");
    }
}

#[test]
fn without_a_token_the_admin_listener_stays_on_loopback() {
    let exposed = || Setup::rules(super::RULES).with("admin.listen", "0.0.0.0:0");
    let ended = exposed().fail();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.errors.contains("admin.token_file"), "{}", ended.errors);
    let setup = exposed();
    let file = setup.path().join("token");
    std::fs::write(&file, "tg_0123456789abcdef_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")
        .expect("a file");
    let service = setup.with("admin.token_file", &file.display().to_string()).start();
    let given = "tg_0123456789abcdef_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], service.admin.port()));
    assert_eq!(ask_at(at, Some(given), "GET", "/admin/v1/tokens", &[], "").status, 200);
    let bad = exposed();
    std::fs::write(bad.path().join("token"), "hunter2").expect("a file");
    let name = bad.path().join("token").display().to_string();
    let ended = bad.with("admin.token_file", &name).fail();
    assert!(
        ended.errors.contains("has no token in it") && !ended.errors.contains("hunter2"),
        "{}",
        ended.errors
    );
}

#[test]
fn a_token_of_the_catalog_lets_the_admin_listener_out() {
    let service = start();
    make_token(&service, "remote", "admin");
    let service = Setup::after(service.stop()).with("admin.listen", "0.0.0.0:0").start();
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], service.admin.port()));
    assert_eq!(get(at, "/healthcheck").status, 200);
}

#[test]
fn the_check_api_asks_for_a_token_where_the_settings_say() {
    let service = Setup::rules(super::RULES).with("http.tokens", "true").start();
    let body = r#"{"domain":"api","descriptor":{"api_key":"ann"}}"#;
    let answer = post(service.http, "/v1/check", body);
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").is_some());
    assert_eq!(get(service.http, "/healthcheck").status, 200);
    let (id, token) = make_token(&service, "app", "check");
    let check = || {
        let json = [("content-type", "application/json")];
        ask_at(service.http, Some(&token), "POST", "/v1/check", &json, body).status
    };
    assert_eq!(check(), 200);
    service.ask("DELETE", &format!("/admin/v1/tokens/{id}"), &Value::Null);
    until("it is revoked here too", || check() == 401);
}

#[test]
fn the_admin_api_takes_no_body_that_is_compressed() {
    let service = start();
    for (method, path, kind) in [
        ("PUT", "/admin/v1/quotas/ann", "application/json"),
        ("POST", "/admin/v1/tokens", "application/json"),
        ("PUT", "/admin/v1/rules/shop", "application/yaml"),
        ("POST", "/admin/v1/rules/validate", "application/yaml"),
    ] {
        let headers = [("content-type", kind), ("content-encoding", "gzip")];
        let answer = ask_at(service.admin, Some(&service.token()), method, path, &headers, "x");
        assert_eq!(answer.status, 415, "{path}: {}", answer.body);
        assert_eq!(answer.header("accept-encoding"), Some("identity"), "{path}");
    }
}

/// An acquisition, as bytes with the prefix.
const ACQUIRE: &[u8] = b"\0\0\0\0\x15\x0a\x03api\x12\x0e\x0a\x0c\x0a\x07api_key\x12\x01a";

#[test]
fn grpc_asks_for_a_token_where_http_does() {
    const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    const OTHERS: [&str; 2] =
        ["/tidegate.v1.Permits/Acquire", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"];
    const HEALTH: &str = "/grpc.health.v1.Health/Check";
    const EMPTY: &[u8] = b"\0\0\0\0\0";

    let service = Setup::rules(super::RULES).with("http.tokens", "true").start();
    let (id, token) = make_token(&service, "envoy", "check");
    let bearer = format!("Bearer {token}");
    let status = |path: &str, headers: &[(&str, &str)], body: &[u8]| {
        let (status, message, _) = raw_call_of(service.grpc, path, headers, body);
        if status == "16" {
            assert!(message.contains("token"), "{message}");
        }
        status
    };
    let refused = [
        vec![],
        vec![("authorization", "Bearer nonsense")],
        vec![("authorization", "Basic YTpi")],
        vec![("authorization", bearer.as_str()), ("authorization", bearer.as_str())],
    ];
    for path in [RATE_LIMIT].iter().chain(&OTHERS) {
        for headers in &refused {
            assert_eq!(status(path, headers, ACQUIRE), "16", "{path} {headers:?}");
        }
        assert_ne!(status(path, &[("authorization", &bearer)], ACQUIRE), "16", "{path}");
    }
    assert_eq!(status(RATE_LIMIT, &[("authorization", &bearer)], ACQUIRE), "0");
    assert_eq!(status(HEALTH, &[], EMPTY), "0", "health is open to all");
    assert_eq!(status("/nowhere", &[], EMPTY), "12");

    // One connection that repeats the same head: what it is told changes with the token.
    let mut client = Client::new(&service);
    let ask = |client: &mut Client| {
        let mut request = tonic::Request::new(RateLimitRequest {
            domain: "api".to_owned(),
            descriptors: vec![descriptor(&[("api_key", "ann")])],
            hits_addend: 0,
        });
        request.metadata_mut().insert("authorization", bearer.parse().expect("a header"));
        client.ask_with(request).map(|_| ()).map_err(|status| status.code())
    };
    for _ in 0..3 {
        assert_eq!(ask(&mut client), Ok(()));
    }
    service.ask("DELETE", &format!("/admin/v1/tokens/{id}"), &Value::Null);
    until("it is revoked here too", || ask(&mut client) == Err(tonic::Code::Unauthenticated));
    assert_eq!(status(OTHERS[0], &[("authorization", &bearer)], ACQUIRE), "16");
}

#[test]
fn grpc_may_go_its_own_way_about_tokens() {
    let open =
        Setup::rules(super::RULES).with("http.tokens", "true").with("grpc.tokens", "not_needed").start();
    assert_eq!(Client::new(&open).passes("api", "api_key", "ann", 1), 1);
    let closed = Setup::rules(super::RULES).with("grpc.tokens", "needed").start();
    let request = RateLimitRequest {
        domain: "api".to_owned(),
        descriptors: vec![descriptor(&[("api_key", "ann")])],
        hits_addend: 0,
    };
    let refused = Client::new(&closed).ask(request).expect_err("there is no token");
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    assert_eq!(closed.check("api", r#"{"api_key":"ann"}"#).status, 200);
}
