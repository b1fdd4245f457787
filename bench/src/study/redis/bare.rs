//! The baseline without Tidegate: a script call for each decision.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use quanta::Instant;
use tidegate_load::Latency;
use tidegate_testkit::redis::RedisServer;

use super::draw::{Schedule, Zipf};
use super::incr::Served;
use super::kind::Kind;
use super::line::{Line, PATIENCE};
use super::world::cpu_s;
use crate::error::{Error, ensure};
use crate::study::bed::{BATCHED, Passes};

/// The number of calls that are sent together.
pub(super) const PIPELINE: usize = 64;
const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// A Redis server that has loaded the script of a kind.
pub(super) struct Bare<'a> {
    server: &'a RedisServer,
    /// The prefix of keys, because no two scripts understand each other's keys.
    prefix: &'static str,
    /// A call up to its key, and the part after the key.
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl<'a> Bare<'a> {
    pub(super) fn new(server: &'a RedisServer, kind: &Kind) -> Self {
        let hash = server.command(&["SCRIPT", "LOAD", kind.script]).text();
        let mut head = format!("*{}\r\n", 4 + kind.arguments.len()).into_bytes();
        for word in ["EVALSHA", &hash, "1"] {
            push_word(&mut head, word);
        }
        let mut tail = Vec::new();
        for argument in kind.arguments {
            push_word(&mut tail, &argument.to_string());
        }
        Self { server, prefix: kind.name, head, tail }
    }

    /// Sends many calls at once on one connection, to measure what Redis can do if its clients pipeline.
    pub(super) fn pipelined(&self, passes: Passes) -> Result<Served, Error> {
        let mut line = self.connect()?;
        let mut keys = Zipf::new();
        self.rounds(&mut line, &mut keys, PIPELINE, passes.warm_up, |_| {})?;
        let (before_s, started, mut calls) = (cpu_s(self.server)?, Instant::now(), 0);
        self.rounds(&mut line, &mut keys, PIPELINE, passes.length, |_| calls += PIPELINE)?;
        let (cpu_s, elapsed_s) = (cpu_s(self.server)? - before_s, started.elapsed().as_secs_f64());
        Ok(Served { per_second: calls as f64 / elapsed_s, redis_us: cpu_s * 1e6 / calls as f64 })
    }

    /// Sends one call at a time.
    pub(super) fn alone(&self, passes: Passes) -> Result<Latency, Error> {
        let mut line = self.connect()?;
        let (mut keys, mut times_ns) = (Zipf::new(), histogram()?);
        self.rounds(&mut line, &mut keys, 1, passes.warm_up, |_| {})?;
        self.rounds(&mut line, &mut keys, 1, passes.length, |took| record(&mut times_ns, took))?;
        Ok(latency(&times_ns))
    }

    fn rounds(
        &self,
        line: &mut Line,
        keys: &mut Zipf,
        calls: usize,
        length: Duration,
        mut done: impl FnMut(Duration),
    ) -> Result<(), Error> {
        let until = Instant::now() + length;
        let mut out = Vec::new();
        while Instant::now() < until {
            out.clear();
            for _ in 0..calls {
                self.call(keys.next(), &mut out);
            }
            let sent = Instant::now();
            line.stream.write_all(&out).map_err(broken())?;
            let mut answers = 0;
            while answers < calls {
                answers += line.read().map_err(broken())?;
            }
            done(sent.elapsed());
        }
        Ok(())
    }

    /// Sends calls at random times, `per_second` on average, with as many connections and concurrent calls as for the
    /// service. Latency is measured from when a call was due.
    pub(super) fn open_loop(&self, per_second: f64, passes: Passes) -> Result<Latency, Error> {
        let mut lines: Vec<_> = (0..BATCHED.connections).map(|_| self.connect()).collect::<Result<_, _>>()?;
        for line in &lines {
            line.stream.set_nonblocking(true).map_err(broken())?;
        }
        let (mut keys, mut times_ns) = (Zipf::new(), histogram()?);
        let mut schedule = Schedule::new(per_second);
        let started = Instant::now();
        let counts_from = started + passes.warm_up;
        let until = counts_from + passes.length;
        let mut turn = 0;
        loop {
            let now = Instant::now();
            for line in &mut lines {
                let answers = line.read_some().map_err(broken())?;
                for due in line.due.drain(..answers).filter(|due| *due >= counts_from) {
                    record(&mut times_ns, now - due);
                }
            }
            if now >= until && lines.iter().all(|line| line.due.is_empty()) {
                break;
            }
            let is_late = now >= until + PATIENCE;
            ensure(!is_late, || "Redis does not answer".to_owned())?;
            while let Some(due) = schedule.peek(started).filter(|due| *due <= now && *due < until) {
                let free = (0..lines.len()).map(|step| (turn + step) % lines.len());
                let mut free = free.filter(|line| lines[*line].due.len() < BATCHED.streams);
                let Some(line) = free.next() else { break };
                turn = line + 1;
                self.call(keys.next(), &mut lines[line].out);
                lines[line].due.push_back(due);
                schedule.advance();
            }
            for line in &mut lines {
                line.write_some().map_err(broken())?;
            }
        }
        Ok(latency(&times_ns))
    }

    fn connect(&self) -> Result<Line, Error> {
        Line::connect(self.server.address()).map_err(broken())
    }

    fn call(&self, key: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        let prefix = self.prefix;
        // Writing to memory cannot fail.
        let _ = write!(out, "${}\r\n{prefix}:{key}\r\n", prefix.len() + 1 + key.len());
        out.extend_from_slice(&self.tail);
    }
}

fn push_word(out: &mut Vec<u8>, word: &str) {
    // Writing to memory cannot fail.
    let _ = write!(out, "${}\r\n{word}\r\n", word.len());
}

/// Returns the error of a broken connection.
fn broken() -> impl FnOnce(io::Error) -> Error {
    Error::io(Path::new("the connection to Redis"))
}

fn histogram() -> Result<Histogram<u64>, Error> {
    Histogram::new_with_max(MAX_LATENCY_NS, 3).map_err(|error| Error::Wrong(error.to_string()))
}

fn record(times_ns: &mut Histogram<u64>, time: Duration) {
    times_ns.saturating_record(time.as_nanos() as u64);
}

fn latency(times_ns: &Histogram<u64>) -> Latency {
    let at = |quantile| times_ns.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        count: times_ns.len(),
        mean_us: times_ns.mean() / 1e3,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: times_ns.max() as f64 / 1e3,
    }
}
