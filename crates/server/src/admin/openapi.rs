//! The admin API as a document, for tools, and as a page, for people.
//!
//! Routes are grouped by the role they need. The group's guard and what the document says of it come from the
//! same place, so that neither can be forgotten.

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

use super::guard::{Load, guard};
use super::name::VALIDATE;
use super::problem::{FieldError, Problem};
use super::{Admin, audit, explain, quotas, rules, switches, tokens, usage};
use crate::access::Book;

const SCHEME: &str = "token";
const BASE: &str = "/admin/v1";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate admin API",
        description = "Tenants, their limits and usage, rules, switches, tokens and the audit trail. Every \
                       request needs a bearer token; each operation names the role.",
    ),
    components(schemas(Problem, FieldError)),
    tags(
        (name = "quotas", description = "Tenants, their tiers and overrides"),
        (name = "usage", description = "What tenants have used"),
        (name = "rules", description = "Rule sets with versions, and the rules in force"),
        (name = "switches", description = "Kill switches"),
        (name = "tokens", description = "Who may ask"),
        (name = "audit", description = "Who changed what"),
        (name = "explain", description = "Why a request is decided as it is"),
    )
)]
struct Document;

/// Everything under `/admin/v1`, and the document of it.
pub(super) fn routes(book: &Book, load: &Load) -> (Router<Admin>, utoipa::openapi::OpenApi) {
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
        .routes(routes!(explain::explain));
    let operators = OpenApiRouter::new()
        .routes(routes!(quotas::put, quotas::remove))
        .routes(routes!(usage::reset))
        .routes(routes!(rules::put, rules::remove))
        .route(VALIDATE, put(rules::put).delete(rules::remove))
        .routes(routes!(rules::rollback))
        .routes(routes!(switches::put, switches::unset));
    let administrators =
        OpenApiRouter::new().routes(routes!(tokens::list, tokens::create)).routes(routes!(tokens::revoke));
    let guarded = OpenApiRouter::new()
        .merge(for_role(Role::Viewer, viewers, book, load))
        .merge(for_role(Role::Operator, operators, book, load))
        .merge(for_role(Role::Admin, administrators, book, load));
    let (router, mut document) =
        OpenApiRouter::with_openapi(Document::openapi()).nest(BASE, guarded).split_for_parts();
    describe_validate(&mut document.paths);
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token: `tidegate token create`, or the one in the data folder"));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(bearer.build()));
    (router, document)
}

/// Says of the page that validates what can be asked there of the domain that is called so: what the document
/// has for any domain does not hold for a path that it has by itself.
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

/// What any operation may answer.
const ALWAYS: [(&str, &str); 11] = [
    ("400", "The request is not one"),
    ("401", "No token that counts"),
    ("403", "The token may not"),
    ("408", "The body did not come in time"),
    ("413", "The body is too long"),
    ("415", "The body is of another type"),
    ("421", "The host is not one that the listener answers to"),
    ("422", "Something makes no sense"),
    ("429", "The token has too many requests under way"),
    ("500", "The catalog failed"),
    ("503", "The catalog is away, or too much is under way; try again"),
];

fn problem(why: &str) -> Response {
    let schema = Content::new(Some(Ref::from_schema_name("Problem")));
    ResponseBuilder::new().description(why).content("application/problem+json", schema).build()
}

/// Guards the routes, and says so of each of them.
fn for_role(role: Role, router: OpenApiRouter<Admin>, book: &Book, load: &Load) -> OpenApiRouter<Admin> {
    let mut router = router.route_layer(from_fn_with_state((book.clone(), load.clone(), role), guard));
    for item in router.get_openapi_mut().paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in methods.into_iter().flatten() {
            // The same word means something else for each kind of thing.
            let kind = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
            operation.operation_id = operation.operation_id.take().map(|id| format!("{kind}_{id}"));
            operation.security = Some(vec![SecurityRequirement::new(SCHEME, [role.name()])]);
            for (status, why) in ALWAYS {
                let common = || problem(why).into();
                operation.responses.responses.entry(status.to_owned()).or_insert_with(common);
            }
            let needs = format!("Needs the role {}, or one that may do more.", role.name());
            let said = operation.description.take().filter(|said| !said.is_empty());
            operation.description = Some(said.map_or(needs.clone(), |said| format!("{said}\n\n{needs}")));
        }
    }
    router
}

/// `/openapi.json`, and `/docs` to look at and try it.
pub(super) fn page(document: utoipa::openapi::OpenApi) -> Router<Admin> {
    let config = Config::default().persist_authorization(false).display_request_duration(true);
    SwaggerUi::new("/docs").config(config).url("/openapi.json", document).into()
}
