//! The head of a request, and the address of its client.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderName;
use http::request::Parts;

use crate::client_ip::{ClientAddress, ClientIp};
use crate::warnings;

/// A function of a request head.
pub(crate) type HeadFn<T> = Arc<dyn Fn(&RequestHead<'_>) -> T + Send + Sync>;

/// An async function of a request head.
pub(crate) type AsyncHeadFn<T> = HeadFn<BoxFuture<'static, T>>;

/// The address of the peer, to be added as an extension to requests by servers other than those of Axum and tonic:
///
/// ```
/// # let mut request = http::Request::new(());
/// # let peer: std::net::SocketAddr = "192.0.2.7:4711".parse().unwrap();
/// request.extensions_mut().insert(tidegate_middleware::PeerAddr(peer));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The head of a request to be decided, from which keys, costs and descriptors are computed.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    parts: &'a Parts,
    client_ip: &'a ClientIp,
}

impl<'a> RequestHead<'a> {
    pub(crate) fn new(parts: &'a Parts, client_ip: &'a ClientIp) -> Self {
        Self { parts, client_ip }
    }

    /// Returns the method, URI, headers and extensions.
    pub fn parts(&self) -> &'a Parts {
        self.parts
    }

    /// Returns the first value of a header, or `None` if it is empty or missing. Bytes are decoded as Latin-1, so
    /// that a value with non-ASCII characters still identifies a client.
    pub fn header(&self, name: impl AsRef<str>) -> Option<Cow<'a, str>> {
        let value = self.parts.headers.get(name.as_ref())?.as_bytes();
        match std::str::from_utf8(value) {
            Ok("") => None,
            Ok(text) if text.is_ascii() => Some(Cow::Borrowed(text)),
            _ => Some(value.iter().map(|byte| char::from(*byte)).collect::<String>().into()),
        }
    }

    /// Returns the path of the URI.
    pub fn path(&self) -> &'a str {
        self.parts.uri.path()
    }

    /// Returns the IP address of the peer, if the server provides it.
    pub fn peer(&self) -> Option<IpAddr> {
        let extensions = &self.parts.extensions;
        if let Some(PeerAddr(peer)) = extensions.get() {
            return Some(peer.ip());
        }
        #[cfg(feature = "axum")]
        if let Some(axum::extract::ConnectInfo(peer)) =
            extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
        {
            return Some(peer.ip());
        }
        #[cfg(feature = "tonic")]
        if let Some(peer) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
            return peer.remote_addr().map(|peer| peer.ip());
        }
        None
    }

    /// Returns the address of the client behind the trusted proxies of the layer; `None` if it is not known.
    pub fn client(&self) -> Option<ClientAddress> {
        let headers = &self.parts.headers;
        let client = match self.peer() {
            Some(peer) => Some(self.client_ip.resolve(peer, headers)),
            None => self.client_ip.resolve_without_peer(headers),
        };
        if client.is_none() {
            warnings::NO_PEER.log();
        }
        client
    }

    /// Returns the method and template of the route, such as `GET /users/{id}`, or `GET *` if the framework does not
    /// provide the template. The path itself is not used, because a client that makes up paths would never be
    /// limited. For the same reason, all methods that HTTP does not define become `OTHER`.
    pub fn route(&self) -> String {
        self.template().unwrap_or_else(|| format!("{} *", self.method()))
    }

    /// Returns the method and template of the route, if the framework provides the template.
    pub(crate) fn template(&self) -> Option<String> {
        #[cfg(feature = "axum")]
        if let Some(matched) = self.parts.extensions.get::<axum::extract::MatchedPath>() {
            return Some(format!("{} {}", self.method(), matched.as_str()));
        }
        None
    }

    fn method(&self) -> &'a str {
        const DEFINED: [&str; 10] =
            ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];
        let method = self.parts.method.as_str();
        if DEFINED.contains(&method) { method } else { "OTHER" }
    }

    pub(crate) fn is_grpc(&self) -> bool {
        let content_type = self.parts.headers.get(http::header::CONTENT_TYPE);
        content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
    }
}

/// Returns whether clients can write this header to pretend to be another client.
pub(crate) fn is_spoofable(name: &HeaderName) -> bool {
    const SPOOFABLE: [&str; 6] =
        ["x-forwarded-for", "x-real-ip", "forwarded", "x-client-ip", "true-client-ip", "cf-connecting-ip"];
    SPOOFABLE.contains(&name.as_str())
}
