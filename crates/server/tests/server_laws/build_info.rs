//! What the program says it was built from.

use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_server::build_info::{COMMIT, VERSION};

use self::commit::{Checkout, checkout, shortened};
use crate::support::service::{get, service};

#[path = "../../build/commit.rs"]
mod commit;

const RULES: &str =
    "domain: api\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 10 } }]\n";

#[test]
fn the_version_and_a_metric_name_the_commit() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("--version").output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(said, format!("tidegate {VERSION} (commit {COMMIT})\n"));
    let service = service(RULES);
    let metrics = get(service.admin, "/metrics").body;
    let line = format!("tidegate_build_info{{version=\"{VERSION}\",commit=\"{COMMIT}\"}} 1\n");
    assert!(metrics.contains(&line), "{line} in\n{metrics}");
}

fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]);
    let output = command.arg("-C").arg(folder).args(args).output().expect("git runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// What the files look like from outside.
fn looks(found: &Checkout) -> Vec<Vec<u8>> {
    found.watched.iter().map(|path| fs::read(path).unwrap_or_default()).collect()
}

#[test]
fn a_build_knows_its_commit_and_is_repeated_when_that_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("project");
    fs::create_dir(&root).expect("a folder");
    fs::write(root.join("Cargo.toml"), "").expect("a file");
    assert_eq!(checkout(&root, "Cargo.toml"), Checkout::default(), "there is no repository");
    git(&root, &["init", "--quiet"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "--quiet", "-m", "one"]);
    let other = folder.path().join("worktree");
    git(&root, &["worktree", "add", "--quiet", other.to_str().expect("text"), "-b", "other"]);
    for place in [&root, &other] {
        let before = checkout(place, "Cargo.toml");
        assert_eq!(before.commit, shortened(&git(place, &["rev-parse", "HEAD"])));
        assert!(before.watched.len() >= 2 && before.watched.iter().all(|path| path.exists()), "{before:?}");
        let looked = looks(&before);
        fs::write(place.join("untracked"), "x").expect("a file");
        assert_eq!(checkout(place, "Cargo.toml"), before);
        assert_eq!(looks(&before), looked, "other files are none of its business");
        git(place, &["pack-refs", "--all"]);
        git(place, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
        assert_ne!(looks(&before), looked, "a commit is noticed, even of a packed branch");
        assert_ne!(checkout(place, "Cargo.toml").commit, before.commit);
    }
    let copy = root.join("vendored");
    fs::create_dir(&copy).expect("a folder");
    fs::write(copy.join("Cargo.toml"), "").expect("a file");
    assert_eq!(checkout(&copy, "Cargo.toml"), Checkout::default(), "somebody else's commit is none of ours");
    assert_eq!(shortened("not a commit"), None);
    assert_eq!(shortened(&"AB".repeat(20)).as_deref(), Some("abababababab"));
}
