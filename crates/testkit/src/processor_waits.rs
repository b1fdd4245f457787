//! Measures how long threads were ready to run while every CPU was busy, as counted by the kernel.
//!
//! A test that bounds how long something takes subtracts this, so that it judges a process only by the CPU time that
//! it could get, whatever else the machine was doing. A process that blocks (on a lock, a socket, a timer) is not
//! ready to run, so that time is not subtracted.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The interval between readings.
const READ_EVERY: Duration = Duration::from_millis(10);

/// Watches processes and threads until it is stopped.
#[derive(Debug)]
pub struct ProcessorWaits {
    folders: Arc<Mutex<Vec<Folder>>>,
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<Waited>,
}

/// The `/proc` folder with the counts of a watched process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Folder {
    /// All threads of a process.
    Process(PathBuf),
    Thread(PathBuf),
}

/// The total wait of everything that was watched, at each reading.
#[derive(Clone, Debug, Default)]
pub struct Waited {
    totals: Vec<(Instant, Duration)>,
}

impl ProcessorWaits {
    /// Starts without watching anything; see [`add_process`](Self::add_process) and
    /// [`add_this_thread`](Self::add_this_thread).
    pub fn start() -> Self {
        let (folders, stopped) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (watched, told) = (Arc::clone(&folders), Arc::clone(&stopped));
        Self { folders, stopped, thread: thread::spawn(move || read_until(&told, &watched)) }
    }

    /// Watches all threads of a process, including those that it starts later.
    pub fn add_process(&self, id: u32) {
        self.add(Folder::Process(format!("/proc/{id}/task").into()));
    }

    /// Watches the calling thread.
    pub fn add_this_thread(&self) {
        let id = rustix::thread::gettid();
        self.add(Folder::Thread(format!("/proc/self/task/{}", id.as_raw_nonzero()).into()));
    }

    /// Adds a folder, unless it was added before.
    fn add(&self, folder: Folder) {
        let mut folders = self.folders.lock();
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }

    /// Stops watching, and returns the measurements.
    ///
    /// # Panics
    ///
    /// Panics if the reading thread has panicked.
    pub fn stop(self) -> Waited {
        self.stopped.store(true, Relaxed);
        self.thread.join().expect("reading the counts does not panic")
    }
}

impl Waited {
    /// Returns how long threads waited for a CPU within this time: the sum over everything that was watched, between
    /// the readings around it.
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
        // Loaded first, so that there is a reading after everything that happened before the stop.
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
    /// Returns the folders of the threads; none if the process has ended.
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

/// Returns the second number of `schedstat`: the time that a thread was ready but did not run.
fn waited_so_far(thread: &Path) -> Option<Duration> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}
