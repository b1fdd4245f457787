//! The command, as people and scripts run it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_server::config::table::SETTINGS;
use tidegate_server::config::variable;

use crate::support::service::service;

/// What a run came to.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the output is text");
        Self {
            code: output.status.code().expect("no signal ends it"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// The command in this folder, with nothing of ours in its environment.
fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    // Whoever runs the tests may have contexts of their own.
    command.env("XDG_CONFIG_HOME", folder.join("config"));
    command.current_dir(folder).args(args);
    command
}

fn run(folder: &Path, args: &[&str]) -> Run {
    command(folder, args).output().expect("the command starts").into()
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    folder
}

const RULES: &str = "\
domain: api
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 5 }
    descriptors: [{ key: route, value: 'GET /', limits: [{ requests: 2, per: second }] }]
  - key: ip
    rate_limit: { unit: minute, requests_per_unit: 7 }
";

#[test]
fn help_tells_everything() {
    let here = folder(&[]);
    let top = run(here.path(), &["--help"]);
    assert_eq!(top.code, 0);
    for word in ["serve", "config", "check", "explain", "init", "completions", "Examples:", "Exit codes:"] {
        assert!(top.out.contains(word), "{word} in\n{}", top.out);
    }
    let serve = run(here.path(), &["serve", "--help"]).out;
    for row in SETTINGS {
        assert!(serve.contains(&variable(row.name)), "{}", row.name);
    }
    for flag in ["--config", "--rules", "--grpc", "--http", "--admin", "--data", "--store"] {
        assert!(serve.contains(flag), "{flag} in\n{serve}");
    }
    for words in ["[default: 0.0.0.0:8081]", "docs/settings.md", "tidegate config", "Exit codes:"] {
        assert!(serve.contains(words), "{words} in\n{serve}");
    }
    for command in ["config", "check", "explain", "init", "completions"] {
        let help = run(here.path(), &[command, "--help"]);
        assert!(help.code == 0 && help.out.contains("Examples:"), "{}", help.out);
    }
    assert!(run(here.path(), &["--version"]).out.starts_with("tidegate 0."));
}

#[test]
fn a_wrong_command_line_exits_with_2_and_says_what_is_near() {
    let here = folder(&[]);
    let typo = run(here.path(), &["chek", "rules"]);
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("check"), "{}", typo.err);
    let typo = run(here.path(), &["serve", "--rule", "x"]);
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("--rules"), "{}", typo.err);
    assert_eq!(run(here.path(), &[]).code, 2);
}

#[test]
fn config_shows_every_setting_with_its_origin() {
    let here = folder(&[("tidegate.yaml", "workers: 2\nhttp: { listen: off }\n")]);
    let mut command = command(here.path(), &["config", "--grpc", "127.0.0.1:0"]);
    let shown: Run = command.env("TIDEGATE_LOG__LEVEL", "debug").output().unwrap().into();
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = shown.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), SETTINGS.len() + 1);
    for expected in [
        ["setting", "value", "origin"],
        ["workers", "2", "tidegate.yaml:1"],
        ["http.listen", "off", "tidegate.yaml:2"],
        ["grpc.listen", "127.0.0.1:0", "--grpc"],
        ["log.level", "debug", "TIDEGATE_LOG__LEVEL"],
        ["drain.grace", "20s", "default"],
        ["traces.endpoint", "-", "default"],
    ] {
        assert!(rows.iter().any(|row| *row == expected), "{expected:?} in\n{}", shown.out);
    }
    // Columns line up.
    let at = shown.out.lines().next().unwrap().find("origin").unwrap();
    assert!(shown.out.lines().all(|line| line.as_bytes()[at - 1] == b' ' && line.as_bytes()[at] != b' '));
}

#[test]
fn config_speaks_json_to_scripts() {
    let here = folder(&[]);
    let shown = run(here.path(), &["config", "--json", "--http", "off"]);
    let json: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(json["http.listen"], json!({"value": "off", "default": "0.0.0.0:8080", "origin": "--http"}));
    assert_eq!(json["workers"]["value"], json!(0));
    assert_eq!(json["headers.rls"]["value"], json!(false));
    assert_eq!(json["grpc.tls.cert"]["value"], Value::Null);
    assert_eq!(json.as_object().unwrap().len(), SETTINGS.len());
}

#[test]
fn wrong_settings_stop_every_command_that_reads_them() {
    let here = folder(&[("tidegate.yaml", "worker: 2\nlog: { level: loud }\n"), ("rules/r.yaml", RULES)]);
    for args in [&["config"][..], &["serve"], &["check", "rules"], &["explain", "--domain", "api", "user=a"]]
    {
        let stopped = run(here.path(), args);
        assert_eq!((stopped.code, stopped.out.as_str()), (1, ""), "{args:?}");
        let lines: Vec<&str> = stopped.err.lines().collect();
        assert_eq!(lines.len(), 2, "{}", stopped.err);
        assert!(lines[0].starts_with("tidegate.yaml:1:1: worker: unknown setting"), "{}", lines[0]);
        assert!(lines[0].ends_with("did you mean workers?"), "{}", lines[0]);
        assert!(
            lines[1].starts_with("tidegate.yaml:2:15: log.level: must be one of off, error"),
            "{}",
            lines[1]
        );
    }
    let missing = run(here.path(), &["config", "--config", "gone.yaml"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.starts_with("gone.yaml: cannot be read"), "{}", missing.err);
}

#[test]
fn the_settings_file_is_the_flag_s_or_the_variable_s_or_the_usual_one() {
    let here = folder(&[("a.yaml", "workers: 1"), ("b.yaml", "workers: 2"), ("tidegate.yaml", "workers: 3")]);
    let workers = |args: &[&str], variable: Option<&str>| {
        let mut command = command(here.path(), args);
        variable.map(|file| command.env("TIDEGATE_CONFIG", file));
        let shown: Run = command.output().unwrap().into();
        let json: Value = serde_json::from_str(&shown.out).unwrap();
        json["workers"]["origin"].as_str().unwrap().to_owned()
    };
    assert_eq!(workers(&["config", "--json"], None), "tidegate.yaml:1");
    assert_eq!(workers(&["config", "--json"], Some("b.yaml")), "b.yaml:1");
    assert_eq!(workers(&["config", "--json", "--config", "a.yaml"], Some("b.yaml")), "a.yaml:1");
}

#[test]
fn check_tells_mistakes_and_findings_and_sums_them_up() {
    let good = RULES.replace(": 5", ": 50").replace(": 2,", ": 20,").replace(": 7", ": 70");
    let here = folder(&[
        ("good/r.yaml", &good),
        ("bad/r.yaml", "domain: api\ndescriptors: [{ key: user, rate_limits: 5 }]"),
        (
            "warn/r.yaml",
            "domain: api\ndescriptors: [{ key: path, rate_limit: { unit: day, requests_per_unit: 50 } }]",
        ),
        (
            "error/r.yaml",
            "domain: api\ndescriptors:\n- { key: k, value: '*', rate_limit: { unlimited: true } }\n- { key: k, rate_limit: { unlimited: true } }",
        ),
    ]);
    let checked = run(here.path(), &["check", "good"]);
    assert_eq!(
        (checked.code, checked.out.as_str()),
        (0, "1 domain, 3 rules: 0 errors, 0 warnings, 0 notes\n")
    );
    let checked = run(here.path(), &["check", "bad"]);
    assert_eq!(checked.code, 1);
    let lines: Vec<&str> = checked.out.lines().collect();
    assert!(
        lines[0].starts_with("bad/r.yaml:2:28: descriptors[0].rate_limits: unknown field"),
        "{}",
        lines[0]
    );
    assert_eq!(lines[1], "the rules do not load: 1 error, 0 warnings, 0 notes");
    let checked = run(here.path(), &["check", "warn"]);
    assert_eq!(checked.code, 0);
    assert!(
        checked.out.starts_with("warn/r.yaml:2:15: warning: rule path: has a counter"),
        "{}",
        checked.out
    );
    assert!(checked.out.ends_with("1 domain, 1 rule: 0 errors, 1 warning, 0 notes\n"), "{}", checked.out);
    assert_eq!(run(here.path(), &["check", "warn", "--strict"]).code, 1);
    let checked = run(here.path(), &["check", "error/r.yaml"]);
    assert_eq!(checked.code, 1);
    assert!(checked.out.starts_with("error/r.yaml:4:3: error: rule k: never applies"), "{}", checked.out);
    let checked = run(here.path(), &["check", "nowhere"]);
    assert_eq!(checked.code, 1);
    assert!(checked.out.starts_with("nowhere: cannot be read"), "{}", checked.out);
}

#[test]
fn check_speaks_json_to_scripts() {
    let here = folder(&[("r.yaml", "domain: api\ndescriptors: [{ key: k }]"), ("bad.yaml", "x: 1")]);
    let json: Value = serde_json::from_str(&run(here.path(), &["check", "r.yaml", "--json"]).out).unwrap();
    assert_eq!(json["ok"], json!(true));
    assert_eq!((&json["domains"], &json["rules"], &json["warnings"]), (&json!(1), &json!(1), &json!(1)));
    let finding = &json["findings"][0];
    assert_eq!(finding["kind"], "empty_rule");
    assert_eq!(finding["severity"], "warning");
    assert_eq!(finding["place"], json!({"line": 2, "column": 15}));
    let checked = run(here.path(), &["check", "bad.yaml", "--json"]);
    let json: Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!((checked.code, &json["ok"]), (1, &json!(false)));
    assert_eq!(json["problems"][0]["field"], "x");
}

#[test]
fn check_reads_rules_as_the_service_would() {
    // A burst fits the default algorithm only if that is a bucket.
    let rules = "domain: api\ndescriptors: [{ key: k, limits: [{ requests: 5, per: day, burst: 2 }] }]";
    let here = folder(&[("rules/r.yaml", rules), ("c.yaml", "defaults: { algorithm: token_bucket }")]);
    assert_eq!(run(here.path(), &["check"]).code, 1);
    assert_eq!(run(here.path(), &["check", "--config", "c.yaml"]).code, 0);
}

#[test]
fn the_quickstart_passes_the_check() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
    let here = folder(&[]);
    let checked = run(here.path(), &["check", "--strict", path.to_str().unwrap()]);
    assert_eq!(checked.code, 0, "{}", checked.out);
}

#[test]
fn explain_tells_what_would_become_of_a_request() {
    let here = folder(&[("rules/r.yaml", RULES)]);
    let told = run(here.path(), &["explain", "--domain", "api", "user=ann", "route=GET /"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    assert!(told.out.starts_with("allowed by user/route=GET / (second), domain api\n"), "{}", told.out);
    let told = run(
        here.path(),
        &["explain", "--rules", "rules/r.yaml", "--domain", "api", "--cost", "6", "user=a", "+", "ip=b=c"],
    );
    assert!(told.out.starts_with("denied by user (minute), domain api\n"), "{}", told.out);
    assert!(told.out.contains("descriptor 2") && told.out.contains("ip=b=c"), "{}", told.out);
    let told = run(here.path(), &["explain", "--json", "--domain", "api", "ip=x"]);
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(json["decided_by"], "ip (minute)");
    for wrong in [&["user"][..], &["=a"], &["user=a", "+"], &["+"]] {
        let args = [&["explain", "--domain", "api"], wrong].concat();
        assert_eq!(run(here.path(), &args).code, 2, "{wrong:?}");
    }
}

/// Answers one request with this status and body; the request's first line and body come back.
fn node(status: &'static str, body: String) -> (String, thread::JoinHandle<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("a port"));
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a caller");
        let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).expect("the stream stays");
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("the stream stays");
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut request = vec![0; length];
        reader.read_exact(&mut request).expect("the stream stays");
        let length = body.len();
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
            .expect("the stream stays");
        (first, serde_json::from_slice(&request).expect("JSON"))
    });
    (url, answering)
}

#[test]
fn explain_live_asks_a_node() {
    let here = folder(&[("rules/r.yaml", RULES)]);
    let offline = run(here.path(), &["explain", "--domain", "api", "user=ann"]);
    let explanation = run(here.path(), &["explain", "--json", "--domain", "api", "user=ann"]).out;
    let (url, node_thread) = node("200 OK", explanation);
    let live =
        ["explain", "--live", "--url", &url, "--domain", "api", "--cost", "3", "user=ann", "+", "ip=b"];
    let told = run(here.path(), &live);
    assert_eq!((told.code, told.out), (0, offline.out), "{}", told.err);
    let (first, request) = node_thread.join().unwrap();
    assert_eq!(first, "POST /admin/v1/explain HTTP/1.1\r\n");
    let entry = |key, value| json!({"entries": [{"key": key, "value": value}]});
    let descriptors = json!([entry("user", "ann"), entry("ip", "b")]);
    assert_eq!(request, json!({"domain": "api", "descriptors": descriptors, "cost": 3}));
}

#[test]
fn explain_live_tells_what_a_running_service_has_counted() {
    let service = service(RULES);
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(service.http).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let here = folder(&[]);
    let url = format!("http://{}", service.admin);
    let token = service.folder.path().join("data/admin-token").display().to_string();
    let live = ["explain", "--live", "--url", &url, "--token-file", &token, "--domain", "api", "user=ann"];
    let told = run(here.path(), &live);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    assert!(told.out.starts_with("allowed by user (minute), domain api\n"), "{}", told.out);
    assert!(told.out.contains("4 left before, 3 after"), "{}", told.out);
}

#[test]
fn explain_live_says_why_it_cannot() {
    let here = folder(&[]);
    let ask =
        |url: &str| run(here.path(), &["explain", "--live", "--url", url, "--domain", "api", "user=ann"]);
    let (url, _node) = node("400 Bad Request", "too many entries".to_owned());
    let told = ask(&url);
    assert_eq!(told.code, 3);
    assert_eq!(
        told.err,
        format!("error: {url}/admin/v1/explain answered 400 Bad Request: too many entries\n")
    );
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let told = ask(&format!("http://{free}"));
    assert_eq!(told.code, 6);
    assert!(told.err.starts_with(&format!("error: cannot reach {free}: ")), "{}", told.err);
    assert!(ask("/run/x.sock").err.contains("must be an address such as 127.0.0.1:6070"));
}

#[test]
fn init_writes_files_that_load_and_pass_the_check() {
    let here = folder(&[]);
    let made = run(here.path(), &["init"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(
        made.out,
        "wrote ./tidegate.yaml\nwrote ./rules/example.yaml\nwrote ./rules/apps.yaml\nnext: tidegate serve\n"
    );
    let checked = run(here.path(), &["check", "--strict"]);
    assert_eq!(
        (checked.code, checked.out.as_str()),
        (0, "2 domains, 5 rules: 0 errors, 0 warnings, 0 notes\n")
    );
    let shown = run(here.path(), &["config"]);
    assert!(shown.out.contains("tidegate.yaml:"), "{}", shown.out);
    let told =
        run(here.path(), &["explain", "--domain", "example", "api_key=acme", "endpoint=POST /v1/orders"]);
    assert!(told.out.contains("tier pro"), "{}", told.out);
    // In another folder, used from here: paths begin at the file's folder.
    let made = run(here.path(), &["init", "deploy/one"]);
    assert!(made.out.ends_with("next: tidegate serve --config deploy/one/tidegate.yaml\n"), "{}", made.out);
    assert_eq!(run(here.path(), &["check", "--config", "deploy/one/tidegate.yaml"]).code, 0);
}

#[test]
fn init_overwrites_only_when_told_to() {
    let here = folder(&[("rules/example.yaml", "mine")]);
    let refused = run(here.path(), &["init"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.starts_with("./rules/example.yaml: exists already; nothing was written"),
        "{}",
        refused.err
    );
    assert!(!here.path().join("tidegate.yaml").exists());
    assert_eq!(fs::read_to_string(here.path().join("rules/example.yaml")).unwrap(), "mine");
    assert_eq!(run(here.path(), &["init", "--force"]).code, 0);
    assert!(fs::read_to_string(here.path().join("rules/example.yaml")).unwrap().contains("domain: example"));
    assert!(here.path().join("tidegate.yaml").exists());
}

#[test]
fn a_bench_in_which_every_call_fails_fails() {
    let service = service(RULES);
    let here = folder(&[]);
    let at = service.grpc.to_string();
    let common = ["bench", &at, "--requests", "100", "--warm-up", "10ms", "--domain"];
    let usual = [&common[..], &["api"]].concat();
    let ran = run(here.path(), &usual);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let ran = run(here.path(), &[&common[..], &[""]].concat());
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(
        ran.err.contains("every call failed") && !ran.out.contains("bottleneck"),
        "{} {}",
        ran.out,
        ran.err
    );
}

#[test]
fn completions_are_written_for_every_shell() {
    let here = folder(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(here.path(), &["completions", shell]);
        assert!(script.code == 0 && script.out.contains("explain"), "{shell}");
    }
    assert_eq!(run(here.path(), &["completions", "tcsh"]).code, 2);
}
