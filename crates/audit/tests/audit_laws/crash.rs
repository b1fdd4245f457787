//! A process that ends in the middle of a write, and what is left of its trail.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use proptest::prelude::*;
use tempfile::tempdir;
use tidegate_audit::{Filter, Settings, read};

use crate::support::{
    DEADLINE, broken, change, close, head, open, segments, settings, until, whole, written,
};

const FOLDER: &str = "TIDEGATE_AUDIT_LAWS_FOLDER";

/// Another process that writes a trail until it is killed, and prints which records are acknowledged.
pub(crate) struct Writing {
    process: Child,
    pub(crate) acks: BufReader<ChildStdout>,
}

pub(crate) fn child(folder: &Path) -> Writing {
    let mut process = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "crash::write_until_killed", "--ignored", "--nocapture", "--quiet"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("this program starts again");
    let mut acks = BufReader::new(process.stdout.take().expect("its output"));
    // The test harness prints something first.
    let mut line = String::new();
    while line.trim() != "begin" {
        line.clear();
        assert!(acks.read_line(&mut line).expect("its output") > 0, "the child begins");
    }
    Writing { process, acks }
}

impl Writing {
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("kill -9");
        self.process.wait().expect("it is gone");
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "the other process of the tests here"]
fn write_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let settings = Settings { segment_bytes: 3 << 20, total_bytes: 12 << 20, ..settings() };
    let trail = open(Path::new(&folder), &settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "\nbegin").unwrap();
    for number in 1.. {
        // Long lines, so that a kill finds one half-written.
        let mut long = change(number);
        long.after = Some("z".repeat((number as usize * 7919) % 400_000).into());
        for _ in 0..3 {
            trail.record(long.clone());
        }
        let seq = runtime.block_on(trail.record_and_wait(long).within(DEADLINE)).expect("it is written");
        writeln!(out, "{seq}").unwrap();
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_to_kill_9_and_the_trail_goes_on_whole() {
    let folder = tempdir().unwrap();
    let mut cuts = 0;
    for round in 0..40_u32 {
        let mut other = child(folder.path());
        let mut acknowledged = 0;
        let mut line = String::new();
        for _ in 0..=round % 5 {
            line.clear();
            other.acks.read_line(&mut line).expect("an acknowledgement");
            acknowledged = line.trim().parse::<u64>().expect("a number");
        }
        // At a different point of the next write in every round.
        std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 131 % 3000));
        other.kill();
        let left = whole(folder.path());
        assert!(left.last.expect("records").seq >= acknowledged, "round {round}");
        cuts += u64::from(left.unfinished_bytes > 0);
        close(&open(folder.path(), &settings()));
        let summary = whole(folder.path());
        assert_eq!((summary.unfinished_bytes, summary.lost), (0, 0), "round {round}");
    }
    println!("{cuts} of 40 kills left an unfinished line");
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(64))]

    /// A crash leaves the beginning of what was being written, and the note names a line before it.
    #[test]
    fn an_unfinished_line_is_cut_off_and_the_cut_is_recorded(noted in 1..6_u64, at in any::<prop::sample::Index>()) {
        let folder = tempdir().unwrap();
        written(folder.path(), &settings(), noted);
        let (file, note) = (segments(folder.path()).remove(0), fs::read(head(folder.path())).unwrap());
        let safe = fs::metadata(&file).unwrap().len() as usize;
        written(folder.path(), &settings(), 5);
        let bytes = fs::read(&file).unwrap();
        let end = safe + at.index(bytes.len() - safe);
        fs::write(&file, &bytes[..end]).unwrap();
        fs::write(head(folder.path()), note).unwrap();

        let unfinished = bytes[..end].iter().rev().take_while(|byte| **byte != b'\n').count() as u64;
        prop_assert_eq!(whole(folder.path()).unfinished_bytes, unfinished);
        written(folder.path(), &settings(), 2);
        let summary = whole(folder.path());
        prop_assert_eq!(summary.cuts, u64::from(unfinished > 0));
        prop_assert_eq!((summary.lost, summary.unfinished_bytes), (0, 0));
        let cuts = Filter { kind: Some("cut".to_owned()), ..Filter::default() };
        for entry in read(folder.path(), &cuts, 10).unwrap().entries {
            let shown = serde_json::to_value(entry).unwrap();
            prop_assert_eq!(&shown["bytes"], unfinished);
        }
    }

    #[test]
    fn records_that_are_gone_are_told_when_the_trail_goes_on(at in any::<prop::sample::Index>()) {
        let folder = tempdir().unwrap();
        written(folder.path(), &settings(), 6);
        let file = segments(folder.path()).remove(0);
        let bytes = fs::read(&file).unwrap();
        let kept = &bytes[..at.index(bytes.len())];
        fs::write(&file, kept).unwrap();
        broken(folder.path());
        written(folder.path(), &settings(), 1);
        let summary = whole(folder.path());
        let lines = kept.split(|byte| *byte == b'\n').count() as u64 - 1;
        prop_assert_eq!((summary.cuts, summary.lost), (1, 6 - lines));
    }
}

#[test]
fn a_segment_that_was_begun_and_has_no_line_yet_is_begun_again() {
    let folder = tempdir().unwrap();
    written(folder.path(), &settings(), 3);
    fs::write(folder.path().join("audit-00000000000000000004.jsonl"), "").unwrap();
    assert_eq!(whole(folder.path()).records, 3);
    written(folder.path(), &settings(), 3);
    assert_eq!((whole(folder.path()).records, whole(folder.path()).cuts), (6, 0));
}

#[test]
fn lines_that_no_crash_leaves_are_kept_for_whoever_looks_into_it() {
    let folder = tempdir().unwrap();
    written(folder.path(), &settings(), 5);
    let file = &segments(folder.path())[0];
    let spoilt = fs::read_to_string(file).unwrap().replacen("tenant/4", "tenant/5", 1);
    fs::write(file, &spoilt).unwrap();
    let before = broken(folder.path());
    written(folder.path(), &settings(), 2);
    assert_eq!(fs::read_to_string(file).unwrap(), spoilt);
    assert_eq!(broken(folder.path()), before);
    assert_eq!(before.line, 4);
}

#[test]
fn a_first_line_that_no_crash_leaves_is_set_aside() {
    let folder = tempdir().unwrap();
    written(folder.path(), &settings(), 1);
    let file = &segments(folder.path())[0];
    fs::write(file, "something else\n").unwrap();
    let trail = open(folder.path(), &settings());
    until("the cut is told", || whole_or_nothing(folder.path()) == 1);
    close(&trail);
    assert_eq!(fs::read_to_string(file.with_extension("foreign")).unwrap(), "something else\n");
    assert_eq!((whole(folder.path()).cuts, whole(folder.path()).lost), (1, 1));
}

fn whole_or_nothing(folder: &Path) -> u64 {
    tidegate_audit::verify(folder).map_or(0, |summary| summary.cuts)
}
