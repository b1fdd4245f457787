//! The common baseline: INCR by redis-benchmark, with 50 clients that wait for each reply.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidegate_testkit::redis::RedisServer;

use super::world::cpu_s;
use crate::error::{Error, ensure};
use crate::study::bed::installed;

/// About the number of requests in a pass.
const REQUESTS: u64 = 200_000;
const QUICK_REQUESTS: u64 = 40_000;

/// The throughput of a Redis server and its CPU use.
pub(super) struct Served {
    pub(super) per_second: f64,
    /// CPU microseconds of Redis per call.
    pub(super) redis_us: f64,
}

pub(super) struct Incr {
    program: PathBuf,
    requests: u64,
}

impl Incr {
    pub(super) fn find(quick: bool) -> Result<Self, Error> {
        let remedy = "run `make bench-tools`, or `apt-get install redis-tools`";
        let program = installed("redis-benchmark", remedy)?;
        Ok(Self { program, requests: if quick { QUICK_REQUESTS } else { REQUESTS } })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Runs redis-benchmark on the core of this thread.
    pub(super) fn run(&self, server: &RedisServer) -> Result<Served, Error> {
        let before_s = cpu_s(server)?;
        let output = Command::new(&self.program)
            .args(["-h", "127.0.0.1", "-p", &server.port().to_string(), "-t", "incr", "--csv"])
            .args(["-c", "50", "-P", "1", "-n", &self.requests.to_string()])
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io(&self.program))?;
        let cpu_s = cpu_s(server)? - before_s;
        let said = String::from_utf8_lossy(&output.stdout);
        let per_second = rate_in(&said);
        ensure(output.status.success() && per_second.is_some(), || {
            format!("redis-benchmark gave no rate: {said}{}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(Served {
            per_second: per_second.unwrap_or_default(),
            redis_us: cpu_s * 1e6 / self.requests as f64,
        })
    }
}

/// Returns the second field of the line of INCR.
fn rate_in(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("\"INCR\""))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::rate_in;

    #[test]
    fn the_rate_is_found_in_what_redis_benchmark_says() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\"\n\"INCR\",\"81300.81\",\"0.325\"\n";
        assert_eq!(rate_in(said), Some(81_300.81));
        assert_eq!(rate_in("\"test\",\"rps\"\n"), None);
    }
}
