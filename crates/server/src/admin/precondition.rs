//! `ETag` and `If-Match`: nobody overwrites what they have not seen.

use http::HeaderMap;
use http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use tidegate_catalog::Precondition;

use super::problem::{Answer, Problem};

/// The header that says at which revision something is.
pub(super) fn etag(revision: u64) -> [(HeaderName, String); 1] {
    [(ETAG, format!("\"{revision}\""))]
}

/// What a write depends on.
pub(super) fn precondition(headers: &HeaderMap) -> Answer<Precondition> {
    let text = |name: HeaderName| -> Answer<Option<&str>> {
        let Some(value) = headers.get(&name) else { return Ok(None) };
        let text = value.to_str().map_err(|_| Problem::field(name.as_str(), "must be plain text"))?;
        Ok(Some(text.trim()))
    };
    match (text(IF_MATCH)?, text(IF_NONE_MATCH)?) {
        (None, None) => Ok(Precondition::Any),
        (None, Some("*")) => Ok(Precondition::Absent),
        (None, Some(_)) => Err(Problem::field("if-none-match", "must be `*`: only if there is none yet")),
        (Some(_), Some(_)) => Err(Problem::field("if-none-match", "must be left out beside if-match")),
        (Some("*"), None) => Ok(Precondition::Present),
        (Some(tag), None) => {
            let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let reason = || format!("must be an ETag that this API gave, such as \"7\", got {tag}");
            let number = number.ok_or_else(|| Problem::field("if-match", reason()))?;
            // A tag that is not ours is of something else, and nothing is at that revision.
            Ok(Precondition::Revision(number.parse().unwrap_or(u64::MAX)))
        }
    }
}
