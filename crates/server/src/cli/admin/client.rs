//! The one HTTP client: requests and their answers, over one connection by TCP, TLS or a Unix socket.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, USER_AGENT};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Outcome;
use super::failure::Failure;

/// From connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where a node's admin API listens unless its settings say otherwise.
const ADMIN_PORT: u16 = 6070;

const MAX_ANSWER_BYTES: usize = 64 << 20;

/// All but what RFC 3986 leaves as it is.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value as a part of a path or a query.
pub(super) fn encoded(text: &str) -> String {
    match text {
        // As they are, they would mean this folder and the one above.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(text, UNSAFE).to_string(),
    }
}

/// Where a node's admin API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Base {
    /// `http://` or `https://`, with what paths begin with.
    Web { tls: bool, host: String, port: u16, authority: String, prefix: String },
    /// `unix:/path`.
    Socket(PathBuf),
}

impl Base {
    /// Without a scheme it is `http`, and the port the usual one.
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
        // A port that is no number, or too large a one, would be taken for none.
        let is_whole = |authority: &&Authority| {
            let port = authority.as_str().strip_prefix(authority.host());
            port.is_some_and(|port| {
                port.is_empty() || port.starts_with(':') && authority.port_u16().is_some()
            })
        };
        let authority = uri.authority().filter(is_whole).ok_or_else(wrong)?;
        let (default_port, authority_text) = match (has_scheme, authority.port_u16()) {
            (true, _) => (if tls { 443 } else { 80 }, authority.to_string()),
            (false, Some(_)) => (ADMIN_PORT, authority.to_string()),
            (false, None) => (ADMIN_PORT, format!("{authority}:{ADMIN_PORT}")),
        };
        Ok(Self::Web {
            tls,
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(default_port),
            authority: authority_text,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// A node on this machine with the usual settings.
    pub(super) fn usual() -> Self {
        let (host, port) = ("127.0.0.1", ADMIN_PORT);
        let (host, authority) = (host.to_owned(), format!("{host}:{port}"));
        Self::Web { tls: false, host, port, authority, prefix: String::new() }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Web { tls: true, .. })
    }

    /// Whether it is on this machine.
    pub(super) fn is_here(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Web { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web { tls, authority, prefix, .. } => {
                write!(out, "http{}://{authority}{prefix}", if *tls { "s" } else { "" })
            }
            Self::Socket(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// What to ask.
pub(in crate::cli) struct Call {
    method: Method,
    /// Below `/admin/v1`, encoded.
    path: String,
    query: Vec<(&'static str, String)>,
    headers: Vec<(HeaderName, String)>,
    body: Vec<u8>,
}

impl Call {
    /// `path` is made of parts, which this encodes.
    pub(in crate::cli) fn new(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|part| encoded(part)).collect::<Vec<_>>().join("/");
        Self { method, path, query: Vec::new(), headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    /// Adds a parameter, if it has a value.
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

/// What came back.
#[derive(Debug)]
pub(in crate::cli) struct Answer {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(in crate::cli) body: Bytes,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Outcome<serde_json::Value> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::other(format!(
                "the node's answer is not JSON ({error}); is this the address of its admin API?"
            ))
        })
    }
}

/// Asks one node.
pub(in crate::cli) struct Client {
    base: Base,
    token: Option<String>,
    tls: Option<Arc<ClientConfig>>,
    /// The connection of the last call.
    kept: Cell<Option<Sender>>,
    runtime: Runtime,
}

type Sender = http1::SendRequest<Full<Bytes>>;

impl Client {
    pub(super) fn new(base: Base, token: Option<String>, tls: Option<Arc<ClientConfig>>) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::other(format!("cannot start: {error}")))?;
        Ok(Self { base, token, tls, kept: Cell::new(None), runtime })
    }

    /// Asks, and takes a success only.
    ///
    /// # Errors
    /// What the node said if it refused, or why it cannot be asked.
    pub(in crate::cli) fn send(&self, call: Call) -> Outcome<Answer> {
        let url = format!("{}/admin/v1/{}", self.base, call.path);
        let answer = self.runtime.block_on(async { timeout(TIMEOUT, self.ask(call)).await });
        let late =
            |_| Err(Failure::Unreachable(format!("{url} did not answer within {TIMEOUT:?}; try again")));
        let answer = answer.unwrap_or_else(late)?;
        if answer.status.is_success() { Ok(answer) } else { Err(Failure::refused(&url, &answer)) }
    }

    async fn ask(&self, call: Call) -> Outcome<Answer> {
        // Long lists and imports ask often: the connection is kept for the next call.
        let mut kept = self.kept.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let request = self.request(call)?;
        let answer = sender.send_request(request).await.map_err(|error| self.unreachable(&error))?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| {
            Failure::Unreachable(format!("the answer of {} broke off: {error}", self.base))
        })?;
        self.kept.set(Some(sender));
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    async fn connect(&self) -> Outcome<Sender> {
        match &self.base {
            Base::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.unreachable(&error))?;
                self.open(stream).await
            }
            Base::Web { host, port, authority, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(|error| self.unreachable(&error))?;
                let Some(tls) = &self.tls else { return self.open(stream).await };
                let name = ServerName::try_from(host.clone()).map_err(|error| self.unreachable(&error))?;
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
                let stream = stream.map_err(|error| match error.kind() {
                    // What TLS finds wrong stays wrong however often it is tried.
                    io::ErrorKind::InvalidData => Failure::other(format!(
                        "{authority} is not trusted: {error}; give its authority with --ca, and --cert and --key if it \
                         asks for them"
                    )),
                    _ => self.unreachable(&error),
                })?;
                self.open(stream).await
            }
        }
    }

    fn unreachable(&self, error: &dyn fmt::Display) -> Failure {
        let place = match &self.base {
            Base::Web { authority, .. } => authority.clone(),
            Base::Socket(path) => path.display().to_string(),
        };
        Failure::Unreachable(format!(
            "cannot reach {place}: {error}; is the node running, and is this its admin address (--admin)?"
        ))
    }

    async fn open<S>(&self, stream: S) -> Outcome<Sender>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| self.unreachable(&error))?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, call: Call) -> Outcome<Request<Full<Bytes>>> {
        let (host, prefix) = match &self.base {
            Base::Socket(_) => ("localhost", ""),
            Base::Web { authority, prefix, .. } => (authority.as_str(), prefix.as_str()),
        };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{prefix}{}", call.target()))
            .header(HOST, host)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_a_path_whatever_is_in_them() {
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
            assert_eq!(Base::parse(good).map(|base| base.to_string()).as_deref(), Ok(good));
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
            assert!(Base::parse(bad).is_err(), "{bad}");
        }
        for (short, whole) in [
            ("127.0.0.1:6070", "http://127.0.0.1:6070"),
            ("node-1:7000", "http://node-1:7000"),
            ("node-1", "http://node-1:6070"),
            ("[::1]", "http://[::1]:6070"),
            ("localhost:6070/behind/proxy", "http://localhost:6070/behind/proxy"),
        ] {
            assert_eq!(Base::parse(short).map(|base| base.to_string()).as_deref(), Ok(whole));
        }
        let here = |text| Base::parse(text).expect("an address").is_here();
        assert!(
            here("http://localhost:1")
                && here("http://[::1]:1")
                && here("http://127.8.8.8")
                && here("unix:x")
        );
        assert!(!here("http://10.0.0.1") && !here("https://localhost.example"));
    }
}
