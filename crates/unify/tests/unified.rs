//! One dependency, one build: whichever crate is tested, and in whichever workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

/// What the written part of the manifest begins with.
const WRITTEN: &str = "# Below: written by";

/// A dependency of programs, or of build scripts and procedural macros, which have features of their own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Dependency {
    for_build: bool,
    name: String,
    version: String,
    is_ours: bool,
}

type Features = BTreeSet<String>;
type Resolved = BTreeMap<Dependency, Features>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/unify").to_owned()
}

/// What cargo builds for the tests of some packages, by its own plan. Showing the plan is not stable yet, so the
/// compiler is told to allow it.
fn resolve(packages: &[&str]) -> Resolved {
    let plan = Command::new(env::var("CARGO").expect("cargo runs tests"))
        .current_dir(root())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", env!("CARGO_TARGET_TMPDIR"))
        // With a target, what is built for build scripts and procedural macros is told apart from the rest.
        .args([
            "test",
            "--no-run",
            "--offline",
            "--target",
            "host-tuple",
            "--unit-graph",
            "-Zunstable-options",
        ])
        .args(packages)
        .output()
        .expect("cargo starts");
    assert!(plan.status.success(), "{}", String::from_utf8_lossy(&plan.stderr));
    let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
    let mut resolved = Resolved::new();
    let is_build_script = |unit: &&Value| unit["target"]["kind"][0] == "custom-build";
    for unit in plan["units"].as_array().expect("units").iter().filter(|unit| !is_build_script(unit)) {
        let id = unit["pkg_id"].as_str().expect("an id");
        // `registry+https://…#name@version`, `path+file:///…/name#version`, or that with a name as well.
        let (source, rest) = id.split_once('#').expect("a version");
        let folder = source.rsplit('/').next().unwrap_or_default();
        let (name, version) = rest.split_once('@').unwrap_or((folder, rest));
        let dependency = Dependency {
            for_build: unit["platform"].is_null(),
            name: name.to_owned(),
            version: version.to_owned(),
            is_ours: source.starts_with("path+"),
        };
        let features = unit["features"].as_array().into_iter().flatten();
        let features = features.filter_map(Value::as_str).map(str::to_owned);
        resolved.entry(dependency).or_default().extend(features);
    }
    resolved
}

/// The dependencies that some crate is tested with in another build than the workspace is, with the features of the
/// workspace; and for each of them the crate.
fn split_builds() -> BTreeMap<Dependency, (Features, String)> {
    let workspace = resolve(&["--workspace"]);
    let members = workspace.keys().filter(|dependency| dependency.is_ours && !dependency.for_build);
    let mut split = BTreeMap::new();
    for member in members {
        for (dependency, features) in resolve(&["--package", &member.name]) {
            let wanted =
                workspace.get(&dependency).unwrap_or_else(|| panic!("{dependency:?} is in the workspace"));
            if *wanted != features {
                split.insert(dependency, (wanted.clone(), member.name.clone()));
            }
        }
    }
    split
}

/// The version that a manifest asks for: up to the number that tells incompatible ones apart.
fn requirement(version: &str) -> String {
    let numbers: Vec<&str> = version.split('.').collect();
    let significant = numbers.iter().position(|number| *number != "0").unwrap_or(2);
    numbers[..=significant].join(".")
}

fn write_down(dependencies: &Resolved) -> String {
    let mut text = String::new();
    for (for_build, title) in [(false, "dependencies"), (true, "build-dependencies")] {
        let _ = writeln!(text, "[{title}]");
        let of_kind: Vec<_> = dependencies.iter().filter(|(one, _)| one.for_build == for_build).collect();
        for (Dependency { name, version, .. }, features) in &of_kind {
            let (version, features) = (requirement(version), Vec::from_iter(*features));
            let is_alone = of_kind.iter().filter(|(other, _)| other.name == *name).count() == 1;
            let key = if is_alone { name.clone() } else { format!("{name}-{}", version.replace('.', "_")) };
            let renamed = if is_alone { String::new() } else { format!("package = {name:?}, ") };
            let _ = writeln!(
                text,
                "{key} = {{ {renamed}version = {version:?}, default-features = false, features = {features:?} }}"
            );
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

#[test]
fn every_crate_is_tested_with_the_dependencies_that_the_workspace_was_built_with() {
    let split = split_builds();
    if env::var_os("TIDEGATE_BLESS").is_some_and(|value| value == "1") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).expect("it is there");
        let kept = manifest.lines().take_while(|line| !line.starts_with(WRITTEN));
        let kept: String = kept.flat_map(|line| [line, "\n"]).collect();
        let is_listed = |dependency: &Dependency| {
            let in_manifest = |line: &str| {
                let (key, rest) = line.split_once(" = {").unwrap_or_default();
                let package = rest
                    .split_once("package = \"")
                    .map_or(key, |(_, name)| name.split('"').next().unwrap_or(""));
                package == dependency.name
                    && rest.contains(&format!("version = {:?}", requirement(&dependency.version)))
            };
            manifest.lines().any(in_manifest)
        };
        let wanted = resolve(&["--workspace"])
            .into_iter()
            .filter(|(dependency, _)| !dependency.is_ours)
            .filter(|(dependency, _)| split.contains_key(dependency) || is_listed(dependency))
            .collect();
        let written = format!("{kept}{WRITTEN} `TIDEGATE_BLESS=1 cargo test -p tidegate-unify`.\n\n");
        fs::write(&path, written + &write_down(&wanted)).expect("it is written");
    }
    let reasons: Vec<String> = split
        .iter()
        .map(|(dependency, (features, member))| {
            let (name, version) = (&dependency.name, &dependency.version);
            format!("{name} {version} is built once more for `-p {member}`, without some of {features:?}")
        })
        .collect();
    assert!(
        reasons.is_empty(),
        "run `TIDEGATE_BLESS=1 cargo test -p tidegate-unify` until it passes; a new crate needs tidegate-unify as a \
         dev-dependency, and itself if it has features that others turn on:\n{}",
        reasons.join("\n")
    );
}

/// The versions of every package in a lock file, by name.
fn locked(path: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join(path)).expect("it is there");
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for package in text.split("[[package]]\n").skip(1) {
        let field =
            |name: &str| package.lines().find_map(|line| line.strip_prefix(name)).expect("it has one");
        found.entry(field("name = ").to_owned()).or_default().insert(field("version = ").to_owned());
    }
    found
}

#[test]
fn measurements_and_fuzzers_are_built_with_the_versions_that_are_released() {
    let released = locked("Cargo.lock");
    for lock in ["bench/Cargo.lock", "fuzz/Cargo.lock"] {
        let other = locked(lock).into_iter().filter(|(name, versions)| {
            released.get(name).is_some_and(|released| released.is_disjoint(versions))
        });
        let other: Vec<_> = other.collect();
        assert!(
            other.is_empty(),
            "`cp Cargo.lock {lock}`, and let cargo leave out what is too much: {other:?}"
        );
    }
}
