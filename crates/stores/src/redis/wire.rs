//! Encodes a batch as a call of the script.

use redis::Cmd;
use tidegate_core::{Algorithm, Limit, MAX_COUNT, Micros, Taken, Window};

use super::batch::{Batch, BatchCharge, Counter, Operation};
use super::layout::{Layout, field};
use super::packer::Packer;
use super::script::{CODE, HASH, Kind};
use crate::charge::{Correction, Force};

/// A call of the script, and the counters in the order in which the script returns them.
pub(super) struct Call {
    pub(super) command: Cmd,
    pub(super) wire: Vec<u32>,
}

/// Builds calls of the script.
pub(super) struct CallBuilder<'a> {
    pub(super) layout: Layout<'a>,
    /// The time to settle by, instead of the server's own.
    pub(super) now: Option<Micros>,
    /// The approximate time of the server.
    pub(super) server_time: Micros,
    /// Whether calls include the source of the script, because the server does not know it.
    pub(super) with_source: bool,
}

impl CallBuilder<'_> {
    pub(super) fn call(&self, batch: &Batch) -> Call {
        let order = Order::new(&self.layout, batch);
        let mut command = redis::cmd(if self.with_source { "EVAL" } else { "EVALSHA" });
        command.arg(if self.with_source { CODE.as_str() } else { HASH.as_str() });
        command.arg(order.key_names.len());
        for name in &order.key_names {
            command.arg(name);
        }
        command.arg(self.arguments(batch, &order)).arg(requests(batch, &order));
        for counter in order.smalls() {
            command.arg(field(&batch.counters[*counter as usize]).as_slice());
        }
        Call { command, wire: order.wire }
    }

    /// Returns the arguments of the script other than the requests; `prelude.lua` defines their order.
    fn arguments(&self, batch: &Batch, order: &Order) -> Vec<u8> {
        let counters = || order.wire.iter().map(|counter| &batch.counters[*counter as usize]);
        let smalls = order.smalls().len();
        let larges: Vec<_> = counters().skip(smalls).map(|counter| counter.most_asked).collect();
        let corrections = Corrections::of(batch, order);
        let mut out = Packer::with_capacity(64 + 4 * order.wire.len());
        out.list(9);
        match self.now {
            Some(now) => out.number(now.0),
            None => out.nil(),
        }
        out.list(batch.limits.len());
        for limit in &batch.limits {
            self.limit(&limit.limit, &mut out);
        }
        out.numbers(order.hash_sizes.iter().map(|size| u64::from(*size)));
        out.numbers(counters().map(|counter| u64::from(counter.limit) + 1));
        out.numbers(counters().map(|counter| counter.demand));
        for numbers in [&larges, &corrections.refunds, &corrections.overruns] {
            out.numbers_or_nil(numbers);
        }
        if corrections.slots.is_empty() {
            out.nil();
        } else {
            out.list(3 * corrections.slots.len());
        }
        for (counter, lease, is_release) in corrections.slots {
            out.number(counter);
            out.bytes(&lease.to_be_bytes());
            out.number(u64::from(is_release));
        }
        out.into_bytes()
    }

    fn limit(&self, limit: &Limit, out: &mut Packer) {
        let head = [Kind::of(limit.algorithm()) as u64, limit.requests(), limit.period_us()];
        match (limit.algorithm(), limit.window()) {
            (Algorithm::FixedWindow, Window::Calendar(calendar)) => {
                let current = calendar.span(self.server_time);
                let previous = calendar.span(Micros(current.start.0.saturating_sub(1)));
                let next = calendar.span(current.end);
                out.list(4);
                for number in head {
                    out.number(number);
                }
                out.numbers(
                    [previous.start, current.start, current.end, next.end].map(|at| at.0).into_iter(),
                );
            }
            (Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, _) => {
                let trace = u64::from(limit.burst_trace());
                // The capacity of the bucket, if sums stay exact in Lua, and the bucket drains.
                let holds = limit.burst().checked_mul(limit.period_us());
                let holds =
                    holds.filter(|holds| *holds < MAX_COUNT / 2 && limit.requests() > 0 && !limit.queues());
                let numbers = [limit.burst(), trace, u64::from(limit.queues())];
                let numbers: Vec<_> = head.into_iter().chain(numbers).chain(holds).collect();
                out.numbers(numbers.into_iter());
            }
            (Algorithm::SubWindows { buckets }, _) => {
                let [kind, requests, period_us] = head;
                // As in the fresh state: no bucket is shorter than a microsecond.
                out.numbers([kind, requests, period_us, u64::from(buckets).min(period_us)].into_iter());
            }
            _ => out.numbers(head.into_iter()),
        }
    }
}

/// The order of a batch's counters in a call: by hash, then those with their own keys.
struct Order {
    /// The counters in the order of the call.
    wire: Vec<u32>,
    /// The position of each counter in the call, from 1.
    number: Vec<u64>,
    /// The key names of the hashes, then of the large counters.
    key_names: Vec<String>,
    /// The number of counters in each hash.
    hash_sizes: Vec<u32>,
}

impl Order {
    fn new(layout: &Layout<'_>, batch: &Batch) -> Self {
        let position = |number: u32| {
            let counter = &batch.counters[number as usize];
            let limit = &batch.limits[counter.limit as usize];
            (!limit.kind.is_small(), layout.hash(counter, limit.kind), limit.family, number)
        };
        let mut positions: Vec<_> = (0..batch.counters.len() as u32).map(position).collect();
        positions.sort_unstable();
        let mut order = Self {
            wire: Vec::with_capacity(positions.len()),
            number: vec![0; positions.len()],
            key_names: Vec::new(),
            hash_sizes: Vec::new(),
        };
        let mut last = None;
        for (is_large, hash, family, number) in positions {
            let counter = &batch.counters[number as usize];
            let is_same = !is_large && last == Some((hash, family));
            if !is_same {
                order.key_names.push(layout.key_name(batch.limit(counter), counter));
            }
            match order.hash_sizes.last_mut() {
                Some(size) if is_same => *size += 1,
                _ if !is_large => order.hash_sizes.push(1),
                _ => {}
            }
            last = Some((hash, family));
            order.wire.push(number);
            order.number[number as usize] = order.wire.len() as u64;
        }
        order
    }

    /// Returns the small counters in the order of the call.
    fn smalls(&self) -> &[u32] {
        &self.wire[..self.hash_sizes.iter().sum::<u32>() as usize]
    }

    fn number(&self, charge: &BatchCharge) -> u64 {
        self.number[charge.counter as usize]
    }
}

/// Encodes the requests that charge something, in the order of arrival; `requests.lua` defines the encoding.
fn requests(batch: &Batch, order: &Order) -> Vec<u8> {
    let mut out = Packer::with_capacity(8 * batch.requests.len());
    // The length of the list precedes it.
    let mut length = 0;
    for request in batch.requests.iter().filter(|request| request.takes()) {
        let charges = batch.charges_of(request);
        let cost = charges.first().map_or(0, |charge| charge.cost);
        if request.operation == Operation::TakeUpTo {
            for charge in charges {
                out.small_negative(-2);
                out.number(charge.cost);
                out.number(order.number(charge));
                length += 3;
            }
        } else if charges.iter().all(|charge| charge.cost == cost && batch.is_plain(charge)) {
            out.number(cost);
            out.number(charges.len() as u64);
            for charge in charges {
                out.number(order.number(charge));
            }
            length += 2 + charges.len();
        } else {
            out.small_negative(-1);
            out.number(charges.len() as u64);
            for charge in charges {
                out.number(order.number(charge));
                out.number(charge.cost.min(MAX_COUNT));
                out.number(batch.mode(charge));
                out.bytes(&charge.lease.to_be_bytes());
            }
            length += 2 + 4 * charges.len();
        }
    }
    out.into_list(length)
}

impl Batch {
    /// Returns whether a charge is enforced, has no mode, and can be added to others.
    fn is_plain(&self, charge: &BatchCharge) -> bool {
        let counter = &self.counters[charge.counter as usize];
        let limit = self.limit(counter);
        let adds_up = self.kind(counter) != Kind::Concurrency && !limit.queues();
        adds_up && charge.force == Force::Enforced && !charge.count_denied && charge.cost <= limit.burst()
    }

    /// Returns how the script takes a charge: the bits defined in `requests.lua`.
    fn mode(&self, charge: &BatchCharge) -> u64 {
        let burst = self.limit(&self.counters[charge.counter as usize]).burst();
        let force = match charge.force {
            Force::Enforced => 0,
            Force::Shadow => 8,
            Force::Quota => 16,
        };
        u64::from(charge.hold)
            | u64::from(charge.count_denied) << 1
            | u64::from(charge.cost > burst) << 2
            | force
    }
}

/// Corrections, which are applied before anything is charged; `corrections.lua` defines the numbers.
#[derive(Default)]
struct Corrections {
    refunds: Vec<u64>,
    overruns: Vec<u64>,
    /// Counter, lease, and whether it is a release.
    slots: Vec<(u64, u64, bool)>,
}

impl Corrections {
    fn of(batch: &Batch, order: &Order) -> Self {
        let mut corrections = Self::default();
        for request in &batch.requests {
            for charge in batch.charges_of(request) {
                let counter = order.number(charge);
                match request.operation {
                    Operation::Settle(_)
                    | Operation::SettleSome(_)
                    | Operation::TakeUpTo
                    | Operation::Correct(Correction::Look) => {}
                    Operation::GiveBack { taken_at } => {
                        corrections.refund(batch, order, charge, [taken_at.map_or(0, |at| at.0), 0]);
                    }
                    Operation::Correct(Correction::GiveBack(Taken { at, clear_at })) => {
                        // 0 means unknown; a limit that was untouched has nothing to refund.
                        corrections.refund(batch, order, charge, [at.0.max(1), clear_at.0.max(1)]);
                    }
                    Operation::Correct(Correction::Overdraw) => {
                        corrections.overruns.extend([counter, charge.cost.min(MAX_COUNT)]);
                    }
                    Operation::Renew => corrections.slots.push((counter, charge.lease, false)),
                    Operation::Release => corrections.slots.push((counter, charge.lease, true)),
                }
            }
        }
        corrections
    }

    /// Adds a refund, split into amounts that the script can represent: sliding windows hold up to twice the largest
    /// count, the others up to that.
    fn refund(&mut self, batch: &Batch, order: &Order, charge: &BatchCharge, [taken_at, clear_at]: [u64; 2]) {
        let counter: &Counter = &batch.counters[charge.counter as usize];
        let first = charge.cost.min(MAX_COUNT);
        let rest = (charge.cost - first).min(MAX_COUNT);
        self.refunds.extend([order.number(charge), first, taken_at, clear_at]);
        if rest > 0 && batch.kind(counter) == Kind::SlidingWindow {
            self.refunds.extend([order.number(charge), rest, taken_at, clear_at]);
        }
    }
}
