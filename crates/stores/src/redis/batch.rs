//! Requests that go to a server together.

use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use redis::Value;
use tidegate_core::{Key, Limit, MAX_COUNT, Micros, State, Taken};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::replay::Replay;
use super::routes::part_of;
use super::script::Kind;
use super::state;
use crate::charge::{Charge, Correction, Force, Intent, Verdicts};
use crate::error::StoreError;

/// Counters of one batch; more go into the next.
const MOST_COUNTERS: usize = 512;

/// One charge, of a counter of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) counter: u32,
    pub(super) cost: u64,
    pub(super) force: Force,
    pub(super) hold: bool,
    pub(super) count_denied: bool,
    pub(super) lease: u64,
}

/// What a request wants done with its charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// All of them taken, or none.
    Settle(Intent),
    /// The same for a part of a request whose other charges are settled elsewhere.
    SettlePart(Intent),
    /// Given back, to the window they were taken in if that is said.
    GiveBack { taken_at: Option<Micros> },
    /// Put right, each for itself.
    Correct(Correction),
    /// A slot's time-out started anew.
    Renew,
    /// A slot returned.
    Release,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Of charges.
    Settled(Verdicts),
    /// Of charges that are part of a request.
    Part(SettledPart),
    /// Of a slot: whether it was held.
    Slot(bool),
    /// Of a refund.
    GivenBack,
}

/// What became of some of a request's charges.
#[derive(Clone, Debug)]
pub(super) struct SettledPart {
    pub(super) verdicts: Verdicts,
    /// What each limit said before.
    pub(super) before: Verdicts,
    /// When it was, by the server's time.
    pub(super) now: Micros,
}

/// Whoever waits for an answer.
pub(super) type Waiter = oneshot::Sender<Result<Answer, StoreError>>;

struct Request {
    wish: Wish,
    asked: Range<u32>,
    arrived: Instant,
    waiter: Option<Waiter>,
}

/// A counter, and where it lives.
pub(super) struct Counter {
    pub(super) key: Key,
    pub(super) part: u32,
    pub(super) limit: u32,
    /// The most that may be asked of it in this batch.
    pub(super) asked: u64,
}

/// Requests and the counters they are about, each counter once.
pub(super) struct Batch {
    /// How many parts there are.
    parts: u32,
    pub(super) limits: Vec<Limit>,
    pub(super) counters: Vec<Counter>,
    by_key: HashMap<Key, u32, RandomState>,
    asked: Vec<Asked>,
    requests: Vec<Request>,
}

/// What is to be done, in the words of the script.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    /// Counter, cost, mode, how often.
    pub(super) singles: Vec<(u32, u64, u8, u32)>,
    pub(super) several: Vec<&'a [Asked]>,
    pub(super) refunds: Vec<Refund>,
    /// Counter, cost.
    pub(super) overruns: Vec<(u32, u64)>,
    /// Counter, lease, whether it is a release.
    pub(super) slots: Vec<(u32, u64, bool)>,
}

/// Counter, cost, when it was taken, when the limit would have been untouched again.
type Refund = (u32, u64, u64, u64);

impl Wanted<'_> {
    /// The cost of each counter's charge and how often, if there is nothing else, and all of it in the
    /// usual way.
    pub(super) fn usual(&self, counters: usize, smalls: usize) -> Option<Vec<(u64, u32)>> {
        let others = !self.several.is_empty()
            || !self.refunds.is_empty()
            || !self.overruns.is_empty()
            || !self.slots.is_empty();
        if others || counters != smalls || self.singles.len() != counters {
            return None;
        }
        let mut usual = vec![(0, 0); counters];
        for (counter, cost, mode, times) in &self.singles {
            let slot = &mut usual[*counter as usize];
            if *mode != 0 || *cost == 0 || slot.1 > 0 {
                return None;
            }
            *slot = (*cost, *times);
        }
        Some(usual)
    }
}

impl Batch {
    pub(super) fn new(parts: u32) -> Self {
        Self {
            parts,
            limits: Vec::new(),
            counters: Vec::new(),
            by_key: HashMap::default(),
            asked: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Adds a request, if it goes with those that are here: else hands the waiter back, and the request
    /// belongs in the next batch.
    pub(super) fn push(
        &mut self,
        charges: &[Charge<'_>],
        wish: Wish,
        arrived: Instant,
        waiter: Option<Waiter>,
    ) -> Result<(), Option<Waiter>> {
        let fresh = self.requests.is_empty();
        let full = self.counters.len() + charges.len() > MOST_COUNTERS;
        if !fresh && (full || charges.iter().any(|charge| self.clashes(charge))) {
            return Err(waiter);
        }
        let first = self.asked.len() as u32;
        for charge in charges {
            let counter = self.counter(charge);
            // The script counts to there; what is more never fits, and is told so by its mode.
            let cost = charge.cost.min(MAX_COUNT);
            let entry = &mut self.counters[counter as usize];
            if charge.cost <= charge.limit.burst() {
                // What is taken even if denied is asked for once more afterwards, to say when it fits.
                let asked = if charge.count_denied { 2 * cost } else { cost };
                entry.asked = entry.asked.saturating_add(asked).min(MAX_COUNT);
            }
            let Charge { force, hold, count_denied, lease, .. } = *charge;
            self.asked.push(Asked { counter, cost: charge.cost, force, hold, count_denied, lease });
        }
        let asked = first..self.asked.len() as u32;
        self.requests.push(Request { wish, asked, arrived, waiter });
        Ok(())
    }

    /// Whether the counter is here under other numbers, as when rules change: the script holds a counter
    /// against one limit at a time.
    fn clashes(&self, charge: &Charge<'_>) -> bool {
        let limit = |counter: &u32| &self.limits[self.counters[*counter as usize].limit as usize];
        self.by_key.get(&charge.key).is_some_and(|counter| limit(counter) != charge.limit)
    }

    fn counter(&mut self, charge: &Charge<'_>) -> u32 {
        if let Some(counter) = self.by_key.get(&charge.key) {
            return *counter;
        }
        let known = self.limits.iter().position(|limit| limit == charge.limit);
        let limit = known.unwrap_or_else(|| {
            self.limits.push(charge.limit.clone());
            self.limits.len() - 1
        }) as u32;
        let counter = self.counters.len() as u32;
        let part = part_of(charge.part, self.parts);
        self.counters.push(Counter { key: charge.key, part, limit, asked: 0 });
        self.by_key.insert(charge.key, counter);
        counter
    }

    pub(super) fn limit(&self, counter: &Counter) -> &Limit {
        &self.limits[counter.limit as usize]
    }

    /// When the request that has waited longest arrived.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.requests.first().map(|request| request.arrived)
    }

    /// What the script is to do.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        let mut wanted = Wanted::default();
        // The last single of each counter, to be done once more if the next is the same.
        let mut last = vec![usize::MAX; self.counters.len()];
        for request in &self.requests {
            let asked = self.asked_of(request);
            match request.wish {
                Wish::Settle(Intent::Look)
                | Wish::SettlePart(Intent::Look)
                | Wish::Correct(Correction::Look) => {}
                Wish::Settle(Intent::Take) | Wish::SettlePart(Intent::Take) => match asked {
                    [only] if self.is_single(asked) => {
                        let (cost, mode) = (only.cost.min(MAX_COUNT), self.mode(only));
                        let last = &mut last[only.counter as usize];
                        match wanted.singles.get_mut(*last) {
                            Some(single) if (single.1, single.2) == (cost, mode) => single.3 += 1,
                            _ => {
                                *last = wanted.singles.len();
                                wanted.singles.push((only.counter, cost, mode, 1));
                            }
                        }
                    }
                    several => wanted.several.push(several),
                },
                Wish::GiveBack { taken_at } => {
                    let taken_at = taken_at.map_or(0, |at| at.0);
                    wanted.refunds.extend(asked.iter().flat_map(|it| self.refunds(it, taken_at, 0)));
                }
                Wish::Correct(Correction::GiveBack(Taken { at, clear_at })) => {
                    // 0 would say that it is not known, and a limit that was untouched has nothing to give.
                    let (at, clear_at) = (at.0.max(1), clear_at.0.max(1));
                    wanted.refunds.extend(asked.iter().flat_map(|it| self.refunds(it, at, clear_at)));
                }
                Wish::Correct(Correction::Overdraw) => {
                    let overrun = |it: &Asked| (it.counter, it.cost.min(MAX_COUNT));
                    wanted.overruns.extend(asked.iter().map(overrun));
                }
                Wish::Renew | Wish::Release => {
                    let release = request.wish == Wish::Release;
                    wanted.slots.extend(asked.iter().map(|it| (it.counter, it.lease, release)));
                }
            }
        }
        wanted
    }

    /// A refund in amounts that the script has numbers for: windows that slide hold up to twice the most, the
    /// others up to the most.
    fn refunds(&self, it: &Asked, taken_at: u64, clear_at: u64) -> impl Iterator<Item = Refund> + use<> {
        let limit = self.limit(&self.counters[it.counter as usize]);
        let slides = Kind::of(limit.algorithm()) == Kind::SlidingWindow;
        let (counter, first) = (it.counter, it.cost.min(MAX_COUNT));
        let rest = (it.cost - first).min(MAX_COUNT);
        let amounts = [Some(first), Some(rest).filter(|rest| slides && *rest > 0)];
        amounts.into_iter().flatten().map(move |amount| (counter, amount, taken_at, clear_at))
    }

    /// How the script is to take a charge.
    pub(super) fn mode(&self, asked: &Asked) -> u8 {
        let burst = self.limit(&self.counters[asked.counter as usize]).burst();
        u8::from(asked.hold) | u8::from(asked.count_denied) << 1 | u8::from(asked.cost > burst) << 2
    }

    fn asked_of(&self, request: &Request) -> &[Asked] {
        &self.asked[request.asked.start as usize..request.asked.end as usize]
    }

    /// A request of one charge needs no trial. A slot's lease travels with those of several.
    fn is_single(&self, asked: &[Asked]) -> bool {
        let counter = |asked: &Asked| &self.counters[asked.counter as usize];
        let slot = |asked: &Asked| Kind::of(self.limit(counter(asked)).algorithm()) == Kind::Concurrency;
        matches!(asked, [only] if !slot(only))
    }

    /// Tells everybody that it failed.
    pub(super) fn fail(self, error: &StoreError) {
        for waiter in self.requests.into_iter().filter_map(|request| request.waiter) {
            // Whoever has gone does not need to know.
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// Tells everybody what became of their request, by what the script says it found: the time, each
    /// counter in the order of `wire`, then the slots. Returns how many requests found a key that is not a
    /// counter.
    ///
    /// # Errors
    /// If that is not what the script answers; everybody has been told so.
    pub(super) fn conclude(mut self, wire: &[u32], found: &[Value]) -> Result<u64, StoreError> {
        let Some(Found { now, states, foreign, slots }) = self.read(wire, found) else {
            self.fail(&StoreError::Garbled);
            return Err(StoreError::Garbled);
        };
        let mut requests = std::mem::take(&mut self.requests);
        let limit_of: Vec<_> = self.counters.iter().map(|counter| counter.limit).collect();
        let mut replay = Replay { limits: &self.limits, limit_of: &limit_of, states, now };
        let is_foreign = |asked: &[Asked]| asked.iter().any(|asked| foreign[asked.counter as usize]);
        let mut refused = 0;
        // The script has left these alone, all of their counters.
        if foreign.contains(&true) {
            for request in requests.iter_mut().filter(|request| is_foreign(self.asked_of(request))) {
                refused += 1;
                if let Some(waiter) = request.waiter.take() {
                    // Whoever has gone does not need to know.
                    let _ = waiter.send(Err(StoreError::Foreign));
                }
            }
        }
        // The order of the script: those that only look see what was there before.
        for pass in [Pass::Looks, Pass::Singles, Pass::Several] {
            for request in requests.iter_mut().filter(|request| self.pass(request) == Some(pass)) {
                let asked = self.asked_of(request);
                if is_foreign(asked) {
                    continue;
                }
                let answer = match request.wish {
                    Wish::Settle(intent) => Answer::Settled(replay.settle(asked, intent)),
                    Wish::SettlePart(intent) => {
                        let before = replay.peek(asked);
                        Answer::Part(SettledPart { verdicts: replay.settle(asked, intent), before, now })
                    }
                    Wish::Correct(_) => Answer::Settled(replay.peek(asked)),
                    _ => continue,
                };
                tell(request, answer);
            }
        }
        let mut held = slots.iter().map(|slot| *slot == Value::Int(1));
        for request in &mut requests {
            match request.wish {
                Wish::Settle(_) | Wish::SettlePart(_) | Wish::Correct(_) => {}
                Wish::GiveBack { .. } => tell(request, Answer::GivenBack),
                Wish::Renew | Wish::Release => {
                    let slots = request.asked.len();
                    let all = held.by_ref().take(slots).fold(true, |all, held| all & held);
                    tell(request, Answer::Slot(all));
                }
            }
        }
        Ok(refused)
    }

    fn pass(&self, request: &Request) -> Option<Pass> {
        match request.wish {
            Wish::Settle(intent) | Wish::SettlePart(intent) => Some(match intent {
                Intent::Look => Pass::Looks,
                Intent::Take if self.is_single(self.asked_of(request)) => Pass::Singles,
                Intent::Take => Pass::Several,
            }),
            // What was put right before anything was charged is what those see that only look.
            Wish::Correct(_) => Some(Pass::Looks),
            Wish::GiveBack { .. } | Wish::Renew | Wish::Release => None,
        }
    }

    /// Reads what the script says; `None` if it is not of the script's shape in every part.
    fn read<'v>(&self, wire: &[u32], found: &'v [Value]) -> Option<Found<'v>> {
        let (Value::Int(now), found) = found.split_first()? else { return None };
        let (found, slots) = found.split_at_checked(wire.len())?;
        let is_slot = |request: &&Request| matches!(request.wish, Wish::Renew | Wish::Release);
        let expected: usize = self.requests.iter().filter(is_slot).map(|request| request.asked.len()).sum();
        if slots.len() != expected || !slots.iter().all(|slot| matches!(slot, Value::Int(0 | 1))) {
            return None;
        }
        let mut states: Vec<_> = self.counters.iter().map(|counter| self.limit(counter).fresh()).collect();
        let mut foreign = vec![false; states.len()];
        for (counter, value) in wire.iter().zip(found) {
            let counter = *counter as usize;
            if *value == FOREIGN {
                foreign[counter] = true;
            } else {
                states[counter] = state::read(self.limit(&self.counters[counter]), value)?;
            }
        }
        Some(Found { now: Micros(u64::try_from(*now).ok()?), states, foreign, slots })
    }
}

/// What the script says instead of a counter that is none.
const FOREIGN: Value = Value::Int(-1);

/// What the script found.
struct Found<'v> {
    now: Micros,
    /// By counter; a fresh one where there was something foreign.
    states: Vec<State>,
    foreign: Vec<bool>,
    /// Whether each slot was held.
    slots: &'v [Value],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Looks,
    Singles,
    Several,
}

fn tell(request: &mut Request, answer: Answer) {
    if let Some(waiter) = request.waiter.take() {
        // Whoever has gone does not need to know.
        let _ = waiter.send(Ok(answer));
    }
}
