//! The app is built and started by itself; what it answers beside a service, the laws of the service tell.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn it_says_where_it_listens_and_serves_without_a_service() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate-example-axum"))
        // Nobody listens there: the port is reserved.
        .envs([("PORT", "0"), ("TIDEGATE_URL", "http://127.0.0.1:1"), ("TIDEGATE_FALLBACK", "allow")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    said.read_line(&mut line).expect("it says something");
    let place = line.trim().strip_prefix("listening on http://").expect("it says where").to_owned();
    let mut answer = String::new();
    let mut stream = TcpStream::connect(place).expect("it listens");
    write!(stream, "GET /search HTTP/1.1\r\nhost: app\r\nconnection: close\r\n\r\n").expect("it reads");
    stream.read_to_string(&mut answer).expect("it answers");
    child.kill().expect("it runs");
    child.wait().expect("it is ours");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"results":[]}"#), "{answer}");
}
