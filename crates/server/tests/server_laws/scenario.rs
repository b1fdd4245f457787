//! One small application in three languages: the same answers, whatever becomes of the service.
//!
//! `make apps` installs what they need; `cargo test --workspace` builds the one in Rust.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate::Clock as _;
use tidegate_stores::SystemClock;
use tokio::time::Instant;

use crate::support::document::line_fits;
use crate::support::envoy::workspace;
use crate::support::ports;
use crate::support::service::{Answer, Service, Setup, send, until};

/// An application waits for the service for a fraction of a second; this is far more.
const SOON: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Scenario {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: String,
    request: Asked,
    #[serde(default = "once")]
    times: usize,
    expect: Expect,
}

#[derive(Deserialize)]
struct Asked {
    method: String,
    path: String,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Option<Value>,
}

#[derive(Deserialize)]
struct Expect {
    status: u16,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    text: Option<String>,
}

fn once() -> usize {
    1
}

/// A running application.
struct App {
    child: Child,
    address: SocketAddr,
}

/// In which language.
#[derive(Clone, Copy, Debug)]
enum Language {
    Rust,
    Python,
    JavaScript,
}

impl Language {
    fn command(self) -> Command {
        let beside = Path::new(env!("CARGO_BIN_EXE_tidegate")).with_file_name("tidegate-example-axum");
        let examples = workspace().join("examples");
        let (program, arguments): (PathBuf, Vec<PathBuf>) = match self {
            Self::Rust => (beside, vec![]),
            Self::Python => {
                (workspace().join(".tools/python/bin/python"), vec![examples.join("fastapi/main.py")])
            }
            Self::JavaScript => ("node".into(), vec![examples.join("express/main.mjs")]),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        command
    }

    fn start(self, service: SocketAddr, fallback: &str) -> App {
        let mut command = self.command();
        command.env("TIDEGATE_URL", format!("http://{service}")).env("PORT", "0");
        command.env("TIDEGATE_FALLBACK", fallback).env("PYTHONUNBUFFERED", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("{self:?}: {error}; run `make apps` and `cargo test --workspace`")
        });
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = stdout.lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening on http://")?.trim().parse().ok());
        // What it says later is not kept from it.
        thread::spawn(move || lines.for_each(drop));
        let Some(address) = address else {
            let _ = child.kill();
            panic!("{self:?}: it does not start; run `make apps` and `cargo test --workspace`")
        };
        App { child, address }
    }
}

impl App {
    fn ask(&self, asked: &Asked) -> Answer {
        let body = asked.body.as_ref().map(Value::to_string).unwrap_or_default();
        let mut request = format!(
            "{} {} HTTP/1.1\r\nhost: app\r\nconnection: close\r\ncontent-length: {}\r\n",
            asked.method,
            asked.path,
            body.len()
        );
        for (name, value) in &asked.headers {
            request.extend([name, ": ", value.as_str().expect("a text"), "\r\n"]);
        }
        send(self.address, &format!("{request}\r\n{body}"))
    }

    fn complete(&self, key: &str, reserved: u64, used: u64) -> Answer {
        let body = format!(r#"{{"prompt":"hi","max_tokens":{reserved},"used":{used}}}"#);
        let head =
            "POST /complete HTTP/1.1\r\nhost: app\r\nconnection: close\r\ncontent-type: application/json";
        let length = body.len();
        send(self.address, &format!("{head}\r\nx-api-key: {key}\r\ncontent-length: {length}\r\n\r\n{body}"))
    }

    fn search(&self, client: &str) -> Answer {
        let get = format!(
            "GET /search HTTP/1.1\r\nhost: app\r\nconnection: close\r\nx-forwarded-for: {client}\r\n\r\n"
        );
        let begun = Instant::now();
        let answer = send(self.address, &get);
        assert!(begun.elapsed() < SOON, "an answer took {:?}", begun.elapsed());
        answer
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service with the scenario's rules, on a port of its own.
fn service(port: u16) -> Service {
    let setup = Setup::rules("domain: unused");
    for file in ["api_platform.yaml", "apps.yaml"] {
        let from = workspace().join("examples/scenario/rules").join(file);
        fs::copy(from, setup.path().join("rules").join(file)).expect("the rules are there");
    }
    setup.with("http.listen", &format!("127.0.0.1:{port}")).start()
}

/// The limits are of a minute; a turn of it in the middle of the steps would change what is left.
fn early_in_a_minute() {
    let clock = SystemClock::new();
    let into = || clock.now().0 / 1_000_000 % 60;
    while into() > 40 {
        thread::sleep(Duration::from_millis(200));
    }
}

fn look(language: Language, step: &Step, answer: &Answer) {
    let at = format!("{language:?}: {}", step.name);
    assert_eq!(answer.status, step.expect.status, "{at}: {}", answer.body);
    for (name, expected) in &step.expect.headers {
        let found = answer.header(name);
        let fits = match expected.as_str() {
            None => found.is_none(),
            Some(expected) => found.is_some_and(|found| line_fits(expected, found)),
        };
        assert!(fits, "{at}: {name} must be {expected}, is {found:?}");
    }
    if let Some(expected) = &step.expect.body {
        assert_eq!(&answer.json(), expected, "{at}");
    }
    if let Some(expected) = &step.expect.text {
        assert!(
            line_fits(expected, answer.body.trim_end()),
            "{at}: expected\n{expected}\nfound\n{}",
            answer.body
        );
    }
}

fn the_scenario_holds(language: Language) {
    let text = fs::read_to_string(workspace().join("examples/scenario/steps.json")).expect("the steps");
    let scenario: Scenario = serde_json::from_str(&text).expect("JSON");
    let service = service(0);
    let app = language.start(service.http, "deny");
    early_in_a_minute();
    for step in &scenario.steps {
        for _ in 0..step.times {
            look(language, step, &app.ask(&step.request));
        }
    }
}

/// Kills, restarts and pauses the service, and looks at what becomes of the application's answers.
fn the_service_may_go_and_come_back(language: Language, fallback: &str) {
    let port = ports::free();
    let first = service(port);
    let app = language.start(first.http, fallback);
    let remaining = |answer: &Answer| answer.header("x-ratelimit-remaining").map(str::to_owned);
    assert_eq!(remaining(&app.search("198.51.100.1")).as_deref(), Some("4"), "{language:?}");

    first.kill();
    early_in_a_minute();
    let statuses: Vec<u16> = (0..7).map(|_| app.search("198.51.100.2").status).collect();
    let expected = match fallback {
        "allow" => [200; 7],
        "deny" => [429; 7],
        _ => [200, 200, 200, 200, 200, 429, 429],
    };
    assert_eq!(statuses, expected, "{language:?} with {fallback} while the service is gone");
    if fallback == "local" {
        look_at_own_denial(language, &app.search("198.51.100.2"));
        // What is reserved is settled in the process too: five times 500 of 1000, of which one each is used.
        let used: Vec<u16> = (0..5).map(|_| app.complete("initech", 500, 1).status).collect();
        assert_eq!(used, [200; 5], "{language:?}: what was not used is given back");
        assert_eq!(app.complete("globex", 1, 2000).status, 200, "{language:?}");
        assert_eq!(app.complete("globex", 1, 1).status, 429, "{language:?}: what was used too much is owed");
    }

    let again = service(port);
    let decides = |client: &str| {
        until("the service decides again", || {
            let answer = app.search(client);
            // What the application decides by itself names no limit of the service.
            answer.status == 200 && remaining(&answer).is_some() && says_service(&again, client)
        });
    };
    decides("198.51.100.3");

    again.signal("STOP");
    let paused = app.search("198.51.100.4").status;
    assert_eq!(paused, if fallback == "deny" { 429 } else { 200 }, "{language:?} with {fallback}, paused");
    again.signal("CONT");
    decides("198.51.100.5");
}

/// A denial that an application makes by itself has the members of the service's, in their order.
fn look_at_own_denial(language: Language, answer: &Answer) {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{language:?}");
    let retry_s: u64 = answer.header("retry-after").and_then(|value| value.parse().ok()).expect("a number");
    let problem = answer.json();
    let members: Vec<&str> = problem.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = [
        "type",
        "title",
        "status",
        "detail",
        "violated-policies",
        "retry_after",
        "limit",
        "window",
        "scope",
        "allowed",
        "decided_by",
        "source",
        "limits",
    ];
    assert_eq!(members, expected, "{language:?}");
    assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!((&problem["limit"], &problem["window"]), (&5.into(), &60.into()), "{language:?}");
    assert_eq!(
        (&problem["source"], &problem["retry_after"]),
        (&"local".into(), &retry_s.into()),
        "{language:?}"
    );
    // The rest of this minute, a fifth of the next, in which what was used now fades away, and jitter.
    assert!((1..=77).contains(&retry_s), "{language:?}: {retry_s}");
}

/// Whether the service has counted somebody: asked without taking anything.
fn says_service(service: &Service, client: &str) -> bool {
    let body = format!(
        r#"{{"domain":"apps","descriptor":{{"route":"search","client":"{client}"}},"cost":0,"limits":[{{"requests":5,"per":"minute"}},{{"requests":100,"per":"hour"}}]}}"#
    );
    let answer = crate::support::service::post(service.http, "/v1/check", &body);
    answer.json()["limits"][0]["remaining"].as_u64().is_some_and(|left| left < 5)
}

#[test]
fn the_scenario_holds_in_rust() {
    the_scenario_holds(Language::Rust);
}

#[test]
fn the_scenario_holds_in_python() {
    the_scenario_holds(Language::Python);
}

#[test]
fn the_scenario_holds_in_javascript() {
    the_scenario_holds(Language::JavaScript);
}

#[test]
fn in_rust_the_service_may_go_and_come_back() {
    for fallback in ["allow", "deny", "local"] {
        the_service_may_go_and_come_back(Language::Rust, fallback);
    }
}

#[test]
fn in_python_the_service_may_go_and_come_back() {
    for fallback in ["allow", "deny", "local"] {
        the_service_may_go_and_come_back(Language::Python, fallback);
    }
}

#[test]
fn in_javascript_the_service_may_go_and_come_back() {
    for fallback in ["allow", "deny", "local"] {
        the_service_may_go_and_come_back(Language::JavaScript, fallback);
    }
}
