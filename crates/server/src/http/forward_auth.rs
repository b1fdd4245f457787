//! `GET /v1/forward-auth`: a proxy asks about a request that it describes by headers.
//!
//! The rules say which descriptors there are, how a denial is said, and who asks: NGINX is told to send
//! `X-Original-URI`, `X-Original-Method` and `X-Original-Host`; Traefik and Caddy send `X-Forwarded-Uri`,
//! `X-Forwarded-Method` and `X-Forwarded-Host`. Only those of the one that asks are read, for it passes on what
//! clients write into the others. They are the proxy's words: whoever else can reach this listener can say
//! anything.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::header::{HeaderMap, HeaderName};
use http::request::Parts;
use http::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use tidegate::{ForwardAuth, MappedEntry, Proxy, Request, ValueFrom};

use super::problem::Problem;
use super::{Body, HttpApi};
use crate::bounds::{Bounds, canonical_text, is_control};

/// A token where the service asks for one: `Authorization` is the client's own.
static TOKEN: HeaderName = HeaderName::from_static("x-tidegate-token");

/// The headers in which a proxy tells of the request it asks about.
struct Told {
    uri: HeaderName,
    method: HeaderName,
    host: HeaderName,
}

static ORIGINAL: Told = Told {
    uri: HeaderName::from_static("x-original-uri"),
    method: HeaderName::from_static("x-original-method"),
    host: HeaderName::from_static("x-original-host"),
};

static FORWARDED: Told = Told {
    uri: HeaderName::from_static("x-forwarded-uri"),
    method: HeaderName::from_static("x-forwarded-method"),
    host: HeaderName::from_static("x-forwarded-host"),
};

/// Tells the log, once, that all clients of a proxy count as one: over a Unix socket, too, whose peer counts as
/// 127.0.0.1.
fn warn_unbelieved(peer: IpAddr) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.load(Relaxed) && !TOLD.swap(true, Relaxed) {
        tracing::warn!(%peer, "a proxy that is not in http.trusted_proxies forwards clients, who count as one");
    }
}

impl HttpApi {
    pub(super) async fn forward_auth(&self, head: &Parts) -> Result<Response<Body>, Problem> {
        let timer = self.metrics.http_check.start();
        if !self.limiter.has_rules() {
            return Err(Problem::no_rules());
        }
        let (domain, mapping) = self.asked_domain(head.uri.query())?;
        let values = self.values(head, &mapping);
        let response = match self.request(&domain, &mapping, &values)? {
            Some(request) => {
                let decision = self.decide(&request).await;
                let renderer = self.renderer.clone().deny_status(status(mapping.deny_status));
                self.render_by(&renderer, &request, &decision)
            }
            // None of the descriptors is whole: nothing limits the request.
            None => Response::new(Body::default()),
        };
        timer.stop();
        Ok(response)
    }

    /// The domain that the query names, or the only one that takes such requests.
    fn asked_domain(&self, query: Option<&str>) -> Result<(String, Arc<ForwardAuth>), Problem> {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let mut asked = None;
        for (name, value) in pairs {
            if name != "domain" || asked.is_some() {
                return Err(Problem::bad(format!("the query must be domain=NAME, found {name:?}")));
            }
            asked = Some(value.into_owned());
        }
        let name = match asked {
            Some(name) => name,
            None => match self.limiter.forward_auth_domains().as_slice() {
                [only] => only.clone(),
                [] => return Err(Problem::bad("no domain has `forward_auth` in its rules; add it to one")),
                several => {
                    let names = several.join(", ");
                    return Err(Problem::bad(format!(
                        "several domains take such requests; add ?domain= with one of {names}"
                    )));
                }
            },
        };
        let mapping = self.limiter.forward_auth(&name).ok_or_else(|| {
            Problem::bad(format!(
                "domain {name:?} has no `forward_auth` in its rules, or there is no such domain"
            ))
        })?;
        Ok((name, mapping))
    }

    /// The value of every entry, in order; `None` where it is missing and has no default.
    fn values<'h>(&self, head: &'h Parts, mapping: &'h ForwardAuth) -> Vec<Option<Cow<'h, str>>> {
        let client = self.client_ip.resolve(self.peer, &head.headers);
        let by_address =
            || mapping.descriptors.iter().flatten().any(|entry| entry.from == ValueFrom::ClientIp);
        let forwarded = head.headers.contains_key(self.client_ip.forwarding_header().name());
        if forwarded && !self.client_ip.believes(self.peer) && by_address() {
            warn_unbelieved(self.peer);
        }
        // Rules that need them say who asks; else nothing is taken from them.
        let told = match mapping.proxy {
            Some(Proxy::Nginx) => Some(&ORIGINAL),
            Some(Proxy::Traefik | Proxy::Caddy) => Some(&FORWARDED),
            None => None,
        };
        let value = |entry: &'h MappedEntry| {
            let found = match &entry.from {
                ValueFrom::Header(name) => text(&head.headers, name),
                ValueFrom::ClientIp => Some(Cow::Owned(client.key.clone())),
                ValueFrom::Method => told.and_then(|told| text(&head.headers, &told.method)),
                ValueFrom::Path => {
                    told.and_then(|told| text(&head.headers, &told.uri)).map(|uri| path(&uri).into())
                }
                ValueFrom::Host => told.and_then(|told| text(&head.headers, &told.host)),
            };
            let found = found.filter(|value| !value.is_empty()).map(|value| counted(value, &self.bounds));
            found.or(entry.default.as_deref().map(Cow::Borrowed))
        };
        mapping.descriptors.iter().flatten().map(value).collect()
    }

    /// What is asked: the descriptors of which every entry is there.
    fn request<'r>(
        &self,
        domain: &'r str,
        mapping: &'r ForwardAuth,
        values: &'r [Option<Cow<'_, str>>],
    ) -> Result<Option<Request<'r>>, Problem> {
        let mut request: Option<Request<'r>> = None;
        let mut values = values.iter();
        for descriptor in &mapping.descriptors {
            let of_it = values.by_ref().take(descriptor.len());
            let entries: Option<Vec<(&str, &str)>> = descriptor
                .iter()
                .zip(of_it)
                .map(|(entry, value)| Some((&*entry.key, value.as_deref()?)))
                .collect();
            let Some(entries) = entries else { continue };
            // The values are in the form that is counted, whatever their length.
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

/// The token of a request, if it has one.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    headers.get(&TOKEN)?.to_str().ok()
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::TOO_MANY_REQUESTS)
}

/// A client's value in the form that is counted. It is never refused: a proxy may take that for a failure of its
/// own, and let the request pass.
fn counted<'v>(value: Cow<'v, str>, bounds: &Bounds) -> Cow<'v, str> {
    match canonical_text(value.as_bytes(), bounds.value_bytes) {
        Cow::Borrowed(_) => value,
        Cow::Owned(canonical) => Cow::Owned(canonical),
    }
}

/// The value of a header; several lines are one list. Bytes that are not text are replaced: whoever sends them
/// is still counted.
fn text(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Option<Cow<'_, str>> {
    let mut lines = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let first = lines.next()?;
    Some(lines.fold(first, |list, line| Cow::Owned(format!("{list}, {line}"))))
}

/// The path of a target in one spelling, so that nobody has another counter by writing it otherwise: without the
/// query, decoded, without empty segments and those that are dots. What no text holds stays encoded.
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
                    // Writing to a text cannot fail.
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
