//! What somebody does first, in an empty folder: `tidegate serve`, or `tidegate init` before it. What the service
//! then says to try works, and applications with limits in their code are served.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::document::{Document, line_fits};
use crate::support::envoy::workspace;
use crate::support::service::{Answer, get, post};

/// The command in this folder, with no settings but free ports of the loopback.
fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    for listener in ["GRPC", "HTTP", "ADMIN"] {
        command.env(format!("TIDEGATE_{listener}__LISTEN"), "127.0.0.1:0");
    }
    // Whoever runs the tests may have contexts of their own.
    command.env("XDG_CONFIG_HOME", folder.join("config"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, args: &[&str]) -> String {
    let output = command(folder, args).output().expect("it runs");
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{args:?}: {said}");
    said
}

/// `tidegate serve`, and what it printed first.
struct Served {
    child: Child,
    banner: String,
}

impl Served {
    /// Reads until it has shown so many requests to try.
    fn start(folder: &Path, requests: usize) -> Self {
        Self::start_with(folder, requests, &[])
    }

    fn start_with(folder: &Path, requests: usize, flags: &[&str]) -> Self {
        let mut child = command(folder, &[&["serve"], flags].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut banner = String::new();
        while banner.matches("curl").count() < requests {
            let line = lines.next().and_then(Result::ok).unwrap_or_else(|| panic!("it ended: {banner}"));
            banner = banner + &line + "\n";
        }
        Self { child, banner }
    }

    /// The address of a listener.
    fn at(&self, listener: &str) -> SocketAddr {
        let lines = self.banner.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut places = lines.filter(|words| words.first() == Some(&listener));
        places.next().and_then(|words| words[1].parse().ok()).expect("an address")
    }

    /// The bodies of the requests to try.
    fn bodies(&self) -> Vec<&str> {
        let curl =
            format!("  curl -i http://{}/v1/check -H 'content-type: application/json' -d '", self.at("http"));
        let body = |line: &'_ str| line.trim().starts_with("curl");
        let lines = self.banner.lines().filter(|line| body(line));
        lines
            .map(|line| line.strip_prefix(&curl).and_then(|rest| rest.strip_suffix('\'')).expect(line))
            .collect()
    }

    fn check(&self, body: &Value) -> Answer {
        post(self.at("http"), "/v1/check", &body.to_string())
    }

    /// Ends it; what it logged.
    fn stop(mut self) -> String {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().expect("kill runs").success());
        let mut log = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut log).expect("text");
        assert!(self.child.wait().expect("it is our child").success(), "{log}");
        log
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As the SDKs ask: 3 pass, then none.
fn limits_in_code_are_enforced(served: &Served) {
    let body = json!({
        "domain": "apps",
        "descriptor": { "route": "GET /search", "client": "192.0.2.1" },
        "limits": [{ "requests": 3, "per": "minute" }],
    });
    let statuses: Vec<u16> = (0..4).map(|_| served.check(&body).status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[test]
fn a_bare_serve_enforces_limits_that_stand_in_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::start(folder.path(), 1);
    assert!(served.banner.contains("rules   built in; `tidegate init`"), "{}", served.banner);
    assert!(served.banner.contains("(domains: apps)"), "{}", served.banner);
    for body in served.bodies() {
        let answer = post(served.at("http"), "/v1/check", body);
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, Some("10")), "{}", answer.body);
    }
    limits_in_code_are_enforced(&served);
    assert_eq!(get(served.at("admin"), "/readyz").status, 200);
    let log = served.stop();
    assert!(log.contains("there are no rules: only limits in requests themselves are enforced"), "{log}");
}

#[test]
fn what_init_writes_serves_limits_of_rules_and_of_code() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &["init"]);
    run(folder.path(), &["check", "--strict"]);
    let served = Served::start(folder.path(), 2);
    assert!(served.banner.contains("(domains: apps, example)"), "{}", served.banner);
    for body in served.bodies() {
        let answer = post(served.at("http"), "/v1/check", body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        assert!(answer.header("ratelimit").is_some(), "{body}: no limit applied");
    }
    limits_in_code_are_enforced(&served);
    let log = served.stop();
    assert!(!log.contains("\"WARN\""), "{log}");
}

#[test]
fn rules_that_were_named_and_are_missing_are_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = command(folder.path(), &["serve", "--rules", "gone"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("there are no rules at gone (rules); write some with `tidegate init`"), "{said}");
}

#[test]
fn the_built_in_domain_gives_way_to_rules_that_are_pushed() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::start(folder.path(), 1);
    let rules =
        "domain: apps\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 1 } }]\n";
    std::fs::write(folder.path().join("apps.yaml"), rules).expect("it is written");
    let admin = format!("http://{}", served.at("admin"));
    run(folder.path(), &["rules", "push", "apps.yaml", "--admin", &admin]);
    let user = json!({ "domain": "apps", "descriptor": { "user": "ann" } });
    assert_eq!([served.check(&user).status, served.check(&user).status], [200, 429]);
}

#[test]
fn the_first_request_of_the_readme_is_answered_as_it_says() {
    let readme = Document::read("README.md");
    let of = |words: &str| {
        let found = readme.blocks.iter().find(|block| block.text.contains(words));
        found.unwrap_or_else(|| panic!("a block with {words}")).text.clone()
    };
    let request = of("curl -i http://localhost:8080/v1/check");
    let body =
        request.split_once("-d '").and_then(|(_, body)| body.trim_end().strip_suffix('\'')).expect("a body");
    let folder = tempfile::tempdir().expect("a folder");
    let rules = workspace().join("examples/quickstart").display().to_string();
    let served = Served::start_with(folder.path(), 2, &["--rules", &rules]);
    let answer = post(served.at("http"), "/v1/check", body);
    assert_eq!(answer.status, 200);
    let expected = of("HTTP/1.1 200 OK");
    let (head, shown) = expected.split_once("\n\n").expect("a head and a body");
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").expect("a header");
        let found = answer.header(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(line_fits(value, found), "{name}: expected {value}, found {found}");
    }
    assert!(line_fits(shown.trim_end(), &answer.body), "expected {shown}, found {}", answer.body);
}
