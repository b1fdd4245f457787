//! The chain detects every change of a trail.

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::tempdir;
use tidegate_audit::{Filter, Settings, read};
use tidegate_core::VirtualClock;

use crate::support::{broken, change, close, denial, head, open_at, segments, settings, whole, written};

const DAY_US: u64 = 24 * 3600 * 1_000_000;

/// An action on a trail.
#[derive(Clone, Debug)]
enum Step {
    Changes(u64),
    Denials(u64),
    Days(u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..30_u64).prop_map(Step::Changes),
        (1..30_u64).prop_map(Step::Denials),
        (1..3_u64).prop_map(Step::Days),
        Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(48))]

    #[test]
    fn a_trail_is_whole_whatever_is_written_rotated_removed_and_reopened(
        steps in steps(), segment_bytes in 500..20_000_u64, segments_kept in 1..8_u64,
    ) {
        let folder = tempdir().unwrap();
        let clock = VirtualClock::new();
        let total_bytes = segment_bytes * segments_kept;
        let settings = Settings { segment_bytes, total_bytes, ..settings() };
        let mut trail = open_at(folder.path(), &settings, &clock);
        let mut recorded = 0;
        for step in steps {
            match step {
                Step::Changes(number) => (0..number).for_each(|number| trail.record(change(number))),
                Step::Denials(number) => (0..number).for_each(|number| trail.record(denial(number))),
                Step::Days(days) => clock.advance_us(days * DAY_US),
                Step::Reopen => {
                    close(&trail);
                    drop(trail);
                    whole(folder.path());
                    trail = open_at(folder.path(), &settings, &clock);
                }
            }
            if let Step::Changes(number) | Step::Denials(number) = step {
                recorded += number;
            }
        }
        close(&trail);
        let summary = whole(folder.path());
        let notices = read(folder.path(), &Filter { kind: Some("retired".to_owned()), ..Filter::default() }, 1000);
        let kept = summary.records - notices.unwrap().entries.len() as u64;
        prop_assert!(kept + summary.retired >= recorded);
        prop_assert!(summary.retired > 0 || kept == recorded);
        prop_assert_eq!((summary.cuts, summary.missing.total(), summary.lost), (0, 0, 0));
        prop_assert_eq!(trail.dropped().total(), 0);
    }

    #[test]
    fn every_change_of_a_single_byte_is_found(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), bits in 1..=255_u8) {
        let folder = tempdir().unwrap();
        rotated(folder.path());
        let mut files = segments(folder.path());
        files.push(head(folder.path()));
        let file = file.get(&files);
        let mut bytes = fs::read(file).unwrap();
        *at.get_mut(&mut bytes) ^= bits;
        fs::write(file, bytes).unwrap();
        broken(folder.path());
    }

    #[test]
    fn a_file_that_ends_too_early_is_found(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let folder = tempdir().unwrap();
        rotated(folder.path());
        let mut files = segments(folder.path());
        files.push(head(folder.path()));
        let file = file.get(&files);
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..at.index(bytes.len())]).unwrap();
        broken(folder.path());
    }
}

/// A trail of several segments, of which the oldest have been removed.
fn rotated(folder: &Path) {
    let settings = Settings { segment_bytes: 2000, total_bytes: 7000, ..settings() };
    for _ in 0..12 {
        written(folder, &settings, 3);
    }
    let summary = whole(folder);
    assert!(summary.retired > 0 && summary.segments > 2, "{summary:?}");
}

/// Flips every bit of a short trail, one at a time.
#[test]
fn every_bit_of_a_short_trail_counts() {
    let folder = tempdir().unwrap();
    written(folder.path(), &settings(), 2);
    for file in segments(folder.path()).into_iter().chain([head(folder.path())]) {
        let good = fs::read(&file).unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                fs::write(&file, bytes).unwrap();
                broken(folder.path());
            }
        }
        fs::write(&file, good).unwrap();
    }
    assert_eq!(whole(folder.path()).records, 2);
}

/// The lines of the only segment after `edit`.
fn edited(edit: impl Fn(&mut Vec<String>)) -> tidegate_audit::Broken {
    let folder = tempdir().expect("a folder");
    written(folder.path(), &settings(), 6);
    let file = &segments(folder.path())[0];
    let mut lines: Vec<String> =
        fs::read_to_string(file).expect("lines").lines().map(str::to_owned).collect();
    edit(&mut lines);
    fs::write(file, lines.join("\n") + "\n").expect("a file");
    broken(folder.path())
}

#[test]
fn lines_that_were_removed_moved_doubled_or_put_in_between_are_found_where_they_are() {
    assert_eq!(edited(|lines| drop(lines.remove(2))).line, 3);
    assert_eq!(edited(|lines| lines.swap(1, 2)).line, 2);
    assert_eq!(edited(|lines| lines.insert(4, lines[3].clone())).line, 5);
    assert_eq!(edited(|lines| lines.insert(1, "{}".to_owned())).line, 2);
    assert_eq!(edited(|lines| lines[4] = lines[4].replace("pro", "enterprise")).line, 5);
    let cut = edited(|lines| lines.truncate(4));
    assert!(cut.file.ends_with("audit-head") && cut.reason.contains("cut off"), "{cut}");
    let cut = edited(|lines| drop(lines.drain(..2)));
    assert_eq!((cut.line, cut.reason.contains("name of the file")), (1, true), "{cut}");
}

#[test]
fn a_segment_that_was_removed_renamed_or_emptied_is_found() {
    let try_on = |spoil: &dyn Fn(&[std::path::PathBuf])| {
        let folder = tempdir().unwrap();
        rotated(folder.path());
        spoil(&segments(folder.path()));
        broken(folder.path())
    };
    for index in 0..3 {
        try_on(&|all| fs::remove_file(&all[index]).unwrap());
        try_on(&|all| fs::write(&all[index], "").unwrap());
        try_on(&|all| {
            fs::rename(&all[index], all[index].with_file_name("audit-00000000000000099999.jsonl")).unwrap();
        });
    }
    try_on(&|all| fs::remove_file(all.last().unwrap()).unwrap());
    try_on(&|all| all.iter().for_each(|file| fs::remove_file(file).unwrap()));
    try_on(&|all| fs::remove_file(all[0].with_file_name("audit-head")).unwrap());
}

#[test]
fn the_oldest_segments_go_by_age_and_the_trail_says_so() {
    let folder = tempdir().unwrap();
    let clock = VirtualClock::new();
    let settings = Settings { total_age: Duration::from_hours(240), ..settings() };
    let trail = open_at(folder.path(), &settings, &clock);
    for day in 1..=30 {
        trail.record(change(day));
        crate::support::until("it is written", || trail.written() == day);
        clock.advance_us(DAY_US + 1);
    }
    close(&trail);
    let summary = whole(folder.path());
    assert!((10..=12).contains(&summary.segments), "{summary:?}");
    assert!(summary.retired > 15);
    let retired = read(folder.path(), &Filter { kind: Some("retired".to_owned()), ..Filter::default() }, 1);
    assert_eq!(retired.unwrap().entries.len(), 1);
}

#[test]
fn a_segment_is_no_larger_than_asked_for_unless_one_batch_is() {
    let folder = tempdir().unwrap();
    let settings = Settings { segment_bytes: 3000, ..settings() };
    let trail = open_at(folder.path(), &settings, &VirtualClock::new());
    for number in 1..=100 {
        trail.record(change(number));
        crate::support::until("it is written", || trail.written() == number);
    }
    close(&trail);
    let sizes: Vec<u64> =
        segments(folder.path()).iter().map(|file| fs::metadata(file).unwrap().len()).collect();
    assert!(sizes.len() > 5 && sizes.iter().all(|size| *size <= 3000), "{sizes:?}");
}

#[test]
fn a_record_too_long_for_a_line_goes_without_what_was_before_and_after() {
    let folder = tempdir().unwrap();
    let trail = open_at(folder.path(), &settings(), &VirtualClock::new());
    let mut huge = change(1);
    huge.before = Some("x".repeat(8 << 20).into());
    trail.record(huge);
    close(&trail);
    whole(folder.path());
    let page = read(folder.path(), &Filter::default(), 10).unwrap();
    let shown = serde_json::to_value(&page.entries[0]).unwrap();
    assert_eq!(shown["before"]["left_out_bytes"], (8 << 20) + 2);
    assert_eq!(shown["object"], "tenant/1");
}

#[test]
fn a_trail_of_nothing_is_whole() {
    let folder = tempdir().unwrap();
    close(&open_at(folder.path(), &settings(), &VirtualClock::new()));
    let summary = whole(folder.path());
    assert_eq!((summary.records, summary.first, summary.last), (0, None, None));
}
