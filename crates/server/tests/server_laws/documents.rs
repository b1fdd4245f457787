//! What the documents tell people to do works, and what lies in `deploy/` can be used.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate::rules::yaml;

use crate::support::document::{Document, file_of};
use crate::support::envoy::workspace;

#[test]
fn the_commands_of_envoy_md_work() {
    // A call that takes longer than Envoy waits lets its request pass.
    Document::read("docs/envoy.md").replace("timeout: 0.5s", "timeout: 20s").run();
}

#[test]
fn the_commands_of_migrating_from_envoy_ratelimit_md_work() {
    Document::read("docs/migrating-from-envoy-ratelimit.md").run();
}

#[test]
fn the_commands_of_http_md_work() {
    Document::read("docs/http.md").run();
}

#[test]
fn the_commands_of_operations_md_work() {
    Document::read("docs/operations.md").run();
}

#[test]
fn the_commands_of_settings_md_work() {
    Document::read("docs/settings.md").run();
}

#[test]
fn the_commands_of_redis_md_work() {
    // A server that takes longer than 15 ms is not asked for a while.
    Document::read("docs/redis.md").with("TIDEGATE_REDIS__DEADLINE", "10s").run();
}

#[test]
fn the_commands_of_quotas_md_work() {
    Document::read("docs/quotas.md").run();
}

#[test]
fn the_commands_of_upgrading_md_work() {
    Document::read("docs/upgrading.md").run();
}

#[test]
fn the_commands_of_administration_md_work() {
    Document::read("docs/administration.md").run();
}

#[test]
fn the_example_behind_nginx_works() {
    Document::of_folder("examples/nginx").run();
}

#[test]
fn the_example_behind_envoy_works() {
    Document::of_folder("examples/envoy").run();
}

#[test]
fn every_yaml_block_of_the_documents_is_yaml() {
    for name in [
        "docs/envoy.md",
        "docs/migrating-from-envoy-ratelimit.md",
        "docs/http.md",
        "docs/operations.md",
        "docs/administration.md",
        "docs/upgrading.md",
    ] {
        for block in Document::read(name).blocks.iter().filter(|block| block.kind == "yaml") {
            let parsed = yaml::parse(&block.text);
            assert!(matches!(parsed, Ok(Some(_))), "{name}:{}: {parsed:?}", block.line);
        }
    }
}

/// The files below a folder of the workspace.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![workspace().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program that has to succeed; answers what it prints.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

fn check(rules: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["check", "--strict"]).arg(rules).current_dir(folder.path());
    command.env_clear();
    succeed(&mut command);
}

#[test]
fn every_yaml_file_of_deploy_is_yaml() {
    // Templates of the chart become YAML when they are rendered, which the tests of deploy/ do.
    let template = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("templates"));
    let yaml =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml") && !template(path);
    let found: Vec<PathBuf> = files("deploy").into_iter().filter(yaml).collect();
    assert!(found.len() > 5, "{found:?}");
    for path in found {
        let text = read(&path);
        assert!(matches!(yaml::parse(&text), Ok(Some(_))), "{}", path.display());
    }
}

#[test]
fn the_rules_of_deploy_pass_a_strict_check() {
    check(&workspace().join("deploy/compose/rules"));
    // Those of Kubernetes are texts of a ConfigMap.
    let map = read(&workspace().join("deploy/kubernetes/rules.yaml"));
    let (_, block) = map.split_once(".yaml: |\n").expect("a file in the map");
    let rules: String =
        block.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("edge.yaml"), rules).expect("it is written");
    check(folder.path());
}

#[test]
fn the_settings_of_deploy_are_settings() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("config").arg("--config").arg(workspace().join("deploy/systemd/tidegate.yaml"));
    command.env_clear();
    assert!(succeed(&mut command).contains("drain.delay"));
    // Every variable that is set for a container is one that the service knows. The tests have some of their own.
    let tests = workspace().join("deploy/tests");
    for path in files("deploy").into_iter().filter(|path| !path.starts_with(&tests)) {
        let text = read(&path);
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let Some(name) = word.strip_prefix("TIDEGATE_").filter(|name| !name.is_empty()) else { continue };
            let name = name.replace("__", ".").to_lowercase();
            let known = tidegate_server::config::table::Setting::find(&name).is_some();
            assert!(known, "{}: {word} is no setting", path.display());
        }
    }
}

#[test]
fn envoy_takes_the_configuration_of_compose() {
    let mut command = Command::new(crate::support::envoy::program());
    command.args(["--mode", "validate", "--use-dynamic-base-id", "-c"]);
    command.arg(workspace().join("deploy/compose/envoy.yaml"));
    assert!(succeed(&mut command).contains("OK"));
}

#[test]
fn what_the_dockerfile_copies_exists_and_is_not_ignored() {
    let dockerfile = read(&workspace().join("deploy/docker/Dockerfile"));
    let kept = read(&workspace().join("deploy/docker/Dockerfile.dockerignore"));
    let copies = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|copy| !copy.starts_with("--"));
    let mut sources = Vec::new();
    for copy in copies {
        let mut paths: Vec<&str> = copy.split_whitespace().collect();
        paths.pop().expect("a target");
        sources.append(&mut paths);
    }
    assert!(sources.len() >= 4, "{sources:?}");
    for source in sources {
        assert!(workspace().join(source).exists(), "COPY {source}");
        assert!(kept.lines().any(|line| line == format!("!{source}")), "{source} is ignored");
    }
    let version = read(&workspace().join("Cargo.toml"));
    let version = version.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a version");
    assert!(dockerfile.contains(&format!("FROM rust:{}-", version.trim_matches('"'))), "Rust {version}");
}

#[test]
fn systemd_takes_the_unit() {
    let unit = read(&workspace().join("deploy/systemd/tidegate.service"));
    for line in ["DynamicUser=yes", "StateDirectory=tidegate", "NoNewPrivileges=yes", "ProtectSystem=strict"]
    {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    let available = Command::new("systemd-analyze").arg("--version").output();
    if !available.is_ok_and(|output| output.status.success()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tidegate.service");
    fs::write(&path, unit.replace("/usr/local/bin/tidegate", env!("CARGO_BIN_EXE_tidegate")))
        .expect("it is written");
    let said = succeed(Command::new("systemd-analyze").arg("verify").arg(&path));
    assert_eq!(said, "", "no warnings");
}

#[test]
fn operations_md_lists_every_metric_and_every_warning() {
    let document = read(&workspace().join("docs/operations.md"));
    let source = ["export.rs", "memory.rs"]
        .map(|file| read(&workspace().join("crates/server/src/metrics").join(file)));
    let source = source.concat();
    let names = source
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("ratelimit_") || text.starts_with("tidegate_"));
    let mut count = 0;
    for name in names {
        count += 1;
        assert!(document.contains(&format!("`{name}")), "{name} is not in docs/operations.md");
    }
    assert!(count > 8, "{count}");
    for folder in ["crates/server/src", "crates/engine/src"] {
        for path in files(folder) {
            for level in ["tracing::warn!(", "tracing::error!("] {
                for call in read(&path).split(level).skip(1) {
                    let call = call.split(");").next().unwrap_or_default();
                    let message = call.split('"').rev().nth(1).unwrap_or_default();
                    assert!(
                        document.contains(message),
                        "{}: {message:?} is not in docs/operations.md",
                        path.display()
                    );
                }
            }
        }
    }
}

/// `make deny` with a cargo that fetches and finds what it is told to; whether it succeeds, and what it says.
fn make_deny(fetches: bool, finds_nothing: bool) -> (bool, String) {
    let tools = tempfile::tempdir().expect("a folder");
    let cargo = tools.path().join("bin/cargo");
    fs::create_dir(tools.path().join("bin")).expect("a folder");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*'fetch db'*) {fetches} ;;\n*advisories*) echo looked; {finds_nothing} ;;\nesac\n"
    );
    fs::write(&cargo, script).expect("it is written");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut make = Command::new("make");
    make.arg("-C").arg(workspace()).arg("deny").arg(format!("TOOLS={}", tools.path().display()));
    let output = make.output().expect("make runs");
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (output.status.success(), said)
}

#[test]
fn make_deny_fails_on_an_advisory_and_says_when_it_could_not_look() {
    let (passed, said) = make_deny(true, true);
    assert!(passed && said.contains("looked\n") && !said.contains("NOT checked"), "{said}");
    let (passed, said) = make_deny(true, false);
    assert!(!passed && said.contains("looked\n"), "{said}");
    let (passed, said) = make_deny(false, false);
    assert!(passed && !said.contains("looked\n"), "{said}");
    assert!(said.contains("known vulnerabilities were NOT checked"), "{said}");
}

/// Documents that say "planned" for what has long been there mislead more than none. What really is not there is
/// listed in the README, in one place.
#[test]
fn only_the_readme_speaks_of_what_is_not_built() {
    let readme = read(&workspace().join("README.md"));
    let (_, planned) = readme.split_once("\n## What is planned\n").expect("the list");
    assert!(planned.trim_start().starts_with("None of this is built yet:"), "{planned}");
    for path in [files("docs"), files("deploy"), files("examples")].concat() {
        let is_document = path.extension().is_some_and(|extension| extension == "md");
        let is_record =
            path.components().any(|part| part.as_os_str() == "adr" || part.as_os_str() == "node_modules");
        if !is_document || is_record {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            // A message of the program, which is held by a law of its own.
            let message = line.contains("leased is not built yet");
            let says =
                ["is planned", "are planned", "not built yet"].into_iter().find(|words| line.contains(words));
            assert!(message || says.is_none(), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

#[test]
fn file_names_of_blocks_are_files_of_the_document() {
    let document = Document::read("docs/envoy.md");
    let named: Vec<&str> = document.blocks.iter().filter_map(file_of).collect();
    assert!(named.contains(&"rules/edge.yaml") && named.contains(&"envoy.yaml"), "{named:?}");
}
