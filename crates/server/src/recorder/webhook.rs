//! Sends warnings to a webhook: a POST of JSON, signed, and tried again if it fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use sha2::Sha256;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use super::warnings::{Delivery, Warning};
use super::{Inner, fingerprint};
use crate::admin::timestamp;
use crate::config::settings::Warnings as Settings;

/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Attempts, and the time after the first; it doubles each time.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Warnings that are being sent at once. A receiver that is slow fills the queue, and nothing else.
const AT_ONCE: usize = 4;

/// Where warnings go.
#[derive(Clone)]
pub(super) struct Webhook(Arc<Target>);

struct Target {
    url: Uri,
    secret: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Webhook {
    /// Returns the webhook of the settings, if they have one.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let url: Uri = settings.webhook.as_deref()?.parse().ok()?;
        let mut roots = RootCertStore::empty();
        // Invalid certificates of the system are ignored; nothing is sent to a receiver without a valid certificate.
        match &settings.ca {
            Some(file) => match CertificateDer::pem_file_iter(file) {
                Ok(all) => {
                    roots.add_parsable_certificates(all.flatten());
                }
                Err(error) => {
                    tracing::error!(path = %file.display(), %error, "warnings.ca cannot be read");
                }
            },
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        // Plain HTTP is for receivers on this machine only, which the settings check.
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Some(Self(Arc::new(Target { url, secret: settings.secret.reveal().to_owned(), client })))
    }

    /// Returns the host that warnings are sent to.
    pub(super) fn host(&self) -> String {
        self.0.url.host().unwrap_or_default().to_owned()
    }

    /// Sends a text, up to a number of attempts.
    async fn send(&self, body: &str, at_s: u64) -> Delivery {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            match self.attempt(body, at_s).await {
                Ok(()) => return Delivery::Sent,
                Err(Refusal { again, why }) => {
                    tracing::debug!(attempt, why, host = self.host(), "the webhook did not take a warning");
                    if !again || attempt == ATTEMPTS {
                        tracing::warn!(why, host = self.host(), "the webhook did not take a warning");
                        return Delivery::Failed;
                    }
                }
            }
            sleep(pause).await;
            pause *= 2;
        }
        Delivery::Failed
    }

    async fn attempt(&self, body: &str, at_s: u64) -> Result<(), Refusal> {
        let request = Request::post(self.0.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .header("tidegate-timestamp", at_s.to_string())
            .header("tidegate-signature", format!("v1={}", signature(&self.0.secret, at_s, body)))
            .body(Full::from(body.to_owned()))
            .map_err(|error| Refusal { again: false, why: error.to_string() })?;
        let response = match timeout(TIMEOUT, self.0.client.request(request)).await {
            Err(_) => return Err(Refusal { again: true, why: format!("no response within {TIMEOUT:?}") }),
            Ok(Err(error)) => return Err(Refusal { again: true, why: error.to_string() }),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        // Redirects are not followed: the address is the one that an administrator trusts.
        let again = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        Err(Refusal { again, why: format!("status {status}") })
    }
}

/// Why a receiver did not take a warning, and whether it may later.
struct Refusal {
    again: bool,
    why: String,
}

/// Returns the signature of a body: HMAC-SHA256 of the time, a dot and the body, as hexadecimal digits.
fn signature(secret: &str, at_s: u64, body: &str) -> String {
    // Keys of any length are valid.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{at_s}.").as_bytes());
    mac.update(body.as_bytes());
    Hex(&mac.finalize().into_bytes()).to_string()
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Sends warnings as they come.
pub(super) async fn run(inner: Arc<Inner>, mut queue: mpsc::Receiver<Warning>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(warning) = queue.recv().await {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let inner = Arc::clone(&inner);
        tokio::spawn(async move {
            let delivery = inner.deliver(&warning).await;
            inner.book.lock().warnings.settle(warning.number, delivery);
            drop(permit);
        });
    }
}

impl Inner {
    /// Sends a warning, unless another node has sent it. Returns what became of it; `None` if another node has it.
    async fn deliver(&self, warning: &Warning) -> Option<Delivery> {
        if !warning.test {
            match self.is_first(warning).await {
                Some(true) => {}
                Some(false) => return None,
                // Without the store it is unknown whether another node warns: at most once means not now.
                None => return Some(Delivery::Failed),
            }
            let Warning { domain, rule, limit, percent, .. } = warning;
            let key = fingerprint(warning.key);
            tracing::info!(%domain, %rule, %limit, percent, key, "a key is near its limit");
        }
        let Some(webhook) = &self.webhook else { return Some(Delivery::Off) };
        Some(webhook.send(&self.warning_body(warning).to_string(), warning.at.0 / 1_000_000).await)
    }

    /// Returns whether this node is the first to warn; `None` if the shared store does not reply.
    async fn is_first(&self, warning: &Warning) -> Option<bool> {
        let Some(fleet) = &self.fleet else { return Some(true) };
        let Warning { key, limit, percent, .. } = warning;
        let name = format!("recorder:warn:{:016x}{:016x}:{limit}:{percent}", key.home, key.mark);
        fleet.store.claim(&name, warning.lifetime()).await.ok()
    }

    fn warning_body(&self, warning: &Warning) -> serde_json::Value {
        json!({
            "id": format!("{}-{}", self.instance, warning.number),
            "kind": if warning.test { "test" } else { "warning" },
            "at": timestamp(warning.at),
            "node": self.node,
            "domain": warning.domain,
            "rule": warning.rule,
            "limit": warning.limit,
            "key": warning.text,
            "fingerprint": fingerprint(warning.key),
            "percent": warning.percent,
            "used": warning.used,
            "of": warning.of,
            "window_ends": timestamp(warning.window_ends),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `openssl dgst -sha256 -hmac secret` of `1700000000.{}`.
    #[test]
    fn a_signature_is_that_of_others() {
        let found = signature("secret", 1_700_000_000, "{}");
        assert_eq!(found, "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163");
    }
}
