//! What happens right now.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::start;
use crate::support::service::{PATIENCE, Service, until};

const MAX_CLIENTS: usize = 64;

/// A client that watches.
struct Watcher {
    lines: BufReader<TcpStream>,
    status: u16,
}

impl Watcher {
    fn new(service: &Service) -> Self {
        let mut stream = TcpStream::connect(service.admin).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let token = service.token();
        let head = format!(
            "GET /admin/v1/live HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).expect("a status");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { lines, status }
    }

    /// Returns the data of the next event with a name.
    fn next(&mut self, name: &str) -> Value {
        let (mut line, mut is_it) = (String::new(), false);
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).expect("an event") > 0, "the stream ended");
            if let Some(event) = line.strip_prefix("event: ") {
                is_it = event.trim() == name;
            }
            if let Some(data) = line.strip_prefix("data: ").filter(|_| is_it) {
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }
}

#[test]
fn a_client_sees_every_second_and_denials_and_changes_as_they_come() {
    let service = start();
    let mut watcher = Watcher::new(&service);
    assert_eq!(watcher.status, 200);
    let first = watcher.next("tick");
    for _ in 0..3 {
        service.check("api", r#"{"user":"ann"}"#);
    }
    let denial = watcher.next("denial");
    assert_eq!((&denial["key"], &denial["rule"]), (&json!("user=ann"), &json!("user")));
    let ticks = || {
        let tick = watcher.next("tick");
        assert!(tick["seq"].as_u64() > first["seq"].as_u64());
        tick["denied"].as_u64().expect("a number")
    };
    assert_eq!(std::iter::repeat_with(ticks).find(|denied| *denied > 0), Some(1));
    service.ask("PUT", "/admin/v1/switches/user", &json!({ "mode": "shadow" }));
    assert_eq!(watcher.next("change")["kind"], "switch");
}

#[test]
fn only_so_many_watch_at_once_and_those_who_leave_make_room() {
    let service = start();
    let watchers: Vec<Watcher> = (0..MAX_CLIENTS).map(|_| Watcher::new(&service)).collect();
    assert!(watchers.iter().all(|watcher| watcher.status == 200));
    assert_eq!(Watcher::new(&service).status, 503);
    assert_eq!(service.check("api", r#"{"user":"ann"}"#).status, 200);
    drop(watchers);
    until("there is room again", || Watcher::new(&service).status == 200);
}
