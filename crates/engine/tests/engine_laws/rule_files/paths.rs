//! Files and folders of rules.

#![expect(clippy::unwrap_used, reason = "clippy does not know the helpers of tests for tests")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::{TempDir, tempdir};
use tidegate::rules::file::{MAX_FILE_BYTES, load_path};
use tidegate::{Defaults, Domain};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The names of the domains, or the problems without the folder's name.
fn load(path: &Path) -> Result<Vec<String>, Vec<String>> {
    let name = |domain: &Domain| {
        let debug = format!("{domain:?}");
        debug.split('"').nth(1).unwrap_or_default().to_owned()
    };
    let parent = if path.is_dir() { path } else { path.parent().unwrap() };
    let folder = format!("{}/", parent.display());
    match load_path(path, &Defaults::default()) {
        Ok(domains) => Ok(domains.iter().map(name).collect()),
        Err(problems) => {
            Err(problems.0.iter().map(|problem| problem.to_string().replace(&folder, "")).collect())
        }
    }
}

fn problems(path: &Path) -> Vec<String> {
    load(path).unwrap_err()
}

#[test]
fn a_file_is_one_domain_whatever_its_name() {
    let folder = folder(&[("rules.txt", "domain: d")]);
    assert_eq!(load(&folder.path().join("rules.txt")).unwrap(), ["d"]);
}

#[test]
fn a_folder_is_its_yaml_files_in_the_order_of_their_names() {
    let folder = folder(&[
        ("b.yml", "domain: second"),
        ("a.yaml", "domain: first"),
        ("c.yaml", "domain: third"),
        ("README.md", "no: [rules"),
        (".hidden.yaml", "no: [rules"),
        ("a.yaml~", "no: [rules"),
        ("below/d.yaml", "no: [rules"),
        ("folder.yaml/e.yaml", "no: [rules"),
    ]);
    assert_eq!(load(folder.path()).unwrap(), ["first", "second", "third"]);
}

/// Kubernetes swaps `..data`; the names beside it are links through it.
#[test]
fn a_config_map_is_read_once_through_its_links() {
    let folder =
        folder(&[("..2026_11_01/api.yaml", "domain: api"), ("..2026_11_02/api.yaml", "domain: newer")]);
    symlink("..2026_11_01", folder.path().join("..data")).unwrap();
    symlink("..data/api.yaml", folder.path().join("api.yaml")).unwrap();
    assert_eq!(load(folder.path()).unwrap(), ["api"]);
    symlink("..2026_11_02", folder.path().join("..data_tmp")).unwrap();
    fs::rename(folder.path().join("..data_tmp"), folder.path().join("..data")).unwrap();
    assert_eq!(load(folder.path()).unwrap(), ["newer"]);
}

#[test]
fn a_domain_that_is_defined_twice_names_both_files() {
    let folder = folder(&[
        ("a.yaml", "domain: api"),
        ("b.yaml", "tenant: k\ndomain: api"),
        ("c.yaml", "domain: other"),
        ("d.yaml", "domain: api"),
    ]);
    assert_eq!(
        problems(folder.path()),
        [
            "b.yaml:2:9: domain: domain \"api\" is defined in a.yaml already; keep one of the two files",
            "d.yaml:1:9: domain: domain \"api\" is defined in a.yaml already; keep one of the two files",
        ]
    );
}

#[test]
fn the_mistakes_of_all_files_are_told_at_once() {
    let folder = folder(&[
        ("a.yaml", "domain: api\nhierarchical: 1"),
        ("b.yaml", "domain: api\nhierarchical: 2"),
        ("c.yaml", "domain: [c"),
    ]);
    symlink("nowhere", folder.path().join("d.yaml")).unwrap();
    assert_eq!(
        problems(folder.path()),
        [
            "a.yaml:2:15: hierarchical: must be true or false, got 1",
            "b.yaml:1:9: domain: domain \"api\" is defined in a.yaml already; keep one of the two files",
            "b.yaml:2:15: hierarchical: must be true or false, got 2",
            "c.yaml:1:9: not valid YAML: unclosed bracket '['",
            "d.yaml: cannot be read: No such file or directory (os error 2); check the path and its permissions",
        ]
    );
}

#[test]
fn a_folder_without_rule_files_is_refused() {
    let folder = folder(&[("README.md", "")]);
    let problems = load_path(folder.path(), &Defaults::default()).unwrap_err();
    let expected = format!(
        "{}: the folder has no rule files; their names end in .yaml or .yml",
        folder.path().display()
    );
    assert_eq!(problems.to_string(), expected);
}

#[test]
fn a_huge_file_is_refused_unread() {
    let folder = folder(&[]);
    let path = folder.path().join("huge.yaml");
    File::create(&path).unwrap().set_len(100 << 20).unwrap();
    assert_eq!(
        problems(&path),
        ["huge.yaml: the file has 104857600 bytes, the most is 4194304; split it into several domains"]
    );
}

#[test]
fn a_file_of_the_largest_size_is_read_and_one_byte_more_is_not() {
    let rules = "domain: d\n#".to_owned();
    let largest = format!("{rules}{}", "x".repeat(MAX_FILE_BYTES - rules.len()));
    let folder = folder(&[("a.yaml", &largest), ("b.yaml", &format!("{largest}x"))]);
    assert_eq!(load(&folder.path().join("a.yaml")).unwrap(), ["d"]);
    assert_eq!(
        problems(&folder.path().join("b.yaml")),
        ["b.yaml: the file has 4194305 bytes, the most is 4194304; split it into several domains"]
    );
}

/// A device tells no size: reading stops at the bound.
#[test]
fn what_has_no_end_is_refused() {
    let problems = load_path(Path::new("/dev/zero"), &Defaults::default()).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "/dev/zero: the file has 4194305 bytes, the most is 4194304; split it into several domains"
    );
}
