//! HTTP/1.1 with keep-alive, one call at a time.

use httparse::{EMPTY_HEADER, Response, Status, parse_chunk_size};

use crate::dispatcher::Dispatcher;
use crate::error::Fault;
use crate::traffic::Call;
use crate::wire::MAX_RESPONSE_BYTES;

const MAX_HEADERS: usize = 64;

/// The client's side of one connection.
#[derive(Debug)]
pub(crate) struct Http1 {
    waiting: Option<Waiting>,
    /// Whether the server has announced that it will close the connection.
    is_retired: bool,
}

#[derive(Debug)]
struct Waiting {
    call: Call,
    sent_ns: u64,
}

/// The head of a response: its status, length, and the kind of its body.
struct Head {
    status: u16,
    bytes: usize,
    body: Body,
    closes: bool,
}

#[derive(Clone, Copy)]
enum Body {
    Bytes(usize),
    Chunks,
}

impl Http1 {
    pub(crate) fn new() -> Self {
        Self { waiting: None, is_retired: false }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_none() && !self.is_retired
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired
    }

    pub(crate) fn open_calls(&self) -> usize {
        usize::from(self.waiting.is_some())
    }

    pub(crate) fn start(&mut self, call: Call, dispatcher: &mut Dispatcher<'_>, out: &mut Vec<u8>) {
        dispatcher.payload.request(call.key, out);
        self.waiting = Some(Waiting { call, sent_ns: dispatcher.now_ns });
    }

    pub(crate) fn receive(&mut self, input: &[u8], dispatcher: &mut Dispatcher<'_>) -> Result<usize, Fault> {
        let mut done = 0;
        while done < input.len() {
            let rest = &input[done..];
            let Some(head) = parse_head(rest)? else { break };
            let body = &rest[head.bytes..];
            // Chunks are rare, so a chunked body is joined again each time more of it has arrived.
            let mut joined = Vec::new();
            let (body, body_bytes) = match head.body {
                Body::Bytes(bytes) if bytes > body.len() => break,
                Body::Bytes(bytes) => (&body[..bytes], bytes),
                Body::Chunks => match join_chunks(body, &mut joined)? {
                    Some(bytes) => (joined.as_slice(), bytes),
                    None => break,
                },
            };
            done += head.bytes + body_bytes;
            if (100..200).contains(&head.status) {
                continue;
            }
            let Some(Waiting { call, .. }) = self.waiting.take() else {
                return Err(Fault::Protocol(format!(
                    "a response of status {} without a request",
                    head.status
                )));
            };
            let decision = dispatcher.judge(head.status, body);
            dispatcher.settle(&call, &decision);
            self.is_retired |= head.closes;
        }
        if done == 0 && input.len() > MAX_RESPONSE_BYTES {
            return Err(Fault::Protocol(format!("a response of more than {MAX_RESPONSE_BYTES} bytes")));
        }
        Ok(done)
    }

    /// Fails the call if it was sent before this time. Returns false if so: then the connection must be
    /// closed, because a late response would be mistaken for that of the next call.
    pub(crate) fn expire(&mut self, sent_before_ns: u64, dispatcher: &mut Dispatcher<'_>) -> bool {
        let Some(Waiting { call, .. }) = self.waiting.take_if(|waiting| waiting.sent_ns < sent_before_ns)
        else {
            return true;
        };
        dispatcher.fail(&call, "no answer in time");
        false
    }

    pub(crate) fn lose(&mut self, fault: &Fault, dispatcher: &mut Dispatcher<'_>) {
        if let Some(Waiting { call, .. }) = self.waiting.take() {
            dispatcher.fail(&call, &fault.to_string());
        }
    }
}

/// Parses the head of a response. Returns `None` if it is incomplete.
fn parse_head(input: &[u8]) -> Result<Option<Head>, Fault> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = Response::new(&mut headers);
    let head_bytes = match response.parse(input) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) => return Ok(None),
        // A SETTINGS frame on stream 0: its length is below 256, its type is 4.
        Err(_) if matches!(input, [0, 0, _, 4, ..]) => return Err(Fault::AnswersHttp2),
        Err(error) => return Err(Fault::Protocol(format!("not an HTTP/1.1 response: {error}"))),
    };
    let status = response.code.unwrap_or(0);
    let mut closes = response.version == Some(0);
    let mut body = matches!(status, 100..200 | 204 | 304).then_some(Body::Bytes(0));
    for header in response.headers.iter() {
        let value = header.value;
        // Lengths are compared first: comparing names is most of the cost of a response.
        match header.name.len() {
            14 if body.is_none() && header.name.eq_ignore_ascii_case("content-length") => {
                let bytes = str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
                let bytes =
                    bytes.ok_or_else(|| Fault::Protocol("content-length is not a number".to_owned()))?;
                body = Some(Body::Bytes(bytes));
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => body = Some(Body::Chunks),
            10 if header.name.eq_ignore_ascii_case("connection") => {
                closes = value.eq_ignore_ascii_case(b"close");
            }
            _ => {}
        }
    }
    let body =
        body.ok_or_else(|| Fault::Protocol("a response without content-length, not chunked".to_owned()))?;
    Ok(Some(Head { status, bytes: head_bytes, body, closes }))
}

/// Joins a chunked body. Returns its encoded length, or `None` if it is incomplete.
fn join_chunks(input: &[u8], joined: &mut Vec<u8>) -> Result<Option<usize>, Fault> {
    let mut at = 0;
    loop {
        let (line_bytes, chunk_bytes) = match parse_chunk_size(&input[at..]) {
            Ok(Status::Complete((line_bytes, chunk_bytes))) => (line_bytes, chunk_bytes as usize),
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(Fault::Protocol("a chunk without a size".to_owned())),
        };
        at += line_bytes;
        if chunk_bytes > MAX_RESPONSE_BYTES {
            return Err(Fault::Protocol(format!("a chunk of {chunk_bytes} bytes")));
        }
        let end = at + chunk_bytes;
        // A line end follows each chunk. There are no trailers, because the request does not ask for them.
        if input.len() < end + 2 {
            return Ok(None);
        }
        joined.extend_from_slice(&input[at..end]);
        at = end + 2;
        if chunk_bytes == 0 {
            return Ok(Some(at));
        }
    }
}
