//! `/admin/v1/rules`: the rules in the catalog, with their versions, and the rules in force.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use tidegate::{Origin, Owner, RulesChange};
use tidegate_catalog::Rules;
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::ApiResult;
use super::body::{JsonBody, RulesBody};
use super::guard::Caller;
use super::name::DomainName;
use super::page::PageQuery;
use super::precondition::{etag, precondition};
use super::query::Parameters;
use crate::problem::{FieldError, Problem};

const TAG: &str = "rules";
const YAML: &str = "application/yaml";
const DIFF: &str = "text/x-diff; charset=utf-8";

/// The domains in force.
#[derive(Serialize, ToSchema)]
pub(super) struct DomainList {
    items: Vec<DomainView>,
}

/// A domain in force.
#[derive(Serialize, ToSchema)]
struct DomainView {
    domain: String,
    /// `file`, `catalog` or `code`.
    owner: &'static str,
    /// The rule file, if the owner is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The version, if the owner is the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// The key of the entry that names the tenant.
    tenant: Option<String>,
    /// The rules of the domain, in order.
    #[schema(value_type = Vec<Object>)]
    rules: Vec<tidegate::RuleListing>,
}

/// How to store rules.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PutQuery {
    /// The reason for the change, for the history.
    #[param(max_length = 1024)]
    comment: Option<String>,
    /// Whether to report what would change without storing it.
    #[serde(default)]
    dry_run: bool,
}

/// What a change of rules changes.
#[derive(Serialize, ToSchema)]
pub(super) struct RulesDiff {
    domain: String,
    /// The new version; the current one for a dry run.
    version: Option<u64>,
    /// The unified diff from the previous text to the new one.
    diff: String,
    /// Rules that were added.
    added: Vec<String>,
    /// Rules that were removed.
    removed: Vec<String>,
    /// Rules that were changed.
    changed: Vec<String>,
    /// Probable mistakes.
    warnings: Vec<String>,
    dry_run: bool,
}

/// Which version to return.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionQuery {
    /// The version; the one in force by default.
    #[param(minimum = 1)]
    version: Option<u64>,
}

/// Which page to return.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionsQuery {
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// The maximum number of items; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Which versions to compare.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DiffQuery {
    /// The older version; the one before `to` by default.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// The newer version; the one in force by default.
    #[param(minimum = 1)]
    to: Option<u64>,
}

/// The versions of a domain's rules, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct VersionList {
    items: Vec<VersionView>,
    /// The cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// One version.
#[derive(Serialize, ToSchema)]
struct VersionView {
    version: u64,
    author: String,
    comment: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Whether the rules were deleted.
    deleted: bool,
    /// The version that was restored, if it is a rollback.
    #[serde(skip_serializing_if = "Option::is_none")]
    rolled_back_to: Option<u64>,
}

/// Which version to restore.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollback {
    #[schema(minimum = 1)]
    version: u64,
    #[serde(default)]
    #[schema(max_length = 1024)]
    comment: Option<String>,
}

/// The mistakes in rules.
#[derive(Serialize, ToSchema)]
pub(super) struct Validation {
    /// Whether the rules could be put in force.
    valid: bool,
    /// Every mistake, with its line and column.
    problems: Vec<FieldError>,
    /// Probable mistakes.
    findings: Vec<String>,
}

/// Lists the rules in force, by domain.
#[utoipa::path(
    get, path = "/rules", tag = TAG,
    responses((status = 200, description = "Every domain", body = DomainList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> ApiResult<Json<DomainList>> {
    let mut items = Vec::new();
    for listing in admin.limiter.listing() {
        let (owner, file) = match admin.limiter.owner_of(&listing.domain) {
            Some(Owner { origin: Origin::Files, source }) => ("file", Some(source)),
            Some(Owner { origin: Origin::Catalog, .. }) => ("catalog", None),
            _ => ("code", None),
        };
        let version = if owner == "catalog" {
            admin.control.rules_version_in_force(&listing.domain).await
        } else {
            None
        };
        let (domain, tenant, rules) = (listing.domain, listing.tenant, listing.rules);
        items.push(DomainView { domain, owner, file, version, tenant, rules });
    }
    Ok(Json(DomainList { items }))
}

/// Checks the rules of a domain, stores them as a new version, and puts them in force on every node.
#[utoipa::path(
    put, path = "/rules/{domain}", tag = TAG,
    params(
        ("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256), PutQuery,
        ("If-Match" = Option<String>, Header, description = "Change them only if the rules still have this ETag"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if the domain has no rules yet"),
    ),
    request_body(content = serde_json::Value, content_type = "application/yaml", description = "The rules, as in a rule file"),
    responses(
        (status = 200, description = "What changed", body = RulesDiff),
        (status = 409, description = "The domain is in a rule file", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "They were changed in the meantime", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The rules have mistakes", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(admin): State<Admin>,
    caller: Caller,
    DomainName(domain): DomainName,
    Parameters(query): Parameters<PutQuery>,
    headers: HeaderMap,
    RulesBody(text): RulesBody,
) -> ApiResult {
    let precondition = precondition(&headers)?;
    check_owner(&admin, &domain)?;
    let before = admin.control.rules(&domain).await?;
    let checked = admin.limiter.check_rules(Some(&domain), &text)?;
    let mut diff = RulesDiff::new(domain, before.as_ref(), &text, checked);
    diff.dry_run = query.dry_run;
    if query.dry_run {
        return Ok(Json(diff).into_response());
    }
    let comment = query.comment.unwrap_or_default();
    let stored =
        admin.control.put_rules(caller.by(), diff.domain.clone(), text, comment, precondition).await?;
    diff.version = Some(stored.version);
    Ok((etag(stored.version), Json(diff)).into_response())
}

/// Returns the text of a domain's rules.
#[utoipa::path(
    get, path = "/rules/{domain}", tag = TAG,
    params(("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256), VersionQuery),
    responses(
        (status = 200, description = "The text", body = String, content_type = "application/yaml"),
        (status = 404, description = "The catalog has no rules for this domain", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(
    State(admin): State<Admin>,
    DomainName(domain): DomainName,
    Parameters(query): Parameters<VersionQuery>,
) -> ApiResult {
    let found = found_version(&admin, &domain, query.version).await?;
    let text = found.text.ok_or_else(|| no_rules(&admin, &domain))?;
    Ok((etag(found.version), [(CONTENT_TYPE, YAML)], text).into_response())
}

/// Deletes the rules of a domain. Their history is kept as long as `history.keep` says.
#[utoipa::path(
    delete, path = "/rules/{domain}", tag = TAG,
    params(
        ("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "Change them only if the rules still have this ETag"),
    ),
    responses(
        (status = 204, description = "The rules are deleted"),
        (status = 404, description = "The catalog has no rules for this domain", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "They were changed in the meantime", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    DomainName(domain): DomainName,
    headers: HeaderMap,
) -> ApiResult<StatusCode> {
    admin.control.delete_rules(caller.by(), domain, precondition(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the versions of a domain's rules, newest first, as many as `history.versions` keeps.
#[utoipa::path(
    get, path = "/rules/{domain}/versions", tag = TAG,
    params(("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256), VersionsQuery),
    responses(
        (status = 200, description = "A page of versions", body = VersionList),
        (status = 422, description = "A parameter is invalid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn versions(
    State(admin): State<Admin>,
    DomainName(domain): DomainName,
    Parameters(query): Parameters<VersionsQuery>,
) -> ApiResult<Json<VersionList>> {
    let found = admin.control.rule_versions(&domain, &PageQuery::new(query.cursor, query.limit)?).await?;
    let items = found.items.into_iter().map(VersionView::new).collect();
    Ok(Json(VersionList { items, next_cursor: found.next }))
}

/// Compares two versions of a domain's rules.
#[utoipa::path(
    get, path = "/rules/{domain}/diff", tag = TAG,
    params(("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256), DiffQuery),
    responses(
        (status = 200, description = "A unified diff", body = String, content_type = "text/x-diff"),
        (status = 404, description = "No such version", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn compare(
    State(admin): State<Admin>,
    DomainName(domain): DomainName,
    Parameters(query): Parameters<DiffQuery>,
) -> ApiResult {
    let to = found_version(&admin, &domain, query.to).await?;
    let from = match query.from.unwrap_or(to.version - 1) {
        0 => None,
        version => Some(found_version(&admin, &domain, Some(version)).await?),
    };
    let text = diff(&domain, from.as_ref(), to.text.as_deref().unwrap_or_default());
    Ok(([(CONTENT_TYPE, DIFF)], text).into_response())
}

/// Restores the text of an earlier version, as a new version.
#[utoipa::path(
    post, path = "/rules/{domain}/rollback", tag = TAG,
    params(
        ("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "Change them only if the rules still have this ETag"),
    ),
    request_body = Rollback,
    responses(
        (status = 200, description = "What changed", body = RulesDiff),
        (status = 404, description = "No such version", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The domain is in a rule file", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "They were changed in the meantime", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The rules of that version have mistakes today", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn rollback(
    State(admin): State<Admin>,
    caller: Caller,
    DomainName(domain): DomainName,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Rollback>,
) -> ApiResult {
    let precondition = precondition(&headers)?;
    check_owner(&admin, &domain)?;
    let to = found_version(&admin, &domain, Some(body.version)).await?;
    let Some(text) = to.text else {
        let detail = format!("version {} is a deletion; use DELETE instead", body.version);
        return Err(Problem::field("version", detail));
    };
    let before = admin.control.rules(&domain).await?;
    let checked = admin.limiter.check_rules(Some(&domain), &text)?;
    let comment = body.comment.unwrap_or_default();
    let stored =
        admin.control.roll_back(caller.by(), domain.clone(), body.version, comment, precondition).await?;
    let mut diff = RulesDiff::new(domain, before.as_ref(), &text, checked);
    diff.version = Some(stored.version);
    Ok((etag(stored.version), Json(diff)).into_response())
}

/// Reports the mistakes in rules. Nothing is changed.
#[utoipa::path(
    post, path = "/rules/validate", tag = TAG,
    request_body(content = serde_json::Value, content_type = "application/yaml", description = "The rules, as in a rule file"),
    responses((status = 200, description = "The mistakes", body = Validation))
)]
pub(super) async fn validate(State(admin): State<Admin>, RulesBody(text): RulesBody) -> Json<Validation> {
    Json(match admin.limiter.check_rules(None, &text) {
        Ok(checked) => Validation {
            valid: true,
            problems: Vec::new(),
            findings: checked.findings.iter().map(ToString::to_string).collect(),
        },
        Err(problems) => {
            Validation { valid: false, problems: FieldError::of_rules(&problems), findings: Vec::new() }
        }
    })
}

/// Rejects a domain that is not the catalog's: a domain has one owner.
fn check_owner(admin: &Admin, domain: &str) -> ApiResult<()> {
    let detail = match admin.limiter.owner_of(domain) {
        None | Some(Owner { origin: Origin::Catalog, .. }) => return Ok(()),
        Some(Owner { origin: Origin::Files, source }) => {
            format!(
                "domain {domain:?} is in the rule file {source}; change it there, or remove it there first"
            )
        }
        Some(_) => format!("domain {domain:?} is built in"),
    };
    Err(Problem::new(StatusCode::CONFLICT, detail))
}

async fn found_version(admin: &Admin, domain: &str, version: Option<u64>) -> ApiResult<Rules> {
    let found = match version {
        None => admin.control.rules(domain).await?,
        Some(version) => admin.control.rules_version(domain, version).await?,
    };
    found.ok_or_else(|| match version {
        None => no_rules(admin, domain),
        Some(version) => Problem::not_found(format!(
            "domain {domain:?} has no version {version}, or not any more; `versions` lists those that are kept"
        )),
    })
}

fn no_rules(admin: &Admin, domain: &str) -> Problem {
    match admin.limiter.owner_of(domain) {
        Some(Owner { origin: Origin::Files, source }) => {
            Problem::not_found(format!("domain {domain:?} is in the rule file {source}, not in the catalog"))
        }
        _ => Problem::not_found(format!(
            "the catalog has no rules for domain {domain:?}; create them with PUT"
        )),
    }
}

fn diff(domain: &str, before: Option<&Rules>, after: &str) -> String {
    let old = before.and_then(|before| before.text.as_deref()).unwrap_or_default();
    let from = before.map_or_else(|| "/dev/null".to_owned(), |before| format!("{domain} {}", before.version));
    TextDiff::from_lines(old, after).unified_diff().context_radius(3).header(&from, domain).to_string()
}

impl RulesDiff {
    /// Compares a text with the previous rules. Nothing is stored yet.
    fn new(domain: String, before: Option<&Rules>, text: &str, checked: RulesChange) -> Self {
        Self {
            diff: diff(&domain, before, text),
            version: before.map(|before| before.version),
            domain,
            added: checked.added,
            removed: checked.removed,
            changed: checked.changed,
            warnings: checked.findings.iter().map(ToString::to_string).collect(),
            dry_run: false,
        }
    }
}

impl VersionView {
    fn new(version: Rules) -> Self {
        Self {
            version: version.version,
            author: version.author,
            comment: version.comment,
            created_at: version.created_at,
            deleted: version.text.is_none(),
            rolled_back_to: version.restored_from,
        }
    }
}
