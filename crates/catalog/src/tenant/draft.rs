//! Tenants and overrides as requests contain them: numbers and names are not validated yet.

use jiff::Timestamp;
use serde::Deserialize;
use tidegate_core::MAX_COUNT;
use tidegate_core::limit::MAX_PERIOD_US;

use super::{Allowance, Numbers, Override, Unit, Window};
use crate::error::{Error, Result};
use crate::{Descriptor, name, time};

/// The largest number of overrides of one tenant.
pub const MAX_OVERRIDES: usize = 100;
/// The longest descriptor as text, in characters. Its keys and values are names.
pub const MAX_DESCRIPTOR: usize = 1_024;
/// The algorithms of overrides, by their names in rule files. `concurrency` is not among them, because it has
/// no requests per window.
const ALGORITHMS: [&str; 7] =
    ["fixed_window", "sliding_window", "sub_windows", "sliding_log", "token_bucket", "gcra", "leaky_bucket"];
/// The algorithms that have a burst.
const BURSTY: [&str; 3] = ["token_bucket", "gcra", "leaky_bucket"];

/// The requested state of a tenant. It replaces the whole tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantDraft {
    /// The name of the tier, if any.
    #[serde(default)]
    pub tier: Option<String>,
    /// All overrides of the tenant.
    #[serde(default)]
    pub overrides: Vec<OverrideDraft>,
}

/// A requested override: either `unlimited`, or `requests` and the fields that differ from the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverrideDraft {
    /// The domain that the override applies to; `None` for every domain.
    pub domain: Option<String>,
    /// The requests that the override applies to, as the text of a [`Descriptor`].
    pub descriptor: String,
    /// The name of the limit that it replaces; `None` if the rule has only one.
    pub limit: Option<String>,
    /// Whether everything is allowed.
    pub unlimited: bool,
    /// Requests per window; 0 blocks the tenant.
    pub requests: Option<i64>,
    /// The name of the window, such as `minute`.
    pub unit: Option<String>,
    /// The length of the window in microseconds.
    pub duration_us: Option<i64>,
    /// The burst.
    pub burst: Option<i64>,
    /// The algorithm, by its name in rule files.
    pub algorithm: Option<String>,
    /// When the override takes effect.
    pub effective_at: Option<Timestamp>,
    /// When the override ends. At this time it no longer applies.
    pub expires_at: Option<Timestamp>,
}

/// A validated draft. The `created_at` of its overrides is set later.
#[derive(Clone)]
pub(crate) struct Checked {
    pub(crate) tier: Option<String>,
    pub(crate) overrides: Vec<Override>,
}

impl TenantDraft {
    /// Validates the draft without storing it.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first invalid field.
    pub fn check(&self) -> Result<()> {
        self.checked().map(drop)
    }

    /// Returns the overrides as they would be stored.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first invalid field.
    pub fn overrides(&self) -> Result<Vec<Override>> {
        self.checked().map(|checked| checked.overrides)
    }

    pub(crate) fn checked(&self) -> Result<Checked> {
        name::check_some("tier", self.tier.as_deref())?;
        let count = self.overrides.len();
        if count > MAX_OVERRIDES {
            let reason = format!("a tenant has at most {MAX_OVERRIDES}, got {count}");
            return Err(Error::invalid("overrides", reason));
        }
        let drafts = self.overrides.iter().enumerate();
        let overrides = drafts.map(|(index, draft)| draft.checked(index)).collect::<Result<Vec<_>>>()?;
        check_overlap(&overrides)?;
        Ok(Checked { tier: self.tier.clone(), overrides })
    }
}

impl OverrideDraft {
    fn checked(&self, index: usize) -> Result<Override> {
        // Errors name fields as the admin API does.
        let field = |name: &str| format!("overrides[{index}].{name}");
        name::check_some(&field("domain"), self.domain.as_deref())?;
        name::check_some(&field("limit"), self.limit.as_deref())?;
        let descriptor = descriptor(&field("descriptor"), &self.descriptor)?;
        let allowance = self.allowance(&field)?;
        let [effective_at, expires_at] = [self.effective_at, self.expires_at].map(|at| at.map(time::whole));
        if let (Some(start), Some(end)) = (effective_at, expires_at)
            && end <= start
        {
            let reason = format!("must be after effective_at, {start}, got {end}");
            return Err(Error::invalid(field("expires_at"), reason));
        }
        Ok(Override {
            domain: self.domain.clone(),
            descriptor,
            limit: self.limit.clone(),
            allowance,
            effective_at,
            expires_at,
            created_at: Timestamp::UNIX_EPOCH,
        })
    }

    fn allowance(&self, field: &impl Fn(&str) -> String) -> Result<Allowance> {
        if self.unlimited {
            let numbers = [
                ("requests_per_unit", self.requests.is_some()),
                ("unit", self.unit.is_some()),
                ("duration", self.duration_us.is_some()),
                ("burst", self.burst.is_some()),
                ("algorithm", self.algorithm.is_some()),
            ];
            return match numbers.iter().find(|(_, given)| *given) {
                Some((name, _)) => Err(Error::invalid(field(name), "must be left out if `unlimited` is set")),
                None => Ok(Allowance::Unlimited),
            };
        }
        let Some(requests) = self.requests else {
            return Err(Error::invalid(
                field("requests_per_unit"),
                "is missing: give a number, or `unlimited`",
            ));
        };
        let requests = number(&field("requests_per_unit"), requests, 0, MAX_COUNT)?;
        let burst = self.burst.map(|burst| number(&field("burst"), burst, 1, MAX_COUNT)).transpose()?;
        if let Some(algorithm) = self.algorithm.as_deref() {
            check_algorithm(field, algorithm, burst)?;
        }
        let algorithm = self.algorithm.clone();
        Ok(Allowance::Limited(Numbers { requests, window: self.window(field)?, burst, algorithm }))
    }

    fn window(&self, field: &impl Fn(&str) -> String) -> Result<Option<Window>> {
        match (self.unit.as_deref(), self.duration_us) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                Err(Error::invalid(field("duration"), "must be left out if `unit` is set: give one of them"))
            }
            (None, Some(us)) => {
                let us = number(&field("duration"), us, 1, MAX_PERIOD_US)?;
                Ok(Some(Window::DurationUs(us)))
            }
            (Some(name), None) => {
                let unit = Unit::named(name).ok_or_else(|| {
                    let known = Unit::ALL.map(Unit::name).join(", ");
                    Error::invalid(field("unit"), format!("must be one of {known}, got {name:?}"))
                })?;
                Ok(Some(Window::Unit(unit)))
            }
        }
    }
}

pub(crate) fn descriptor(field: &str, text: &str) -> Result<Descriptor> {
    name::check_text(field, text, MAX_DESCRIPTOR)?;
    let parsed = text.parse::<Descriptor>().map_err(|error| Error::invalid(field, error.to_string()))?;
    for entry in parsed.entries() {
        name::check(field, &entry.key)?;
        name::check_some(field, entry.value.as_deref().filter(|value| !value.is_empty()))?;
    }
    Ok(parsed)
}

fn check_algorithm(field: &impl Fn(&str) -> String, algorithm: &str, burst: Option<u64>) -> Result<()> {
    if !ALGORITHMS.contains(&algorithm) {
        let reason = format!("must be one of {}, got {algorithm:?}", ALGORITHMS.join(", "));
        return Err(Error::invalid(field("algorithm"), reason));
    }
    if burst.is_some() && !BURSTY.contains(&algorithm) {
        let reason = format!("{algorithm} has no burst: leave it out, or use one of {}", BURSTY.join(", "));
        return Err(Error::invalid(field("burst"), reason));
    }
    Ok(())
}

fn number(field: &str, found: i64, least: u64, most: u64) -> Result<u64> {
    let fits = u64::try_from(found).ok().filter(|number| (least..=most).contains(number));
    fits.ok_or_else(|| Error::invalid(field, format!("must be from {least} to {most}, got {found}")))
}

/// Checks that at any time at most one override applies to the same limit.
fn check_overlap(overrides: &[Override]) -> Result<()> {
    for (index, later) in overrides.iter().enumerate() {
        for (other, earlier) in overrides[..index].iter().enumerate() {
            let same = later.domain == earlier.domain
                && later.descriptor == earlier.descriptor
                && later.limit == earlier.limit;
            if same && begins_before_end(later, earlier) && begins_before_end(earlier, later) {
                let field = format!("overrides[{index}].effective_at");
                let reason = format!(
                    "overlaps overrides[{other}], which is for the same domain, descriptor and limit: \
                     let one end before the other begins"
                );
                return Err(Error::invalid(field, reason));
            }
        }
    }
    Ok(())
}

fn begins_before_end(one: &Override, other: &Override) -> bool {
    match (one.effective_at, other.expires_at) {
        (Some(start), Some(end)) => start < end,
        _ => true,
    }
}
