//! The admin API as an `OpenAPI` document, and as a page.
//!
//! Routes are grouped by the role that they need. The guard of a group and its documentation are set in one place, so that
//! neither can be forgotten.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, put};
use tidegate_catalog::Role;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Paths, Ref, RefOr, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::guard::{Gate, guard};
use super::name::VALIDATE;
use super::{
    Admin, activity, audit, denials, dry_run, events, explain, history, live, overview, quotas, rules,
    session, settings, switches, tokens, top, usage, why,
};
use crate::problem::{FieldError, Problem};

const SCHEME: &str = "token";
const BASE: &str = "/admin/v1";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate admin API",
        description = "Tenants, their limits and usage, rules, switches, tokens and the audit trail. Every \
                       request needs a bearer token, or the cookie of a session; each operation names the role.",
    ),
    components(schemas(Problem, FieldError)),
    tags(
        (name = "quotas", description = "Tenants, their tiers and overrides"),
        (name = "usage", description = "The usage of tenants"),
        (name = "rules", description = "Rule sets with versions, and the rules in force"),
        (name = "switches", description = "Kill switches"),
        (name = "tokens", description = "Tokens and their roles"),
        (name = "audit", description = "The changes that were made, and by whom"),
        (name = "session", description = "Signs browsers in and out"),
        (name = "overview", description = "Whether all is well"),
        (name = "history", description = "Decisions and durations, over time and now"),
        (name = "keys", description = "The keys with the most decisions, and the last denials"),
        (name = "events", description = "Warnings before the limit"),
        (name = "settings", description = "The settings in force"),
        (name = "explain", description = "How a request would be decided, and why"),
    )
)]
struct Document;

/// Returns the routes under `/admin/v1`, and their document.
pub(super) fn routes(gate: &Gate) -> (Router<Admin>, utoipa::openapi::OpenApi) {
    let viewers = OpenApiRouter::new()
        .routes(routes!(quotas::list))
        .routes(routes!(quotas::show))
        .routes(routes!(usage::show))
        .routes(routes!(rules::list))
        .routes(routes!(rules::show))
        .routes(routes!(rules::versions))
        .routes(routes!(rules::compare))
        .routes(routes!(rules::validate))
        .route(VALIDATE, get(rules::show))
        .routes(routes!(switches::list))
        .routes(routes!(switches::show))
        .routes(routes!(audit::list))
        .routes(routes!(explain::explain))
        .routes(routes!(why::why))
        .routes(routes!(session::show, session::remove))
        .routes(routes!(overview::overview))
        .routes(routes!(overview::nodes))
        .routes(routes!(history::history))
        .routes(routes!(live::live))
        .routes(routes!(activity::activity))
        .routes(routes!(activity::tree))
        .routes(routes!(dry_run::dry_run))
        .routes(routes!(top::top))
        .routes(routes!(denials::denials))
        .routes(routes!(events::list))
        .routes(routes!(settings::list));
    let operators = OpenApiRouter::new()
        .routes(routes!(quotas::put, quotas::remove))
        .routes(routes!(usage::reset))
        .routes(routes!(why::send))
        .routes(routes!(usage::link))
        .routes(routes!(rules::put, rules::remove))
        .route(VALIDATE, put(rules::put).delete(rules::remove))
        .routes(routes!(rules::rollback))
        .routes(routes!(switches::put, switches::unset))
        .routes(routes!(events::test));
    let administrators =
        OpenApiRouter::new().routes(routes!(tokens::list, tokens::create)).routes(routes!(tokens::revoke));
    let guarded = OpenApiRouter::new()
        .merge(open(OpenApiRouter::new().routes(routes!(session::create))))
        .merge(for_role(Role::Viewer, viewers, gate))
        .merge(for_role(Role::Operator, operators, gate))
        .merge(for_role(Role::Admin, administrators, gate));
    let (router, mut document) =
        OpenApiRouter::with_openapi(Document::openapi()).nest(BASE, guarded).split_for_parts();
    describe_validate(&mut document.paths);
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token from `tidegate token create`, or the one in the data folder"));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(bearer.build()));
    (router, document)
}

/// Documents the methods of the domain `validate` at the path of the validation. The operations of `/rules/{domain}` do
/// not cover a path that the document lists by itself.
fn describe_validate(paths: &mut Paths) {
    let any = paths.paths.get(&format!("{BASE}/rules/{{domain}}")).cloned();
    let page = paths.paths.get_mut(&format!("{BASE}{VALIDATE}"));
    if let (Some(any), Some(page)) = (any, page) {
        page.get = any.get.map(of_validate);
        page.put = any.put.map(of_validate);
        page.delete = any.delete.map(of_validate);
    }
}

fn of_validate(mut operation: Operation) -> Operation {
    operation.operation_id = operation.operation_id.map(|id| format!("{id}_validate"));
    let is_domain = |given: &RefOr<Parameter>| matches!(given, RefOr::T(given) if given.name == "domain");
    if let Some(parameters) = &mut operation.parameters {
        parameters.retain(|given| !is_domain(given));
    }
    operation
}

/// The errors that any operation may return.
const ALWAYS: [(&str, &str); 11] = [
    ("400", "The request is malformed"),
    ("401", "The token is missing or not valid"),
    ("403", "The role of the token does not permit this"),
    ("408", "The body did not arrive in time"),
    ("413", "The body is too long"),
    ("415", "The content type of the body is not supported"),
    ("421", "The host is not allowed"),
    ("422", "A field or parameter is invalid"),
    ("429", "The token has too many requests in progress"),
    ("500", "The catalog failed"),
    ("503", "The catalog is unreachable, or too many requests are in progress; try again"),
];

fn problem(why: &str) -> Response {
    let schema = Content::new(Some(Ref::from_schema_name("Problem")));
    ResponseBuilder::new().description(why).content("application/problem+json", schema).build()
}

/// Guards the routes, and documents that for each of them.
fn for_role(role: Role, router: OpenApiRouter<Admin>, gate: &Gate) -> OpenApiRouter<Admin> {
    let mut router = router.route_layer(from_fn_with_state((gate.clone(), role), guard));
    describe(&mut router, |operation| {
        operation.security = Some(vec![SecurityRequirement::new(SCHEME, [role.name()])]);
        let needs = format!("Needs the role {} or a higher one.", role.name());
        let text = operation.description.take().filter(|text| !text.is_empty());
        operation.description = Some(text.map_or(needs.clone(), |text| format!("{text}\n\n{needs}")));
    });
    router
}

/// Documents routes that need no token.
fn open(mut router: OpenApiRouter<Admin>) -> OpenApiRouter<Admin> {
    describe(&mut router, |operation| operation.security = Some(Vec::new()));
    router
}

/// Documents what all operations have in common, and what `each` adds.
fn describe(router: &mut OpenApiRouter<Admin>, each: impl Fn(&mut Operation)) {
    for item in router.get_openapi_mut().paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in methods.into_iter().flatten() {
            // IDs such as `list` are unique only together with the tag.
            let kind = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
            operation.operation_id = operation.operation_id.take().map(|id| format!("{kind}_{id}"));
            for (status, why) in ALWAYS {
                let common = || problem(why).into();
                operation.responses.responses.entry(status.to_owned()).or_insert_with(common);
            }
            each(operation);
        }
    }
}

/// Returns `/openapi.json`, and `/docs` to read and try the API.
pub(super) fn page(document: utoipa::openapi::OpenApi) -> Router<Admin> {
    let config = Config::default().persist_authorization(false).display_request_duration(true);
    SwaggerUi::new("/docs").config(config).url("/openapi.json", document).into()
}
