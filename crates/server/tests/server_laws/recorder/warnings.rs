//! Warnings before the limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::Sha256;
use tidegate_testkit::redis::RedisServer;

use crate::support::service::{Service, Setup, get, post, until};

/// Windows are long, so that none ends during a test.
const RULES: &str = "
domain: api
descriptors:
  - key: user
    warn_at: [80, 100]
    limits: [{name: yearly, algorithm: fixed_window, requests: 10, per: year}]
  - key: secret
    hide_keys: true
    warn_at: [50]
    limits: [{name: yearly, algorithm: fixed_window, requests: 2, per: year}]
";
const SECRET: &str = "between us";

/// A request that a receiver got: its headers in lower case, and its body.
#[derive(Clone, Debug)]
struct Received {
    head: String,
    body: String,
}

/// A receiver of warnings.
struct Receiver {
    at: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Sends these bytes in reply to every request; if there are none, never replies.
    fn answering(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let all = Arc::clone(&all);
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    let mut head = String::new();
                    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
                    let head = head.to_lowercase();
                    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                    let mut body = vec![0; length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)];
                    if reader.read_exact(&mut body).is_err() {
                        return;
                    }
                    let body = String::from_utf8(body).expect("text");
                    all.lock().push(Received { head, body });
                    if answer.is_empty() {
                        // Until the sender gives up.
                        let _ = reader.read(&mut [0]);
                    }
                    let _ = reader.get_mut().write_all(answer.as_bytes());
                });
            }
        });
        Self { at, received }
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    fn setup(&self) -> Setup {
        let setup = Setup::rules(RULES).with("warnings.webhook", &format!("http://{}/hook", self.at));
        setup.with("warnings.secret", SECRET)
    }
}

const OK: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";

impl Service {
    fn events(&self) -> Vec<Value> {
        self.read("events")["events"].as_array().expect("a list").clone()
    }

    fn webhook(&self, count: &str) -> u64 {
        self.read("events")["webhook"][count].as_u64().expect("a number")
    }

    /// Uses up the limit of a user, and asks for more.
    fn use_up(&self, user: &str) {
        let descriptor = json!({ "user": user }).to_string();
        let passed = (0..12).filter(|_| self.check("api", &descriptor).status == 200).count();
        assert_eq!(passed, 10);
    }
}

fn header<'h>(received: &'h Received, name: &str) -> &'h str {
    let line = received.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {}", received.head)).trim()
}

fn is_signed(received: &Received) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key");
    mac.update(format!("{}.{}", header(received, "tidegate-timestamp"), received.body).as_bytes());
    let digits: Vec<String> = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    header(received, "tidegate-signature") == format!("v1={}", digits.concat())
}

#[test]
fn a_key_is_warned_about_once_for_each_percentage_in_its_window() {
    let receiver = Receiver::answering(OK);
    let service = receiver.setup().start();
    service.use_up("ann");
    service.check("api", r#"{"secret":"hunter2"}"#);
    until("the warnings are sent", || service.webhook("sent") == 3);
    let mut listed: Vec<(u64, u64, Value)> = service
        .events()
        .iter()
        .map(|event| {
            assert_eq!((&event["kind"], &event["delivery"]), (&json!("warning"), &json!("sent")));
            let number = |name: &str| event[name].as_u64().expect("a number");
            (number("percent"), number("used"), event["key"].clone())
        })
        .collect();
    listed.sort_by_key(|(percent, ..)| *percent);
    assert_eq!(listed, [(50, 1, Value::Null), (80, 8, json!("user=ann")), (100, 10, json!("user=ann"))]);
    let posted = receiver.received();
    assert_eq!(posted.len(), 3);
    for one in &posted {
        assert!(is_signed(one), "{one:?}");
        assert!(!one.body.contains("hunter2"), "{one:?}");
        let body: Value = serde_json::from_str(&one.body).expect("JSON");
        assert_eq!(body["domain"], "api");
    }
    service.check("api", r#"{"user":"ann"}"#);
    assert_eq!(service.events().len(), 3, "a further denial is no further warning");
    assert!(get(service.admin, "/metrics").body.contains("\nratelimit_warnings_total 3\n"));
    let test = service.ask("POST", "/admin/v1/events/test", &Value::Null);
    assert_eq!(test.status, 202, "{}", test.body);
    until("the test is sent", || service.webhook("sent") == 4);
    assert!(!service.stop().errors.contains("hunter2"));
}

#[test]
fn without_a_webhook_warnings_are_listed_and_logged() {
    let service = Setup::rules(RULES).start();
    service.use_up("ann");
    until("both are listed", || {
        service.events().iter().filter(|event| event["delivery"] == "off").count() == 2
    });
    assert_eq!(service.read("events")["webhook"], Value::Null);
    assert_eq!(service.ask("POST", "/admin/v1/events/test", &Value::Null).status, 409);
    let log = service.stop().errors;
    assert_eq!(log.matches("a key is near its limit").count(), 2, "{log}");
    assert!(!log.contains("ann"), "keys are not logged: {log}");
}

#[test]
fn decisions_do_not_wait_for_a_receiver_that_fails() {
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let broken = "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    for (answer, attempts) in [(moved, 1), (broken, 4)] {
        let receiver = Receiver::answering(answer);
        let service = receiver.setup().start();
        service.check("api", r#"{"secret":"x"}"#);
        service.use_up("ann");
        until("all have failed", || service.webhook("failed") == 3);
        assert_eq!(receiver.received().len(), 3 * attempts, "{answer}");
        assert_eq!(service.webhook("sent"), 0);
    }
    let dead = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let setup = Setup::rules(RULES).with("warnings.webhook", &format!("http://{dead}/"));
    let service = setup.with("warnings.secret", SECRET).start();
    service.use_up("ann");
    until("both have failed", || service.webhook("failed") == 2);
}

#[test]
fn what_a_slow_receiver_does_not_take_is_dropped_and_counted() {
    let receiver = Receiver::answering("");
    let service = receiver.setup().start();
    // More keys than are sent at once and wait together, in batches, each key up to 80 %.
    let batch = |first: usize| {
        let one = |user: usize| json!({ "domain": "api", "descriptor": { "user": format!("user {user}") }, "cost": 8 });
        Value::Array((first..first + 50).map(one).collect()).to_string()
    };
    let mut first = 0;
    until("some are dropped", || {
        let answer = post(service.http, "/v1/check", &batch(first));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json().as_array().map(Vec::len), Some(50));
        first += 50;
        service.webhook("dropped") > 0
    });
    // A thousand wait, one is next, and four are being sent.
    assert!(service.webhook("queued") <= 1_005);
    assert_eq!(service.check("api", r#"{"user":"bob"}"#).status, 200);
}

#[test]
fn two_nodes_on_one_store_warn_once() {
    let server = RedisServer::start();
    let receiver = Receiver::answering(OK);
    let node = |name: &str| {
        let setup = receiver.setup().with("store", &server.url()).with("redis.deadline", "10s");
        setup.with("redis.secret", "between nodes").with("node", name).start()
    };
    let nodes = [node("one"), node("two")];
    // Both see that the limit is used up: the one that used it, and the one that is denied.
    nodes[0].use_up("ann");
    for _ in 0..3 {
        assert_eq!(nodes[1].check("api", r#"{"user":"ann"}"#).status, 429);
    }
    let settled = |node: &Service| node.webhook("queued") == 0;
    until("all are settled", || {
        nodes.iter().all(settled) && nodes.iter().map(|node| node.webhook("sent")).sum::<u64>() == 2
    });
    assert_eq!(receiver.received().len(), 2);
    assert_eq!(nodes.iter().map(|node| node.events().len()).sum::<usize>(), 2);
}

#[test]
fn a_webhook_needs_a_secret_and_tls_unless_it_is_on_this_machine() {
    let ended = Setup::rules(RULES).with("warnings.webhook", "https://example.com/").fail();
    assert!(ended.errors.contains("needs warnings.secret too"), "{}", ended.errors);
    let setup = Setup::rules(RULES).with("warnings.webhook", "http://example.com/");
    let ended = setup.with("warnings.secret", SECRET).fail();
    assert!(ended.errors.contains("must be https:// unless"), "{}", ended.errors);
    assert!(!ended.errors.contains(SECRET));
}
