//! What pages of other sites can do with the browser of somebody who can reach the service: nothing.

use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::support::service::{Answer, Service, Setup, get, send, service};

const RULES: &str = "
domain: api
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000}}]
";
const CHECK: &str = r#"{"domain":"api","descriptor":{"user":"ann"}}"#;
const JSON: &str = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;

fn get_as(at: SocketAddr, host: &str) -> Answer {
    send(at, &format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"))
}

fn post(service: &Service, path: &str, headers: &[(&str, &str)]) -> Answer {
    let body = if path == "/json" { JSON } else { CHECK };
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    send(service.http, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
}

fn left(service: &Service) -> u64 {
    let body = r#"{"domain":"api","descriptor":{"user":"ann"},"cost":0}"#;
    let answer = crate::support::service::post(service.http, "/v1/check", body).json();
    answer["limits"][0]["remaining"].as_u64().expect("a number")
}

#[test]
fn every_admin_answer_forbids_frames_sniffing_and_foreign_scripts() {
    let service = service(RULES);
    let paths = ["/", "/docs/", "/docs/swagger-ui.css", "/openapi.json", "/metrics", "/healthcheck", "/none"];
    for path in paths.into_iter().chain(["/admin/v1/quotas"]) {
        let answer = get(service.admin, path);
        let header = |name: &str| answer.header(name).unwrap_or_else(|| panic!("{path} without {name}"));
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!policy.contains("script-src 'self' 'unsafe"), "{path}: {policy}");
        assert_eq!(header("x-frame-options"), "DENY");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
    }
    assert_eq!(get(service.admin, "/admin/v1/quotas").header("cache-control"), Some("no-store"));
}

/// Scripts are the page's own files: the policy would not run others.
#[test]
fn the_page_of_the_admin_api_gets_by_with_its_policy() {
    let service = service(RULES);
    let page = get(service.admin, "/docs/");
    assert_eq!(page.status, 200);
    for script in page.body.split("<script").skip(1) {
        let (tag, rest) = script.split_once('>').expect("a tag");
        let (inside, _) = rest.split_once("</script>").expect("its end");
        assert!(tag.contains("src=") && inside.trim().is_empty(), "an inline script: {tag} {inside}");
        assert!(!tag.contains("://"), "a script of another site: {tag}");
    }
    assert!(page.body.contains("<script"), "{}", page.body);
}

#[test]
fn the_admin_listener_answers_to_its_own_names_only() {
    let service = service(RULES);
    let port = service.admin.port();
    for ours in ["localhost", "LOCALHOST", "node.localhost", "127.0.0.1", "10.1.2.3", "[::1]", "localhost."] {
        assert_eq!(get_as(service.admin, ours).status, 200, "{ours}");
        assert_eq!(get_as(service.admin, &format!("{ours}:{port}")).status, 200, "{ours}");
    }
    for foreign in
        ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evillocalhost", "a@b c"]
    {
        let answer = get_as(service.admin, foreign);
        assert!([421, 400].contains(&answer.status), "{foreign}: {}", answer.status);
        assert!(!answer.body.contains("ratelimit_"), "{foreign}");
    }
    let answer = get_as(service.admin, "evil.example");
    assert_eq!(answer.status, 421);
    assert!(answer.body.contains("admin.allowed_hosts"), "{}", answer.body);
    let absolute = "GET http://evil.example/metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(send(service.admin, absolute).status, 421);
}

#[test]
fn names_of_the_settings_are_the_admin_listeners_own() {
    let setup = Setup::rules(RULES).with("admin.allowed_hosts", "tidegate.internal, *.Example.com");
    let service = setup.start();
    for (host, status) in [
        ("tidegate.internal:6070", 200),
        ("a.example.com", 200),
        ("a.b.example.com", 200),
        ("example.com", 421),
        ("badexample.com", 421),
        ("x.tidegate.internal", 421),
    ] {
        assert_eq!(get_as(service.admin, host).status, status, "{host}");
    }
    let any = Setup::rules(RULES).with("admin.allowed_hosts", "*").start();
    assert_eq!(get_as(any.admin, "evil.example").status, 200);
}

#[test]
fn a_page_of_another_site_cannot_spend_a_limit() {
    let service = service(RULES);
    let json = ("content-type", "application/json");
    let form = ("content-type", "application/x-www-form-urlencoded");
    let text = ("content-type", "text/plain");
    let parts = ("content-type", "multipart/form-data; boundary=x");
    let origin = ("origin", "https://evil.example");
    let cross = ("sec-fetch-site", "cross-site");
    for path in ["/v1/check", "/json"] {
        for (headers, status) in [
            (&[json, cross, origin][..], 403),
            (&[json, ("sec-fetch-site", "same-site")], 403),
            (&[json, ("sec-fetch-site", "nonsense")], 403),
            (&[text, cross, origin], 403),
            (&[text, origin], 415),
            (&[text], 415),
            (&[parts], 415),
            (&[form], 415),
            (&[form, origin], 415),
            (&[form, ("sec-fetch-site", "same-origin")], 415),
            (&[origin], 415),
            (&[("sec-fetch-site", "none")], 415),
        ] {
            let answer = post(&service, path, headers);
            assert_eq!(answer.status, status, "{path} {headers:?}: {}", answer.body);
        }
    }
    assert_eq!(left(&service), 1000, "nothing was spent");
    for (path, headers) in [
        ("/v1/check", &[json][..]),
        ("/v1/check", &[]),
        ("/v1/check", &[json, ("sec-fetch-site", "same-origin"), ("origin", "http://localhost")]),
        ("/v1/check", &[json, ("sec-fetch-mode", "cors")]),
        ("/json", &[json]),
        ("/json", &[]),
    ] {
        assert_eq!(post(&service, path, headers).status, 200, "{path} {headers:?}");
    }
    assert_eq!(left(&service), 994);
}

/// `curl -d` sends a form, and so can a page in a browser that is too old to say where it comes from.
#[test]
fn a_form_is_refused_unless_the_service_stands_in_for_envoyproxy_ratelimit() {
    let form = ("content-type", "application/x-www-form-urlencoded");
    let refusing = service(RULES);
    let answer = post(&refusing, "/json", &[form]);
    assert_eq!(answer.status, 415, "{}", answer.body);
    for remedy in ["-H 'content-type: application/json'", "compat: envoy-ratelimit"] {
        assert!(answer.body.contains(remedy), "{}", answer.body);
    }
    assert_eq!(post(&refusing, "/v1/check", &[form]).status, 415);
    assert_eq!(left(&refusing), 1000, "nothing was spent");
    let compatible = Setup::rules(RULES).with("compat", "envoy-ratelimit").start();
    assert_eq!(post(&compatible, "/json", &[form]).status, 200);
    assert_eq!(post(&compatible, "/v1/check", &[form]).status, 415);
    for browser in [("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")] {
        assert_eq!(post(&compatible, "/json", &[form, browser]).status, 415);
    }
}

#[test]
fn a_setting_lets_pages_of_other_sites_post() {
    let service = Setup::rules(RULES).with("http.cross_site", "allow").start();
    let headers = [("sec-fetch-site", "cross-site"), ("content-type", "text/plain")];
    for path in ["/v1/check", "/json"] {
        assert_eq!(post(&service, path, &headers).status, 200);
    }
}

/// A proxy passes on what its client sent.
#[test]
fn forward_auth_decides_for_pages_of_any_site() {
    let rules = "
domain: web
forward_auth: {proxy: traefik, descriptors: [[{key: user, header: x-user}]]}
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]
";
    let service = service(rules);
    let request = "GET /v1/forward-auth?domain=web HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-user: ann\r\n\
        x-forwarded-method: GET\r\nx-forwarded-uri: /\r\nx-forwarded-proto: http\r\nx-forwarded-host: h\r\n\
        sec-fetch-site: cross-site\r\norigin: https://other.example\r\n\r\n";
    let answer = send(service.http, request);
    assert_eq!(answer.status, 200, "{}", answer.body);
}
