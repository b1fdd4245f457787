//! Descriptors of forward-auth requests, in which a proxy describes a request by headers: NGINX with
//! `auth_request`, Traefik, Caddy.

use std::sync::Arc;

use crate::limiter::Limiter;

/// How the headers of a forward-auth request map to descriptors, and the status of a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardAuth {
    /// The proxy that sends the requests. Only its own headers are read, because clients can send the others.
    pub proxy: Option<Proxy>,
    /// The status of a denial. NGINX passes on only 401 and 403.
    pub deny_status: u16,
    /// The descriptors. Each is checked if all of its entries have a value.
    pub descriptors: Vec<Vec<MappedEntry>>,
}

/// A proxy, which has its own headers for the original request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// NGINX: `X-Original-URI`, `X-Original-Method` and `X-Original-Host`, which its configuration has to
    /// set.
    Nginx,
    /// Traefik: `X-Forwarded-Uri`, `X-Forwarded-Method` and `X-Forwarded-Host`, which it sets by itself.
    Traefik,
    /// Caddy: `X-Forwarded-Uri`, `X-Forwarded-Method` and `X-Forwarded-Host`, which it sets by itself.
    Caddy,
}

/// An entry of a descriptor, and the source of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedEntry {
    /// The key of the entry.
    pub key: String,
    /// The source of the value.
    pub from: ValueFrom,
    /// The value if the source has none. Without a default, the whole descriptor is skipped then.
    pub default: Option<String>,
}

/// The source of an entry's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueFrom {
    /// The header with this name, in lower case.
    Header(String),
    /// The address of the client that sent the request to the proxy. IPv6 addresses are grouped by network.
    ClientIp,
    /// The method of the original request.
    Method,
    /// The path of the original request, without its query, in a canonical spelling.
    Path,
    /// The host of the original request.
    Host,
}

impl ForwardAuth {
    /// The default status of a denial.
    pub const DEFAULT_STATUS: u16 = 429;
}

impl Limiter {
    /// Returns the forward-auth configuration of a domain, if it has one.
    pub fn forward_auth(&self, domain: &str) -> Option<Arc<ForwardAuth>> {
        self.inner.rules.load().domain(domain)?.1.forward_auth.clone()
    }

    /// Returns the names of the domains that have a forward-auth configuration.
    pub fn forward_auth_domains(&self) -> Vec<String> {
        let rules = self.inner.rules.load();
        let domains = rules.domains.iter().filter(|domain| domain.forward_auth.is_some());
        domains.map(|domain| domain.name.to_string()).collect()
    }
}
