//! An admin API that answers as a test tells it to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::Value;

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Method and target: `GET /admin/v1/quotas`.
    pub(super) line: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// What to answer: status line, further header lines, body.
pub(super) struct Answer(pub(super) &'static str, pub(super) &'static str, pub(super) String);

impl Answer {
    pub(super) fn ok(body: &impl ToString) -> Self {
        Self("200 OK", "", body.to_string())
    }

    pub(super) fn problem(status: &'static str, body: &Value) -> Self {
        Self(status, "content-type: application/problem+json\r\n", body.to_string())
    }
}

/// A node that is not one.
pub(super) struct Node {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Node {
    /// Answers each request, one after the other, until the test ends.
    pub(super) fn new(answer: impl Fn(&Asked) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let seen = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                exchange(stream, |asked| {
                    seen.lock().push(asked.clone());
                    answer(asked)
                });
            }
        });
        Self { url, asked }
    }

    /// Everything that was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    /// The last thing that was asked.
    pub(super) fn last(&self) -> Asked {
        self.asked.lock().last().expect("something was asked").clone()
    }
}

/// Reads one request and answers it.
pub(super) fn exchange(stream: impl Read + Write, answer: impl FnOnce(&Asked) -> Answer) {
    let mut reader = BufReader::new(stream);
    let Some(asked) = read(&mut reader) else { return };
    let Answer(status, headers, body) = answer(&asked);
    let text = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    let stream = reader.get_mut();
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|bytes| *bytes > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let mut asked =
        Asked { line: first.trim_end().trim_end_matches(" HTTP/1.1").to_owned(), headers, body: Vec::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().expect("a length"));
    asked.body.resize(length, 0);
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}
