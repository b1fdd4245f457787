//! `ETag` and `If-Match`, which prevent lost updates.

use super::ApiResult;
use crate::problem::Problem;
use http::HeaderMap;
use http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use tidegate_catalog::Precondition;

/// Returns the `ETag` header of a revision.
pub(super) fn etag(revision: u64) -> [(HeaderName, String); 1] {
    [(ETAG, format!("\"{revision}\""))]
}

/// Returns the precondition of a write.
pub(super) fn precondition(headers: &HeaderMap) -> ApiResult<Precondition> {
    let text = |name: HeaderName| -> ApiResult<Option<&str>> {
        let Some(value) = headers.get(&name) else { return Ok(None) };
        let text = value.to_str().map_err(|_| Problem::field(name.as_str(), "must be plain text"))?;
        Ok(Some(text.trim()))
    };
    match (text(IF_MATCH)?, text(IF_NONE_MATCH)?) {
        (None, None) => Ok(Precondition::Any),
        (None, Some("*")) => Ok(Precondition::Absent),
        (None, Some(_)) => Err(Problem::field("if-none-match", "must be `*`: only if it does not exist yet")),
        (Some(_), Some(_)) => Err(Problem::field("if-none-match", "must not be combined with if-match")),
        (Some("*"), None) => Ok(Precondition::Present),
        (Some(tag), None) => {
            let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let reason = || format!("must be an ETag of this API, such as \"7\", got {tag}");
            let number = number.ok_or_else(|| Problem::field("if-match", reason()))?;
            // No object has the revision of a tag that is not a number.
            Ok(Precondition::Revision(number.parse().unwrap_or(u64::MAX)))
        }
    }
}
