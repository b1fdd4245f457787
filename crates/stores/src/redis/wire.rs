//! A batch as a call of the script.

use std::fmt::Write;

use redis::Cmd;
use rmp::encode::{write_array_len, write_nil, write_str_len, write_uint};
use tidegate_core::{Algorithm, Limit, MAX_COUNT, Micros, Window};

use super::batch::{Asked, Batch, Counter, Wanted};
use super::script::{CODE, HASH, Kind};
use crate::charge::Force;

/// A call of the script, and the counters in the order it answers them.
pub(super) struct Call {
    pub(super) command: Cmd,
    pub(super) wire: Vec<u32>,
}

/// How a call is put together.
pub(super) struct Form<'a> {
    /// What the names of all keys begin with.
    pub(super) prefix: &'a str,
    /// The time to settle by, if not the server's own.
    pub(super) now: Option<Micros>,
    /// About what time it is for the server.
    pub(super) about: Micros,
    /// Whether the whole script goes along, because the server does not know it.
    pub(super) whole: bool,
    /// Whether a call may touch hashes of one part only.
    pub(super) apart: bool,
}

/// Hashes of one kind and window on one server, if they need not be on several.
const HASHES: u32 = 16;

/// Writing to memory cannot fail.
const INFALLIBLE: &str = "memory takes every byte";

impl Form<'_> {
    pub(super) fn call(&self, batch: &Batch) -> Call {
        let classes = classes(&batch.limits);
        let place = |counter: &Counter| {
            let small = Kind::of(batch.limit(counter).algorithm()).is_small();
            (!small, if small { self.hash(counter) } else { counter.part }, classes[counter.limit as usize])
        };
        let mut wire: Vec<u32> = (0..batch.counters.len() as u32).collect();
        wire.sort_by_key(|counter| place(&batch.counters[*counter as usize]));
        // Hashes and how many of their fields are touched, then a key for each large counter.
        let (mut names, mut hashes): (Vec<String>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut last = None;
        for counter in &wire {
            let counter = &batch.counters[*counter as usize];
            let at = place(counter);
            match hashes.last_mut() {
                Some(fields) if last == Some(at) && !at.0 => *fields += 1,
                _ => {
                    names.push(self.name(batch.limit(counter), counter));
                    if !at.0 {
                        hashes.push(1);
                    }
                }
            }
            last = Some(at);
        }
        let mut command = redis::cmd(if self.whole { "EVAL" } else { "EVALSHA" });
        command.arg(if self.whole { CODE.as_str() } else { HASH.as_str() });
        command.arg(names.len());
        for name in &names {
            command.arg(name);
        }
        command.arg(self.arguments(batch, &wire, &hashes));
        let smalls = hashes.iter().sum::<u32>() as usize;
        for counter in &wire[..smalls] {
            command.arg(field(&batch.counters[*counter as usize]).as_slice());
        }
        Call { command, wire }
    }

    /// The number of the hash that holds a small counter. Each hash that a call touches costs it two
    /// commands, so where it may touch all of them, there are few.
    fn hash(&self, counter: &Counter) -> u32 {
        if self.apart { counter.part } else { counter.part % HASHES }
    }

    /// The name of the hash that holds a small counter, or of a large counter's own key. Counters of the
    /// same kind and window share hashes, so that what is found in one can be told to be dead.
    fn name(&self, limit: &Limit, counter: &Counter) -> String {
        let kind = Kind::of(limit.algorithm());
        let part = if kind.is_small() { self.hash(counter) } else { counter.part };
        let mut name = format!("{}:{{{part}}}:{}", self.prefix, kind.letter());
        // Writing to a string cannot fail.
        let _ = match limit.window() {
            Window::Period { us } => write!(name, "{us}"),
            Window::Calendar(calendar) => write!(name, "{}/{}", calendar.unit(), calendar.zone_name()),
        };
        if let Algorithm::SubWindows { buckets } = limit.algorithm() {
            let _ = write!(name, "/{buckets}");
        }
        if !kind.is_small() {
            let _ = write!(name, ":{:016x}{:016x}", counter.key.home, counter.key.mark);
        }
        name
    }

    fn arguments(&self, batch: &Batch, wire: &[u32], hashes: &[u32]) -> Vec<u8> {
        // The script numbers counters as they go over the wire, from 1.
        let mut number = vec![0; wire.len()];
        for (index, counter) in wire.iter().enumerate() {
            number[*counter as usize] = index as u64 + 1;
        }
        let smalls = hashes.iter().sum::<u32>() as usize;
        let counters = || wire.iter().map(|counter| &batch.counters[*counter as usize]);
        let wanted = batch.wanted();
        let usual = wanted.usual(wire.len(), smalls);
        let Wanted { singles, several, refunds, overruns, slots } = wanted;
        let mut out = Packer(Vec::with_capacity(64 + 16 * wire.len()));
        out.list(if overruns.is_empty() { 10 } else { 11 });
        match self.now {
            Some(now) => out.number(now.0),
            None => out.nothing(),
        }
        out.list(batch.limits.len());
        for limit in &batch.limits {
            self.limit(limit, &mut out);
        }
        out.numbers(hashes.iter().map(|fields| u64::from(*fields)));
        out.numbers(counters().map(|counter| u64::from(counter.limit) + 1));
        out.numbers(counters().skip(smalls).map(|counter| counter.asked));
        if let Some(usual) = usual {
            for _ in 0..4 {
                out.list(0);
            }
            let charge = |counter: &u32| usual[*counter as usize];
            out.numbers(wire.iter().map(charge).flat_map(|(cost, times)| [cost, u64::from(times)]));
            return out.0;
        }
        out.numbers(singles.iter().flat_map(|(counter, cost, mode, times)| {
            [number[*counter as usize], *cost, u64::from(*mode), u64::from(*times)]
        }));
        out.list(several.len());
        for asked in several {
            out.list(5 * asked.len());
            for asked in asked {
                out.charge(number[asked.counter as usize], asked, batch.mode(asked));
            }
        }
        out.numbers(refunds.iter().flat_map(|(counter, cost, taken_at, clear_at)| {
            [number[*counter as usize], *cost, *taken_at, *clear_at]
        }));
        out.list(3 * slots.len());
        for (counter, lease, release) in slots {
            out.number(number[counter as usize]);
            out.bytes(&lease.to_be_bytes());
            out.number(u64::from(release));
        }
        out.nothing();
        if !overruns.is_empty() {
            out.numbers(overruns.iter().flat_map(|(counter, cost)| [number[*counter as usize], *cost]));
        }
        out.0
    }

    fn limit(&self, limit: &Limit, out: &mut Packer) {
        let head = [Kind::of(limit.algorithm()) as u64, limit.requests(), limit.period_us()];
        match (limit.algorithm(), limit.window()) {
            (Algorithm::FixedWindow, Window::Calendar(calendar)) => {
                let current = calendar.span(self.about);
                let previous = calendar.span(Micros(current.start.0.saturating_sub(1)));
                let next = calendar.span(current.end);
                out.list(4);
                for number in head {
                    out.number(number);
                }
                out.numbers([previous.start, current.start, current.end, next.end].map(|at| at.0));
            }
            (Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, _) => {
                let trace = u64::from(limit.burst_trace());
                // What the bucket holds, if whatever is added to it stays exact in Lua, and it drains.
                let holds = limit.burst().checked_mul(limit.period_us());
                let holds =
                    holds.filter(|holds| *holds < MAX_COUNT / 2 && limit.requests() > 0 && !limit.queues());
                let numbers = [limit.burst(), trace, u64::from(limit.queues())];
                out.numbers(head.into_iter().chain(numbers).chain(holds));
            }
            (Algorithm::SubWindows { buckets }, _) => {
                // As in the fresh state: none shorter than a microsecond.
                out.numbers(head.into_iter().chain([u64::from(buckets).min(limit.period_us())]));
            }
            _ => out.numbers(head),
        }
    }
}

/// Of each limit, the first that keeps its counters in the same hashes.
fn classes(limits: &[Limit]) -> Vec<usize> {
    let same = |one: &Limit, two: &Limit| {
        Kind::of(one.algorithm()) == Kind::of(two.algorithm()) && one.window() == two.window()
    };
    limits
        .iter()
        .map(|limit| limits.iter().position(|first| same(first, limit)).unwrap_or_default())
        .collect()
}

fn field(counter: &Counter) -> [u8; 16] {
    (u128::from(counter.key.home) << 64 | u128::from(counter.key.mark)).to_be_bytes()
}

/// `MessagePack`, which the script's host reads in one call.
struct Packer(Vec<u8>);

impl Packer {
    fn nothing(&mut self) {
        write_nil(&mut self.0).expect(INFALLIBLE);
    }

    fn list(&mut self, length: usize) {
        write_array_len(&mut self.0, length as u32).expect(INFALLIBLE);
    }

    fn number(&mut self, number: u64) {
        write_uint(&mut self.0, number).expect(INFALLIBLE);
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let numbers: Vec<_> = numbers.into_iter().collect();
        self.list(numbers.len());
        for number in numbers {
            self.number(number);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        write_str_len(&mut self.0, bytes.len() as u32).expect(INFALLIBLE);
        self.0.extend_from_slice(bytes);
    }

    fn charge(&mut self, counter: u64, asked: &Asked, mode: u8) {
        let force = match asked.force {
            Force::Enforced => 0,
            Force::Shadow => 1,
            Force::Quota => 2,
        };
        for number in [counter, asked.cost.min(MAX_COUNT), u64::from(mode), force] {
            self.number(number);
        }
        self.bytes(&asked.lease.to_be_bytes());
    }
}
