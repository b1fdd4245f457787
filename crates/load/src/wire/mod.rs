//! The protocols, as state machines over bytes: they know no sockets and no time.

mod http1;
mod http2;

use crate::desk::Desk;
use crate::error::Fault;
use crate::payload::Speaks;
use crate::plan::{Endpoint, Plan};
use crate::traffic::Call;

use self::http1::Http1;
use self::http2::Http2;

/// The largest answer that is taken; a rate limiter's are a few hundred bytes.
pub(crate) const MAX_ANSWER_BYTES: usize = 4 << 20;

/// One connection's protocol.
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

    /// What is sent as soon as the connection is up.
    pub(crate) fn greet(&self, out: &mut Vec<u8>) {
        match self {
            Self::Http1(_) => {}
            Self::Http2(_) => Http2::greet(out),
        }
    }

    /// Whether the server has greeted back.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Http1(_) => true,
            Self::Http2(http2) => http2.is_ready(),
        }
    }

    /// Whether a call can be started.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.has_room(),
            Self::Http2(http2) => http2.has_room(),
        }
    }

    /// Writes a call; there must be room.
    pub(crate) fn start(&mut self, call: Call, desk: &mut Desk<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Http1(http1) => http1.start(call, desk, out),
            Self::Http2(http2) => http2.start(call, desk, out),
        }
    }

    /// Takes what was received, settles the calls it answers, and says how much of it is done with.
    pub(crate) fn receive(
        &mut self,
        input: &[u8],
        desk: &mut Desk<'_>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        match self {
            Self::Http1(http1) => http1.receive(input, desk),
            Self::Http2(http2) => http2.receive(input, desk, out),
        }
    }

    /// Fails the calls that were sent before this time. Whether the connection can be kept.
    pub(crate) fn expire(&mut self, sent_before_ns: u64, desk: &mut Desk<'_>, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Http1(http1) => http1.expire(sent_before_ns, desk),
            Self::Http2(http2) => {
                http2.expire(sent_before_ns, desk, out);
                true
            }
        }
    }

    /// Whether no more calls can be started here, though those open may still be answered.
    pub(crate) fn is_retired(&self) -> bool {
        match self {
            Self::Http1(http1) => http1.is_retired(),
            Self::Http2(http2) => http2.is_retired(),
        }
    }

    /// What the server said to retire the connection. Where HTTP/1.1 closes, as some servers do
    /// after every so many requests, or stream ids are used up, that is routine.
    pub(crate) fn goodbye(&self) -> Option<Fault> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(http2) => http2.goodbye().map(|why| Fault::GoAway(why.to_owned())),
        }
    }

    /// Whether the end of the connection at this moment is routine, as that of an idle one is.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self, Self::Http1(http1) if http1.open_calls() == 0)
    }

    /// Calls without an answer yet.
    pub(crate) fn open_calls(&self) -> usize {
        match self {
            Self::Http1(http1) => http1.open_calls(),
            Self::Http2(http2) => http2.open_calls(),
        }
    }

    /// Settles the open calls of a connection that has ended.
    pub(crate) fn lose(&mut self, fault: &Fault, desk: &mut Desk<'_>) {
        match self {
            Self::Http1(http1) => http1.lose(fault, desk),
            Self::Http2(http2) => http2.lose(fault, desk),
        }
    }
}
