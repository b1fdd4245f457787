//! Shared helpers: records, trails with a virtual clock, and a sink that fails on demand.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tidegate_audit::{
    Batch, Broken, Change, Denial, FileSink, OpenError, Settings, Sink, Summary, Tip, Trail, VerifyError,
    verify,
};
use tidegate_core::{Clock, Micros, VirtualClock};

/// Far longer than anything takes. A test that waits this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) fn change(number: u64) -> Change {
    Change {
        at: Micros(1_700_000_000_000_000 + number),
        actor: format!("actor-{}", number % 3),
        action: "quota.set".to_owned(),
        object: format!("tenant/{number}"),
        before: None,
        after: Some(json!({ "tier": "pro", "requests": number })),
        request_id: format!("request-{number}"),
        node: "a".to_owned(),
    }
}

pub(crate) fn denial(number: u64) -> Denial {
    Denial {
        at: Micros(1_700_000_000_000_000 + number),
        domain: "api".to_owned(),
        rule: "per_user".to_owned(),
        limit: "steady".to_owned(),
        descriptor: Some(vec![("user".to_owned(), "zo\u{eb} \"the\n\u{0} quoter\"".to_owned())]),
        unsampled: number,
        node: "a".to_owned(),
    }
}

/// Settings for tests: denials are written without waiting for others.
pub(crate) fn settings() -> Settings {
    Settings { gather: Duration::ZERO, retry: Duration::from_millis(5), ..Settings::default() }
}

pub(crate) fn open(folder: &Path, settings: &Settings) -> Trail {
    open_at(folder, settings, &VirtualClock::new())
}

pub(crate) fn open_at(folder: &Path, settings: &Settings, clock: &VirtualClock) -> Trail {
    // Another test may start a process just now, which has our lock, too, until it is another program.
    let mut sink = None;
    until("the folder is free", || match FileSink::open(folder, settings) {
        Ok(opened) => sink.replace(opened).is_none(),
        Err(OpenError::InUse { .. }) => false,
        Err(error) => panic!("{error}"),
    });
    let sink = sink.expect("it is open");
    Trail::start(sink, settings, Arc::new(clock.clone()) as Arc<dyn Clock>)
}

pub(crate) fn close(trail: &Trail) {
    assert!(trail.close(DEADLINE), "all is written: {:?} {:?}", trail.dropped(), trail.failing());
}

/// Writes a trail of this many changes, and closes it.
pub(crate) fn written(folder: &Path, settings: &Settings, changes: u64) {
    let trail = open(folder, settings);
    for number in 1..=changes {
        trail.record(change(number));
    }
    close(&trail);
}

pub(crate) fn whole(folder: &Path) -> Summary {
    verify(folder).unwrap_or_else(|error| panic!("the trail is whole: {error}"))
}

pub(crate) fn broken(folder: &Path) -> Broken {
    match verify(folder) {
        Err(VerifyError::Broken(broken)) => broken,
        other => panic!("the trail is broken, not {other:?}"),
    }
}

/// Waits until a condition that other threads change is true.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// The segments of a folder, oldest first.
pub(crate) fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    all.sort();
    all
}

pub(crate) fn head(folder: &Path) -> PathBuf {
    folder.join("audit-head")
}

/// A sink in memory that accepts nothing while it is shut.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    shut: bool,
    tip: Tip,
    lines: Vec<u8>,
}

impl Gate {
    pub(crate) fn shut() -> Self {
        let gate = Self::default();
        gate.0.lock().shut = true;
        gate
    }

    pub(crate) fn open(&self) {
        self.0.lock().shut = false;
    }

    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let held = self.0.lock();
        let lines = held.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).expect("a line is JSON")).collect()
    }
}

impl Sink for Gate {
    fn tip(&self) -> Tip {
        self.0.lock().tip
    }

    fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let mut held = self.0.lock();
        if held.shut {
            return Err(io::Error::other("shut"));
        }
        assert_eq!(batch.first, held.tip.seq + 1, "lines go on where the last batch ended");
        held.lines.extend_from_slice(&batch.lines);
        held.tip = batch.tip;
        Ok(())
    }
}
