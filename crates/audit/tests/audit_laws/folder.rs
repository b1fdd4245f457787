//! Folders that cannot be opened.

use std::fs;

use tempfile::tempdir;
use tidegate_audit::{FileSink, OpenError, VerifyError, verify};

use crate::crash::child;
use crate::support::{open, settings, whole, written};

#[test]
fn a_folder_that_cannot_be_written_is_refused_with_what_to_do() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FileSink::open(&file.join("audit"), &settings()).err().expect("a file is no folder");
    assert!(matches!(error, OpenError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("writable"), "{error}");
    assert!(matches!(verify(&folder.path().join("nowhere")), Err(VerifyError::Unreadable { .. })));
}

#[test]
fn one_process_at_a_time_writes_a_folder() {
    let folder = tempdir().unwrap();
    let mut other = child(folder.path());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut other.acks, &mut line).expect("the other process writes");
    let error = FileSink::open(folder.path(), &settings()).err().expect("the folder is taken");
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    other.kill();
    let trail = open(folder.path(), &settings());
    crate::support::close(&trail);
    whole(folder.path());
}

#[cfg(unix)]
#[test]
fn only_its_owner_reads_a_trail() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let folder = folder.path().join("audit");
    written(&folder, &settings(), 1);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}
