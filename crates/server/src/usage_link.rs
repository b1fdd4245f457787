//! Links by which a tenant sees its own limits, usage and last denials, and nothing else.
//!
//! A link has the tenant, an end and a signature in it, so that nothing has to be stored. The key of the signature is that
//! of the data folder, or of all nodes that share `redis.secret`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::Full;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate::{Limiter, Usage};

use crate::admin::timestamp;
use crate::problem::Problem;
use crate::recorder::{RecordedDenial, Recorder};

/// The path of a link before its text.
pub const PATH: &str = "/usage/";
/// Denials that a tenant sees.
const MAX_DENIALS: usize = 20;

/// Creates and serves usage links. Cheap to clone.
#[derive(Clone)]
pub struct UsageLinks {
    key: [u8; 32],
    limiter: Limiter,
    recorder: Recorder,
}

#[derive(Serialize, Deserialize)]
struct Claim {
    tenant: String,
    /// In seconds since 1970.
    until_s: i64,
}

#[derive(Serialize)]
struct UsagePage {
    tenant: String,
    limits: Vec<LimitUsage>,
    denials: Vec<TenantDenial>,
    expires_at: String,
}

#[derive(Serialize)]
struct LimitUsage {
    rule: String,
    name: String,
    limit_text: String,
    used: u64,
    limit: u64,
    remaining: u64,
    resets_at: String,
}

#[derive(Serialize)]
struct TenantDenial {
    at: String,
    rule: String,
    limit: String,
    retry_after_ms: Option<u64>,
}

impl UsageLinks {
    /// Returns links that are signed with a secret.
    pub fn new(secret: &[u8], limiter: Limiter, recorder: Recorder) -> Self {
        let key = Sha256::new().chain_update(b"tidegate usage link").chain_update(secret).finalize();
        Self { key: key.into(), limiter, recorder }
    }

    /// Returns the path of a link for a tenant, up to a time.
    pub fn path(&self, tenant: &str, until: Timestamp) -> String {
        let claim = Claim { tenant: tenant.to_owned(), until_s: until.as_second() };
        let claim = serde_json::to_vec(&claim).unwrap_or_default();
        let signature = self.mac(&claim).finalize().into_bytes();
        format!("{PATH}{}.{}", URL_SAFE_NO_PAD.encode(claim), URL_SAFE_NO_PAD.encode(signature))
    }

    fn mac(&self, claim: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            <Hmac<Sha256>>::new_from_slice(&self.key).unwrap_or_else(|_| unreachable!("any key fits"));
        mac.update(claim);
        mac
    }

    fn read(&self, text: &str, now: Timestamp) -> Result<Claim, Problem> {
        let unknown = || Problem::not_found("there is no such link; ask for another");
        let (claim, signature) = text.split_once('.').ok_or_else(unknown)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| unknown());
        let (claim, signature) = (decode(claim)?, decode(signature)?);
        self.mac(&claim).verify_slice(&signature).map_err(|_| unknown())?;
        let claim: Claim = serde_json::from_slice(&claim).map_err(|_| unknown())?;
        if now.as_second() >= claim.until_s {
            return Err(Problem::new(StatusCode::GONE, "the link has expired; ask for another"));
        }
        Ok(claim)
    }

    /// Responds to a request for a link: with a page for browsers, else with JSON.
    pub async fn answer(&self, text: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let now = Timestamp::from_microsecond(self.limiter.now().0.cast_signed()).unwrap_or(Timestamp::MAX);
        let mut response = match self.read(text, now) {
            Err(problem) => problem.response(),
            Ok(claim) => self.page(&claim, headers).await,
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // The address is the key to the page.
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        response
    }

    async fn page(&self, claim: &Claim, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let usage = self.limiter.usage(&claim.tenant, None).await;
        let of_tenant =
            |denial: &RecordedDenial| denial.tenant.as_deref() == Some(&claim.tenant) && !denial.shadow;
        let denials = self.recorder.denials(MAX_DENIALS, of_tenant);
        let until = Timestamp::from_second(claim.until_s).unwrap_or(Timestamp::MAX);
        let page = UsagePage {
            tenant: claim.tenant.clone(),
            limits: usage.into_iter().map(LimitUsage::new).collect(),
            denials: denials.iter().map(TenantDenial::new).collect(),
            expires_at: until.to_string(),
        };
        let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let (kind, body) = if accepted.any(|value| value.contains("text/html")) {
            ("text/html; charset=utf-8", page.html())
        } else {
            ("application/json", serde_json::to_string(&page).unwrap_or_default())
        };
        let mut response = Response::new(Full::from(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

impl LimitUsage {
    fn new(usage: Usage) -> Self {
        Self {
            rule: usage.rule,
            name: usage.name,
            limit_text: usage.limit.to_string(),
            used: usage.used,
            limit: usage.limit.burst(),
            remaining: usage.remaining,
            resets_at: timestamp(usage.window_end),
        }
    }
}

impl TenantDenial {
    fn new(denial: &RecordedDenial) -> Self {
        let retry = denial.retry_after.filter(|retry| *retry != std::time::Duration::MAX);
        Self {
            at: timestamp(denial.at),
            rule: denial.rule.to_string(),
            limit: denial.limit.to_string(),
            retry_after_ms: retry.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl UsagePage {
    /// Returns a page that needs neither scripts nor styles.
    fn html(&self) -> String {
        let row = |cells: &[&str]| {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
            format!("<tr><td>{}</td></tr>\n", cells.join("</td><td>"))
        };
        let limits: String = self
            .limits
            .iter()
            .map(|limit| {
                let bar = format!("{} of {}", limit.used, limit.limit);
                let left = limit.remaining.to_string();
                row(&[&limit.rule, &limit.name, &limit.limit_text, &bar, &left, &limit.resets_at])
            })
            .collect();
        let denials: String =
            self.denials.iter().map(|denial| row(&[&denial.at, &denial.rule, &denial.limit])).collect();
        let denials = match denials.as_str() {
            "" => "<p>None lately.</p>".to_owned(),
            rows => format!("<table border><tr><th>When<th>Rule<th>Limit</tr>\n{rows}</table>"),
        };
        format!(
            "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\n\
             <title>Usage of {tenant}</title>\n<h1>Usage of {tenant}</h1>\n\
             <table border><tr><th>Rule<th>Limit<th>Numbers<th>Used<th>Left<th>Resets</tr>\n{limits}</table>\n\
             <h2>Last denials</h2>\n{denials}\n<p>This link works until {until}.</p>\n",
            tenant = escaped(&self.tenant),
            until = escaped(&self.expires_at),
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
