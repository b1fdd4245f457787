//! The file a snapshot is.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use tidegate_core::VirtualClock;
use tidegate_stores::MemoryStore;
use tidegate_stores::memory::SnapshotError;

use super::small;
use crate::world::config;

#[test]
fn only_its_owner_can_read_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot");
    let mode = || fs::metadata(&path).expect("the file").permissions().mode() & 0o777;
    let store = small(&VirtualClock::new());
    store.snapshot(&path).expect("a snapshot");
    assert_eq!(mode(), 0o600);

    let beside = folder.path().join("snapshot.partial");
    fs::write(&beside, "left behind").expect("a file");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)).expect("a mode");
    store.snapshot(&path).expect("a snapshot");
    assert_eq!(mode(), 0o600, "whatever lay in its way");
}

#[test]
fn it_is_written_through_no_link_that_lies_in_its_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, elsewhere) = (folder.path().join("snapshot"), folder.path().join("elsewhere"));
    fs::write(&elsewhere, "not ours").expect("a file");
    symlink(&elsewhere, folder.path().join("snapshot.partial")).expect("a link");
    small(&VirtualClock::new()).snapshot(&path).expect("a snapshot");
    assert_eq!(fs::read(&elsewhere).expect("the file"), b"not ours");
    assert!(fs::symlink_metadata(&path).expect("the file").is_file());
}

#[test]
fn nothing_but_the_snapshot_is_left_in_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = small(&VirtualClock::new());
    for _ in 0..3 {
        store.snapshot(&folder.path().join("snapshot")).expect("a snapshot");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}

#[test]
fn a_write_that_fails_leaves_the_old_one_in_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot");
    let store = small(&VirtualClock::new());
    store.snapshot(&path).expect("a snapshot");
    let old = fs::read(&path).expect("its bytes");
    fs::create_dir(folder.path().join("snapshot.partial")).expect("a folder where the file should go");
    let error = store.snapshot(&path).expect_err("it cannot be written");
    assert!(matches!(error, SnapshotError::Io { .. }));
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    assert_eq!(fs::read(&path).expect("its bytes"), old);
    fs::remove_dir(folder.path().join("snapshot.partial")).expect("out of the way");
    store.snapshot(&path).expect("the next one goes well");
}

#[test]
fn a_write_that_fails_leaves_no_half_of_a_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot");
    fs::create_dir(&path).expect("a folder where the file should go");
    fs::write(path.join("something"), "").expect("it is written");
    small(&VirtualClock::new()).snapshot(&path).expect_err("it cannot be put in place");
    assert!(!folder.path().join("snapshot.partial").exists());
}

#[test]
fn a_folder_that_is_not_there_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nowhere").join("snapshot");
    let clock = VirtualClock::new();
    let error = small(&clock).snapshot(&path).expect_err("there is no such folder");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    let error = MemoryStore::restore(&path, config(1_000, &clock)).err().expect("there is no such file");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    assert!(
        matches!(error, SnapshotError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    );
}
