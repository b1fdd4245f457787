//! `/admin/v1/rules/activity` and `/admin/v1/rules/tree`: what rules do, and how they match.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate::{DomainListing, Limiter, Origin, RateListing, RuleListing, RuleOutline, Switch, Switches};
use utoipa::{IntoParams, ToSchema};

use super::history::SpanName;
use super::query::Parameters;
use super::{Admin, ApiResult};
use crate::recorder::{MAX_RULES, Outcomes, Range};

const TAG: &str = "rules";
/// The number of steps of a sparkline.
const SPARKS: usize = 60;
/// The most rules in a response.
const MAX_LISTED: usize = 5_000;

/// Over which time.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ActivityQuery {
    /// `1h` or `1d`.
    #[serde(default)]
    #[param(inline)]
    span: SpanName,
}

/// What the rules in force did.
#[derive(Serialize, ToSchema)]
pub(super) struct Activity {
    rules: Vec<RuleActivity>,
    /// Whether there are more rules than are listed, or more than have a history of their own.
    truncated: bool,
}

/// What a rule did.
#[derive(Serialize, ToSchema)]
struct RuleActivity {
    domain: String,
    rule: String,
    /// The path in the notation of envoyproxy/ratelimit.
    path: String,
    limits: Vec<RuleLimit>,
    /// `enforced`, `shadow` or `off`.
    state: &'static str,
    allowed: u64,
    denied: u64,
    shadow_denied: u64,
    spark: Spark,
}

/// A limit of a rule.
#[derive(Serialize, ToSchema)]
struct RuleLimit {
    name: String,
    /// The numbers and the algorithm.
    text: String,
    shadow: bool,
}

/// Decisions in equal steps, oldest first.
#[derive(Serialize, ToSchema)]
struct Spark {
    step_s: u64,
    allowed: Vec<u64>,
    denied: Vec<u64>,
    shadow_denied: Vec<u64>,
}

/// The rules in force as trees.
#[derive(Serialize, ToSchema)]
pub(super) struct Tree {
    domains: Vec<DomainNode>,
}

/// The rules of a domain.
#[derive(Serialize, ToSchema)]
struct DomainNode {
    name: String,
    /// `file`, `catalog` or `code`.
    origin: &'static str,
    /// The version, if the origin is the catalog.
    version: Option<u64>,
    rules: Vec<RuleNode>,
}

/// A rule, and those for the next entry.
#[derive(Serialize, ToSchema)]
struct RuleNode {
    rule: String,
    key: String,
    /// The value or pattern; null for any value.
    value: Option<String>,
    limits: Vec<RuleLimit>,
    /// `enforced`, `shadow` or `off`.
    state: &'static str,
    #[schema(no_recursion)]
    children: Vec<RuleNode>,
}

/// Returns what each rule did over the last hour or day.
#[utoipa::path(
    get, path = "/rules/activity", tag = TAG, params(ActivityQuery),
    responses((status = 200, description = "The rules", body = Activity))
)]
pub(super) async fn activity(
    State(admin): State<Admin>,
    Parameters(query): Parameters<ActivityQuery>,
) -> ApiResult<Json<Activity>> {
    let range = Range::from(query.span);
    let mut histories = admin.recorder.histories(range);
    let (listing, switches) = (admin.limiter.listing(), admin.limiter.switches());
    let total: usize = listing.iter().map(|domain| domain.rules.len()).sum();
    let mut rules = Vec::new();
    for DomainListing { domain, rules: of_domain, .. } in listing {
        for rule in of_domain {
            if rules.len() >= MAX_LISTED {
                break;
            }
            let steps = histories.remove(&(domain.clone(), rule.rule.clone())).unwrap_or_default();
            rules.push(RuleActivity::new(&domain, &rule, &switches, range, &steps));
        }
    }
    Ok(Json(Activity { truncated: total > rules.len() || total > MAX_RULES, rules }))
}

impl RuleActivity {
    fn new(domain: &str, rule: &RuleListing, switches: &Switches, range: Range, steps: &[Outcomes]) -> Self {
        let sum = Outcomes::sum(steps);
        Self {
            domain: domain.to_owned(),
            rule: rule.rule.clone(),
            path: rule.path.clone(),
            limits: limits(rule),
            state: state(rule, switches),
            allowed: sum.allowed,
            denied: sum.denied,
            shadow_denied: sum.shadow_denied,
            spark: Spark::new(range, steps),
        }
    }
}

impl Spark {
    fn new(range: Range, steps: &[Outcomes]) -> Self {
        let per_spark = range.steps().div_ceil(SPARKS);
        let mut all = vec![Outcomes::default(); range.steps().saturating_sub(steps.len())];
        all.extend_from_slice(steps);
        let sums: Vec<Outcomes> = all.chunks(per_spark).map(Outcomes::sum).collect();
        Self {
            step_s: range.step_s() * per_spark as u64,
            allowed: sums.iter().map(|sum| sum.allowed).collect(),
            denied: sums.iter().map(|sum| sum.denied).collect(),
            shadow_denied: sums.iter().map(|sum| sum.shadow_denied).collect(),
        }
    }
}

fn limits(rule: &RuleListing) -> Vec<RuleLimit> {
    let view = |rate: &RateListing| RuleLimit {
        name: rate.name.clone(),
        text: rate.limit.to_string(),
        shadow: rule.shadow_mode,
    };
    let concurrency = rule.concurrency.iter().map(|text| RuleLimit {
        name: "concurrency".to_owned(),
        text: text.clone(),
        shadow: rule.shadow_mode,
    });
    rule.rates.iter().map(view).chain(concurrency).collect()
}

/// Returns whether a rule is enforced. The most lenient of its own mode and the switches applies.
fn state(rule: &RuleListing, switches: &Switches) -> &'static str {
    let switch = switches.rules.get(&rule.rule).copied();
    match (switches.all, switch) {
        (Switch::Off, _) | (_, Some(Switch::Off)) => "off",
        (Switch::Shadow, _) | (_, Some(Switch::Shadow)) => "shadow",
        _ if rule.shadow_mode => "shadow",
        _ => "enforced",
    }
}

/// Returns the rules in force as trees, as requests are matched against them.
#[utoipa::path(
    get, path = "/rules/tree", tag = TAG,
    responses((status = 200, description = "The trees", body = Tree))
)]
pub(super) async fn tree(State(admin): State<Admin>) -> Json<Tree> {
    let switches = admin.limiter.switches();
    let mut domains = Vec::new();
    for listing in admin.limiter.listing() {
        let Some((owner, outline)) = outline(&admin.limiter, &listing.domain) else { continue };
        let version = match owner {
            "catalog" => admin.control.rules_version_in_force(&listing.domain).await,
            _ => None,
        };
        let by_id: HashMap<&str, &RuleListing> =
            listing.rules.iter().map(|rule| (rule.rule.as_str(), rule)).collect();
        let rules = outline.iter().map(|rule| RuleNode::new(rule, &by_id, &switches)).collect();
        domains.push(DomainNode { name: listing.domain.clone(), origin: owner, version, rules });
    }
    Json(Tree { domains })
}

fn outline(limiter: &Limiter, domain: &str) -> Option<(&'static str, Vec<RuleOutline>)> {
    let (owner, rules) = limiter.outline(domain)?;
    let owner = match owner {
        Origin::Files => "file",
        Origin::Catalog => "catalog",
        _ => "code",
    };
    Some((owner, rules))
}

impl RuleNode {
    fn new(outline: &RuleOutline, by_id: &HashMap<&str, &RuleListing>, switches: &Switches) -> Self {
        let listed = by_id.get(outline.rule.as_str());
        Self {
            rule: outline.rule.clone(),
            key: outline.key.clone(),
            value: outline.value.clone(),
            limits: listed.map_or_else(Vec::new, |rule| limits(rule)),
            state: listed.map_or("enforced", |rule| state(rule, switches)),
            children: outline.rules.iter().map(|rule| Self::new(rule, by_id, switches)).collect(),
        }
    }
}
