//! What the files of `deploy/` tell the service and Docker, told to the real ones. That the files can be
//! read at all is checked with the documents.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use tidegate_server::memory::{ConnectionCost, Memory, Source};

use crate::support::envoy::workspace;

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The settings that the service would start with, given these arguments of `serve` and this environment.
fn settings(arguments: &[&str], environment: &BTreeMap<String, String>) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("config").args(arguments).arg("--json").current_dir(folder.path());
    let output = command.env_clear().envs(environment).output().expect("the binary starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn value<'a>(settings: &'a Value, name: &str) -> &'a str {
    settings[name]["value"].as_str().unwrap_or_else(|| panic!("{name}: {}", settings[name]))
}

/// Variables as the Dockerfile (`NAME=value`), Compose (`NAME: value`) and Kubernetes (`name: NAME, value:
/// value`) write them.
fn variables(text: &str) -> BTreeMap<String, String> {
    let one = |line: &str| {
        let (_, rest) = line.split_once("TIDEGATE_").filter(|_| !line.trim_start().starts_with('#'))?;
        let (name, value) = rest.split_at(rest.find(['=', ':', ','])?);
        let value = value.rsplit_once("value:").map_or(&value[1..], |(_, value)| value);
        let value = value.trim_matches([' ', '"', '\\', '}']);
        Some((format!("TIDEGATE_{name}"), value.to_owned()))
    };
    text.lines().filter_map(one).collect()
}

/// The variables of the image, with those of who runs it.
fn in_container(path: &str) -> BTreeMap<String, String> {
    let mut all = variables(&read("deploy/docker/Dockerfile"));
    assert_eq!(all["TIDEGATE_DATA"], "/var/lib/tidegate");
    all.extend(variables(&read(path)));
    all
}

#[test]
fn the_unit_starts_the_service_as_it_can_be_started() {
    let unit = read("deploy/systemd/tidegate.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let file = workspace().join("deploy/systemd/tidegate.yaml").display().to_string();
    let start = start.replace("/etc/tidegate/tidegate.yaml", &file);
    let start = start.replace("${STATE_DIRECTORY}", "/var/lib/tidegate");
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words[..2], ["/usr/local/bin/tidegate", "serve"]);
    let settings = settings(&words[2..], &BTreeMap::new());
    assert_eq!(value(&settings, "data"), "/var/lib/tidegate");
    // Rules are beside the file that names them.
    let rules = Path::new(&file).with_file_name("rules");
    assert_eq!(Path::new(value(&settings, "rules")), rules);
    assert_eq!((value(&settings, "drain.delay"), value(&settings, "drain.grace")), ("5s", "20s"));
}

#[test]
fn compose_and_kubernetes_set_what_the_service_has_and_name_its_ports() {
    let compose = in_container("deploy/compose/compose.yaml");
    let kubernetes = in_container("deploy/kubernetes/deployment.yaml");
    let (compose, kubernetes) = (settings(&[], &compose), settings(&[], &kubernetes));
    for settings in [&compose, &kubernetes] {
        assert_eq!(value(settings, "rules"), "/etc/tidegate/rules");
        assert_eq!(settings["headers.rls"]["value"], true);
    }
    assert_eq!((value(&compose, "drain.delay"), value(&kubernetes, "drain.delay")), ("3s", "10s"));
    let token = value(&kubernetes, "admin.token_file");
    let deployment = read("deploy/kubernetes/deployment.yaml");
    for mounted in ["/etc/tidegate/rules", "/var/lib/tidegate", token.trim_end_matches("/token")] {
        assert!(deployment.contains(&format!("mountPath: {mounted}")), "{mounted} is not mounted");
    }
    for listener in ["grpc", "http", "admin"] {
        let listen = value(&kubernetes, &format!("{listener}.listen"));
        let (_, port) = listen.rsplit_once(':').expect("a port");
        let named = format!("{{ name: {listener}, containerPort: {port} }}");
        assert!(deployment.contains(&named), "{listener} listens on {listen}");
    }
    let exposed = read("deploy/docker/Dockerfile");
    assert!(exposed.lines().any(|line| line == "EXPOSE 8080 8081"));
    assert!(exposed.contains("http://127.0.0.1:8080/healthcheck"));
    assert_eq!(
        (value(&compose, "http.listen"), value(&compose, "grpc.listen")),
        ("0.0.0.0:8080", "0.0.0.0:8081")
    );
}

/// The service takes nine tenths of the limit for its own bound.
#[test]
fn the_memory_of_every_example_has_room_for_counters_and_connections() {
    let number = |file: &str, before: &str, after: &str| -> u64 {
        let text = read(file);
        let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{file} has no {before}"));
        let (number, _) = rest.split_once(after).expect("an end");
        number.trim().parse().unwrap_or_else(|error| panic!("{file}: {number}: {error}"))
    };
    let limits = [
        number("deploy/kubernetes/deployment.yaml", "limits: { memory: ", "Gi }") << 30,
        number("deploy/helm/tidegate/values.yaml", "limits: { memory: ", "Gi }") << 30,
        number("deploy/compose/compose.yaml", "mem_limit: ", "m\n") << 20,
        number("deploy/systemd/tidegate.service", "\nMemoryMax=", "G\n") << 30,
    ];
    for limit in limits {
        let memory = Memory::of(limit / 10 * 9, Source::Cgroup);
        let cost = ConnectionCost { header_bytes: 16 << 10, tls: false };
        assert!(memory.max_keys() > 4_000_000, "{limit}: {}", memory.max_keys());
        assert!(memory.max_connections(cost) > 1_000, "{limit}: {}", memory.max_connections(cost));
    }
    let files = number("deploy/systemd/tidegate.service", "\nLimitNOFILE=", "\n");
    assert!(files > 2 * 16_384 + 512, "{files}");
    assert_eq!(files, number("deploy/compose/compose.yaml", "nofile: ", " }"));
}

#[test]
fn the_image_is_built_from_all_that_the_workspace_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let dockerfile = read("deploy/docker/Dockerfile");
    let build = dockerfile.split("\nFROM ").nth(1).expect("a first stage");
    for copy in build.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        let mut paths: Vec<&str> = copy.split_whitespace().collect();
        let target = folder.path().join(paths.pop().expect("a target"));
        fs::create_dir_all(target.parent().expect("it is in the folder")).expect("a folder");
        for source in paths {
            let status = Command::new("cp").arg("-r").arg(workspace().join(source)).arg(&target).status();
            assert!(status.expect("cp runs").success(), "COPY {copy}");
        }
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]);
    let output = cargo.current_dir(folder.path()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
