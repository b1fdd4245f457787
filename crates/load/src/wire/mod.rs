//! The protocols as state machines over bytes, without sockets or clocks.

mod http1;
mod http2;

use crate::dispatcher::Dispatcher;
use crate::error::Fault;
use crate::payload::Speaks;
use crate::plan::{Endpoint, Plan};
use crate::traffic::Call;

use self::http1::Http1;
use self::http2::Http2;

/// The largest response that is accepted. Those of rate limiters have a few hundred bytes.
pub(crate) const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// The protocol state of a connection.
pub(crate) enum Wire {
    Http1(Http1),
    Http2(Box<Http2>),
}

impl Wire {
    pub(crate) fn new(speaks: &Speaks, plan: &Plan) -> Self {
        match speaks {
            Speaks::Http1 => Self::Http1(Http1::new()),
            Speaks::Grpc { path } => {
                let authority = match &plan.endpoint {
                    Endpoint::Tcp(addr) => addr.to_string(),
                    Endpoint::Unix(_) => "localhost".to_owned(),
                };
                Self::Http2(Box::new(Http2::new(path, &authority, plan.streams)))
            }
        }
    }

    /// Writes what is sent as soon as the connection is established.
    pub(crate) fn greet(&self, out: &mut Vec<u8>) {
        match self {
            Self::Http1(_) => {}
            Self::Http2(_) => Http2::greet(out),
        }
    }

    /// Returns whether the server has completed the handshake of the protocol.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Http1(_) => true,
            Self::Http2(http2) => http2.is_ready(),
        }
    }

    /// Returns whether a call can be started.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.has_room(),
            Self::Http2(http2) => http2.has_room(),
        }
    }

    /// Writes a call. There must be room for it.
    pub(crate) fn start(&mut self, call: Call, dispatcher: &mut Dispatcher<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Http1(http1) => http1.start(call, dispatcher, out),
            Self::Http2(http2) => http2.start(call, dispatcher, out),
        }
    }

    /// Processes received bytes, and counts the results of the calls that they finish. Returns the number of
    /// bytes consumed.
    pub(crate) fn receive(
        &mut self,
        input: &[u8],
        dispatcher: &mut Dispatcher<'_>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        match self {
            Self::Http1(http1) => http1.receive(input, dispatcher),
            Self::Http2(http2) => http2.receive(input, dispatcher, out),
        }
    }

    /// Fails the calls that were sent before this time. Returns whether the connection can still be used.
    pub(crate) fn expire(
        &mut self,
        sent_before_ns: u64,
        dispatcher: &mut Dispatcher<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match self {
            Self::Http1(http1) => http1.expire(sent_before_ns, dispatcher),
            Self::Http2(http2) => {
                http2.expire(sent_before_ns, dispatcher, out);
                true
            }
        }
    }

    /// Returns whether no more calls can be started. Open calls may still get a response.
    pub(crate) fn is_retired(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.is_retired(),
            Self::Http2(http2) => http2.is_retired(),
        }
    }

    /// Returns why the server retired the connection, or `None` if that is routine: HTTP/1.1 servers may
    /// close a connection after a number of requests, and the stream IDs of HTTP/2 may be used up.
    pub(crate) fn goodbye(&self) -> Option<Fault> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(http2) => http2.goodbye().map(|why| Fault::GoAway(why.to_owned())),
        }
    }

    /// Returns whether it would be routine if the connection ended now, as when it is idle.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self, Self::Http1(http1) if http1.open_calls() == 0)
    }

    /// Returns the number of calls without a response.
    pub(crate) fn open_calls(&self) -> usize {
        match self {
            Self::Http1(http1) => http1.open_calls(),
            Self::Http2(http2) => http2.open_calls(),
        }
    }

    /// Fails the open calls of a connection that has ended.
    pub(crate) fn lose(&mut self, fault: &Fault, dispatcher: &mut Dispatcher<'_>) {
        match self {
            Self::Http1(http1) => http1.lose(fault, dispatcher),
            Self::Http2(http2) => http2.lose(fault, dispatcher),
        }
    }
}
