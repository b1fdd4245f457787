//! `/admin/v1/history`: decisions and durations of the last hour and day.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::query::Parameters;
use super::{Admin, ApiResult};
use crate::metrics::percentile_us;
use crate::problem::Problem;
use crate::recorder::{Mark, OTHER, Outcomes, Range};

/// What to return.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// `decisions` per second by outcome, or `latency` of the node in microseconds.
    #[serde(default)]
    #[param(inline)]
    metric: Metric,
    /// Of this domain only.
    domain: Option<String>,
    /// Of this rule only; `other` for those without a history of their own.
    rule: Option<String>,
    /// `1h` in steps of 10 seconds, or `1d` in steps of 5 minutes.
    #[serde(default)]
    #[param(inline)]
    span: SpanName,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Metric {
    #[default]
    Decisions,
    Latency,
}

/// The length of a history.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) enum SpanName {
    #[default]
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "1d")]
    Day,
}

impl From<SpanName> for Range {
    fn from(span: SpanName) -> Self {
        match span {
            SpanName::Hour => Self::Hour,
            SpanName::Day => Self::Day,
        }
    }
}

/// Series of the same steps.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryView {
    span: SpanName,
    step_s: u64,
    /// When the first step begins.
    from_s: u64,
    series: Vec<SeriesView>,
    /// What happened in this time.
    marks: Vec<Mark>,
    /// The most memory that all that is recorded takes.
    memory_bytes: usize,
}

/// One series.
#[derive(Serialize, ToSchema)]
struct SeriesView {
    /// `allowed`, `denied`, `shadow_denied` and `error`; or `p50`, `p90` and `p99`.
    name: &'static str,
    /// Null where the node did not run; of a latency also where there was no request.
    values: Vec<Option<f64>>,
}

/// Returns decisions per second by outcome, or the latency, over the last hour or day.
#[utoipa::path(
    get, path = "/history", tag = "history", params(HistoryQuery),
    responses((status = 200, description = "The series", body = HistoryView))
)]
pub(super) async fn history(
    State(admin): State<Admin>,
    Parameters(query): Parameters<HistoryQuery>,
) -> ApiResult<Json<HistoryView>> {
    let range = Range::from(query.span);
    let (from_s, series) = match query.metric {
        Metric::Decisions => decisions(&admin, &query, range),
        Metric::Latency if query.domain.is_some() || query.rule.is_some() => {
            let field = if query.domain.is_some() { "domain" } else { "rule" };
            return Err(Problem::field(field, "the latency is of the whole node, and not of single rules"));
        }
        Metric::Latency => latency(&admin, range),
    };
    Ok(Json(HistoryView {
        span: query.span,
        step_s: range.step_s(),
        from_s,
        series,
        marks: admin.recorder.marks(from_s),
        memory_bytes: admin.recorder.max_bytes(),
    }))
}

/// Returns whether the decisions of a rule are wanted.
pub(super) fn wants(domain: Option<&str>, rule: Option<&str>) -> impl Fn(&str, &str) -> bool {
    // Those without a history of their own are of several domains.
    move |found_domain, found_rule| {
        let all_others = found_domain.is_empty() && found_rule == OTHER;
        domain.is_none_or(|domain| domain == found_domain && !all_others)
            && rule.is_none_or(|rule| rule == found_rule)
    }
}

#[expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "for people to read")]
fn decisions(admin: &Admin, query: &HistoryQuery, range: Range) -> (u64, Vec<SeriesView>) {
    let keep = wants(query.domain.as_deref(), query.rule.as_deref());
    let keep: &dyn Fn(&str, &str) -> bool = &keep;
    let whole = query.domain.is_none() && query.rule.is_none();
    let Some(steps) = admin.recorder.decisions(range, (!whole).then_some(keep)) else {
        return (0, Vec::new());
    };
    let rate = |count: u64| count as f64 / range.step_s() as f64;
    let one = |name, of: fn(&Outcomes) -> u64| SeriesView {
        name,
        values: steps.values.iter().map(|step| step.as_ref().map(|step| rate(of(step)))).collect(),
    };
    let series = vec![
        one("allowed", |step| step.allowed),
        one("denied", |step| step.denied),
        one("shadow_denied", |step| step.shadow_denied),
        one("error", |step| step.error),
    ];
    (steps.from_s, series)
}

fn latency(admin: &Admin, range: Range) -> (u64, Vec<SeriesView>) {
    let Some(steps) = admin.recorder.durations(range) else { return (0, Vec::new()) };
    let one = |name, percent| SeriesView {
        name,
        values: steps
            .values
            .iter()
            .map(|step| step.as_ref().and_then(|step| percentile_us(step, percent)))
            .collect(),
    };
    (steps.from_s, vec![one("p50", 50.0), one("p90", 90.0), one("p99", 99.0)])
}
