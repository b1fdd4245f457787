//! A client made of raw frames, and a service that says back what it hears.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tidegate_http2::frame::{self, PREFACE, flag, kind};
use tidegate_http2::hpack::{Decoder, encode};
use tidegate_http2::{Answer, Connection, Inbox, MemoryBudget, Reason, Reset, Service, Settings, Whole};
use tokio::time::Instant;

pub(crate) const SETTINGS: Settings = Settings {
    max_streams: 10,
    header_bytes: 4096,
    body_bytes: 1000,
    body_patience: Duration::from_secs(10),
    max_calls: 8,
    keep_alive: None,
};

/// Work of a turn.
pub(crate) const TURN_WORK: u32 = 512;

/// `/echo` is collected and says back the message; `/later` does so when polled a second time;
/// `/refuse` refuses, `/nobody` because nobody answers it; `/size/N` answers N bytes; `/cut` does not need its whole head.
/// Everything else streams its body back, with trailers.
#[derive(Clone)]
pub(crate) struct Echo;

#[derive(Clone, Debug)]
pub(crate) struct Call(String);

impl Service for Echo {
    type Call = Call;
    type Body = UnsyncBoxBody<Bytes, Reset>;

    fn route(&self, head: &Request<()>) -> Option<Call> {
        let path = head.uri().path();
        let collected =
            ["/echo", "/later", "/refuse", "/nobody", "/cut"].contains(&path) || path.starts_with("/size/");
        collected.then(|| Call(path.to_owned()))
    }

    fn answer(&self, call: &Call, body: Whole<'_>, out: &mut Vec<u8>) -> Answer {
        let body = match body {
            Whole::Bytes(body) => body.get(5..).unwrap_or_default().to_vec(),
            other => return Answer::Refused(status(&format!("{other:?}"))),
        };
        match &*call.0 {
            "/later" => Answer::Later(Box::pin(async move {
                YieldOnce(false).await;
                Ok(body)
            })),
            "/nobody" => Answer::Misdirected(status("nobody")),
            "/refuse" => {
                out.extend_from_slice(b"of no use");
                Answer::Refused(status("as you wish"))
            }
            path => {
                match path.strip_prefix("/size/") {
                    Some(size) => out.resize(out.len() + size.parse::<usize>().expect("a size"), b'x'),
                    None => out.extend_from_slice(&body),
                }
                Answer::Message
            }
        }
    }

    fn takes_cut_head(&self, call: &Call) -> bool {
        call.0 == "/cut"
    }

    fn is_exempt(&self, head: &Request<Inbox>) -> bool {
        head.uri().path() == "/health"
    }

    fn call(&self, request: Request<Inbox>) -> impl Future<Output = Response<Self::Body>> + Send + 'static {
        let path = HeaderValue::from_str(request.uri().path()).expect("a header");
        let trailers =
            async { Some(Ok(HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("end"))]))) };
        let body = request.into_body().with_trailers(trailers).boxed_unsync();
        let mut response = Response::new(body);
        response.headers_mut().insert("path", path);
        std::future::ready(response)
    }
}

fn status(message: &str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-message"),
        HeaderValue::from_str(message).expect("a header"),
    )])
}

struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A received frame; a header block is decoded, `name=value` by `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) fields: Vec<String>,
}

impl Seen {
    pub(crate) fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(*self.payload[at..].first_chunk().expect("four bytes"))
    }

    pub(crate) fn ends(&self) -> bool {
        self.flags & flag::END_STREAM != 0
    }
}

/// The client's side of a connection that exists in memory only.
pub(crate) struct Client {
    pub(crate) connection: Connection<Echo>,
    decoder: Decoder,
    rest: Vec<u8>,
    pub(crate) now: Instant,
}

impl Client {
    /// A client that has said nothing.
    pub(crate) fn silent(settings: Settings) -> Self {
        let now = Instant::now();
        let connection = Connection::new(Echo, settings, now);
        Self { connection, decoder: Decoder::default(), rest: Vec::new(), now }
    }

    /// One that has greeted and been greeted.
    pub(crate) fn new(settings: Settings) -> Self {
        Self::with_budget(settings, &MemoryBudget::unlimited())
    }

    /// One that shares what it holds with others.
    pub(crate) fn with_budget(settings: Settings, budget: &MemoryBudget) -> Self {
        let now = Instant::now();
        let connection = Connection::new(Echo, settings, now).with_budget(budget.clone());
        let mut client = Self { connection, decoder: Decoder::default(), rest: Vec::new(), now };
        let greeting = [&PREFACE[..], &frame(kind::SETTINGS, 0, 0, &[])].concat();
        let seen = client.send(&greeting);
        assert_eq!(
            seen.iter().map(|seen| seen.kind).collect::<Vec<_>>(),
            [kind::SETTINGS, kind::WINDOW_UPDATE, kind::SETTINGS]
        );
        client
    }

    /// Sends bytes, and answers what comes back.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<Seen> {
        self.rest.extend_from_slice(bytes);
        loop {
            self.connection.start_turn(TURN_WORK);
            let taken = self.connection.receive(&self.rest, self.now);
            self.rest.drain(..taken);
            if !self.connection.turn_is_over() {
                return self.seen();
            }
        }
    }

    /// What comes without anything being sent.
    pub(crate) fn seen(&mut self) -> Vec<Seen> {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..20 {
            self.connection.start_turn(TURN_WORK);
            self.connection.poll(&mut cx);
        }
        let bytes = std::mem::take(self.connection.out());
        self.parse(&bytes)
    }

    pub(crate) fn parse(&mut self, mut bytes: &[u8]) -> Vec<Seen> {
        let mut frames = Vec::new();
        while let Some(found) = frame::Frame::parse(bytes).expect("a frame") {
            bytes = &bytes[frame::HEADER_BYTES + found.payload.len()..];
            let mut fields = Vec::new();
            if found.kind == kind::HEADERS {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let field =
                    |name: &[u8], value: &[u8]| fields.push(format!("{}={}", text(name), text(value)));
                self.decoder.decode(found.payload, field).expect("a block");
            }
            let payload = found.payload.to_vec();
            frames.push(Seen { kind: found.kind, flags: found.flags, stream: found.stream, payload, fields });
        }
        assert!(bytes.is_empty(), "half a frame: {bytes:?}");
        frames
    }

    /// The connection ends for this reason.
    pub(crate) fn expect_fault(&mut self, bytes: &[u8], reason: Reason) {
        let seen = self.send(bytes);
        let last = seen.last().expect("a farewell");
        assert_eq!((last.kind, last.number(4)), (kind::GOAWAY, reason.0), "{bytes:?}: {seen:?}");
        assert_eq!(self.connection.fault().map(|fault| fault.reason), Some(reason));
        assert!(self.connection.is_over());
        assert!(self.send(&call(999, "/echo", b"hi")).is_empty(), "nothing is answered any more");
    }

    /// One stream ends for this reason, and the connection goes on.
    pub(crate) fn expect_reset(&mut self, bytes: &[u8], stream: u32, reason: Reason) {
        let seen = self.send(bytes);
        let reset = seen.iter().find(|seen| seen.kind == kind::RST_STREAM).expect("a reset");
        assert_eq!((reset.stream, reset.number(0)), (stream, reason.0), "{bytes:?}");
        assert_eq!(self.connection.fault(), None);
    }

    /// A call on this stream is answered by what it says.
    pub(crate) fn expect_echo(&mut self, stream: u32) {
        let seen = self.send(&call(stream, "/echo", b"hi"));
        let data = seen.iter().find(|seen| seen.kind == kind::DATA && seen.stream == stream);
        assert_eq!(data.expect("an answer").payload, b"\0\0\0\0\x02hi", "{seen:?}");
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_header(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_settings(&mut out, settings);
    out
}

pub(crate) fn window_update(stream: u32, more: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

pub(crate) fn reset(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &Reason::CANCEL.0.to_be_bytes())
}

/// A block of these fields, spelt out.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        encode::field(&mut block, name, value.as_bytes());
    }
    block
}

pub(crate) fn head(path: &str) -> Vec<u8> {
    block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "t"),
        ("te", "trailers"),
    ])
}

/// The head of a request whose body is to come.
pub(crate) fn open(stream: u32, path: &str) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS, stream, &head(path))
}

pub(crate) fn data(stream: u32, bytes: &[u8], ends: bool) -> Vec<u8> {
    frame(kind::DATA, if ends { flag::END_STREAM } else { 0 }, stream, bytes)
}

/// A message with its prefix.
pub(crate) fn message(bytes: &[u8]) -> Vec<u8> {
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A whole call.
pub(crate) fn call(stream: u32, path: &str, bytes: &[u8]) -> Vec<u8> {
    [open(stream, path), data(stream, &message(bytes), true)].concat()
}
