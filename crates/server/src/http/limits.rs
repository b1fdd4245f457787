//! Limits that a request brings along: `{"name", "requests", "per", "algorithm", "burst"}`.

use tidegate::LimitSpec;

use super::asked::{Cost, Object, Text};
use super::problem::Problem;
use crate::bounds::Bounds;
use crate::inline::{self, Written};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireLimit<'b> {
    #[serde(borrow)]
    name: Option<Text<'b>>,
    requests: Cost,
    #[serde(borrow)]
    per: Text<'b>,
    #[serde(borrow)]
    algorithm: Option<Text<'b>>,
    burst: Option<Cost>,
}

/// The limits of a descriptor; none if it says nothing of them.
pub(super) fn read(
    limits: Option<Vec<Object<WireLimit<'_>>>>,
    bounds: &Bounds,
) -> Result<Vec<LimitSpec>, Problem> {
    let Some(limits) = limits else { return Ok(Vec::new()) };
    if limits.is_empty() {
        return Err(Problem::bad("limits must not be empty; leave them out for those of the rules"));
    }
    inline::read(limits.iter().map(|Object(limit)| limit.written()), bounds).map_err(Problem::bad)
}

impl WireLimit<'_> {
    fn written(&self) -> Written<'_> {
        Written {
            name: self.name.as_ref().map(|Text(name)| &**name),
            requests: self.requests.0,
            per: &self.per.0,
            algorithm: self.algorithm.as_ref().map(|Text(name)| &**name),
            burst: self.burst.as_ref().map(|Cost(burst)| *burst),
        }
    }
}
