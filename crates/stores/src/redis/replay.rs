//! Going through a batch once more, from the states the script found, to learn every verdict.

use tidegate_core::algorithm::concurrency;
use tidegate_core::{Limit, Micros, State, Verdict};

use super::batch::Asked;
use crate::charge::{Intent, Verdicts, blocked_by};

/// Counters as they stood when the script ran, and what the requests before made of them.
pub(super) struct Replay<'a> {
    pub(super) limits: &'a [Limit],
    /// The limit of each counter.
    pub(super) limit_of: &'a [u32],
    pub(super) states: Vec<State>,
    pub(super) now: Micros,
}

impl Replay<'_> {
    /// Settles a request, as the script did.
    pub(super) fn settle(&mut self, asked: &[Asked], intent: Intent) -> Verdicts {
        match asked {
            [only] if intent == Intent::Take && !only.count_denied => {
                let verdict = self.settle_one(only);
                std::iter::once(verdict).collect()
            }
            _ => self.settle_several(asked, intent),
        }
    }

    /// What each limit says as it stands.
    pub(super) fn peek(&self, asked: &[Asked]) -> Verdicts {
        asked.iter().map(|asked| self.assess(asked, 0)).collect()
    }

    fn settle_one(&mut self, asked: &Asked) -> Verdict {
        let verdict = self.assess(asked, asked.cost);
        if asked.cost > 0 {
            if verdict.allowed() {
                self.take(asked);
            } else {
                self.carry_on(asked);
            }
        }
        verdict
    }

    fn settle_several(&mut self, asked: &[Asked], intent: Intent) -> Verdicts {
        let verdicts = self.assess_all(asked);
        let blocked = blocked_by(asked.iter().map(|asked| asked.force), &verdicts);
        if intent == Intent::Take {
            for (asked, verdict) in asked.iter().zip(&verdicts).filter(|(asked, _)| asked.cost > 0) {
                if asked.count_denied || verdict.allowed() && !blocked {
                    self.take(asked);
                } else if !self.assess(asked, asked.cost).allowed() {
                    self.carry_on(asked);
                }
            }
        }
        let answer = |(asked, verdict): (&Asked, &Verdict)| {
            let taken = intent == Intent::Take && asked.count_denied && asked.cost > 0;
            if taken && !verdict.allowed() {
                let again = self.assess(asked, asked.cost);
                if !again.allowed() {
                    return again;
                }
            }
            if blocked || taken && !verdict.allowed() {
                return Verdict { outcome: verdict.outcome, ..self.assess(asked, 0) };
            }
            *verdict
        };
        asked.iter().zip(&verdicts).map(answer).collect()
    }

    /// Assesses each charge as if those before it had been taken, and leaves everything as it was.
    fn assess_all(&mut self, asked: &[Asked]) -> Verdicts {
        let state = |asked: &Asked| self.states[asked.counter as usize].clone();
        let before: Vec<_> = asked.iter().map(state).collect();
        let assess = |asked: &Asked| {
            let verdict = self.assess(asked, asked.cost);
            if asked.cost > 0 && (verdict.allowed() || asked.count_denied) {
                self.take(asked);
            }
            verdict
        };
        let verdicts = asked.iter().map(assess).collect();
        for (asked, state) in asked.iter().zip(before) {
            self.states[asked.counter as usize] = state;
        }
        verdicts
    }

    fn limit(&self, asked: &Asked) -> &Limit {
        &self.limits[self.limit_of[asked.counter as usize] as usize]
    }

    fn assess(&self, asked: &Asked, cost: u64) -> Verdict {
        self.limit(asked).assess(&self.states[asked.counter as usize], cost, self.now, asked.hold)
    }

    fn take(&mut self, asked: &Asked) {
        let limit = &self.limits[self.limit_of[asked.counter as usize] as usize];
        match &mut self.states[asked.counter as usize] {
            State::Concurrency(leases) => {
                concurrency::acquire(limit, leases, asked.lease, asked.cost, self.now);
            }
            state => limit.take(state, asked.cost, self.now),
        }
    }

    fn carry_on(&mut self, asked: &Asked) {
        let limit = &self.limits[self.limit_of[asked.counter as usize] as usize];
        limit.carry_on(&mut self.states[asked.counter as usize], self.now);
    }
}
