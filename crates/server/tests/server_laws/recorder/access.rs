//! Signing in with a cookie.

use serde_json::{Value, json};

use super::start;
use crate::control::ask_at;
use crate::support::service::{Answer, Service, until};

struct Browser<'s> {
    service: &'s Service,
    cookie: String,
    csrf: String,
}

impl<'s> Browser<'s> {
    fn sign_in(service: &'s Service, token: &str) -> Self {
        let answer = sign_in(service, token);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let set = answer.header("set-cookie").expect("a cookie");
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(set.contains(part), "{set}");
        }
        assert!(!set.contains(token) && !answer.body.contains(token), "the token is not sent back");
        let cookie = set.split(';').next().expect("a pair").to_owned();
        let csrf = answer.json()["csrf"].as_str().expect("a text").to_owned();
        Self { service, cookie, csrf }
    }

    fn ask(&self, method: &str, path: &str, csrf: Option<&str>, body: &Value) -> Answer {
        let mut headers = vec![("cookie", self.cookie.as_str()), ("content-type", "application/json")];
        headers.extend(csrf.map(|csrf| ("x-csrf-token", csrf)));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask_at(self.service.admin, None, method, &format!("/admin/v1/{path}"), &headers, &body)
    }
}

fn sign_in(service: &Service, token: &str) -> Answer {
    let body = json!({ "token": token }).to_string();
    let headers = [("content-type", "application/json")];
    ask_at(service.admin, None, "POST", "/admin/v1/session", &headers, &body)
}

/// Creates a token of a role. Returns its ID and the token.
fn token(service: &Service, role: &str) -> (String, String) {
    let created = service.ask("POST", "/admin/v1/tokens", &json!({ "name": role, "role": role }));
    assert_eq!(created.status, 201, "{}", created.body);
    let created = created.json();
    let text = |name: &str| created[name].as_str().expect("a text").to_owned();
    (text("id"), text("token"))
}

#[test]
fn a_cookie_reads_and_changes_only_with_the_csrf_token() {
    let service = start();
    let browser = Browser::sign_in(&service, &service.token());
    let who = browser.ask("GET", "session", None, &Value::Null);
    assert_eq!((who.status, &who.json()["role"]), (200, &json!("admin")));
    assert_eq!(who.json()["csrf"], browser.csrf.as_str());
    assert_eq!(browser.ask("GET", "overview", None, &Value::Null).status, 200);
    let change = json!({ "mode": "shadow" });
    for wrong in [None, Some("x"), Some("")] {
        assert_eq!(browser.ask("PUT", "switches/user", wrong, &change).status, 403);
        assert_eq!(browser.ask("DELETE", "session", wrong, &Value::Null).status, 403);
    }
    let changed = browser.ask("PUT", "switches/user", Some(&browser.csrf), &change);
    assert_eq!(changed.status, 200, "{}", changed.body);
    let out = browser.ask("DELETE", "session", Some(&browser.csrf), &Value::Null);
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")));
    assert_eq!(browser.ask("GET", "session", None, &Value::Null).status, 401);
}

#[test]
fn a_viewer_changes_nothing_and_a_wrong_token_signs_nobody_in() {
    let service = start();
    let (_, viewer) = token(&service, "viewer");
    let browser = Browser::sign_in(&service, &viewer);
    for path in ["overview", "history", "top", "denials", "rules/activity", "rules/tree", "settings", "nodes"]
    {
        assert_eq!(browser.ask("GET", path, None, &Value::Null).status, 200, "{path}");
    }
    let csrf = Some(browser.csrf.as_str());
    assert_eq!(browser.ask("PUT", "switches/user", csrf, &json!({ "mode": "off" })).status, 403);
    assert_eq!(browser.ask("PUT", "quotas/ann", csrf, &json!({})).status, 403);
    let (_, check) = token(&service, "check");
    assert_eq!(sign_in(&service, &check).status, 403, "a token for decisions is not for administrators");
    for wrong in ["", "x", &format!("{viewer}x")] {
        assert_eq!(sign_in(&service, wrong).status, 401);
    }
    let headers = [("cookie", "tidegate_session=x")];
    assert_eq!(ask_at(service.admin, None, "GET", "/admin/v1/overview", &headers, "").status, 401);
}

#[test]
fn a_session_ends_with_its_token() {
    let service = start();
    let (id, operator) = token(&service, "operator");
    let browser = Browser::sign_in(&service, &operator);
    assert_eq!(browser.ask("GET", "overview", None, &Value::Null).status, 200);
    let revoked = service.ask("DELETE", &format!("/admin/v1/tokens/{id}"), &Value::Null);
    assert_eq!(revoked.status, 204, "{}", revoked.body);
    until("the session has ended", || browser.ask("GET", "overview", None, &Value::Null).status == 401);
}
