//! The head of a request, and the address of its client.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderName;
use http::request::Parts;

use crate::client_ip::{ClientAddress, ClientIp};
use crate::warnings;

/// A function of a request's head.
pub(crate) type HeadFn<T> = Arc<dyn Fn(&RequestHead<'_>) -> T + Send + Sync>;

/// A function of a request's head that has to wait.
pub(crate) type AsyncHeadFn<T> = HeadFn<BoxFuture<'static, T>>;

/// The address at the other end of the connection, as an extension of the request, for servers that are
/// neither Axum's nor tonic's:
///
/// ```
/// # let mut request = http::Request::new(());
/// # let peer: std::net::SocketAddr = "192.0.2.7:4711".parse().unwrap();
/// request.extensions_mut().insert(tidegate_middleware::PeerAddr(peer));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The head of a request that is to be decided: what keys, costs and descriptors are made from.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    parts: &'a Parts,
    client_ip: &'a ClientIp,
}

impl<'a> RequestHead<'a> {
    pub(crate) fn new(parts: &'a Parts, client_ip: &'a ClientIp) -> Self {
        Self { parts, client_ip }
    }

    /// Returns method, URI, headers and extensions.
    pub fn parts(&self) -> &'a Parts {
        self.parts
    }

    /// Returns the first value of a header, unless it is empty. Its bytes are read as Latin-1, so that no client
    /// is without a key because of a letter.
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

    /// Returns the address at the other end of the connection, if the server states it.
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

    /// Returns the address of the client, behind the proxies that the layer trusts.
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

    /// Returns the method and template of the route, such as `GET /users/{id}`, where the framework knows them, else
    /// `GET *`: a path that any client can make up would have limits of its own. So would a method: those that HTTP
    /// does not define are one, `OTHER`.
    pub fn route(&self) -> String {
        self.template().unwrap_or_else(|| format!("{} *", self.method()))
    }

    /// The method and template of the route, where the framework knows them.
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

/// Whether clients can claim to be somebody else by this header.
pub(crate) fn is_spoofable(name: &HeaderName) -> bool {
    const SPOOFABLE: [&str; 6] =
        ["x-forwarded-for", "x-real-ip", "forwarded", "x-client-ip", "true-client-ip", "cf-connecting-ip"];
    SPOOFABLE.contains(&name.as_str())
}
