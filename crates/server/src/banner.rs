//! The text that the service prints when it starts: its addresses, and requests to try.

use std::fmt::Write;

use serde_json::json;
use tidegate::{DomainListing, Limiter};

use crate::build_info;
use crate::config::Settings;
use crate::listen::socket::Socket;

/// The text that the service prints when it starts.
pub struct Banner {
    text: String,
    http: Option<String>,
    /// Bodies of check requests to try, each with a description.
    examples: Vec<(&'static str, String)>,
}

impl Banner {
    /// Starts the text with the rules and the data folder.
    pub fn new(settings: &Settings, limiter: &Limiter) -> Self {
        let domains = limiter.domain_names();
        let mut text = format!("tidegate {}\n", build_info::VERSION);
        let rules = match &settings.rules {
            None => "the catalog".to_owned(),
            Some(_) if settings.has_built_in_rules() => {
                "built in; `tidegate init` writes rules to edit".to_owned()
            }
            Some(path) => path.display().to_string(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  rules   {rules} (domains: {})", listed(&domains));
        let _ = writeln!(text, "  data    {}", settings.data.display());
        Self { text, http: None, examples: examples(&limiter.listing()) }
    }

    /// Adds the address of a listener.
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

    /// Prints the text.
    pub fn show(mut self) {
        if let Some(url) = &self.http {
            for (about, body) in &self.examples {
                let _ = writeln!(
                    self.text,
                    "\n{about}\n  curl -i {url}/v1/check -H 'content-type: application/json' -d '{body}'"
                );
            }
        }
        // It does not matter if standard output is closed.
        let _ = std::io::Write::write_all(&mut std::io::stdout().lock(), self.text.as_bytes());
    }
}

/// Returns a request that a rule applies to, and one with its own limits, if the rules have a domain for that.
fn examples(domains: &[DomainListing]) -> Vec<(&'static str, String)> {
    let by_rule = domains.iter().find_map(|domain| Some((&domain.domain, domain.first_key.as_ref()?)));
    let by_rule = by_rule
        .map(|(domain, key)| ("try it:", json!({ "domain": domain, "descriptor": { key.as_str(): "ann" } })));
    let takes_limits = |domain: &&DomainListing| domain.inline_limits.is_some_and(|max| max > 0);
    // The middlewares use `apps` by default.
    let apps = domains.iter().filter(takes_limits).max_by_key(|domain| domain.domain == "apps");
    let in_code = apps.map(|DomainListing { domain, .. }| {
        let limits = json!([{ "requests": 10, "per": "minute" }]);
        let body = json!({ "domain": domain, "descriptor": { "client": "ann" }, "limits": limits });
        ("try a limit that is defined in code, as the SDKs send it:", body)
    });
    by_rule.into_iter().chain(in_code).map(|(about, body)| (about, body.to_string())).collect()
}

/// The maximum number of domains that are listed.
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
