//! What Envoy protects: an HTTP server that says yes. Envoy does not ask about routes that it answers
//! by itself, so there has to be one.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Starts one, which ends with the tests. Each answer has the `x-cost` that its request asks for with
/// `want-cost`.
pub(super) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Answers until Envoy closes the connection.
fn serve(mut stream: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let mut cost = String::new();
    loop {
        let line = lines.next()?.ok()?;
        if let Some(wanted) = line.strip_prefix("want-cost: ") {
            wanted.clone_into(&mut cost);
        }
        if line.is_empty() {
            let header = if cost.is_empty() { String::new() } else { format!("x-cost: {cost}\r\n") };
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n{header}\r\nyes");
            stream.write_all(answer.as_bytes()).ok()?;
            cost.clear();
        }
    }
}
