//! `/admin/v1/session`: signs a browser in with a token, and out.
//!
//! The cookie has a random ID and never the token. A session ends with its token, after twelve hours, or when it is the
//! one that has been idle for longest and there is no room for another. A browser sends the cookie by itself, so a
//! request that changes something must also have the session's CSRF token in a header, which no other site can send.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tidegate_catalog::Role;
use utoipa::ToSchema;

use super::body::JsonBody;
use super::guard::Caller;
use super::{Admin, ApiResult};
use crate::access::registry::{AuthError, Credential};
use crate::access::{TokenHolder, TokenRegistry};
use crate::problem::Problem;

const TAG: &str = "session";
const COOKIE_NAME: &str = "tidegate_session";
const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");
const LIFETIME: SignedDuration = SignedDuration::from_hours(12);
const MAX_SESSIONS: usize = 1_000;
const RANDOM_BYTES: usize = 32;

/// The sessions of this node. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<HashMap<[u8; 32], Session>>>);

struct Session {
    credential: Credential,
    csrf: String,
    expires_at: Timestamp,
    used_at: Timestamp,
}

/// The token to sign in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    token: String,
}

/// Who is signed in.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct SessionView {
    /// The name of the token.
    name: String,
    /// The role of the token.
    role: &'static str,
    /// To be sent as `x-csrf-token` with every request that changes something; null without a cookie.
    csrf: Option<String>,
    /// When the session ends; null without a cookie.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// The session of a request, for [`show`].
#[derive(Clone)]
pub(super) struct CurrentSession {
    csrf: String,
    expires_at: Timestamp,
}

impl Sessions {
    /// Returns the holder of the token in the headers, or else of the session in the cookie.
    pub(super) fn authenticate(
        &self,
        registry: &TokenRegistry,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(TokenHolder, Option<CurrentSession>), Problem> {
        let id = cookie(headers).filter(|_| !headers.contains_key(AUTHORIZATION));
        let Some(id) = id else { return Ok((registry.authenticate(headers)?, None)) };
        let now = registry.clock().now();
        let mut sessions = self.0.lock();
        let session = sessions.get_mut(&hash(id)).filter(|session| now < session.expires_at);
        let session = session.ok_or(AuthError::Refused)?;
        let Ok(holder) = registry.holder(&session.credential) else {
            sessions.remove(&hash(id));
            return Err(AuthError::Refused.into());
        };
        let given = headers.get(CSRF).map_or(&[][..], HeaderValue::as_bytes);
        if !matches!(*method, Method::GET | Method::HEAD) && !bool::from(given.ct_eq(session.csrf.as_bytes()))
        {
            let detail = "with a session cookie, this needs the header x-csrf-token with the csrf of GET /admin/v1/session";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        session.used_at = now;
        let current = CurrentSession { csrf: session.csrf.clone(), expires_at: session.expires_at };
        Ok((holder, Some(current)))
    }

    /// Starts a session. Returns its ID and what the browser may know of it.
    fn start(&self, credential: Credential, now: Timestamp) -> Result<(String, CurrentSession), Problem> {
        let (id, csrf) = (random()?, random()?);
        let expires_at = now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX);
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| now < session.expires_at);
        if sessions.len() >= MAX_SESSIONS {
            let idle = sessions.iter().min_by_key(|(_, session)| session.used_at).map(|(id, _)| *id);
            idle.map(|id| sessions.remove(&id));
        }
        let session = Session { credential, csrf: csrf.clone(), expires_at, used_at: now };
        sessions.insert(hash(&id), session);
        Ok((id, CurrentSession { csrf, expires_at }))
    }

    fn end(&self, headers: &HeaderMap) {
        if let Some(id) = cookie(headers) {
            self.0.lock().remove(&hash(id));
        }
    }
}

/// Returns the hash of a session ID. Sessions are looked up by hash, so that the duration reveals nothing about
/// existing IDs.
fn hash(id: &str) -> [u8; 32] {
    Sha256::digest(id).into()
}

fn random() -> Result<String, Problem> {
    let mut bytes = [0; RANDOM_BYTES];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Problem::unavailable(format!("the system has no random bytes: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the ID of the session in the cookies.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';'));
    cookies.find_map(|pair| pair.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}

/// Returns `Set-Cookie` with these seconds to live.
fn set_cookie(admin: &Admin, id: &str, seconds: i64) -> HeaderValue {
    let secure = if admin.tls { "; Secure" } else { "" };
    let text = format!("{COOKIE_NAME}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Signs in with a token of at least the role viewer. The response sets a cookie.
#[utoipa::path(
    post, path = "/session", tag = TAG, request_body = SignIn,
    responses(
        (status = 200, description = "Who is signed in", body = SessionView),
        (status = 401, description = "The token is not valid", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(admin): State<Admin>,
    JsonBody(body): JsonBody<SignIn>,
) -> ApiResult<Response> {
    let registry = admin.control.registry();
    let credential = Credential::of_token(Some(&body.token));
    let holder = registry.holder(&credential)?;
    if !holder.role.may(Role::Viewer) {
        let detail =
            format!("this needs the role viewer; the token {:?} has {}", holder.name, holder.role.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let (id, session) = admin.sessions.start(credential, registry.clock().now())?;
    let cookie = set_cookie(&admin, &id, LIFETIME.as_secs());
    Ok(([(SET_COOKIE, cookie)], Json(SessionView::new(&holder, Some(session)))).into_response())
}

/// Returns who is signed in.
#[utoipa::path(
    get, path = "/session", tag = TAG,
    responses((status = 200, description = "Who is signed in", body = SessionView))
)]
pub(super) async fn show(caller: Caller) -> Json<SessionView> {
    Json(SessionView::new(&caller.holder, caller.session))
}

/// Signs out, and clears the cookie.
#[utoipa::path(
    delete, path = "/session", tag = TAG,
    responses((status = 204, description = "Nobody is signed in any more"))
)]
pub(super) async fn remove(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    admin.sessions.end(&headers);
    (StatusCode::NO_CONTENT, [(SET_COOKIE, set_cookie(&admin, "", 0))]).into_response()
}

impl SessionView {
    fn new(holder: &TokenHolder, session: Option<CurrentSession>) -> Self {
        let (csrf, expires_at) = session.map(|session| (session.csrf, session.expires_at)).unzip();
        Self { name: holder.name.clone(), role: holder.role.name(), csrf, expires_at }
    }
}
