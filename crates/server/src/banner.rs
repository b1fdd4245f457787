//! What somebody who starts the service sees first: where it listens, and what to try.

use std::fmt::Write;

use serde_json::json;
use tidegate::{DomainListing, Limiter};

use crate::build_info;
use crate::config::Settings;
use crate::listen::socket::Socket;

/// Lines for standard output.
pub struct Banner {
    text: String,
    http: Option<String>,
    /// Bodies of check requests to try, each with what it shows.
    examples: Vec<(&'static str, String)>,
}

impl Banner {
    /// Begins with what is served.
    pub fn new(settings: &Settings, limiter: &Limiter) -> Self {
        let domains = limiter.domain_names();
        let mut text = format!("tidegate {}\n", build_info::VERSION);
        let rules = match &settings.rules {
            None => "the catalog".to_owned(),
            Some(_) if settings.has_built_in_rules() => {
                "built in; `tidegate init` writes rules to change".to_owned()
            }
            Some(path) => path.display().to_string(),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  rules   {rules} (domains: {})", listed(&domains));
        let _ = writeln!(text, "  data    {}", settings.data.display());
        Self { text, http: None, examples: examples(&limiter.listing()) }
    }

    /// Adds a listener.
    pub fn listener(&mut self, name: &str, socket: &Socket, tls: bool) {
        let secured = if tls { " (TLS)" } else { "" };
        let _ = writeln!(self.text, "  {name:<7} {}{secured}", socket.place());
        if name == "http"
            && !tls
            && let Some(address) = socket.address()
        {
            let host =
                if address.ip().is_unspecified() { "localhost".to_owned() } else { address.ip().to_string() };
            self.http = Some(format!("http://{host}:{}", address.port()));
        }
    }

    /// Prints it.
    pub fn show(mut self) {
        if let Some(url) = &self.http {
            for (about, body) in &self.examples {
                let _ = writeln!(
                    self.text,
                    "\n{about}\n  curl -i {url}/v1/check -H 'content-type: application/json' -d '{body}'"
                );
            }
        }
        // Nobody reads it if standard output is closed, and that is fine.
        let _ = std::io::Write::write_all(&mut std::io::stdout().lock(), self.text.as_bytes());
    }
}

/// A request that a rule applies to, and one that brings its limits along, if the rules have a domain for them.
fn examples(domains: &[DomainListing]) -> Vec<(&'static str, String)> {
    let by_rule = domains.iter().find_map(|domain| Some((&domain.domain, domain.first_key.as_ref()?)));
    let by_rule = by_rule
        .map(|(domain, key)| ("try it:", json!({ "domain": domain, "descriptor": { key.as_str(): "ann" } })));
    let takes_limits = |domain: &&DomainListing| domain.inline_limits.is_some_and(|max| max > 0);
    // The middlewares ask in `apps` by default.
    let apps = domains.iter().filter(takes_limits).max_by_key(|domain| domain.domain == "apps");
    let in_code = apps.map(|DomainListing { domain, .. }| {
        let limits = json!([{ "requests": 10, "per": "minute" }]);
        let body = json!({ "domain": domain, "descriptor": { "client": "ann" }, "limits": limits });
        ("try a limit that stands in code, as the SDKs send it:", body)
    });
    by_rule.into_iter().chain(in_code).map(|(about, body)| (about, body.to_string())).collect()
}

/// So many domains are named.
const SHOWN: usize = 5;

fn listed(domains: &[String]) -> String {
    if domains.is_empty() {
        return "none yet".to_owned();
    }
    let mut text = domains[..domains.len().min(SHOWN)].join(", ");
    if domains.len() > SHOWN {
        text.push_str(", …");
    }
    text
}
