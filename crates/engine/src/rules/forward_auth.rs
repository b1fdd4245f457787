//! What a domain asks about a request that a proxy describes by headers: NGINX with `auth_request`, Traefik,
//! Caddy.

use std::sync::Arc;

use crate::limiter::Limiter;

/// Which descriptors a request has, by its headers, and how a denial is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardAuth {
    /// Who asks. Only its own headers are read: those of others are what clients write.
    pub proxy: Option<Proxy>,
    /// The status of a denial. NGINX passes on only 401 and 403.
    pub deny_status: u16,
    /// Each is asked about if all of its entries are there.
    pub descriptors: Vec<Vec<MappedEntry>>,
}

/// A kind of proxy, which has its own headers for the request it asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// `X-Original-URI`, `X-Original-Method` and `X-Original-Host`, which its configuration sets.
    Nginx,
    /// `X-Forwarded-Uri`, `X-Forwarded-Method` and `X-Forwarded-Host`, which it sets by itself.
    Traefik,
    /// The same as Traefik's.
    Caddy,
}

/// An entry of a descriptor, and where its value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedEntry {
    /// The entry's key.
    pub key: String,
    /// Where its value is.
    pub from: ValueFrom,
    /// Its value where there is none; without, the whole descriptor is left out.
    pub default: Option<String>,
}

/// Where the value of an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueFrom {
    /// In the header of that name, in small letters.
    Header(String),
    /// The address of whoever asked the proxy, those of version 6 by their network.
    ClientIp,
    /// The method of the request to the proxy.
    Method,
    /// The path of the request to the proxy, without its query, in one spelling.
    Path,
    /// The host that the request to the proxy was for.
    Host,
}

impl ForwardAuth {
    /// The status of a denial where nobody says otherwise.
    pub const USUAL_STATUS: u16 = 429;
}

impl Limiter {
    /// What a domain asks about requests that a proxy describes by headers, if it does.
    pub fn forward_auth(&self, domain: &str) -> Option<Arc<ForwardAuth>> {
        self.inner.rules.load().domain(domain)?.1.forward_auth.clone()
    }

    /// The names of the domains that do.
    pub fn forward_auth_domains(&self) -> Vec<String> {
        let rules = self.inner.rules.load();
        let asking = rules.domains.iter().filter(|domain| domain.forward_auth.is_some());
        asking.map(|domain| domain.name.to_string()).collect()
    }
}
