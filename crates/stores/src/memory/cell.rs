//! One key's counter in four words.
//!
//! | word | bits |
//! | --- | --- |
//! | 0 | mark: 64 bits of the key; 0 is an empty cell |
//! | 1 | home: 12 bits of the key; 52 bits: when the counter expires, in microseconds |
//! | 2 | 2 bits kind; 8 bits fill; 54 bits `a` |
//! | 3 | 10 bits trace; 54 bits `b` |
//!
//! Two cells fill a cache line, and a decision touches one of them. Small states are stored in `a`, `b` and the
//! expiry; larger ones are stored in the page, and `b` is their index there.

use tidegate_core::algorithm::token_bucket::Quick;
use tidegate_core::algorithm::{arrival, fixed_window, sliding_window};
use tidegate_core::{Key, Limit, Micros, Outcome, Verdict};

/// A cell; the module documentation has its layout. Aligned, so that no cell crosses a cache line.
#[repr(align(32))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell(pub(super) CellWords);

/// The words of a cell, without its alignment.
pub(super) type CellWords = [u64; 4];

/// The 76 bits of a key that identify its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellKey {
    pub(super) mark: u64,
    pub(super) home: u16,
}

pub(super) const HOME_BITS: u32 = 12;
const EXPIRES_BITS: u32 = 64 - HOME_BITS;
const EXPIRES_MASK: u64 = (1 << EXPIRES_BITS) - 1;
const VALUE_BITS: u32 = 54;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
const FILL_SHIFT: u32 = VALUE_BITS;
const KIND_SHIFT: u32 = 62;

/// The lowest fill at which a limit counts as used up.
const FULL: u8 = 0xf0;

/// How the words of a cell are interpreted, independent of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `a` is the count.
    FixedWindow = 0,
    /// `a` is the current count, `b` the previous one.
    SlidingWindow = 1,
    /// `a` is the part, `b` the scale and trace.
    Arrival = 2,
    /// `b` is the index of the state in the page.
    Large = 3,
}

impl CellKey {
    #[inline]
    pub(super) fn of(key: Key) -> Self {
        // Mark 0 means empty, so that key shares a cell with key 1, with a chance of one in 2^64.
        Self { mark: key.mark.max(1), home: (key.home >> EXPIRES_BITS) as u16 }
    }

    /// Returns the kept bits of `home`, at their position in the key.
    #[inline]
    pub(super) fn leading_home(self) -> u64 {
        u64::from(self.home) << EXPIRES_BITS
    }
}

impl Cell {
    pub(super) const EMPTY: Self = Self([0; 4]);

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    #[inline]
    pub(super) fn is_of(&self, key: CellKey) -> bool {
        self.0[0] == key.mark && (self.0[1] >> EXPIRES_BITS) as u16 == key.home
    }

    #[inline]
    pub(super) fn mark(&self) -> u64 {
        self.0[0]
    }

    pub(super) fn key(&self) -> CellKey {
        CellKey { mark: self.0[0], home: (self.0[1] >> EXPIRES_BITS) as u16 }
    }

    #[inline]
    pub(super) fn expires(&self) -> Micros {
        Micros(self.0[1] & EXPIRES_MASK)
    }

    /// Returns whether the counter has expired. A bucket drains within its last microsecond.
    #[inline]
    pub(super) fn expired(&self, now: Micros) -> bool {
        self.expires() < now
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        match self.0[2] >> KIND_SHIFT {
            0 => Kind::FixedWindow,
            1 => Kind::SlidingWindow,
            2 => Kind::Arrival,
            _ => Kind::Large,
        }
    }

    /// Returns how full the limit was when last charged, from 0 to 255.
    pub(super) fn fill(&self) -> u8 {
        (self.0[2] >> FILL_SHIFT) as u8
    }

    /// Returns whether the limit was used up when last charged, and the counter has not expired.
    pub(super) fn at_limit(&self, now: Micros) -> bool {
        !self.expired(now) && self.fill() >= FULL
    }

    /// Returns the eviction order of the cell: expired cells come first, then the emptiest, then the first to expire.
    pub(super) fn weight(&self, now: Micros) -> (bool, u8, Micros) {
        (!self.expired(now), self.fill(), self.expires())
    }

    #[inline]
    pub(super) fn a(&self) -> u64 {
        self.0[2] & VALUE_MASK
    }

    #[inline]
    pub(super) fn b(&self) -> u64 {
        self.0[3] & VALUE_MASK
    }

    #[inline]
    pub(super) fn trace(&self) -> u16 {
        (self.0[3] >> VALUE_BITS) as u16
    }

    #[inline]
    pub(super) fn new(key: CellKey, kind: Kind, fill: u8, expires: Micros, values: (u64, u64, u16)) -> Self {
        let (a, b, trace) = values;
        debug_assert!(a <= VALUE_MASK && b <= VALUE_MASK && u64::from(trace) < 1 << (64 - VALUE_BITS));
        debug_assert!(trace == 0 || kind == Kind::Arrival);
        Self([
            key.mark,
            u64::from(key.home) << EXPIRES_BITS | expires.0.min(EXPIRES_MASK),
            (kind as u64) << KIND_SHIFT | u64::from(fill) << FILL_SHIFT | a,
            u64::from(trace) << VALUE_BITS | b,
        ])
    }

    /// Creates the cell of a counter whose state is too large for it. `index` is the index of the state in the page.
    #[inline]
    pub(super) fn large(key: CellKey, fill: u8, expires: Micros, index: u64) -> Self {
        Self::new(key, Kind::Large, fill, expires, (0, index, 0))
    }

    /// Returns the state of a token or leaky bucket, which expires when it has drained.
    #[inline]
    pub(super) fn arrival(&self) -> arrival::State {
        arrival::State { at: self.expires(), part: self.a(), scale: self.b(), burst_trace: self.trace() }
    }

    #[inline]
    pub(super) fn of_arrival(key: CellKey, fill: u8, state: &arrival::State) -> Self {
        Self::new(key, Kind::Arrival, fill, state.at, (state.part, state.scale, state.burst_trace))
    }

    /// Returns whether this is a bucket that was last charged under these numbers. Only buckets have a trace, and
    /// every bucket has one, so the last word also identifies the kind.
    #[inline]
    fn is_bucket_of(&self, quick: Quick<'_>) -> bool {
        let is = self.0[3] == quick.imprint();
        debug_assert!(!is || self.kind() == Kind::Arrival);
        is
    }

    /// Takes `cost` from a bucket that was last charged under the same limit, if it fits. Returns `None` and changes
    /// nothing if the cell holds something else or the cost does not fit.
    #[expect(clippy::inline_always, reason = "nearly every decision comes here")]
    #[inline(always)]
    pub(super) fn take_bucket(
        &mut self,
        limit: &Limit,
        quick: Quick<'_>,
        cost: u64,
        now: Micros,
    ) -> Option<Verdict> {
        if !self.is_bucket_of(quick) {
            return None;
        }
        let taken = quick.take(self.expires(), self.a(), cost, now)?;
        if taken.us > EXPIRES_MASK.checked_sub(now.0)? {
            return None;
        }
        let fill = limit.weight_of(limit.burst() - taken.remaining);
        self.0[1] = self.0[1] & !EXPIRES_MASK | (now.0 + taken.us);
        self.0[2] = (Kind::Arrival as u64) << KIND_SHIFT | u64::from(fill) << FILL_SHIFT | taken.part;
        let (remaining, reset_after_us) = (taken.remaining, taken.reset_after_us());
        Some(Verdict { outcome: Outcome::Allowed, remaining, reset_after_us })
    }

    /// Denies `cost` of a bucket that was last charged under the same limit and has no room for it. Changes only the
    /// fill. Returns `None` if the cell holds something else or the cost fits.
    #[inline(never)]
    pub(super) fn deny_bucket(
        &mut self,
        limit: &Limit,
        quick: Quick<'_>,
        cost: u64,
        now: Micros,
    ) -> Option<Verdict> {
        if !self.is_bucket_of(quick) {
            return None;
        }
        let verdict = quick.deny(self.expires(), self.a(), cost, now)?;
        let fill = u64::from(limit.weight(verdict.remaining));
        self.0[2] = (Kind::Arrival as u64) << KIND_SHIFT | fill << FILL_SHIFT | self.a();
        Some(verdict)
    }

    #[inline]
    pub(super) fn fixed_window(&self) -> fixed_window::State {
        fixed_window::State { end: self.expires(), count: self.a() }
    }

    #[inline]
    pub(super) fn of_fixed_window(key: CellKey, fill: u8, state: &fixed_window::State) -> Self {
        Self::new(key, Kind::FixedWindow, fill, state.end, (state.count, 0, 0))
    }

    /// Returns the state of a sliding window, which expires with the window after the current one.
    #[inline]
    pub(super) fn sliding_window(&self, period_us: u64) -> sliding_window::State {
        let start = self.expires().minus(2 * period_us);
        sliding_window::State { start, current: self.a(), previous: self.b() }
    }

    #[inline]
    pub(super) fn of_sliding_window(
        key: CellKey,
        fill: u8,
        state: &sliding_window::State,
        period_us: u64,
    ) -> Self {
        let expires = state.start.plus(2 * period_us);
        Self::new(key, Kind::SlidingWindow, fill, expires, (state.current, state.previous, 0))
    }
}
