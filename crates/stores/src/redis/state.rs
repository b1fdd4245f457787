//! Parses counters as the script returns them.

use redis::Value;
use tidegate_core::algorithm::{arrival, concurrency, fixed_window, sliding_log, sliding_window};
use tidegate_core::{Limit, Micros, State};

use super::script::Kind;

/// Parses a counter of `limit` as returned by the script; `None` if it is not a value that the script writes.
pub(super) fn read(limit: &Limit, found: &Value) -> Option<State> {
    match (Kind::of(limit.algorithm()), found) {
        (_, Value::Nil) => Some(limit.fresh()),
        (Kind::FixedWindow, Value::BulkString(bytes)) => {
            let mut bytes = Reader(bytes);
            let state = fixed_window::State { end: Micros(bytes.number(7)?), count: bytes.number(7)? };
            bytes.end(State::FixedWindow(state))
        }
        (Kind::SlidingWindow, Value::BulkString(bytes)) => {
            let mut bytes = Reader(bytes);
            let start = Micros(bytes.number(7)?);
            let (current, previous) = (bytes.number(7)?, bytes.number(7)?);
            bytes.end(State::SlidingWindow(sliding_window::State { start, current, previous }))
        }
        (Kind::Bucket, Value::BulkString(bytes)) => bucket(bytes),
        (Kind::SubWindows, Value::Array(fields)) => ring(limit, fields),
        (Kind::SlidingLog, Value::Array(numbers)) => log(numbers),
        (Kind::Concurrency, Value::Array(fields)) => leases(fields),
        _ => None,
    }
}

/// Reads big-endian numbers, one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self, length: usize) -> Option<u64> {
        let (digits, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit)))
    }

    fn end<T>(&self, read: T) -> Option<T> {
        self.0.is_empty().then_some(read)
    }
}

/// Parses a bucket. The script stores the debt and its time; a state stores when the debt will be paid.
fn bucket(bytes: &[u8]) -> Option<State> {
    const NARROW_BYTES: usize = 23;
    const LOW_BITS: u32 = 52;
    let narrow = bytes.len() == NARROW_BYTES;
    let mut bytes = Reader(bytes);
    let written = bytes.number(7)?;
    let high = if narrow { 0 } else { u128::from(bytes.number(7)?) << LOW_BITS };
    let debt = high + u128::from(bytes.number(7)?);
    let (scale, burst_trace) = (bytes.number(7)?, bytes.number(2)? as u16);
    let (us, part) = match u128::from(scale) {
        0 => (0, 0),
        scale => ((debt / scale) as u64, (debt % scale) as u64),
    };
    bytes.end(State::Arrival(arrival::State { at: Micros(written).plus(us), part, scale, burst_trace }))
}

fn ring(limit: &Limit, fields: &[Value]) -> Option<State> {
    let State::SubWindows(mut state) = limit.fresh() else { return None };
    for field in fields.chunks_exact(2) {
        let count = decimal(&field[1])?;
        if bytes(&field[0])? == b"n" {
            state.newest = count;
        } else {
            *state.counts.get_mut(usize::try_from(decimal(&field[0])?).ok()?)? = count;
            state.total = state.total.checked_add(count)?;
        }
    }
    Some(State::SubWindows(state))
}

/// Parses a sliding log: the total, the time of the newest stamp, then times and costs of as many of the oldest as
/// matter. The rest of the total is assigned to the newest time.
fn log(numbers: &[Value]) -> Option<State> {
    let mut numbers = numbers.iter().map(decimal);
    let (total, newest) = (numbers.next()??, Micros(numbers.next()??));
    let mut state = sliding_log::State::default();
    let mut listed: u64 = 0;
    while let Some(at) = numbers.next() {
        let stamp = sliding_log::Stamp { at: Micros(at?), cost: numbers.next()?? };
        listed = listed.checked_add(stamp.cost)?;
        state.stamps.push_back(stamp);
    }
    // Sums of overruns may exceed 2^53, where Lua rounds: a log holds at least what it lists.
    state.total = total.max(listed);
    let rest = state.total - listed;
    match state.stamps.back_mut() {
        Some(stamp) if stamp.at == newest => stamp.cost += rest,
        _ if rest > 0 => state.stamps.push_back(sliding_log::Stamp { at: newest, cost: rest }),
        // The newest stamp is among the listed ones.
        _ => {}
    }
    Some(State::SlidingLog(state))
}

fn leases(fields: &[Value]) -> Option<State> {
    let lease = |field: &[Value]| {
        let id = u64::from_be_bytes(bytes(&field[0])?.try_into().ok()?);
        let mut value = Reader(bytes(&field[1])?);
        let (expires, cost) = (Micros(value.number(7)?), value.number(7)?);
        value.end(concurrency::Lease { id, cost, expires })
    };
    let leases = fields.chunks_exact(2).map(lease).collect::<Option<_>>()?;
    Some(State::Concurrency(concurrency::State { leases }))
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn decimal(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(digits) => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}
