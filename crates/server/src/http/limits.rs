//! Limits that a request brings along: `{"name", "requests", "per", "algorithm", "burst"}`.

use tidegate::rules::file::{window_of, words};
use tidegate::{AlgorithmName, LimitSpec};

use super::asked::{Cost, Object, Text};
use super::problem::Problem;
use crate::bounds::Bounds;

/// Limits of one descriptor at most; each is a counter to settle.
const MOST: usize = 16;

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

/// The limits of a descriptor; none if it says nothing of them. Whether their numbers make limits, the engine
/// knows.
pub(super) fn read(
    limits: Option<Vec<Object<WireLimit<'_>>>>,
    bounds: &Bounds,
) -> Result<Vec<LimitSpec>, Problem> {
    let Some(limits) = limits else { return Ok(Vec::new()) };
    match limits.len() {
        0 => return Err(Problem::bad("limits must not be empty; leave them out for those of the rules")),
        found if found > MOST => {
            return Err(Problem::bad(format!("limits of a descriptor must be at most {MOST}, got {found}")));
        }
        _ => {}
    }
    let one = |(index, Object(limit)): (usize, Object<WireLimit<'_>>)| {
        limit.spec(bounds).map_err(|problem| problem.at(&format!("limits[{index}]")))
    };
    limits.into_iter().enumerate().map(one).collect()
}

impl WireLimit<'_> {
    fn spec(self, bounds: &Bounds) -> Result<LimitSpec, Problem> {
        let window = window_of(&self.per.0).map_err(|reason| Problem::bad(reason).at("per"))?;
        let mut spec = LimitSpec::new(self.requests.0, window);
        if let Some(Text(name)) = self.algorithm {
            let known = AlgorithmName::ALL.map(|(name, _)| name);
            let algorithm = AlgorithmName::parse(&name).ok_or_else(|| {
                let meant = words::did_you_mean(&name, known);
                let allowed = words::list(known);
                Problem::bad(format!("must be one of {allowed}, got {}{meant}", words::quoted(&name)))
                    .at("algorithm")
            })?;
            spec = spec.with(algorithm);
        }
        if let Some(Cost(burst)) = self.burst {
            spec = spec.burst(burst);
        }
        if let Some(Text(name)) = self.name {
            bounds.entry(&name, "").map_err(|refusal| Problem::from(refusal).at("name"))?;
            spec = spec.named(&name);
        }
        Ok(spec)
    }
}
