//! `GET /v1/forward-auth`: decides a request that a proxy describes in headers.
//!
//! The rules define which descriptors to build, the status of a denial, and which proxy is used. NGINX is configured
//! to send `X-Original-URI`, `X-Original-Method` and `X-Original-Host`; Traefik and Caddy send `X-Forwarded-Uri`,
//! `X-Forwarded-Method` and `X-Forwarded-Host`. Only the headers of that proxy are read, because it forwards the
//! others as its clients sent them. Any other client that can reach this listener can send all of them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use tidegate::{ForwardAuth, MappedEntry, Proxy, Request, ValueFrom};
use tidegate_middleware::ClientIp;

use super::{Body, HttpApi, no_rules};
use crate::bounds::{Bounds, canonical_text, is_control};
use crate::problem::Problem;
use crate::request_id::RequestId;

/// The header that carries the token, because `Authorization` belongs to the client of the proxy.
static TOKEN: HeaderName = HeaderName::from_static("x-tidegate-token");

/// The headers in which a proxy describes the request.
struct ProxyHeaders {
    uri: HeaderName,
    method: HeaderName,
    host: HeaderName,
}

static ORIGINAL: ProxyHeaders = ProxyHeaders {
    uri: HeaderName::from_static("x-original-uri"),
    method: HeaderName::from_static("x-original-method"),
    host: HeaderName::from_static("x-original-host"),
};

static FORWARDED: ProxyHeaders = ProxyHeaders {
    uri: HeaderName::from_static("x-forwarded-uri"),
    method: HeaderName::from_static("x-forwarded-method"),
    host: HeaderName::from_static("x-forwarded-host"),
};

/// Logs once that all clients of a proxy are counted as one. The peer on a Unix socket counts as 127.0.0.1.
fn warn_untrusted(peer: IpAddr) {
    static LOGGED: AtomicBool = AtomicBool::new(false);
    if !LOGGED.load(Relaxed) && !LOGGED.swap(true, Relaxed) {
        tracing::warn!(%peer, "a proxy that is not in http.trusted_proxies forwards clients, who count as one");
    }
}

impl HttpApi {
    pub(super) async fn forward_auth(&self, head: &Parts) -> Result<Response<Body>, Problem> {
        let timer = self.decider.start();
        if !self.decider.limiter().has_rules() {
            return Err(no_rules());
        }
        let (domain, mapping) = self.forward_auth_domain(head.uri.query())?;
        let values = values(&self.client_ip, &self.bounds, self.peer, &head.headers, &mapping);
        let response = match self.request(&domain, &mapping, &values)? {
            Some(request) => {
                let decision = self.decider.decide(&request, RequestId::of(&head.headers)).await;
                let renderer = self.renderer.clone().deny_status(status(mapping.deny_status));
                self.render_by(&renderer, &request, &decision)
            }
            // No descriptor has all of its values, so nothing limits the request.
            None => Response::new(Body::default()),
        };
        timer.stop();
        Ok(response)
    }

    /// Returns the domain named in the query, or the only domain with `forward_auth` in its rules.
    fn forward_auth_domain(&self, query: Option<&str>) -> Result<(String, Arc<ForwardAuth>), Problem> {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let mut named = None;
        for (name, value) in pairs {
            if name != "domain" || named.is_some() {
                return Err(Problem::bad(format!("the query must be domain=NAME, found {name:?}")));
            }
            named = Some(value.into_owned());
        }
        let name = match named {
            Some(name) => name,
            None => match self.decider.limiter().forward_auth_domains().as_slice() {
                [only] => only.clone(),
                [] => return Err(Problem::bad("no domain has `forward_auth` in its rules; add it to one")),
                several => {
                    let all = several.join(", ");
                    return Err(Problem::bad(format!(
                        "several domains have `forward_auth` in their rules; add ?domain= with one of {all}"
                    )));
                }
            },
        };
        let mapping = self.decider.limiter().forward_auth(&name).ok_or_else(|| {
            Problem::bad(format!(
                "domain {name:?} has no `forward_auth` in its rules, or there is no such domain"
            ))
        })?;
        Ok((name, mapping))
    }

    /// Builds a request from the descriptors that have all of their values.
    fn request<'r>(
        &self,
        domain: &'r str,
        mapping: &'r ForwardAuth,
        values: &'r [Option<Cow<'_, str>>],
    ) -> Result<Option<Request<'r>>, Problem> {
        let mut request: Option<Request<'r>> = None;
        for entries in descriptors(mapping, values) {
            // The values are in canonical form already, whatever their length.
            for (key, _) in &entries {
                self.bounds.entry(key, "").map_err(|refusal| Problem::from(refusal).at(key))?;
            }
            request = Some(match request {
                None => Request::new(domain, entries),
                Some(request) => request.and(entries),
            });
        }
        Ok(request)
    }
}

/// Returns the value of every entry, in order; `None` if it is missing and has no default.
pub(crate) fn values<'h>(
    client_ip: &ClientIp,
    bounds: &Bounds,
    peer: IpAddr,
    headers: &'h HeaderMap,
    mapping: &'h ForwardAuth,
) -> Vec<Option<Cow<'h, str>>> {
    let client = client_ip.resolve(peer, headers);
    let by_address = || mapping.descriptors.iter().flatten().any(|entry| entry.from == ValueFrom::ClientIp);
    let forwarded = headers.contains_key(client_ip.forwarding_header().name());
    if forwarded && !client_ip.believes(peer) && by_address() {
        warn_untrusted(peer);
    }
    let proxy = proxy_headers(mapping);
    let value = |entry: &'h MappedEntry| {
        let found = match &entry.from {
            ValueFrom::Header(name) => text(headers, name),
            ValueFrom::ClientIp => Some(Cow::Owned(client.key.clone())),
            ValueFrom::Method => proxy.and_then(|proxy| text(headers, &proxy.method)),
            ValueFrom::Path => proxy.and_then(|proxy| text(headers, &proxy.uri)).map(|uri| path(&uri).into()),
            ValueFrom::Host => proxy.and_then(|proxy| text(headers, &proxy.host)),
        };
        let found = found.filter(|value| !value.is_empty()).map(|value| counted(value, bounds));
        found.or(entry.default.as_deref().map(Cow::Borrowed))
    };
    mapping.descriptors.iter().flatten().map(value).collect()
}

/// Returns the headers in which the configured proxy describes requests; `None` if the rules name no proxy.
fn proxy_headers(mapping: &ForwardAuth) -> Option<&'static ProxyHeaders> {
    match mapping.proxy {
        Some(Proxy::Nginx) => Some(&ORIGINAL),
        Some(Proxy::Traefik | Proxy::Caddy) => Some(&FORWARDED),
        None => None,
    }
}

/// Adds the headers in which the configured proxy would describe a request with this method and path.
///
/// # Errors
/// Returns the name of the header whose value would be invalid.
pub(crate) fn describe(
    headers: &mut HeaderMap,
    mapping: &ForwardAuth,
    method: Option<&str>,
    path: Option<&str>,
) -> Result<(), &'static str> {
    let Some(proxy) = proxy_headers(mapping) else { return Ok(()) };
    let host = headers.get(HOST).cloned();
    for (field, name, value) in [("method", &proxy.method, method), ("path", &proxy.uri, path)] {
        if let Some(value) = value {
            headers.insert(name, HeaderValue::from_str(value).map_err(|_| field)?);
        }
    }
    if let Some(host) = host {
        headers.entry(&proxy.host).or_insert(host);
    }
    Ok(())
}

/// Returns the descriptors that have all of their values.
pub(crate) fn descriptors<'r>(
    mapping: &'r ForwardAuth,
    values: &'r [Option<Cow<'_, str>>],
) -> Vec<Vec<(&'r str, &'r str)>> {
    let mut values = values.iter();
    let of = |descriptor: &'r Vec<MappedEntry>| {
        let of_it = values.by_ref().take(descriptor.len());
        descriptor.iter().zip(of_it).map(|(entry, value)| Some((&*entry.key, value.as_deref()?))).collect()
    };
    // Every descriptor consumes its values from the iterator, even if some are missing.
    let all: Vec<Option<Vec<_>>> = mapping.descriptors.iter().map(of).collect();
    all.into_iter().flatten().collect()
}

/// Returns the token of a request, if present.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    headers.get(&TOKEN)?.to_str().ok()
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::TOO_MANY_REQUESTS)
}

/// Returns a client's value in canonical form. Values are never rejected: a proxy may treat that as a failure of the
/// service, and let the request pass.
fn counted<'v>(value: Cow<'v, str>, bounds: &Bounds) -> Cow<'v, str> {
    match canonical_text(value.as_bytes(), bounds.value_bytes) {
        Cow::Borrowed(_) => value,
        Cow::Owned(canonical) => Cow::Owned(canonical),
    }
}

/// Returns the value of a header; several lines are joined as a list. Bytes that are not UTF-8 are replaced, so that
/// their sender is still counted.
fn text(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Option<Cow<'_, str>> {
    let mut lines = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let first = lines.next()?;
    Some(lines.fold(first, |list, line| Cow::Owned(format!("{list}, {line}"))))
}

/// Returns the normalized path of a target, so that another spelling does not get another counter: without the query,
/// decoded, without empty and dot segments. Control characters and `%` stay encoded.
fn path(target: &str) -> String {
    let end = target.find(['?', '#']).unwrap_or(target.len());
    let decoded: Vec<u8> = percent_decode_str(&target[..end]).collect();
    let decoded = String::from_utf8_lossy(&decoded);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut path = String::with_capacity(decoded.len() + 1);
    for segment in &segments {
        path.push('/');
        for character in segment.chars() {
            match u8::try_from(character) {
                Ok(byte) if is_control(byte) || byte == b'%' => {
                    // Writing to a String cannot fail.
                    let _ = write!(path, "%{byte:02X}");
                }
                _ => path.push(character),
            }
        }
    }
    if segments.is_empty() || decoded.ends_with('/') {
        path.push('/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn a_path_has_one_spelling() {
        for written in
            ["/login", "//login", "/./login", "/x/../login", "/%6cogin", "/%2flogin?next=/", "/login#a"]
        {
            assert_eq!(path(written), "/login", "{written}");
        }
        for (written, one) in [
            ("", "/"),
            ("/", "/"),
            ("/../..", "/"),
            ("/login/", "/login/"),
            ("/a%0Ab", "/a%0Ab"),
            ("/100%25", "/100%25"),
            ("/gr%C3%B6%C3%9Fer", "/größer"),
        ] {
            assert_eq!(path(written), one, "{written}");
        }
    }
}
