//! The HTTP client of the command line: requests and responses over TCP, TLS or a Unix socket.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::ClientConfig;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tower_service::Service;

use super::Outcome;
use super::failure::Failure;

/// How long a request may take, from connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The default port of the admin API.
const ADMIN_PORT: u16 = 6070;

const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// All characters but the unreserved ones of RFC 3986.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a segment of a path or a value of a query.
pub(super) fn encoded(text: &str) -> String {
    match text {
        // Unencoded, they would mean the current and the parent folder.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(text, UNSAFE).to_string(),
    }
}

/// The address of a node's admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum NodeAddress {
    /// `http://` or `https://`, with a prefix of all paths.
    Web { tls: bool, host: String, authority: String, prefix: String },
    /// `unix:/path`.
    Socket(PathBuf),
}

impl NodeAddress {
    /// Parses an address. Without a scheme it is `http`, with the default port of the admin API.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Socket(path.into()));
        }
        let wrong = || {
            "must be an address such as 127.0.0.1:6070, http://127.0.0.1:6070, https://host or unix:/path"
                .to_owned()
        };
        if text.starts_with('/') {
            return Err(wrong());
        }
        let has_scheme = text.contains("://");
        let with_scheme = if has_scheme { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = with_scheme.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        // `Uri` ignores a port that is not a valid number.
        let is_whole = |authority: &&Authority| {
            let port = authority.as_str().strip_prefix(authority.host());
            port.is_some_and(|port| {
                port.is_empty() || port.starts_with(':') && authority.port_u16().is_some()
            })
        };
        let authority = uri.authority().filter(is_whole).ok_or_else(wrong)?;
        let needs_port = !has_scheme && authority.port().is_none();
        Ok(Self::Web {
            tls,
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            authority: if needs_port { format!("{authority}:{ADMIN_PORT}") } else { authority.to_string() },
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the address of a node on this machine with default settings.
    pub(super) fn default_node() -> Self {
        let host = "127.0.0.1";
        let (host, authority) = (host.to_owned(), format!("{host}:{ADMIN_PORT}"));
        Self::Web { tls: false, host, authority, prefix: String::new() }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Web { tls: true, .. })
    }

    /// Returns whether the node is on this machine.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Web { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
        }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web { tls, authority, prefix, .. } => {
                write!(out, "http{}://{authority}{prefix}", if *tls { "s" } else { "" })
            }
            Self::Socket(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// A request to the admin API.
pub(in crate::cli) struct Call {
    method: Method,
    /// The encoded path below `/admin/v1`.
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(HeaderName, String)>,
    body: Vec<u8>,
}

impl Call {
    /// Returns a request for a path, whose segments are encoded.
    pub(in crate::cli) fn new(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|part| encoded(part)).collect::<Vec<_>>().join("/");
        Self { method, path, query: Vec::new(), headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Adds a query parameter, if it has a value.
    pub(super) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(super) fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(in crate::cli) fn json(mut self, body: &serde_json::Value) -> Self {
        self.body = body.to_string().into_bytes();
        self.header(CONTENT_TYPE, "application/json")
    }

    pub(super) fn yaml(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self.header(CONTENT_TYPE, "application/yaml")
    }

    fn target(&self) -> String {
        let mut target = format!("/admin/v1/{}", self.path);
        for (index, (name, value)) in self.query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            target.push_str(name);
            target.push('=');
            target.push_str(&encoded(value));
        }
        target
    }
}

/// A response of the admin API.
#[derive(Debug)]
pub(in crate::cli) struct ApiResponse {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(in crate::cli) body: Bytes,
}

impl ApiResponse {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }

    /// Parses the body as JSON.
    pub(super) fn json(&self) -> Outcome<serde_json::Value> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::other(format!(
                "the response of the node is not JSON ({error}); is this the address of its admin API?"
            ))
        })
    }
}

/// Sends requests to one node. Connections are kept for the next request: long lists and imports send many.
pub(in crate::cli) struct Client {
    base: NodeAddress,
    token: Option<String>,
    request: Box<dyn Fn(Request<Full<Bytes>>) -> ResponseFuture + Send>,
    runtime: Runtime,
}

impl Client {
    pub(super) fn new(base: NodeAddress, token: Option<String>, tls: Option<ClientConfig>) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::other(format!("cannot start: {error}")))?;
        let client = legacy::Client::builder(TokioExecutor::new());
        let request: Box<dyn Fn(_) -> _ + Send> = match (&base, tls) {
            (NodeAddress::Socket(path), _) => {
                let client = client.build(UnixConnector(path.clone()));
                Box::new(move |request| client.request(request))
            }
            (NodeAddress::Web { .. }, None) => {
                let client = client.build(HttpConnector::new());
                Box::new(move |request| client.request(request))
            }
            (NodeAddress::Web { .. }, Some(tls)) => {
                let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
                let client = client.build(https.enable_http1().build());
                Box::new(move |request| client.request(request))
            }
        };
        Ok(Self { base, token, request, runtime })
    }

    /// Sends a request and returns the response if it is a success.
    ///
    /// # Errors
    /// The error of the node, or why it cannot be reached.
    /// Returns the address of the node.
    pub(super) fn address(&self) -> &NodeAddress {
        &self.base
    }

    pub(in crate::cli) fn send(&self, call: Call) -> Outcome<ApiResponse> {
        let url = format!("{}/admin/v1/{}", self.base, call.path);
        let response = self.runtime.block_on(async { timeout(TIMEOUT, self.exchange(call)).await });
        let late =
            |_| Err(Failure::Unreachable(format!("{url} did not respond within {TIMEOUT:?}; try again")));
        let response = response.unwrap_or_else(late)?;
        if response.status.is_success() { Ok(response) } else { Err(Failure::refused(&url, &response)) }
    }

    async fn exchange(&self, call: Call) -> Outcome<ApiResponse> {
        let request = self.request_of(call)?;
        let response = (self.request)(request).await.map_err(|error| self.failed(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| {
            Failure::Unreachable(format!("the response of {} ended too early: {error}", self.base))
        })?;
        Ok(ApiResponse { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    fn failed(&self, error: &legacy::Error) -> Failure {
        let place = match &self.base {
            NodeAddress::Web { authority, .. } => authority.clone(),
            NodeAddress::Socket(path) => path.display().to_string(),
        };
        // What is wrong with a certificate stays wrong however often it is tried.
        if let Some(error) = tls_error(error) {
            return Failure::other(format!(
                "{place} is not trusted: {error}; give its authority with --ca, and --cert and --key if it asks for \
                 them"
            ));
        }
        let causes = std::iter::successors(error.source(), |&cause| cause.source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        Failure::Unreachable(format!(
            "cannot reach {place}: {}; is the node running, and is this its admin address (--admin)?",
            causes.join(": ")
        ))
    }

    fn request_of(&self, call: Call) -> Outcome<Request<Full<Bytes>>> {
        let base = match &self.base {
            // The name of the host is not used to connect, and any is accepted there.
            NodeAddress::Socket(_) => "http://localhost".to_owned(),
            base @ NodeAddress::Web { .. } => base.to_string(),
        };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{base}{}", call.target()))
            .header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json, */*;q=0.5");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from(call.body))).map_err(|error| Failure::other(error.to_string()))
    }
}

/// Returns the TLS error among the causes of a failure, if there is one.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The source of an I/O error is the source of the error in it, which would be skipped.
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => tls_error(inner),
        None => tls_error(error.source()?),
    }
}

/// Connects to a Unix socket, whatever the address of the request.
#[derive(Clone)]
struct UnixConnector(PathBuf);

impl Service<Uri> for UnixConnector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_segments_of_a_path_whatever_is_in_them() {
        let call = Call::get(&["quotas", "a/b c?\u{fc}%41", ".."])
            .query("q", Some("x&y=z"))
            .query("tier", None::<&str>);
        assert_eq!(call.target(), "/admin/v1/quotas/a%2Fb%20c%3F%C3%BC%2541/%2E%2E?q=x%26y%3Dz");
    }

    #[test]
    fn an_address_is_http_https_or_a_socket() {
        for good in
            ["http://127.0.0.1:6070", "https://host", "http://[::1]:6070/behind/proxy", "unix:/run/x.sock"]
        {
            assert_eq!(NodeAddress::parse(good).map(|base| base.to_string()).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "ftp://host",
            "http://",
            "http://user@host",
            "http://host:99999",
            "user@host",
            "host@host:80",
            "/run/x.sock",
            "host:port",
            "a b",
        ] {
            assert!(NodeAddress::parse(bad).is_err(), "{bad}");
        }
        for (short, whole) in [
            ("127.0.0.1:6070", "http://127.0.0.1:6070"),
            ("node-1:7000", "http://node-1:7000"),
            ("node-1", "http://node-1:6070"),
            ("[::1]", "http://[::1]:6070"),
            ("localhost:6070/behind/proxy", "http://localhost:6070/behind/proxy"),
        ] {
            assert_eq!(NodeAddress::parse(short).map(|base| base.to_string()).as_deref(), Ok(whole));
        }
        let local = |text| NodeAddress::parse(text).expect("an address").is_local();
        assert!(
            local("http://localhost:1")
                && local("http://[::1]:1")
                && local("http://127.8.8.8")
                && local("unix:x")
        );
        assert!(!local("http://10.0.0.1") && !local("https://localhost.example"));
    }
}
