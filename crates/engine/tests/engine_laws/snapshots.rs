//! Counters on disk: a restart is not a free refill.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tidegate::{
    BuildError, Clock, Domain, LimitSpec, Limiter, Micros, Rule, VirtualClock, per_hour, per_minute,
};

use crate::support::{by, every_algorithm, left, wait_until};

/// Long enough never to come in a test.
const NEVER: Duration = Duration::from_hours(1_000);

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("the disk is well");
    let path = folder.path().join("counters");
    (folder, path)
}

fn domain(limit: LimitSpec) -> Domain {
    Domain::new("d").rule(Rule::by("k").limit(limit).concurrency(1, Duration::from_mins(1)))
}

fn build(path: &Path, clock: &VirtualClock, domain: Domain) -> Result<Limiter, BuildError> {
    Limiter::builder().domain(domain).clock(clock.clone()).snapshot(path, NEVER).build()
}

#[test]
fn a_restarted_limiter_goes_on_where_it_left_off() {
    for (name, limit) in every_algorithm() {
        let ((_folder, path), clock) = (folder(), VirtualClock::new());
        let start = || build(&path, &clock, domain(limit.clone())).expect("good rules");
        let limiter = start();
        for _ in 0..20 {
            limiter.check_now(&by("v"));
            clock.advance_us(1_234);
        }
        let (before, lefts) = (limiter.peek_now(&by("v")), left(&limiter, &by("v")));
        let clone = limiter.clone();
        drop(limiter);
        assert!(!path.exists(), "{name}: a clone is left");
        drop(clone);
        for _ in 0..3 {
            let limiter = start();
            let after = limiter.peek_now(&by("v"));
            assert_eq!(after.to_string(), before.to_string(), "{name}");
            assert_eq!(after.retry_after(), before.retry_after(), "{name}");
            assert_eq!(left(&limiter, &by("v")), lefts, "{name}");
        }
    }
}

#[test]
fn what_has_freed_meanwhile_is_free() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    let start = || build(&path, &clock, domain(per_minute(3).token_bucket())).expect("good rules");
    assert!(start().check_now(&by("v").cost(3)).allowed());
    clock.advance_us(20_000_000);
    assert_eq!(left(&start(), &by("v")), [1]);
    clock.advance_us(3_600_000_000);
    let limiter = start();
    assert_eq!(limiter.stats().keys, 0, "what has expired is left out");
    assert_eq!(left(&limiter, &by("v")), [3]);
}

#[test]
fn slots_whose_holders_are_gone_return_after_their_time_out() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    let start = || build(&path, &clock, domain(per_minute(3))).expect("good rules");
    let limiter = start();
    let permit = limiter.acquire_now(&by("v")).permit().expect("it is free");
    // A permit does not keep the last snapshot from being written.
    drop(limiter);
    assert!(path.exists());
    let limiter = start();
    assert!(limiter.acquire_now(&by("v")).permit().is_none());
    drop(permit);
    clock.advance_us(59_999_999);
    assert!(limiter.acquire_now(&by("v")).permit().is_none());
    clock.advance_us(1);
    assert!(limiter.acquire_now(&by("v")).permit().is_some());
}

#[test]
fn changed_rules_after_a_restart_keep_their_counters() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    let used = build(&path, &clock, domain(per_hour(40))).expect("good rules");
    assert!(used.check_now(&by("v").cost(26)).allowed());
    drop(used);
    for (requests, expected) in [(50, 24), (14, 0), (30, 4)] {
        let limiter = build(&path, &clock, domain(per_hour(requests))).expect("good rules");
        assert_eq!(left(&limiter, &by("v")), [expected], "{requests}");
    }
    let more = domain(per_hour(30)).rule(Rule::by("new").limit(per_minute(1)));
    let limiter = build(&path, &clock, more).expect("good rules");
    assert_eq!(left(&limiter, &by("v")), [4]);
}

#[test]
fn a_clock_that_was_set_back_meanwhile_locks_nobody_out() {
    for (name, limit) in every_algorithm() {
        let ((_folder, path), clock) = (folder(), VirtualClock::new());
        let start = || build(&path, &clock, domain(limit.clone())).expect("good rules");
        let limiter = start();
        for _ in 0..20 {
            limiter.check_now(&by("v"));
        }
        drop(limiter);
        clock.set(Micros(clock.now().0 - 86_400_000_000));
        let limiter = start();
        let retry = limiter.check_now(&by("v")).retry_after().unwrap_or_default();
        assert!(retry <= Duration::from_micros(10_000_019), "{name}: {retry:?}");
    }
}

#[test]
fn a_file_that_is_not_a_whole_snapshot_is_refused_with_the_reason() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    let limiter = build(&path, &clock, domain(per_hour(10))).expect("good rules");
    for number in 0..50 {
        limiter.check_now(&by(&number.to_string()));
    }
    drop(limiter);
    let whole = fs::read(&path).unwrap();
    // After the header and the length of the first block; where the others lie is up to chance.
    let in_block = 28 + 8 + 4 + 5;
    let mut flipped = whole.clone();
    flipped[in_block] ^= 1;
    let mut longer = whole.clone();
    longer.push(0);
    let mut newer = whole.clone();
    newer[8] += 1;
    let table: [(&str, &[u8], &str); 7] = [
        ("empty", b"", "it is too short to be a snapshot"),
        ("another file", b"domain: d\ndescriptors: []\n# and so on", "it is not a tidegate snapshot"),
        ("another version", &newer, "it was written by another version of tidegate"),
        ("one bit", &flipped, "a checksum does not match, it is damaged"),
        ("cut in the middle", &whole[..in_block], "it ends in the middle of a block"),
        (
            "cut at the end",
            &whole[..whole.len() - 3],
            "it ends too early, as if it was not written to the end",
        ),
        ("something behind", &longer, "something follows its end"),
    ];
    for (what, bytes, reason) in table {
        fs::write(&path, bytes).unwrap();
        let Err(error) = build(&path, &clock, domain(per_hour(10))) else {
            panic!("{what}: it was accepted")
        };
        assert!(matches!(error, BuildError::Snapshot(_)), "{what}");
        let expected =
            format!("snapshot {} is refused: {reason}; move it away to start without it", path.display());
        assert_eq!(error.to_string(), expected, "{what}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{what}: it is left for whoever looks into it");
    }
    fs::write(&path, &whole).unwrap();
    let limiter = build(&path, &clock, domain(per_hour(10))).expect("it is whole again");
    assert_eq!(limiter.stats().keys, 50);
}

#[test]
fn bad_rules_leave_the_snapshot_alone() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    drop(build(&path, &clock, domain(per_hour(10))).expect("good rules"));
    let whole = fs::read(&path).unwrap();
    let bad = Domain::new("d").rule(Rule::by(""));
    assert!(matches!(build(&path, &clock, bad), Err(BuildError::Rules(_))));
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn a_snapshot_is_written_when_asked_for() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    let limiter = build(&path, &clock, domain(per_hour(10))).expect("good rules");
    limiter.check_now(&by("v"));
    limiter.check_now(&by("w"));
    let summary = limiter.snapshot().expect("the disk is well").expect("it has a file");
    assert_eq!((summary.keys, summary.written_at), (2, clock.now()));
    // As another process would see it, after a crash of this one.
    let copy = path.with_extension("copy");
    fs::copy(&path, &copy).unwrap();
    let other = build(&copy, &clock, domain(per_hour(10))).expect("good rules");
    assert_eq!(left(&other, &by("v")), [9]);

    let without = Limiter::builder().domain(domain(per_hour(10))).build().expect("good rules");
    assert!(without.snapshot().expect("nothing to do").is_none());
    assert!(without.snapshot_health().is_none());
}

#[test]
fn it_is_told_when_the_last_was_written_and_how_many_were_not() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    let limiter = build(&path, &clock, domain(per_hour(10))).expect("good rules");
    let health = || limiter.snapshot_health().expect("it has a file");
    assert_eq!((health().written_at, health().failures), (None, 0));
    limiter.snapshot().expect("the disk is well");
    let written_at = clock.now();
    clock.advance_us(1);
    let partial = path.with_extension("partial");
    fs::create_dir(&partial).unwrap();
    limiter.snapshot().expect_err("something is in the way");
    assert_eq!((health().written_at, health().failures), (Some(written_at), 1));
}

#[test]
fn a_snapshot_that_cannot_be_written_says_why_and_nothing_else_changes() {
    let (folder, _) = folder();
    let path = folder.path().join("missing").join("counters");
    let limiter = build(&path, &VirtualClock::new(), domain(per_hour(10))).expect("good rules");
    let error = limiter.snapshot().unwrap_err().to_string();
    assert_eq!(error, format!("snapshot {}: No such file or directory (os error 2)", path.display()));
    assert!(limiter.check_now(&by("v")).allowed());
}

#[test]
fn a_timer_writes_one_every_so_often() {
    let ((_folder, path), clock) = (folder(), VirtualClock::new());
    let limiter = Limiter::builder()
        .domain(domain(per_hour(10)))
        .clock(clock.clone())
        .snapshot(&path, Duration::from_millis(100))
        .build()
        .expect("good rules");
    for used in 1..=3 {
        limiter.check_now(&by("v"));
        let took = wait_until("the next snapshot has it", || {
            let copy = path.with_extension("copy");
            fs::copy(&path, &copy).is_ok()
                && build(&copy, &clock, domain(per_hour(10)))
                    .is_ok_and(|copy| left(&copy, &by("v")) == [10 - used])
        });
        println!("written after {} ms", took.as_millis());
    }
}

/// A clock that takes its time when the limiter's own thread asks for it, as sweeping very many keys
/// would.
#[derive(Clone)]
struct SlowForKeeper {
    clock: VirtualClock,
    keeping: Arc<AtomicBool>,
}

impl Clock for SlowForKeeper {
    fn now(&self) -> Micros {
        if thread::current().name() == Some("tidegate-keeper") {
            self.keeping.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
        }
        self.clock.now()
    }
}

#[test]
fn the_last_snapshot_is_there_when_the_limiter_is_gone_whatever_its_keeper_does() {
    let (_folder, path) = folder();
    let clock = SlowForKeeper { clock: VirtualClock::new(), keeping: Arc::default() };
    let limiter = Limiter::builder()
        .domain(domain(per_hour(10)))
        .clock(clock.clone())
        .snapshot(&path, NEVER)
        .build()
        .expect("good rules");
    limiter.check_now(&by("v").cost(10));
    // It sweeps every shard, which takes half a second with this clock.
    wait_until("the keeper is at work", || clock.keeping.load(Ordering::SeqCst));
    drop(limiter);
    let limiter = build(&path, &clock.clock, domain(per_hour(10))).expect("a whole snapshot");
    assert_eq!(left(&limiter, &by("v")), [0]);
}

#[test]
fn a_limiter_that_was_closed_writes_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("counters");
    let rules = Domain::new("d").rule(Rule::by("k").limit(per_hour(5)));
    let limiter =
        Limiter::builder().domain(rules).snapshot(&path, Duration::from_hours(1)).build().expect("valid");
    limiter.check_now(&by("v"));
    assert_eq!(limiter.close().expect("it is written").map(|summary| summary.keys), Some(1));
    fs::remove_file(&path).expect("it was written");
    drop(limiter);
    assert!(!path.exists(), "once is enough");
}
