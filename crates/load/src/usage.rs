//! CPU time and memory of the generator and of other processes.

use procfs::WithCurrentSystemInfo;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::seconds;
use crate::error::LoadError;
use crate::report::{Generator, Process};

/// Counters at one moment.
#[derive(Debug)]
pub(crate) struct Usage {
    at_ns: u64,
    thread_cpu_ns: u64,
    starved_ns: u64,
    processes: Vec<Counters>,
}

#[derive(Clone, Copy, Debug)]
struct Counters {
    pid: u32,
    cpu_s: f64,
    resident_bytes: u64,
}

impl Usage {
    /// Reads all counters; a process that is not there is an error.
    pub(crate) fn read(pids: &[u32], at_ns: u64) -> Result<Self, LoadError> {
        let processes = pids.iter().map(|&pid| counters(pid)).collect::<Result<_, _>>()?;
        Ok(Self { at_ns, thread_cpu_ns: thread_cpu_ns(), starved_ns: starved_ns(), processes })
    }

    /// What the generator took since.
    pub(crate) fn generator(&self, now_ns: u64, requests: u64) -> Generator {
        let cpu_s = seconds(thread_cpu_ns() - self.thread_cpu_ns);
        let elapsed_s = seconds(now_ns - self.at_ns);
        Generator {
            cpu_s,
            share: cpu_s / elapsed_s,
            starved: seconds(starved_ns().saturating_sub(self.starved_ns)) / elapsed_s,
            us_per_request: per_request_us(cpu_s, requests),
        }
    }

    /// What the processes took since.
    pub(crate) fn processes(&self, requests: u64) -> Vec<Process> {
        let since = |before: &Counters| {
            let after = counters(before.pid);
            let ended = after.is_err();
            let after = after.unwrap_or(*before);
            let cpu_s = after.cpu_s - before.cpu_s;
            Process {
                pid: before.pid,
                cpu_s,
                us_per_request: per_request_us(cpu_s, requests),
                resident_before_bytes: before.resident_bytes,
                resident_after_bytes: after.resident_bytes,
                ended,
            }
        };
        self.processes.iter().map(since).collect()
    }
}

/// Of this thread, in user and kernel mode.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// How long this thread could have run and was not let; 0 where the kernel does not say.
fn starved_ns() -> u64 {
    let process = procfs::process::Process::myself();
    let task =
        process.and_then(|process| process.task_from_tid(rustix::thread::gettid().as_raw_nonzero().get()));
    task.and_then(|task| task.schedstat()).map_or(0, |stat| stat.run_delay)
}

fn per_request_us(cpu_s: f64, requests: u64) -> f64 {
    if requests == 0 { 0.0 } else { cpu_s * 1e6 / requests as f64 }
}

/// The kernel counts all threads of the process, those that have ended too.
fn counters(pid: u32) -> Result<Counters, LoadError> {
    let stat = procfs::process::Process::new(pid.cast_signed()).and_then(|process| process.stat());
    let stat = stat.map_err(|error| LoadError::Process { pid, reason: error.to_string() })?;
    let cpu_s = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
    Ok(Counters { pid, cpu_s, resident_bytes: stat.rss_bytes().get() })
}
