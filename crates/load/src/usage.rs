//! CPU time and memory of the generator and of other processes.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};

use crate::clock::seconds;
use crate::error::LoadError;
use crate::report::{Generator, Process};

/// The counters at one point in time.
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
    /// Reads all counters. A process that does not exist is an error.
    pub(crate) fn read(pids: &[u32], at_ns: u64) -> Result<Self, LoadError> {
        let processes = pids.iter().map(|&pid| counters(pid)).collect::<Result<_, _>>()?;
        Ok(Self { at_ns, thread_cpu_ns: thread_cpu_ns(), starved_ns: starved_ns(), processes })
    }

    /// Returns the usage of the generator since these counters were read.
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

    /// Returns the usage of the processes since these counters were read.
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

/// Returns the CPU time of this thread in nanoseconds, in user and kernel mode.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns how long this thread was runnable but had no core, in nanoseconds; 0 if the kernel does not report it.
fn starved_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0)
}

fn per_request_us(cpu_s: f64, requests: u64) -> f64 {
    if requests == 0 { 0.0 } else { cpu_s * 1e6 / requests as f64 }
}

/// Reads the counters of a process. They include all its threads, also those that have ended.
fn counters(pid: u32) -> Result<Counters, LoadError> {
    let failed = |reason: String| LoadError::Process { pid, reason };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| failed(error.to_string()))?;
    let [user, kernel, pages] = numbers(&stat).ok_or_else(|| failed(format!("cannot be read: {stat:?}")))?;
    let cpu_s = (user + kernel) as f64 / clock_ticks_per_second() as f64;
    Ok(Counters { pid, cpu_s, resident_bytes: pages * page_size() as u64 })
}

/// Parses the ticks in user mode, the ticks in kernel mode and the resident pages: fields 14, 15 and 24 of `proc(5)`.
/// Field 2, the name of the program, may contain spaces and parentheses.
fn numbers(stat: &str) -> Option<[u64; 3]> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |field: usize| fields.get(field - 3)?.parse().ok();
    Some([number(14)?, number(15)?, number(24)?])
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn counters_are_found_behind_any_name() {
        let stat = "7 (a) 1 (b) c) S 1 7 7 0 -1 4194560 9 8 7 6 120 34 0 0 20 0 4 0 99 5000 321 18446744073709551615 1";
        assert_eq!(numbers(stat), Some([120, 34, 321]));
        assert_eq!(numbers("7 (a) S 1"), None);
    }
}
