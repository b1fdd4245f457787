//! Checks the headers of a request and reads its body.

use std::fmt::Display;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use tidegate_http2::MemoryBudget;

use crate::body::collect;
use crate::bounds::Bounds;
use crate::problem::Problem;

/// Whether a body that is declared as a form, as `curl -d` does, is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forms {
    /// Forms are accepted, as envoyproxy/ratelimit does on `/json`.
    Accepted,
    /// Forms are rejected, and the error names the setting to change: on `/json`, unless `compat` is
    /// `envoy-ratelimit`.
    Refused,
    /// Forms are rejected: on all other paths.
    Never,
}

/// The header in which browsers state how the page's site relates to this one.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects a request that a page of another site makes in a browser: its user did not intend to send it.
pub(super) fn expect_own_site(headers: &HeaderMap) -> Result<(), Problem> {
    let mut sites = headers.get_all(FETCH_SITE).iter();
    if sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none")) {
        let detail = "pages of other sites may not send this from a browser (http.cross_site)";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(())
}

/// Rejects a body whose content type is not JSON. Parameters are ignored.
///
/// A page can make a browser post a form or a text to any site without a preflight, but not JSON. So a body without a
/// content type is accepted only if no header shows that a browser sent it. With [`Forms::Accepted`], a form is
/// accepted under the same condition, although an old browser may not be recognized.
pub(super) fn expect_json(headers: &HeaderMap, forms: Forms) -> Result<(), Problem> {
    let found = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let end = found.iter().position(|byte| *byte == b';').unwrap_or(found.len());
    let is = |name: &[u8]| found[..end].trim_ascii().eq_ignore_ascii_case(name);
    let from_browser = headers.contains_key(FETCH_SITE) || headers.contains_key(ORIGIN);
    let missing = !headers.contains_key(CONTENT_TYPE);
    let is_form = is(b"application/x-www-form-urlencoded");
    let as_form = is_form && forms == Forms::Accepted;
    if is(b"application/json") || (!from_browser && (missing || as_form)) {
        return Ok(());
    }
    if is_form && forms == Forms::Refused {
        let detail = "the content type must be application/json, got \"application/x-www-form-urlencoded\"; with curl, \
                      add -H 'content-type: application/json', or set compat: envoy-ratelimit";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    if missing {
        let detail = "the content type must be application/json if a browser sends it, got none";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let found = String::from_utf8_lossy(found);
    let detail = format!("the content type must be application/json, got {found:?}");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// Returns whether `Accept` names problem details with a weight above 0. `*/*` does not count.
pub(super) fn accepts_problems(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter();
    let mut ranges = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    ranges.any(|range| {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"application/problem+json"));
        named && !parts.any(is_zero_weight)
    })
}

/// Returns whether a parameter is `q=0`, `q=0.0` or similar.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| !weight.is_empty() && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
}

/// Reads a body within bounds.
pub(super) async fn body<B>(body: B, bounds: &Bounds, budget: &MemoryBudget) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let collected = collect(body, bounds.message_bytes, budget).await;
    collected.map_err(|error| {
        let too_long =
            |found| bounds.message(found).map_or_else(|refusal| refusal.to_string(), |()| error.to_string());
        Problem::of_body(&error, too_long)
    })
}
