//! Settings: where they come from, what they may be, and the texts that follow from the table.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tidegate::AlgorithmName;
use tidegate_server::bounds::Bounds;
use tidegate_server::config::settings::{Compat, LogFormat, Store, Tls};
use tidegate_server::config::table::{SECTIONS, SETTINGS};
use tidegate_server::config::{Listen, Settings, Sources, document, load, variable};

/// Sources with a file of this text, in a folder that lives as long as the guard.
fn file(text: &str) -> (TempDir, Sources) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tidegate.yaml");
    fs::write(&path, text).expect("a file");
    (folder, Sources { file: Some(path), ..Sources::default() })
}

fn environment(variables: &[(&str, &str)]) -> Sources {
    let environment = variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text)));
    Sources { environment: environment.collect(), ..Sources::default() }
}

/// What is wrong, line by line, with the file called by its name only.
fn problems(folder: &Path, sources: &Sources) -> Vec<String> {
    let problems = load(sources).expect_err("something is wrong");
    let prefix = format!("{}/", folder.display());
    problems.0.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
}

fn of_file(text: &str) -> Vec<String> {
    let (folder, sources) = file(text);
    problems(folder.path(), &sources)
}

fn settings(text: &str) -> Settings {
    let (_folder, sources) = file(text);
    load(&sources).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

fn origin(settings: &Settings, name: &str) -> String {
    settings.in_force().find(name).expect("a setting of that name").origin.to_string()
}

#[test]
fn every_setting_has_one_row_a_section_a_variable_and_a_default_that_reads() {
    let sections: BTreeSet<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
    let names: BTreeSet<&str> = SETTINGS.iter().map(|row| row.name).collect();
    let variables: BTreeSet<String> = names.iter().map(|name| variable(name)).collect();
    assert_eq!(names.len(), SETTINGS.len());
    assert_eq!(variables.len(), SETTINGS.len());
    for row in SETTINGS {
        assert!(sections.contains(row.section()), "{}", row.name);
        let value = row.kind.parse(row.default).unwrap_or_else(|wrong| panic!("{}: {wrong}", row.name));
        // What is shown reads as the same again.
        assert_eq!(row.kind.parse(&value.to_string()).unwrap(), value, "{}", row.name);
        assert!(row.help.ends_with('.'), "{}", row.name);
    }
}

#[test]
fn the_defaults_are_those_of_the_code_they_set() {
    let settings = Settings::default();
    assert_eq!(format!("{:?}", settings.bounds), format!("{:?}", Bounds::default()));
    assert_eq!(settings.defaults, tidegate::Defaults::default());
    assert_eq!((&settings.store, settings.compat), (&Store::Memory, Compat::None));
    assert_eq!(settings.rules, Some(PathBuf::from("./rules")));
    assert_eq!(settings.workers, None);
    assert_eq!(settings.memory.max_keys, 10_000_000);
    assert_eq!(settings.header_bytes, 16 << 10);
    assert_eq!(settings.history.versions.get(), 100);
    assert_eq!(settings.history.history, Some(settings.audit.keep));
    assert_eq!(settings.grpc.max_connection_age, Some(Duration::from_mins(30)));
    assert_eq!(settings.log.format, LogFormat::Auto);
    assert!(settings.grpc.tls.is_none() && settings.traces.is_none());
    assert!(settings.in_force().iter().all(|held| held.origin.to_string() == "default"));
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let (folder, mut sources) = file("# first\ngrpc:\n  listen: 127.0.0.1:1\n");
    let place = format!("{}/tidegate.yaml:3", folder.path().display());
    let expect = |sources: &Sources, listen: &str, from: &str| {
        let settings = load(sources).unwrap();
        assert_eq!(settings.grpc.listen.to_string(), listen);
        assert_eq!(origin(&settings, "grpc.listen"), from);
    };
    expect(&Sources::default(), "0.0.0.0:8081", "default");
    expect(&sources, "127.0.0.1:1", &place);
    sources.environment.push(("TIDEGATE_GRPC__LISTEN".into(), "127.0.0.1:2".into()));
    expect(&sources, "127.0.0.1:2", "TIDEGATE_GRPC__LISTEN");
    sources.flags.push(("grpc.listen", "127.0.0.1:3".into()));
    expect(&sources, "127.0.0.1:3", "--grpc");
}

#[test]
fn every_setting_can_be_set_in_the_file_and_in_the_environment() {
    let sample: String = document::sample().lines().map(|line| uncommented(line) + "\n").collect();
    let from_file = settings(&sample);
    for held in from_file.in_force() {
        let empty = held.row.default.is_empty();
        assert_eq!(held.origin.to_string() == "default", empty, "{} {}", held.row.name, held.origin);
    }
    let variables: Vec<_> = SETTINGS.iter().map(|row| (variable(row.name), row.default)).collect();
    let variables: Vec<_> = variables.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let from_environment = load(&environment(&variables)).unwrap();
    for held in from_environment.in_force() {
        assert_eq!(held.origin.to_string(), variable(held.row.name));
    }
}

/// The line without the `#` that takes a setting out of force.
fn uncommented(line: &str) -> String {
    let text = line.trim_start();
    match text.strip_prefix('#').filter(|rest| !rest.starts_with(' ')) {
        Some(rest) => format!("{}{rest}", &line[..line.len() - text.len()]),
        None => line.to_owned(),
    }
}

#[test]
fn compat_sets_the_defaults_that_nobody_set() {
    let all = settings("compat: envoy-ratelimit");
    assert_eq!(all.defaults, tidegate::Defaults::envoy_ratelimit());
    assert_eq!(all.compat, Compat::EnvoyRatelimit);
    assert_eq!(origin(&all, "defaults.algorithm"), "compat");
    assert_eq!(origin(&all, "defaults.count_denied"), "compat");
    let some = settings("compat: envoy-ratelimit\ndefaults: { algorithm: gcra }");
    assert_eq!(some.defaults.algorithm, AlgorithmName::TokenBucket);
    assert!(some.defaults.count_denied);
    assert!(origin(&some, "defaults.algorithm").ends_with("tidegate.yaml:2"));
    assert_eq!(settings("compat: none").defaults, tidegate::Defaults::default());
}

#[test]
fn values_are_read_by_kind() {
    let settings = settings(
        "
        workers: 3
        grpc: { listen: 'unix:run/g.sock', max_connection_age: 0, keepalive_interval: 1h30m, max_streams: 1_000 }
        http: { listen: off, idle_timeout: 0s }
        admin: { listen: '[::1]:6070' }
        bounds: { message_bytes: 1MB, header_bytes: 20480, key_bytes: 1KiB }
        headers: { ratelimit: no, rls: \"true\" }
        memory: { snapshot_every: 10ms }
        history: { versions: 7, keep: 0 }
        log: { level: debug, format: json }
        traces: { endpoint: 'http://otel:4317', sample: 0.000125 }
        ",
    );
    assert_eq!(settings.workers, Some(3));
    assert!(
        matches!(&settings.grpc.listen, Listen::Unix(path) if path.ends_with("run/g.sock") && path.is_absolute())
    );
    assert_eq!(settings.grpc.max_connection_age, None);
    assert_eq!(settings.grpc.keepalive_interval, Some(Duration::from_mins(90)));
    assert_eq!(settings.grpc.max_streams, 1000);
    assert!(settings.http.listen.is_off());
    assert_eq!(settings.http.idle_timeout, None);
    assert_eq!(settings.admin.listen, Listen::Tcp { host: "::1".into(), port: 6070 });
    assert_eq!(settings.bounds.message_bytes, 1_000_000);
    assert_eq!((settings.header_bytes, settings.bounds.key_bytes), (20480, 1024));
    assert!(!settings.headers.ratelimit && settings.headers.rls);
    assert_eq!(settings.memory.snapshot_every, Some(Duration::from_millis(10)));
    assert_eq!((settings.history.versions.get(), settings.history.history), (7, None));
    assert_eq!((settings.log.level, settings.log.format), ("debug", LogFormat::Json));
    let traces = settings.traces.unwrap();
    assert_eq!((traces.endpoint.as_str(), traces.sample_ppm), ("http://otel:4317", 125));
}

#[test]
fn relative_paths_of_the_file_begin_at_its_folder() {
    let (folder, mut sources) =
        file("rules: ./r\ndata: /var/d\nhttp: { tls: { cert: c.pem, key: k.pem } }\n");
    let settings = load(&sources).unwrap();
    assert_eq!(settings.rules, Some(folder.path().join("r")));
    assert_eq!(settings.data, PathBuf::from("/var/d"));
    let tls = Tls { cert: folder.path().join("c.pem"), key: folder.path().join("k.pem"), client_ca: None };
    assert_eq!(settings.http.tls, Some(tls));
    sources.flags.push(("rules", "./elsewhere".into()));
    assert_eq!(load(&sources).unwrap().rules, Some(PathBuf::from("./elsewhere")));
}

#[test]
fn every_mistake_of_every_source_is_told_at_once() {
    let (folder, mut sources) = file("grpc:\n  lisen: x\nworkers: many\nhttp: { listen: 8080 }\n");
    sources.environment.push(("TIDEGATE_DRAIN__GRACE".into(), "soon".into()));
    sources.environment.push(("TIDEGATE_DRAIN__DELAI".into(), "1s".into()));
    sources.flags.push(("store", "redis+ring://:secret@r:6379".into()));
    let expected = [
        "tidegate.yaml:2:3: grpc.lisen: unknown setting; allowed here: listen, tls, max_connection_age, max_connection_age_grace, keepalive_interval, keepalive_timeout, max_streams, tokens; did you mean listen?",
        "tidegate.yaml:3:10: workers: must be a whole number from 0 to 1024, got \"many\"",
        "tidegate.yaml:4:17: http.listen: must be an address such as 0.0.0.0:8080, [::]:8080 or unix:/run/tidegate.sock, or off, got \"8080\"; add a port, as in 0.0.0.0:8080",
        "TIDEGATE_DRAIN__DELAI: unknown setting; did you mean TIDEGATE_DRAIN__DELAY?",
        "TIDEGATE_DRAIN__GRACE: drain.grace: must be a duration up to 1d, such as 250ms, 90s or 1h30m, or 0 for no time, got \"soon\"",
        "--store: store: redis+ring://***@r:6379: +ring is unknown; write +sentinel, +cluster or +sharded",
    ];
    assert_eq!(problems(folder.path(), &sources), expected);
}

#[test]
fn mistakes_in_the_file() {
    let table = [
        (
            "[1]",
            "tidegate.yaml:1:1: must be a mapping, got a list; its fields: rules, reload, data, store, catalog, catalog_listen, catalog_required, node, enforcement, switches, compat, workers, defaults, grpc, http, admin, connections, bounds, headers, denial, redis, fallback, memory, audit, warnings, history, drain, metrics, log, traces",
        ),
        (
            "grpc: on",
            "tidegate.yaml:1:7: grpc: must be a mapping, got \"on\"; its fields: listen, tls, max_connection_age, max_connection_age_grace, keepalive_interval, keepalive_timeout, max_streams, tokens",
        ),
        ("workers: [1]", "tidegate.yaml:1:10: workers: must be a whole number from 0 to 1024, got a list"),
        (
            "workers: 1\nworkers: 2",
            "tidegate.yaml:2:1: workers: the same key is already on line 1; keep one of them",
        ),
        (
            "max_keys: 5",
            "tidegate.yaml:1:1: max_keys: unknown setting; allowed here: rules, reload, data, store, catalog, catalog_listen, catalog_required, node, enforcement, switches, compat, workers, defaults, grpc, http, admin, connections, bounds, headers, denial, redis, fallback, memory, audit, warnings, history, drain, metrics, log, traces; did you mean memory.max_keys?",
        ),
        (
            "grpc.listen: x",
            "tidegate.yaml:1:1: grpc.listen: sections are nested; write `grpc: { listen: ... }`",
        ),
        (
            "grpc: { tls: { cert: c.pem } }",
            "tidegate.yaml:1: grpc.tls.cert: needs grpc.tls.key too; set both, or neither for no TLS",
        ),
        (
            "admin: { tls: { key: k.pem } }",
            "tidegate.yaml:1: admin.tls.key: needs admin.tls.cert too; set both, or neither for no TLS",
        ),
        (
            "http: { tls: { client_ca: c.pem } }",
            "tidegate.yaml:1: http.tls.client_ca: needs http.tls.cert and http.tls.key: clients send certificates over TLS only",
        ),
        (
            "admin: { listen: off }",
            "tidegate.yaml:1:18: admin.listen: must be an address such as 0.0.0.0:8080, [::]:8080 or unix:/run/tidegate.sock, got \"off\"; this listener cannot be off",
        ),
        (
            "compat: envoy",
            "tidegate.yaml:1:9: compat: must be one of none, envoy-ratelimit, got \"envoy\"; did you mean envoy-ratelimit?",
        ),
        (
            "store: mysql://x",
            "tidegate.yaml:1:8: store: mysql://x: mysql is not a store; write redis:// or rediss:// (TLS)",
        ),
        (
            "bounds: { batch: 0 }",
            "tidegate.yaml:1:18: bounds.batch: must be a whole number from 1 to 1000000, got \"0\"",
        ),
        (
            "bounds: { header_bytes: 1k }",
            "tidegate.yaml:1:25: bounds.header_bytes: must be a size from 8KiB to 1MiB, such as 256KiB, got \"1k\"",
        ),
        (
            "drain: { grace: 90 }",
            "tidegate.yaml:1:17: drain.grace: must be a duration up to 1d, such as 250ms, 90s or 1h30m, or 0 for no time, got \"90\"; add a unit, as in 90s",
        ),
        (
            "http: { header_timeout: 0s }",
            "tidegate.yaml:1:25: http.header_timeout: must be a duration up to 1h, such as 250ms, 90s or 1h30m, got \"0s\"; it must be longer than 0",
        ),
        (
            "traces: { sample: 2 }",
            "tidegate.yaml:1:19: traces.sample: must be a fraction from 0 to 1 with at most six decimals, such as 0.01, got \"2\"",
        ),
        (
            "traces: { endpoint: otel:4317 }",
            "tidegate.yaml:1:21: traces.endpoint: must be an http:// or https:// address, or empty, got \"otel:4317\"; begin it with http:// or https://",
        ),
        ("reload: maybe", "tidegate.yaml:1:9: reload: must be true or false, got \"maybe\""),
        ("a: [", "tidegate.yaml:1:4: not valid YAML: unclosed bracket '['"),
        (
            "workers: 1\n---\nworkers: 2",
            "tidegate.yaml:2:1: a second document begins here; write one document per file, or remove the `---`",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(of_file(text), [expected], "{text}");
    }
}

#[test]
fn addresses_that_are_none_say_what_to_write() {
    for (address, remedy) in [
        ("8081", "add a port"),
        (":8081", "name the host too"),
        ("::1:8081", "brackets"),
        ("[::1:8081", "close the bracket"),
        ("localhost:http", "the port is a number"),
        ("localhost:65536", "the port is a number"),
        ("http://localhost:8081", "leave out the scheme"),
        ("a b:1", "a name or an IP address"),
        ("unix:", "name the socket's path"),
        ("", "add a port"),
    ] {
        let wrong = load(&environment(&[("TIDEGATE_GRPC__LISTEN", address)])).unwrap_err().to_string();
        assert!(wrong.contains(remedy), "{address}: {wrong}");
    }
}

#[test]
fn a_file_that_says_nothing_changes_nothing() {
    for text in ["", "# only a comment\n", "---\n", "~", "grpc:\nhttp: { listen: }\nworkers:\n"] {
        assert!(settings(text).in_force().iter().all(|held| held.origin.to_string() == "default"), "{text}");
    }
}

#[test]
fn a_file_that_is_not_there_or_not_text_is_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let sources = Sources { file: Some(path.clone()), ..Sources::default() };
    let found = problems(folder.path(), &sources);
    assert_eq!(
        found,
        [
            "tidegate.yaml: cannot be read: No such file or directory (os error 2); check the path and its permissions"
        ]
    );
    fs::write(&path, b"rules: \xff").unwrap();
    let found = problems(folder.path(), &sources);
    assert_eq!(found, ["tidegate.yaml:1:8: byte 0xff is not UTF-8; save the file as UTF-8"]);
}

#[test]
fn variables_that_kubernetes_makes_for_a_service_are_left_alone() {
    let links = [
        "TIDEGATE_SERVICE_HOST",
        "TIDEGATE_SERVICE_PORT",
        "TIDEGATE_SERVICE_PORT_GRPC",
        "TIDEGATE_PORT",
        "TIDEGATE_PORT_8081_TCP",
        "TIDEGATE_PORT_8081_TCP_ADDR",
        "TIDEGATE_GRPC_PORT_8081_TCP_PROTO",
        "TIDEGATE_ADMIN_SERVICE_HOST",
    ];
    let others = [("TIDEGATE_CONFIG", "x.yaml"), ("TIDEGAT", "1"), ("PATH", "/bin")];
    let all: Vec<_> = links.iter().map(|name| (*name, "tcp://10.0.0.1:8081")).chain(others).collect();
    assert!(load(&environment(&all)).is_ok());
    for unknown in ["TIDEGATE_GRPC__PORT", "TIDEGATE_PORT_X_TCP", "TIDEGATE_grpc__listen", "TIDEGATE_"] {
        assert_eq!(load(&environment(&[(unknown, "1")])).unwrap_err().0.len(), 1, "{unknown}");
    }
}

#[test]
fn the_sample_file_reads_as_the_defaults() {
    let (folder, sources) = file(&document::sample());
    let settings = load(&sources).unwrap();
    let set: Vec<_> =
        settings.in_force().iter().filter(|held| held.origin.to_string() != "default").collect();
    let names: Vec<_> = set.iter().map(|held| held.row.name).collect();
    assert_eq!(names, ["rules", "data"]);
    assert_eq!(settings.rules, Some(folder.path().join("rules")));
    for row in SETTINGS {
        assert!(document::sample().contains(row.help), "{}", row.name);
    }
}

#[test]
fn the_documentation_lists_every_setting_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let text = fs::read_to_string(&path).unwrap();
    let [begin, end] = document::MARKERS;
    let (before, rest) = text.split_once(begin).expect("the marker is there");
    let (table, after) = rest.split_once(end).expect("the marker is there");
    let expected = format!("\n{}\n", document::markdown());
    if std::env::var_os("BLESS_SETTINGS").is_some() {
        fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).unwrap();
        return;
    }
    assert!(
        table == expected,
        "docs/settings.md is not as the table has it; run this test with BLESS_SETTINGS=1"
    );
    for row in SETTINGS {
        let default = if row.default.is_empty() { "empty".to_owned() } else { format!("`{}`", row.default) };
        assert!(table.contains(&format!("| `{}` | {default} |", row.name)), "{}", row.name);
    }
}

#[test]
fn the_file_in_the_documentation_loads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let text = fs::read_to_string(path).unwrap();
    let blocks: Vec<&str> =
        text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let read = settings(block);
        assert!(read.in_force().iter().any(|held| held.origin.to_string() != "default"), "{block}");
    }
}
