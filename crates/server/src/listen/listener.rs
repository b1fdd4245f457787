//! A listener: what it serves, and its limits.
//!
//! Every difference between listeners is a field of [`Listener`]. To add a front end, implement [`Api`] and add a
//! [`Listener`] for it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::capacity::Share;
use super::connection::Connection;
use super::connections::{ConnectionTable, Entry, Eviction};
use super::socket::{BindError, Socket};
use super::tls::{Certificates, TlsError};
use super::watchdog::Timeouts;
use crate::config::Listen;
use crate::config::settings::{Settings, Tls};
use crate::memory::Memory;
use crate::metrics::ListenerMetrics;

/// A listener as the settings describe it.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own of a front end")]
pub struct Listener {
    /// The name of the listener in logs and metrics, and of its section in the settings.
    pub name: &'static str,
    /// The address to listen on.
    pub address: Listen,
    /// The certificate files, if the listener uses TLS.
    pub tls: Option<Tls>,
    /// The front end that serves the connections.
    pub api: Box<dyn Api>,
    /// The protocols that clients may use.
    pub protocols: Protocols,
    /// The share of the process's connections that this listener gets.
    pub share: Share,
    /// Which connection is closed to make room for a new one when the listener is full.
    pub eviction: Eviction,
    /// Whether new connections are refused while the process is close to its memory limit.
    pub sheds_load: bool,
    /// Whether the listener has its own worker thread instead of the shared workers.
    pub own_worker: bool,
    /// The age at which a connection is asked to close, and how long it may take to do so.
    pub max_age: Option<(Duration, Duration)>,
    /// Whether requests are traced with spans.
    pub traced: bool,
    /// Whether the listener may be reachable from other machines only if a token is configured.
    pub needs_token: bool,
}

impl Listener {
    /// Returns an HTTP listener that shares workers and connections with others.
    pub fn new(name: &'static str, address: &Listen, tls: Option<&Tls>, api: impl Api + 'static) -> Self {
        Self {
            name,
            address: address.clone(),
            tls: tls.cloned(),
            api: Box::new(api),
            protocols: Protocols::Http,
            share: Share::Equal,
            eviction: Eviction::IdleOrSlow,
            sheds_load: true,
            own_worker: false,
            max_age: None,
            traced: false,
            needs_token: false,
        }
    }
}

/// The protocols that a listener supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/2 only, with a server that closes idle connections itself.
    Http2,
    /// HTTP/1.1 and HTTP/2.
    Http,
}

impl Protocols {
    /// Returns the protocol names to offer by ALPN.
    pub fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http2 => &[b"h2"],
            Self::Http => &[b"h2", b"http/1.1"],
        }
    }
}

/// Serves the connections of a listener.
pub trait Api: Send + Sync {
    /// Serves a connection until it ends.
    fn serve<'c>(&'c self, connection: Connection<'c>) -> Serving<'c>;
}

/// A future that serves a connection until it ends.
pub type Serving<'c> = Pin<Box<dyn Future<Output = ()> + Send + 'c>>;

/// The state of an open listener, without its socket.
pub struct OpenListener {
    /// The configuration of the listener.
    pub listener: Listener,
    /// The TLS certificates, if the listener uses TLS.
    pub certificates: Option<Arc<Certificates>>,
    /// Becomes true when connections must finish their requests and close.
    pub drain: watch::Receiver<bool>,
    /// The timeouts of connections.
    pub timeouts: Timeouts,
    /// Maximum size of a request's headers, in bytes.
    pub header_bytes: usize,
    /// The open connections.
    pub connections: ConnectionTable,
    /// The memory limit, which decides whether another connection is admitted.
    pub memory: Memory,
    /// The metrics of the listener.
    pub metrics: Arc<ListenerMetrics>,
}

/// Reasons a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be bound.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// The certificates cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl OpenListener {
    /// Binds the address of a listener with a limit on connections. Must be called in a tokio runtime, on which
    /// changed certificates are reloaded.
    ///
    /// # Errors
    /// If its address cannot be bound, or its certificates cannot be used.
    pub fn open(
        listener: Listener,
        max_connections: usize,
        settings: &Settings,
        memory: &Memory,
        metrics: Arc<ListenerMetrics>,
        drain: watch::Receiver<bool>,
    ) -> Result<(Socket, Self), OpenError> {
        let socket = Socket::bind(&listener.address, listener.name, settings.connections.socket_mode)?;
        let load = |tls: &Tls| Certificates::load(tls, listener.protocols.alpn(), Arc::clone(&metrics));
        let certificates = listener.tls.as_ref().map(load).transpose()?;
        if let Some(certificates) = &certificates {
            tokio::spawn(Arc::clone(certificates).keep_current());
        }
        let timeouts = Timeouts {
            handshake: settings.connections.handshake_timeout,
            header: settings.http.header_timeout,
            idle: settings.http.idle_timeout,
            age: listener.max_age,
        };
        let connections = ConnectionTable::new(max_connections, listener.eviction);
        let (header_bytes, memory) = (settings.header_bytes, memory.clone());
        let open =
            Self { listener, certificates, drain, timeouts, header_bytes, connections, memory, metrics };
        Ok((socket, open))
    }

    /// Registers a new connection. Returns `None` if there are too many connections or memory is short.
    pub fn admit(&self) -> Option<Arc<Entry>> {
        let counts = &self.metrics.connections;
        counts.accepted.add(1);
        let is_short = self.listener.sheds_load && self.memory.is_full();
        if is_short {
            self.memory.note_shed();
        }
        let admitted = if is_short { None } else { self.connections.admit(Instant::now()) };
        let Some((entry, evicted_another)) = admitted else {
            counts.shed.add(1);
            counts.closed.add(1);
            return None;
        };
        counts.shed.add(u64::from(evicted_another));
        Some(entry)
    }
}
