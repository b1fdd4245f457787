//! How long threads were ready to run while every processor was taken, as the kernel counts it.
//!
//! A test that bounds how long something takes subtracts this, so that it judges a process by the time it
//! got and not by what else the machine had to do. A process that blocks itself (on a lock, a socket, a
//! timer) is not ready to run, and is excused nothing.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often the kernel's counts are read.
const READ_EVERY: Duration = Duration::from_millis(10);

/// Watches processes and threads until it is stopped.
#[derive(Debug)]
pub struct ProcessorWaits {
    folders: Arc<Mutex<Vec<Folder>>>,
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<Waited>,
}

/// Where the kernel keeps the counts of what is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Folder {
    /// All threads of a process.
    Process(PathBuf),
    Thread(PathBuf),
}

/// How long all that was watched had waited, in total, at each reading.
#[derive(Clone, Debug, Default)]
pub struct Waited {
    totals: Vec<(Instant, Duration)>,
}

impl ProcessorWaits {
    /// Starts to watch; [`add_process`](Self::add_process) and [`add_this_thread`](Self::add_this_thread) say what.
    pub fn start() -> Self {
        let (folders, stopped) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (watched, told) = (Arc::clone(&folders), Arc::clone(&stopped));
        Self { folders, stopped, thread: thread::spawn(move || read_until(&told, &watched)) }
    }

    /// Watches all threads of a process, those that it starts later included.
    pub fn add_process(&self, id: u32) {
        self.add(Folder::Process(format!("/proc/{id}/task").into()));
    }

    /// Watches the calling thread.
    pub fn add_this_thread(&self) {
        let id = rustix::thread::gettid();
        self.add(Folder::Thread(format!("/proc/self/task/{}", id.as_raw_nonzero()).into()));
    }

    /// Once, however often it is named.
    fn add(&self, folder: Folder) {
        let mut folders = self.folders.lock();
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }

    /// Stops to watch, and returns what was found.
    ///
    /// # Panics
    ///
    /// If reading the kernel's counts panicked.
    pub fn stop(self) -> Waited {
        self.stopped.store(true, Relaxed);
        self.thread.join().expect("reading the counts does not panic")
    }
}

impl Waited {
    /// How long threads waited for a processor within this time: the sum over all that were watched, and at most
    /// what they waited between the readings around it.
    pub fn between(&self, from: Instant, to: Instant) -> Duration {
        let before = self.totals.iter().rev().find(|(at, _)| *at <= from);
        let after = self.totals.iter().find(|(at, _)| *at >= to).or(self.totals.last());
        let total =
            |reading: Option<&(Instant, Duration)>| reading.map_or(Duration::ZERO, |(_, total)| *total);
        total(after).saturating_sub(total(before))
    }
}

fn read_until(stopped: &AtomicBool, watched: &Mutex<Vec<Folder>>) -> Waited {
    let (mut waited, mut total) = (Waited::default(), Duration::ZERO);
    // The last count of each thread. One that is seen for the first time may have waited before it was watched.
    let mut counts: HashMap<PathBuf, Duration> = HashMap::new();
    loop {
        // Looked at first, so that there is a reading after everything that happened before the end.
        let is_last = stopped.load(Relaxed);
        let folders = watched.lock().clone();
        for thread in folders.iter().flat_map(Folder::threads) {
            let Some(now) = waited_so_far(&thread) else { continue };
            let before = counts.insert(thread, now).unwrap_or(now);
            total += now.saturating_sub(before);
        }
        waited.totals.push((Instant::now(), total));
        if is_last {
            return waited;
        }
        thread::sleep(READ_EVERY);
    }
}

impl Folder {
    /// The folders of its threads; none if it has ended.
    fn threads(&self) -> Vec<PathBuf> {
        match self {
            Self::Thread(folder) => vec![folder.clone()],
            Self::Process(folder) => {
                let entries = fs::read_dir(folder).into_iter().flatten();
                entries.flatten().map(|entry| entry.path()).collect()
            }
        }
    }
}

/// The second number of `schedstat`: nanoseconds that a thread was ready and did not run.
fn waited_so_far(thread: &Path) -> Option<Duration> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}
