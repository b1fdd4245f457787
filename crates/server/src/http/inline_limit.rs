//! Limits given in a request: `{"name", "requests", "per", "algorithm", "burst"}`.

use tidegate::LimitSpec;

use super::check_body::{Object, Text, WholeNumber};
use crate::bounds::Bounds;
use crate::inline::{self, InlineLimit};
use crate::problem::Problem;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InlineLimitJson<'b> {
    #[serde(borrow)]
    name: Option<Text<'b>>,
    requests: WholeNumber,
    #[serde(borrow)]
    per: Text<'b>,
    #[serde(borrow)]
    algorithm: Option<Text<'b>>,
    burst: Option<WholeNumber>,
}

/// Parses the limits of a descriptor. Returns an empty list if it has no `limits`.
pub(super) fn read(
    limits: Option<Vec<Object<InlineLimitJson<'_>>>>,
    bounds: &Bounds,
) -> Result<Vec<LimitSpec>, Problem> {
    let Some(limits) = limits else { return Ok(Vec::new()) };
    if limits.is_empty() {
        return Err(Problem::bad("limits must not be empty; leave them out to use those of the rules"));
    }
    inline::read(limits.iter().map(|Object(limit)| limit.parsed()), bounds).map_err(Problem::bad)
}

impl InlineLimitJson<'_> {
    fn parsed(&self) -> InlineLimit<'_> {
        InlineLimit {
            name: self.name.as_ref().map(|Text(name)| &**name),
            requests: self.requests.0,
            per: &self.per.0,
            algorithm: self.algorithm.as_ref().map(|Text(name)| &**name),
            burst: self.burst.as_ref().map(|WholeNumber(burst)| *burst),
        }
    }
}
