//! Protects users whose browser can reach the admin listener from pages of other sites.
//!
//! A page can make its own host name resolve to this machine after it was loaded (DNS rebinding), and then read the
//! responses. So only requests for known host names are answered. IP addresses need no such list: a page that was loaded
//! from an address came from there.

use std::net::IpAddr;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue};
use http::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::uri::Authority;
use http::{HeaderMap, Request, StatusCode};

use crate::config::Listen;
use crate::config::settings::Admin;
use crate::problem::Problem;

/// Nothing may be loaded or framed: most responses are not pages.
const STRICT: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// The page of the API loads files of this listener, sets inline styles and sends requests to this listener.
const DOCS: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// The dashboard loads files of this listener, sends requests to it, and makes no markup of texts.
const DASHBOARD: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'",
);
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The host names for which the admin listener accepts requests.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    /// In lower case; `*.x` matches every name below `x`.
    names: Vec<String>,
    any: bool,
}

impl AllowedHosts {
    /// Returns the names in the settings. No page can reach a Unix socket, so any name is allowed there.
    pub fn of(settings: &Admin) -> Self {
        let mut names = settings.allowed_hosts.clone();
        if let Listen::Tcp { host, .. } = &settings.listen {
            names.push(host.to_ascii_lowercase());
        }
        let any = matches!(settings.listen, Listen::Unix(_)) || names.iter().any(|name| name == "*");
        Self { names, any }
    }

    /// Rejects a request for another name. A request without a name does not come from a browser.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        if self.any {
            return Ok(());
        }
        let in_headers = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
        let in_target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        for authority in in_headers.chain(in_target) {
            let host = std::str::from_utf8(authority).ok().and_then(|text| text.parse::<Authority>().ok());
            if !host.is_some_and(|authority| self.has(authority.host())) {
                let found = String::from_utf8_lossy(authority);
                let detail = format!(
                    "the host {found:?} is not allowed; use localhost or an IP address, or add the name to \
                     admin.allowed_hosts"
                );
                return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail));
            }
        }
        Ok(())
    }

    fn has(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let host = host.to_ascii_lowercase();
        let below = |name: &str| {
            let suffix = name.strip_prefix('*');
            suffix.is_some_and(|suffix| host.len() > suffix.len() && host.ends_with(suffix))
        };
        host.parse::<IpAddr>().is_ok()
            || host == "localhost"
            || host.ends_with(".localhost")
            || self.names.iter().any(|name| *name == host || below(name))
    }
}

/// Adds the headers that restrict what browsers may do with a response.
pub(super) fn protect(path: &str, headers: &mut HeaderMap) {
    let is_docs = path == "/docs" || path.starts_with("/docs/");
    let policy = match path {
        _ if is_docs => DOCS,
        "/" => DASHBOARD,
        _ => STRICT,
    };
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    if path.starts_with("/admin/") {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}
