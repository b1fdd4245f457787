//! The ways in which a file changes.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::{Rules, expect_soon, in_force, limit};

#[test]
fn a_plain_write() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(1));
    let limiter = rules.watched(rules.path("r.yaml"));
    // The last has as many bytes as the one before.
    for requests in [2, 30, 31] {
        rules.write("r.yaml", &limit(requests));
        expect_soon(&limiter, "plain write", requests);
    }
    assert_eq!(limiter.generation(), 4);
}

#[test]
fn an_editor_that_writes_another_file_and_renames_it() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(1));
    let limiter = rules.watched(rules.path("r.yaml"));
    for requests in [2, 3] {
        rules.write(".r.yaml.swp", &limit(requests));
        fs::rename(rules.path(".r.yaml.swp"), rules.path("r.yaml")).expect("the disk is well");
        expect_soon(&limiter, "rename over", requests);
    }
    // And one that moves the old file away first.
    fs::rename(rules.path("r.yaml"), rules.path("r.yaml~")).expect("the disk is well");
    rules.write("r.yaml", &limit(4));
    expect_soon(&limiter, "move away and write", 4);
}

#[test]
fn a_file_that_is_gone_for_a_while() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(1));
    let limiter = rules.watched(rules.path("r.yaml"));
    fs::remove_file(rules.path("r.yaml")).expect("the disk is well");
    crate::support::wait_until("the file is missed", || limiter.refused_rules().is_some());
    assert_eq!(in_force(&limiter), Some(1));
    rules.write("r.yaml", &limit(2));
    expect_soon(&limiter, "written again", 2);
    assert!(limiter.refused_rules().is_none());
}

/// Truncates the file and writes it in small steps; answers whether it was refused on the way.
fn write_slowly(rules: &Rules, limiter: &tidegate::Limiter, text: &str) -> bool {
    let before = in_force(limiter);
    let mut refused = false;
    let mut file = File::create(rules.path("r.yaml")).expect("the disk is well");
    for part in text.as_bytes().chunks(4) {
        // Until it is whole, the rules are the old ones; never none.
        assert_eq!(in_force(limiter), before);
        refused |= limiter.refused_rules().is_some();
        file.write_all(part).expect("the disk is well");
        thread::sleep(Duration::from_millis(25));
    }
    refused
}

#[test]
fn a_file_that_is_truncated_and_written_slowly() {
    let rules = Rules::new();
    // Up to its last byte, a text in braces is no YAML.
    let text = |requests| format!("{{{}}}", limit(requests).trim_end().replace('\n', ", "));
    rules.write("r.yaml", &text(1));
    let limiter = rules.watched(rules.path("r.yaml"));
    // A file that is being written is not read, unless the machine stops for so long that it seems
    // to have come to rest; so a few attempts.
    let mut refused = Vec::new();
    for requests in 2..=6 {
        refused.push(write_slowly(&rules, &limiter, &text(requests)));
        expect_soon(&limiter, "slow write", requests);
        assert!(limiter.refused_rules().is_none());
    }
    println!("refused on the way: {refused:?}");
    assert!(refused.contains(&false));
}

#[test]
fn a_time_stamp_alone() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(1));
    let limiter = rules.watched(rules.path("r.yaml"));
    // The same text again is read again, and does no harm.
    rules.write("r.yaml", &limit(1));
    crate::support::wait_until("touched", || limiter.generation() == 2);
    assert_eq!(in_force(&limiter), Some(1));
}

/// A folder as Kubernetes mounts a `ConfigMap`: files are links into `..data`, which is a link to a
/// folder with the time in its name, and is exchanged when the map changes.
struct ConfigMap {
    folder: PathBuf,
    version: u64,
}

impl ConfigMap {
    fn new(folder: PathBuf, files: &[(&str, String)]) -> Self {
        fs::create_dir(&folder).expect("the disk is well");
        let mut map = Self { folder, version: 0 };
        map.swap(files);
        for (name, _) in files {
            symlink(format!("..data/{name}"), map.folder.join(name)).expect("the disk is well");
        }
        map
    }

    fn swap(&mut self, files: &[(&str, String)]) {
        let old = self.folder.join(format!("..2026_07_01.{}", self.version));
        self.version += 1;
        let name = format!("..2026_07_01.{}", self.version);
        fs::create_dir(self.folder.join(&name)).expect("the disk is well");
        for (file, text) in files {
            fs::write(self.folder.join(&name).join(file), text).expect("the disk is well");
        }
        symlink(&name, self.folder.join("..data_tmp")).expect("the disk is well");
        fs::rename(self.folder.join("..data_tmp"), self.folder.join("..data")).expect("the disk is well");
        if old.exists() {
            fs::remove_dir_all(old).expect("the disk is well");
        }
    }
}

#[test]
fn a_kubernetes_config_map_twenty_times() {
    let rules = Rules::new();
    let mut map = ConfigMap::new(rules.path("map"), &[("r.yaml", limit(1))]);
    let by_folder = rules.watched(rules.path("map"));
    let by_file = rules.watched(rules.path("map").join("r.yaml"));
    for requests in 2..=21 {
        map.swap(&[("r.yaml", limit(requests))]);
        expect_soon(&by_folder, "swap, folder", requests);
        expect_soon(&by_file, "swap, file", requests);
    }
    assert_eq!(by_file.generation(), 21);
}

#[test]
fn a_config_map_that_changes_faster_than_it_is_read() {
    let rules = Rules::new();
    let mut map = ConfigMap::new(rules.path("map"), &[("r.yaml", limit(1))]);
    let limiter = rules.watched(rules.path("map"));
    for requests in 2..=100 {
        map.swap(&[("r.yaml", limit(requests))]);
        thread::sleep(Duration::from_millis(3));
        assert!(in_force(&limiter).is_some());
    }
    expect_soon(&limiter, "the last of many swaps", 100);
    assert!(limiter.refused_rules().is_none());
}

#[test]
fn files_of_a_config_map_that_changes_are_never_mixed() {
    let rules = Rules::new();
    let files = |requests| {
        [("a.yaml", limit(requests)), ("b.yaml", limit(requests).replace("domain: d", "domain: e"))]
    };
    let mut map = ConfigMap::new(rules.path("map"), &files(1));
    let limiter = rules.unwatched(rules.path("map"));
    let reader = limiter.clone();
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for requests in 2..=60 {
                map.swap(&files(requests));
                thread::sleep(Duration::from_millis(8));
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            // A folder that is exchanged while it is read may be refused, and is read again later.
            let _ = reader.reload();
            let limits: Vec<_> =
                reader.listing().into_iter().map(|domain| domain.rules[0].limits.clone()).collect();
            assert_eq!(limits[0], limits[1]);
        }
    });
    limiter.reload().expect("good rules");
    assert_eq!(in_force(&limiter), Some(60));
}
