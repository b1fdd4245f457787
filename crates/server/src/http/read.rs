//! The body of a request.

use std::fmt::Display;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use tidegate_http2::MemoryBudget;

use super::problem::Problem;
use crate::body::{BodyError, collect};
use crate::bounds::Bounds;

/// What browsers say about where a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what a page of another site sends by the browser of whoever visits it: it would be counted as if
/// they had meant it.
pub(super) fn expect_own_site(headers: &HeaderMap) -> Result<(), Problem> {
    let mut sites = headers.get_all(FETCH_SITE).iter();
    if sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none")) {
        let detail = "pages of other sites may not send this from a browser (http.cross_site)";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(())
}

/// Refuses a body that is not said to be JSON. Parameters do not matter.
///
/// A page can make a browser post a form or a text anywhere without asking first, but no JSON. So a body
/// without a type, and for `/json` one that is said to be a form, as `curl -d` does and envoyproxy/ratelimit
/// takes, is taken for JSON only where nothing says that a browser sends it.
pub(super) fn expect_json(headers: &HeaderMap, forms_too: bool) -> Result<(), Problem> {
    let found = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let end = found.iter().position(|byte| *byte == b';').unwrap_or(found.len());
    let is = |name: &[u8]| found[..end].trim_ascii().eq_ignore_ascii_case(name);
    let from_browser = headers.contains_key(FETCH_SITE) || headers.contains_key(ORIGIN);
    let unsaid = !headers.contains_key(CONTENT_TYPE);
    let as_form = forms_too && is(b"application/x-www-form-urlencoded");
    if is(b"application/json") || (!from_browser && (unsaid || as_form)) {
        return Ok(());
    }
    if unsaid {
        let detail = "the content type must be application/json where a browser sends it, got none";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let found = String::from_utf8_lossy(found);
    let detail = format!("the content type must be application/json, got {found:?}");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// Whether whoever asks says that a problem is welcome; `*/*` says nothing, and a weight of 0 says no.
pub(super) fn accepts_problems(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter();
    let mut ranges = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    ranges.any(|range| {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"application/problem+json"));
        named && !parts.any(is_zero_weight)
    })
}

/// `q=0`, `q=0.0` and the like.
fn is_zero_weight(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| !weight.is_empty() && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
}

/// All of a body, if it is within bounds.
pub(super) async fn body<B>(body: B, bounds: &Bounds, budget: &MemoryBudget) -> Result<Bytes, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    collect(body, bounds.message_bytes, budget).await.map_err(|error| match error {
        BodyError::TooLong { found } => {
            let detail =
                bounds.message(found).map_or_else(|refusal| refusal.to_string(), |()| error.to_string());
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
        }
        BodyError::Late => Problem::new(StatusCode::REQUEST_TIMEOUT, error.to_string()),
        BodyError::Broken(_) => Problem::bad(error.to_string()),
        BodyError::NoRoom => Problem::no_room(error.to_string()),
    })
}
