//! `/admin/v1/rules/dry-run`: what changed rules would have done to the last hour's traffic.
//!
//! The traffic is known by key in parts of five minutes, for the keys that the sketch has. The model spreads the requests
//! of a key evenly over each part. How wrong that is shows with the limits in force, whose denials are known: that
//! difference is stated as the error.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate::{Limit, RateListing};
use utoipa::ToSchema;

use super::body::JsonBody;
use super::history::wants;
use super::{Admin, ApiResult};
use crate::problem::FieldError;
use crate::recorder::{Outcomes, Range};

/// Rules to try.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DryRunBody {
    /// The domain that the rules are for.
    domain: String,
    /// The rules, as in a rule file.
    yaml: String,
}

/// What rules would have done.
#[derive(Serialize, ToSchema)]
pub(super) struct DryRun {
    /// Whether the rules could be put in force.
    valid: bool,
    /// Every mistake, with its line and column.
    errors: Vec<FieldError>,
    rules: Vec<DryRunLimit>,
}

/// What one limit would have done in the last hour.
#[derive(Serialize, ToSchema)]
struct DryRunLimit {
    rule: String,
    limit: String,
    /// What the rule did.
    now: Decisions,
    /// What the changed limit would have done, alone.
    then: Decisions,
    /// How far `then` may be off, as a share of all decisions.
    error: String,
    note: String,
}

/// Numbers of decisions.
#[derive(Clone, Copy, Serialize, ToSchema)]
struct Decisions {
    allowed: u64,
    denied: u64,
}

/// Shows what rules would have done to the last hour's recorded traffic. Nothing changes.
#[utoipa::path(
    post, path = "/rules/dry-run", tag = "rules", request_body = DryRunBody,
    responses((status = 200, description = "What would have happened, or the mistakes", body = DryRun))
)]
pub(super) async fn dry_run(
    State(admin): State<Admin>,
    JsonBody(body): JsonBody<DryRunBody>,
) -> ApiResult<Json<DryRun>> {
    let listing = match admin.limiter.list_rules(Some(&body.domain), &body.yaml) {
        Ok(listing) => listing,
        Err(problems) => {
            let errors = FieldError::of_rules(&problems);
            return Ok(Json(DryRun { valid: false, errors, rules: Vec::new() }));
        }
    };
    let in_force = admin.limiter.listing().into_iter().find(|domain| domain.domain == body.domain);
    let mut rules = Vec::new();
    for rule in &listing.rules {
        let now = done(&admin, &body.domain, &rule.rule);
        let (demand, part_s) = admin.recorder.demand(&body.domain, &rule.rule);
        let before = in_force.iter().flat_map(|domain| &domain.rules).find(|known| known.rule == rule.rule);
        for rate in &rule.rates {
            let before = before.and_then(|known| known.rates.iter().find(|known| known.name == rate.name));
            rules.push(DryRunLimit::new(&rule.rule, rate, before, now, (&demand, part_s)));
        }
    }
    Ok(Json(DryRun { valid: true, errors: Vec::new(), rules }))
}

/// Returns what a rule did in the last hour.
fn done(admin: &Admin, domain: &str, rule: &str) -> Outcomes {
    let keep = wants(Some(domain), Some(rule));
    let mut sum = Outcomes::default();
    let steps = admin.recorder.decisions(Range::Hour, Some(&keep));
    steps.into_iter().flat_map(|steps| steps.values).flatten().for_each(|step| sum.add(step));
    sum
}

impl DryRunLimit {
    fn new(
        rule: &str,
        rate: &RateListing,
        before: Option<&RateListing>,
        now: Outcomes,
        (demand, part_s): (&[Vec<u64>], u64),
    ) -> Self {
        let total = now.allowed + now.denied + now.shadow_denied;
        let known: u64 = demand.iter().flatten().sum();
        let denied = denied_by(&rate.limit, demand, part_s).min(total);
        let off = before.map(|before| {
            let modelled = denied_by(&before.limit, demand, part_s).min(total);
            modelled.abs_diff(now.denied + now.shadow_denied)
        });
        let percent = |part: u64| (part * 100).div_ceil(total.max(1)).min(100);
        let (error, note) = match off {
            _ if total == 0 => ("unknown".to_owned(), "the rule has no recorded traffic".to_owned()),
            Some(off) => (
                format!("±{} %", percent(off)),
                format!(
                    "by the traffic of {} keys, {} % of the rule's; requests of a key are taken as even over five \
                     minutes, and each as one unit; the error is that of the same model for the limit in force",
                    demand.len(),
                    percent(known.min(total)),
                ),
            ),
            None => {
                ("unknown".to_owned(), "the limit is new, so that the model cannot be checked".to_owned())
            }
        };
        Self {
            rule: rule.to_owned(),
            limit: rate.name.clone(),
            now: Decisions { allowed: now.allowed, denied: now.denied + now.shadow_denied },
            then: Decisions { allowed: total - denied, denied },
            error,
            note,
        }
    }
}

/// Returns how many of these requests a limit would have denied. `demand` has the requests of each key by part.
fn denied_by(limit: &Limit, demand: &[Vec<u64>], part_s: u64) -> u64 {
    let length_us = u128::from(part_s) * 1_000_000;
    let period_us = u128::from(limit.period_us().max(1));
    // A limit over a longer time than a part is held against as many parts together.
    let together = period_us.div_ceil(length_us).max(1) as usize;
    let group_us = length_us * together as u128;
    let sustained = u128::from(limit.requests()) * group_us / period_us;
    // A bucket that is full at the beginning allows its burst once.
    let mut denied = 0_u128;
    for key in demand {
        let mut spare = u128::from(limit.burst().saturating_sub(limit.requests()));
        for group in key.chunks(together) {
            let wanted = u128::from(group.iter().sum::<u64>());
            let over = wanted.saturating_sub(sustained);
            let from_spare = over.min(spare);
            spare -= from_spare;
            denied += over - from_spare;
        }
    }
    u64::try_from(denied).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate::Window;

    use super::*;

    fn per_minute(requests: u64) -> Limit {
        let window = Window::named("minute").expect("a minute");
        Limit::token_bucket(requests, window).expect("a limit")
    }

    #[test]
    fn what_exceeds_the_limit_of_a_part_is_denied() {
        // Five minutes of 10 a minute are 50.
        assert_eq!(denied_by(&per_minute(10), &[vec![50, 0, 60], vec![49]], 300), 10);
        assert_eq!(denied_by(&per_minute(1), &[vec![50]], 300), 45);
        assert_eq!(denied_by(&per_minute(1), &[], 300), 0);
    }

    #[test]
    fn a_longer_window_is_held_against_several_parts() {
        let hour = Limit::token_bucket(100, Window::named("hour").expect("an hour")).expect("a limit");
        assert_eq!(denied_by(&hour, &[vec![60; 12]], 300), 720 - 100);
    }
}
