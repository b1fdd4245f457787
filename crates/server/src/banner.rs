//! What somebody who starts the service sees first: where it listens, and what to try.

use std::fmt::Write;

use tidegate::Limiter;

use crate::config::Settings;
use crate::listen::socket::Socket;

/// Lines for standard output.
pub struct Banner {
    text: String,
    http: Option<String>,
    /// A domain, and a key it has rules for.
    example: Option<(String, String)>,
}

impl Banner {
    /// Begins with what is served.
    pub fn new(settings: &Settings, limiter: &Limiter) -> Self {
        let domains = limiter.domain_names();
        let mut text = format!("tidegate {}\n", env!("CARGO_PKG_VERSION"));
        let rules = settings.rules.as_ref().map_or_else(|| "the catalog".to_owned(), |path| path.display().to_string());
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  rules   {rules} (domains: {})", listed(&domains));
        let _ = writeln!(text, "  data    {}", settings.data.display());
        let example =
            limiter.listing().into_iter().find_map(|domain| Some((domain.domain, domain.first_key?)));
        Self { text, http: None, example }
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
        if let (Some(url), Some((domain, key))) = (&self.http, &self.example) {
            let _ = writeln!(
                self.text,
                "\ntry it:\n  curl -i {url}/v1/check -d '{{\"domain\":\"{domain}\",\"descriptor\":{{\"{key}\":\"ann\"}}}}' \
                 -H 'content-type: application/json'"
            );
        }
        // Nobody reads it if standard output is closed, and that is fine.
        let _ = std::io::Write::write_all(&mut std::io::stdout().lock(), self.text.as_bytes());
    }
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
