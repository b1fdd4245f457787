//! Random vectors from fixed seeds.

use tidegate_core::{Algorithm, LeakyMode, Limit, Micros, NEVER_US};
use tidegate_testkit::schedule::{Advance, Amount, Scale};
use tidegate_testkit::vector::{Recorder, Vector};

use super::START;

/// The `SplitMix64` generator. Its numbers are part of the vector files, so it must not change with a
/// library.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn sign(&mut self) -> i64 {
        [-1, 0, 1][self.below(3) as usize]
    }

    fn scale(&mut self) -> Scale {
        [Scale::Period, Scale::Drain, Scale::Unit][self.below(3) as usize]
    }

    fn advance(&mut self) -> Advance {
        match self.below(16) {
            0..=5 => Advance::Us(self.below(3)),
            6..=9 => Advance::Sixteenths { parts: 1 + self.below(16), of: self.scale() },
            10..=11 => Advance::ToEdge { plus: self.sign() },
            12..=14 => Advance::ToRetry { plus: self.sign() },
            _ => Advance::Sixteenths { parts: 16 * self.below(5), of: self.scale() },
        }
    }

    fn clock_step(&mut self) -> Advance {
        match self.below(3) {
            0 => Advance::Back { parts: 0, of: Scale::Unit, us: 1 + self.below(3) },
            1 => Advance::Back { parts: 1 + self.below(40), of: self.scale(), us: self.below(2) },
            _ => Advance::Us(self.below(1 << 46)),
        }
    }

    fn amount(&mut self) -> Amount {
        match self.below(8) {
            0..=2 => Amount::Units(1),
            3 => Amount::Units(self.below(6)),
            4..=5 => Amount::Remaining { plus: self.sign() },
            6 => Amount::Sixteenths(1 + self.below(15)),
            _ => Amount::Burst { plus: self.sign() },
        }
    }
}

/// A random walk over a limit. The sum of cost and limit stays below 2^53.
pub(super) fn walk(name: &str, limit: &Limit, dice: &mut Dice, clock_steps: bool) -> Vector {
    const STEPS: usize = 24;
    let queue = matches!(limit.algorithm(), Algorithm::LeakyBucket { mode: LeakyMode::Queue, .. });
    let mut recorder = Recorder::new(name, limit, START);
    let mut retry_at = START;
    for _ in 0..STEPS {
        let stepping = clock_steps && dice.below(5) == 0;
        let advance = if stepping { dice.clock_step() } else { dice.advance() };
        let now = advance.from(limit, recorder.now(), retry_at).min(Micros(1 << 52));
        let remaining = recorder.last().map_or(limit.burst(), |verdict| verdict.remaining);
        let cost = dice.amount().units(limit, remaining);
        recorder = recorder.at(now);
        recorder = match dice.below(16) {
            0..=2 => recorder.refund(cost),
            3 => recorder.take(cost),
            4 => recorder.peek(),
            5..=12 if queue => recorder.hold(cost),
            _ => recorder.charge(cost),
        };
        let retry_us = recorder.last().and_then(|verdict| verdict.retry_after_us());
        if let Some(retry_us) = retry_us.filter(|us| *us != NEVER_US) {
            retry_at = now.plus(retry_us);
        }
    }
    recorder.finish()
}
