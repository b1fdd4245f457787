//! Limits in a request itself, over any protocol: name, requests, window, algorithm and burst.

use tidegate::rules::file::{window_of, words};
use tidegate::{AlgorithmName, LimitSpec};

use crate::bounds::Bounds;

/// The maximum number of limits of one descriptor. Each has a counter.
const MAX_LIMITS: usize = 16;

/// A limit in a request, as it was sent.
pub(crate) struct InlineLimit<'w> {
    pub(crate) name: Option<&'w str>,
    pub(crate) requests: u64,
    pub(crate) per: &'w str,
    pub(crate) algorithm: Option<&'w str>,
    pub(crate) burst: Option<u64>,
}

/// Parses the limits of a descriptor. The engine checks their numbers.
pub(crate) fn read<'w>(
    limits: impl ExactSizeIterator<Item = InlineLimit<'w>>,
    bounds: &Bounds,
) -> Result<Vec<LimitSpec>, String> {
    let found = limits.len();
    if found > MAX_LIMITS {
        return Err(format!("limits of a descriptor must be at most {MAX_LIMITS}, got {found}"));
    }
    let one = |(index, limit): (usize, InlineLimit<'_>)| {
        limit.spec(bounds).map_err(|(field, reason)| format!("limits[{index}]: {field}: {reason}"))
    };
    limits.enumerate().map(one).collect()
}

impl InlineLimit<'_> {
    fn spec(&self, bounds: &Bounds) -> Result<LimitSpec, (&'static str, String)> {
        let window = window_of(self.per).map_err(|reason| ("per", reason))?;
        let mut spec = LimitSpec::new(self.requests, window);
        if let Some(name) = self.algorithm {
            let known = AlgorithmName::ALL.map(|(name, _)| name);
            let algorithm = AlgorithmName::parse(name).ok_or_else(|| {
                let meant = words::did_you_mean(name, known);
                let allowed = words::list(known);
                ("algorithm", format!("must be one of {allowed}, got {}{meant}", words::quoted(name)))
            })?;
            spec = spec.with(algorithm);
        }
        if let Some(burst) = self.burst {
            spec = spec.burst(burst);
        }
        if let Some(name) = self.name {
            bounds.entry(name, "").map_err(|refusal| ("name", refusal.to_string()))?;
            spec = spec.named(name);
        }
        Ok(spec)
    }
}
