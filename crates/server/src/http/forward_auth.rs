//! `GET /v1/forward-auth`: a proxy asks about a request that it describes by headers.
//!
//! The rules say which descriptors there are and how a denial is said. What came in place of the path is in
//! `X-Original-URI` (as NGINX is told to send it) or `X-Forwarded-Uri` (Traefik, Caddy), the method in
//! `X-Original-Method` or `X-Forwarded-Method`, the host in `X-Forwarded-Host` or `Host`. They are the proxy's
//! words: whoever else can reach this listener can say anything.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{HOST, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Response, StatusCode};
use tidegate::{ForwardAuth, MappedEntry, Request, ValueFrom};

use super::problem::Problem;
use super::{Body, HttpApi};

/// A token where the service asks for one: `Authorization` is the client's own.
static TOKEN: HeaderName = HeaderName::from_static("x-tidegate-token");

static ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
static FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
static ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
static FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

impl HttpApi {
    pub(super) async fn forward_auth(&self, head: &Parts) -> Result<Response<Body>, Problem> {
        let timer = self.metrics.http_check.start();
        let (domain, mapping) = self.asked_domain(head.uri.query())?;
        let values = self.values(head, &mapping);
        let response = match self.request(&domain, &mapping, &values)? {
            Some(request) => {
                let decision = self.decide(&request).await;
                self.render_by(&self.renderer.deny_status(status(mapping.deny_status)), &request, &decision)
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
        let value = |entry: &'h MappedEntry| {
            let found = match &entry.from {
                ValueFrom::Header(name) => text(&head.headers, name),
                ValueFrom::ClientIp => Some(Cow::Owned(client.key.clone())),
                ValueFrom::Method => [&ORIGINAL_METHOD, &FORWARDED_METHOD]
                    .into_iter()
                    .find_map(|name| text(&head.headers, name))
                    .or(Some(Cow::Borrowed(head.method.as_str()))),
                ValueFrom::Path => [&ORIGINAL_URI, &FORWARDED_URI]
                    .into_iter()
                    .find_map(|name| text(&head.headers, name))
                    .map(path),
                ValueFrom::Host => {
                    [&FORWARDED_HOST, &HOST].into_iter().find_map(|name| text(&head.headers, name))
                }
            };
            found.filter(|value| !value.is_empty()).or(entry.default.as_deref().map(Cow::Borrowed))
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
            for (key, value) in &entries {
                self.bounds.entry(key, value).map_err(|refusal| Problem::from(refusal).at(key))?;
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

/// The value of a header; several lines are one list. Bytes that are no text are replaced: whoever sends them
/// is still counted.
fn text(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Option<Cow<'_, str>> {
    let mut lines = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let first = lines.next()?;
    Some(lines.fold(first, |list, line| Cow::Owned(format!("{list}, {line}"))))
}

/// A target without its query.
fn path(target: Cow<'_, str>) -> Cow<'_, str> {
    let end = |target: &str| target.find(['?', '#']).unwrap_or(target.len());
    match target {
        Cow::Borrowed(target) => Cow::Borrowed(&target[..end(target)]),
        Cow::Owned(mut target) => {
            target.truncate(end(&target));
            Cow::Owned(target)
        }
    }
}
