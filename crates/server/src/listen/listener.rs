//! A listener: what it serves, and within which bounds.
//!
//! Every difference between listeners is a field of [`Listener`]. A further front end is an implementation of [`Api`]
//! and one more value.

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
    /// Its name in the log and in metrics, which is also the section of its settings.
    pub name: &'static str,
    /// Where it listens.
    pub address: Listen,
    /// The files of its certificates, if it speaks TLS.
    pub tls: Option<Tls>,
    /// Serves its connections.
    pub api: Box<dyn Api>,
    /// The protocols that its connections speak.
    pub protocols: Protocols,
    /// Its share of the connections that the process may have.
    pub share: Share,
    /// Which connection is closed for a new one when it has as many as it may have.
    pub eviction: Eviction,
    /// Whether new connections are refused while the process is near its bound on memory.
    pub sheds_load: bool,
    /// Whether it has a thread of its own instead of the workers that the others share.
    pub own_worker: bool,
    /// After how long a connection is asked to close, and how long it may take to.
    pub max_age: Option<(Duration, Duration)>,
    /// Whether requests get spans.
    pub traced: bool,
    /// Whether other machines may reach it only if a token exists.
    pub needs_token: bool,
}

impl Listener {
    /// Returns a listener for HTTP that shares workers and connections with others.
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

/// The protocols that the connections of a listener speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/2 alone, by a server that ends idle connections itself.
    Http2,
    /// HTTP/1.1 and HTTP/2.
    Http,
}

impl Protocols {
    /// Returns the protocols that TLS offers.
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

/// A connection that is being served.
pub type Serving<'c> = Pin<Box<dyn Future<Output = ()> + Send + 'c>>;

/// A listener that is open, without its socket.
pub struct OpenListener {
    /// Its description.
    pub listener: Listener,
    /// The certificates of TLS, if it is spoken.
    pub certificates: Option<Arc<Certificates>>,
    /// True once connections are to finish what they have and close.
    pub drain: watch::Receiver<bool>,
    /// How long everything may take.
    pub timeouts: Timeouts,
    /// Bytes of one request's headers.
    pub header_bytes: usize,
    /// Its open connections.
    pub connections: ConnectionTable,
    /// Whether there is memory for another connection.
    pub memory: Memory,
    /// Counts its connections.
    pub metrics: Arc<ListenerMetrics>,
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its address cannot be bound.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// Its certificates cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl OpenListener {
    /// Binds the address of a listener for at most so many connections. Needs a runtime, on which changed
    /// certificates are reloaded.
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

    /// Counts a connection in, or refuses it if there are too many, or memory is short.
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
