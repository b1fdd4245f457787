//! `/admin/v1/rules`: rule sets of the catalog, with versions, and the rules in force.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use similar::TextDiff;
use tidegate::{Owner, RulesChange};
use tidegate_catalog::Rules;
use utoipa::{IntoParams, ToSchema};

use super::Admin;
use super::body::{JsonBody, RulesBody};
use super::guard::Caller;
use super::name::DomainName;
use super::page::PageQuery;
use super::precondition::{etag, precondition};
use super::problem::{Answer, FieldError, Problem, field_errors};
use super::query::Parameters;

const TAG: &str = "rules";
const YAML: &str = "application/yaml";
const DIFF: &str = "text/x-diff; charset=utf-8";

/// The domains in force.
#[derive(Serialize, ToSchema)]
pub(super) struct DomainList {
    items: Vec<DomainShown>,
}

/// A domain in force.
#[derive(Serialize, ToSchema)]
struct DomainShown {
    domain: String,
    /// `file`, `catalog` or `code`.
    owner: &'static str,
    /// The file, if it is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The version, if it is the catalog's.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Which entry names the tenant.
    tenant: Option<String>,
    /// Its rules, in order, with all they say.
    #[schema(value_type = Vec<Object>)]
    rules: Vec<tidegate::RuleListing>,
}

/// How to put rules.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PutQuery {
    /// Why, for those who read the history.
    #[param(max_length = 1024)]
    comment: Option<String>,
    /// Whether to store nothing, and only answer what would change.
    #[serde(default)]
    dry_run: bool,
}

/// What a change of rules does.
#[derive(Serialize, ToSchema)]
pub(super) struct RulesChanged {
    domain: String,
    /// The version it is now; of a dry run the one there is.
    version: Option<u64>,
    /// From the text before to the text now, line by line.
    diff: String,
    /// Rules there were not.
    added: Vec<String>,
    /// Rules there are no more.
    removed: Vec<String>,
    /// Rules that say something else.
    changed: Vec<String>,
    /// What is allowed but hardly meant.
    warnings: Vec<String>,
    dry_run: bool,
}

/// Which version.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionQuery {
    /// The one in force where absent.
    #[param(minimum = 1)]
    version: Option<u64>,
}

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionsQuery {
    /// Where the page before said that the next begins.
    cursor: Option<String>,
    /// How many at most; 100 where absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Which versions to compare.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DiffQuery {
    /// The older one; the one before `to` where absent.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// The newer one; the one in force where absent.
    #[param(minimum = 1)]
    to: Option<u64>,
}

/// The history of a domain, newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct VersionList {
    items: Vec<VersionShown>,
    /// Where the next page begins, if there is one.
    next_cursor: Option<String>,
}

/// One version.
#[derive(Serialize, ToSchema)]
struct VersionShown {
    version: u64,
    author: String,
    comment: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Whether it took the rules away.
    deleted: bool,
    /// The version it went back to, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    rolled_back_to: Option<u64>,
}

/// Where to go back to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollback {
    #[schema(minimum = 1)]
    version: u64,
    #[serde(default)]
    #[schema(max_length = 1024)]
    comment: Option<String>,
}

/// What is wrong with rules, if anything.
#[derive(Serialize, ToSchema)]
pub(super) struct Validation {
    /// Whether they could be put in force.
    valid: bool,
    /// Every mistake, at its place.
    problems: Vec<FieldError>,
    /// What is allowed but hardly meant.
    findings: Vec<String>,
}

/// The rules in force, of every domain.
#[utoipa::path(
    get, path = "/rules", tag = TAG,
    responses((status = 200, description = "Every domain", body = DomainList))
)]
pub(super) async fn list(State(admin): State<Admin>) -> Answer<Json<DomainList>> {
    let mut items = Vec::new();
    for listing in admin.limiter.listing() {
        let (owner, file) = match admin.limiter.owner_of(&listing.domain) {
            Some(Owner::File(file)) => ("file", Some(file)),
            Some(Owner::Catalog) => ("catalog", None),
            Some(Owner::Code) | None => ("code", None),
        };
        let version = if owner == "catalog" {
            admin.control.rules_version_in_force(&listing.domain).await
        } else {
            None
        };
        let (domain, tenant, rules) = (listing.domain, listing.tenant, listing.rules);
        items.push(DomainShown { domain, owner, file, version, tenant, rules });
    }
    Ok(Json(DomainList { items }))
}

/// Puts a domain's rules: checks them, keeps them as a version, and puts them in force on every node.
#[utoipa::path(
    put, path = "/rules/{domain}", tag = TAG,
    params(
        ("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256), PutQuery,
        ("If-Match" = Option<String>, Header, description = "The ETag that the rules must still have"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if there are none yet"),
    ),
    request_body(content = serde_json::Value, content_type = "application/yaml", description = "The rules, as in a rule file"),
    responses(
        (status = 200, description = "What changed", body = RulesChanged),
        (status = 409, description = "The domain belongs to a file", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "Somebody else was first", body = Problem, content_type = "application/problem+json"),
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
) -> Answer {
    let precondition = precondition(&headers)?;
    is_ours(&admin, &domain)?;
    let before = admin.control.rules(&domain).await?;
    let checked = admin.limiter.check_rules(Some(&domain), &text)?;
    let mut answer = RulesChanged::new(domain, before.as_ref(), &text, checked);
    answer.dry_run = query.dry_run;
    if query.dry_run {
        return Ok(Json(answer).into_response());
    }
    let comment = query.comment.unwrap_or_default();
    let stored =
        admin.control.put_rules(caller.by(), answer.domain.clone(), text, comment, precondition).await?;
    answer.version = Some(stored.version);
    Ok((etag(stored.version), Json(answer)).into_response())
}

/// A domain's rules as they were put.
#[utoipa::path(
    get, path = "/rules/{domain}", tag = TAG,
    params(("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256), VersionQuery),
    responses(
        (status = 200, description = "The text", body = String, content_type = "application/yaml"),
        (status = 404, description = "The catalog has none", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(
    State(admin): State<Admin>,
    DomainName(domain): DomainName,
    Parameters(query): Parameters<VersionQuery>,
) -> Answer {
    let found = found_version(&admin, &domain, query.version).await?;
    let text = found.text.ok_or_else(|| none(&admin, &domain))?;
    Ok((etag(found.version), [(CONTENT_TYPE, YAML)], text).into_response())
}

/// Takes a domain's rules away; their history stays for as long as `history.keep` says.
#[utoipa::path(
    delete, path = "/rules/{domain}", tag = TAG,
    params(
        ("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "The ETag that the rules must still have"),
    ),
    responses(
        (status = 204, description = "They are gone"),
        (status = 404, description = "The catalog has none", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "Somebody else was first", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    DomainName(domain): DomainName,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    admin.control.delete_rules(caller.by(), domain, precondition(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The versions of a domain's rules, newest first, as many as `history.versions` keeps.
#[utoipa::path(
    get, path = "/rules/{domain}/versions", tag = TAG,
    params(("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256), VersionsQuery),
    responses(
        (status = 200, description = "A page of them", body = VersionList),
        (status = 422, description = "A parameter makes no sense", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn versions(
    State(admin): State<Admin>,
    DomainName(domain): DomainName,
    Parameters(query): Parameters<VersionsQuery>,
) -> Answer<Json<VersionList>> {
    let found = admin.control.rule_versions(&domain, &PageQuery::new(query.cursor, query.limit)?).await?;
    let items = found.items.into_iter().map(VersionShown::new).collect();
    Ok(Json(VersionList { items, next_cursor: found.next }))
}

/// What changed from one version to another, line by line.
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
) -> Answer {
    let to = found_version(&admin, &domain, query.to).await?;
    let from = match query.from.unwrap_or(to.version - 1) {
        0 => None,
        version => Some(found_version(&admin, &domain, Some(version)).await?),
    };
    let text = diff(&domain, from.as_ref(), to.text.as_deref().unwrap_or_default());
    Ok(([(CONTENT_TYPE, DIFF)], text).into_response())
}

/// Goes back to the text of an earlier version, as a new one.
#[utoipa::path(
    post, path = "/rules/{domain}/rollback", tag = TAG,
    params(
        ("domain" = String, Path, description = "The domain, percent-encoded", max_length = 256),
        ("If-Match" = Option<String>, Header, description = "The ETag that the rules must still have"),
    ),
    request_body = Rollback,
    responses(
        (status = 200, description = "What changed", body = RulesChanged),
        (status = 404, description = "No such version", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The domain belongs to a file", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "Somebody else was first", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The rules have mistakes by now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn rollback(
    State(admin): State<Admin>,
    caller: Caller,
    DomainName(domain): DomainName,
    headers: HeaderMap,
    JsonBody(wanted): JsonBody<Rollback>,
) -> Answer {
    let precondition = precondition(&headers)?;
    is_ours(&admin, &domain)?;
    let to = found_version(&admin, &domain, Some(wanted.version)).await?;
    let Some(text) = to.text else {
        let detail = format!("version {} took the rules away; DELETE does that", wanted.version);
        return Err(Problem::field("version", detail));
    };
    let before = admin.control.rules(&domain).await?;
    let checked = admin.limiter.check_rules(Some(&domain), &text)?;
    let comment = wanted.comment.unwrap_or_default();
    let stored =
        admin.control.roll_back(caller.by(), domain.clone(), wanted.version, comment, precondition).await?;
    let mut answer = RulesChanged::new(domain, before.as_ref(), &text, checked);
    answer.version = Some(stored.version);
    Ok((etag(stored.version), Json(answer)).into_response())
}

/// Says what is wrong with rules; changes nothing.
#[utoipa::path(
    post, path = "/rules/validate", tag = TAG,
    request_body(content = serde_json::Value, content_type = "application/yaml", description = "The rules, as in a rule file"),
    responses((status = 200, description = "What is wrong, if anything", body = Validation))
)]
pub(super) async fn validate(State(admin): State<Admin>, RulesBody(text): RulesBody) -> Json<Validation> {
    Json(match admin.limiter.check_rules(None, &text) {
        Ok(checked) => Validation {
            valid: true,
            problems: Vec::new(),
            findings: checked.findings.iter().map(ToString::to_string).collect(),
        },
        Err(problems) => Validation { valid: false, problems: field_errors(&problems), findings: Vec::new() },
    })
}

/// A domain has one owner.
fn is_ours(admin: &Admin, domain: &str) -> Answer<()> {
    match admin.limiter.owner_of(domain) {
        None | Some(Owner::Catalog) => Ok(()),
        Some(Owner::File(file)) => Err(Problem::conflict(format!(
            "domain {domain:?} belongs to the file {file}; change it there, or remove it there first"
        ))),
        Some(Owner::Code) => Err(Problem::conflict(format!("domain {domain:?} is built in"))),
    }
}

async fn found_version(admin: &Admin, domain: &str, version: Option<u64>) -> Answer<Rules> {
    let found = match version {
        None => admin.control.rules(domain).await?,
        Some(version) => admin.control.rules_version(domain, version).await?,
    };
    found.ok_or_else(|| match version {
        None => none(admin, domain),
        Some(version) => Problem::not_found(format!(
            "domain {domain:?} has no version {version}, or no longer: `versions` lists those there are"
        )),
    })
}

fn none(admin: &Admin, domain: &str) -> Problem {
    match admin.limiter.owner_of(domain) {
        Some(Owner::File(file)) => {
            Problem::not_found(format!("domain {domain:?} belongs to the file {file}, not to the catalog"))
        }
        _ => Problem::not_found(format!("the catalog has no rules for domain {domain:?}; PUT makes them")),
    }
}

fn diff(domain: &str, before: Option<&Rules>, after: &str) -> String {
    let old = before.and_then(|before| before.text.as_deref()).unwrap_or_default();
    let from = before.map_or_else(|| "/dev/null".to_owned(), |before| format!("{domain} {}", before.version));
    TextDiff::from_lines(old, after).unified_diff().context_radius(3).header(&from, domain).to_string()
}

impl RulesChanged {
    /// What another text would change; nothing is stored yet.
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

impl VersionShown {
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
