//! The control plane: tenants, rules, switches, tokens and who changed what, over the real binary.

mod access;
mod audit;
mod contract;
mod history;
mod nodes;
mod outbox;
mod poolers;
mod postgres;
mod quotas;
mod readiness;
mod rules;
mod switches;
mod time;
mod usage;

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::service::{Answer, Service, Setup, send};

/// A tenant's own rule, one per endpoint, and tiers. Windows are long, so that none ends during a test.
pub(super) const RULES: &str = r#"
domain: api
tenant: api_key
descriptors:
  - key: api_key
    limits:
      - {name: steady, requests: 5, per: 365d, algorithm: fixed_window}
    tiers:
      free: {}
      pro: {steady: {requests: 50}}
    descriptors:
      - key: endpoint
        value: "POST /orders"
        rate_limit: {unit: year, requests_per_unit: 3}
      - key: region
        rate_limit: {unit: year, requests_per_unit: 2}
"#;

/// Asks the admin API, with a token if there is one.
pub(crate) fn ask_at(
    at: SocketAddr,
    token: Option<&str>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    use std::fmt::Write as _;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    if let Some(token) = token {
        let _ = write!(head, "authorization: Bearer {token}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    send(at, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
}

impl Service {
    /// The token it made for itself.
    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.file("data/admin-token")).expect("it made one").trim().to_owned()
    }

    /// Asks its admin API as an administrator, with JSON.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        ask_at(self.admin, Some(&self.token()), method, path, &[("content-type", "application/json")], &text)
    }

    /// Puts a tenant, which succeeds.
    pub(super) fn put_quota(&self, tenant: &str, body: &Value) -> Value {
        let answer = self.ask("PUT", &format!("/admin/v1/quotas/{tenant}"), body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    /// How many of so many requests pass.
    pub(super) fn passing(&self, descriptor: &Value, most: usize) -> usize {
        let allowed = |_: &usize| self.check("api", &descriptor.to_string()).status == 200;
        (0..most).take_while(allowed).count()
    }
}

/// A service with the rules above.
pub(super) fn start() -> Service {
    Setup::rules(RULES).start()
}

/// The fields that an answer finds at fault.
pub(super) fn fields(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{}", answer.body);
    let problem = answer.json();
    assert_eq!(problem["status"], answer.status, "{problem}");
    let errors = problem["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error["field"].as_str().expect("a field").to_owned()).collect()
}

/// An override of the tenant's own rule.
pub(super) fn requests(requests: i64) -> Value {
    json!({ "overrides": [{ "requests_per_unit": requests, "unit": "year" }] })
}
