//! The numbers and the algorithm of one limit, valid by construction.

use std::fmt;

use thiserror::Error;

use crate::algorithm::token_bucket::{Prepared, Quick};
use crate::algorithm::{Algorithm, LeakyMode};
use crate::wide::{div_ceil, mul};
use crate::window::Window;

/// Counts, costs and bursts go up to 2^53, the range in which every language's numbers are exact.
pub const MAX_COUNT: u64 = 1 << 53;

/// The longest window, and the longest time a full burst may take to drain: 10 years.
pub const MAX_PERIOD_US: u64 = 10 * 365 * 86_400 * 1_000_000;

/// `sub_windows` keeps one counter per bucket and key.
pub const MAX_BUCKETS: u32 = 10_000;

/// `sliding_log` keeps a stamp per request and `concurrency` a lease per holder.
pub const MAX_LOGGED: u64 = 1_000_000;

/// Numbers and algorithm: how many requests, per what time, with what burst. There may be one for each of
/// many tenants, so no number is in it twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    kind: Kind,
    requests: u64,
    window: Window,
    period_us: u64,
    burst: u64,
    /// For charging a bucket in the usual case.
    prepared: Prepared,
    /// What fills a sixteenth, per unit: `15 x 2^60 / burst`, rounded up.
    sixteenth: u64,
}

/// The algorithm, but for the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    FixedWindow,
    SlidingWindow,
    SubWindows { buckets: u32 },
    SlidingLog,
    TokenBucket,
    LeakyBucket { mode: LeakyMode },
    Concurrency,
}

impl Kind {
    fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::SlidingWindow => Self::SlidingWindow,
            Algorithm::SubWindows { buckets } => Self::SubWindows { buckets },
            Algorithm::SlidingLog => Self::SlidingLog,
            Algorithm::TokenBucket { .. } => Self::TokenBucket,
            Algorithm::LeakyBucket { mode, .. } => Self::LeakyBucket { mode },
            Algorithm::Concurrency => Self::Concurrency,
        }
    }
}

/// Why numbers do not make a limit. Each message says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// A count is out of range.
    #[error("{field} must be at most 9007199254740992 (2^53), got {found}")]
    TooMany {
        /// The field.
        field: &'static str,
        /// What was asked for.
        found: u64,
    },
    /// A count that must be positive is zero.
    #[error("{field} must be at least 1, got 0")]
    Zero {
        /// The field.
        field: &'static str,
    },
    /// The window is too long.
    #[error("the window must be at most 10 years, got {found_us} microseconds")]
    WindowTooLong {
        /// Its length.
        found_us: u64,
    },
    /// A full burst would take too long to drain.
    #[error(
        "a burst of {burst} at {requests} per window takes over 10 years to drain; lower burst or raise requests"
    )]
    BurstTooLarge {
        /// The burst.
        burst: u64,
        /// Requests per window.
        requests: u64,
    },
    /// Too many buckets.
    #[error("buckets must be between 1 and 10000, got {found}")]
    Buckets {
        /// What was asked for.
        found: u32,
    },
    /// The algorithm remembers each request, and this would be too many.
    #[error("{algorithm} keeps one entry per request, so it allows at most 1000000, got {found}; {instead}")]
    TooManyLogged {
        /// The algorithm.
        algorithm: &'static str,
        /// What was asked for.
        found: u64,
        /// What to use instead.
        instead: &'static str,
    },
    /// A calendar window on an algorithm that has no fixed windows.
    #[error(
        "calendar windows need algorithm fixed_window, got {algorithm}: only its windows have a beginning"
    )]
    CalendarNotFixed {
        /// The algorithm.
        algorithm: &'static str,
    },
}

impl Limit {
    /// A limit of `requests` per `window`. Zero requests is a limit too: it denies everything.
    ///
    /// # Errors
    /// Says which number is out of range, and what is allowed.
    pub fn new(algorithm: Algorithm, requests: u64, window: Window) -> Result<Self, LimitError> {
        let period_us = window.period_us();
        let name = algorithm.name();
        if requests > MAX_COUNT {
            return Err(LimitError::TooMany { field: "requests", found: requests });
        }
        if period_us == 0 {
            return Err(LimitError::Zero { field: "the window" });
        }
        if period_us > MAX_PERIOD_US {
            return Err(LimitError::WindowTooLong { found_us: period_us });
        }
        if matches!(window, Window::Calendar(_)) && algorithm != Algorithm::FixedWindow {
            return Err(LimitError::CalendarNotFixed { algorithm: name });
        }
        let logged = |instead| match requests {
            0..=MAX_LOGGED => Ok(()),
            found => Err(LimitError::TooManyLogged { algorithm: name, found, instead }),
        };
        let burst = match algorithm {
            Algorithm::FixedWindow
            | Algorithm::SlidingWindow
            | Algorithm::SubWindows { buckets: 1..=MAX_BUCKETS } => requests,
            Algorithm::SubWindows { buckets } => return Err(LimitError::Buckets { found: buckets }),
            Algorithm::SlidingLog => logged("use sub_windows for large counts").map(|()| requests)?,
            Algorithm::Concurrency => logged("lower max").map(|()| requests)?,
            Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst, .. } => {
                check_burst(burst, requests, period_us)?
            }
        };
        let sixteenth = (15_u64 << 60).div_ceil(burst.max(1));
        let kind = Kind::of(algorithm);
        let may = matches!(kind, Kind::TokenBucket | Kind::LeakyBucket { mode: LeakyMode::Meter });
        let prepared = Prepared::new(requests, period_us, burst, may);
        Ok(Self { kind, requests, window, period_us, burst, prepared, sixteenth })
    }

    /// A token bucket whose burst is its `requests`.
    ///
    /// # Errors
    /// As [`Limit::new`].
    pub fn token_bucket(requests: u64, window: Window) -> Result<Self, LimitError> {
        Self::new(Algorithm::TokenBucket { burst: requests.max(1) }, requests, window)
    }

    /// At most `max` at once; a slot that is neither renewed nor released returns after `timeout`.
    ///
    /// # Errors
    /// As [`Limit::new`].
    pub fn concurrency(max: u64, timeout: Window) -> Result<Self, LimitError> {
        Self::new(Algorithm::Concurrency, max, timeout)
    }

    /// The algorithm and its own fields.
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        let burst = self.burst;
        match self.kind {
            Kind::FixedWindow => Algorithm::FixedWindow,
            Kind::SlidingWindow => Algorithm::SlidingWindow,
            Kind::SubWindows { buckets } => Algorithm::SubWindows { buckets },
            Kind::SlidingLog => Algorithm::SlidingLog,
            Kind::TokenBucket => Algorithm::TokenBucket { burst },
            Kind::LeakyBucket { mode } => Algorithm::LeakyBucket { burst, mode },
            Kind::Concurrency => Algorithm::Concurrency,
        }
    }

    /// Requests per window; for concurrency, holders at once.
    #[inline]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The window; for concurrency, the time-out of a slot.
    #[inline]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Length of the window in microseconds.
    #[inline]
    pub fn period_us(&self) -> u64 {
        self.period_us
    }

    /// The most that may pass at one moment: `burst` where the algorithm has one, else `requests`.
    #[inline]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Ten bits of the burst, by which a bucket's state tells that the burst has changed.
    #[inline]
    pub fn burst_trace(&self) -> u16 {
        self.prepared.burst_trace
    }

    /// How to charge this bucket in the usual case, if it is one, neither bans nor queues, and its
    /// numbers are small, as they nearly always are.
    #[inline]
    pub fn quick(&self) -> Option<Quick<'_>> {
        self.prepared.is_quick().then_some(Quick { limit: self, prepared: &self.prepared })
    }

    /// What it would forgive to forget a counter of which this much is left, as one byte to compare:
    /// first how full the limit is, in sixteenths, then how many units that is, in powers of 16. So
    /// a flood of keys that are used little, or whose limits are small, weighs less than a busy key.
    #[inline]
    pub fn weight(&self, remaining: u64) -> u8 {
        self.weight_of(self.burst.saturating_sub(remaining))
    }

    /// The same by what is used, at most the burst.
    #[inline]
    pub fn weight_of(&self, used: u64) -> u8 {
        // At most 15 x 2^60 and the little it was rounded up by.
        let sixteenths = (used * self.sixteenth) >> 60;
        let magnitude = u64::from((used | 1).ilog2() / 4);
        (sixteenths << 4 | magnitude) as u8
    }

    /// Whether a request may be held in a queue.
    #[inline]
    pub fn queues(&self) -> bool {
        self.kind == Kind::LeakyBucket { mode: LeakyMode::Queue }
    }

    /// What a counter of this limit must share with an earlier one to be carried on: the kind of
    /// state and the window. Requests, burst and mode may change under a running counter.
    pub fn family(&self) -> String {
        let kind = match self.algorithm() {
            Algorithm::SubWindows { buckets } => format!("sub_windows:{buckets}"),
            other => other.name().to_owned(),
        };
        match &self.window {
            Window::Period { us } => format!("{kind}/{us}"),
            Window::Calendar(calendar) => format!("{kind}/{} {}", calendar.unit(), calendar.zone_name()),
        }
    }
}

/// `token_bucket, 100 per minute, burst 20`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Concurrency {
            return write!(f, "concurrency, {} at once, time-out {}", self.requests, self.window);
        }
        write!(f, "{}, {} per {}", self.algorithm().name(), self.requests, self.window)?;
        match self.algorithm() {
            Algorithm::LeakyBucket { burst, mode: LeakyMode::Queue } => write!(f, ", queue of {burst}"),
            Algorithm::TokenBucket { burst } | Algorithm::LeakyBucket { burst, .. } => {
                write!(f, ", burst {burst}")
            }
            Algorithm::SubWindows { buckets } => write!(f, ", {buckets} buckets"),
            _ => Ok(()),
        }
    }
}

fn check_burst(burst: u64, requests: u64, period_us: u64) -> Result<u64, LimitError> {
    if burst == 0 {
        return Err(LimitError::Zero { field: "burst" });
    }
    if burst > MAX_COUNT {
        return Err(LimitError::TooMany { field: "burst", found: burst });
    }
    if requests > 0 && div_ceil(mul(burst, period_us), requests) > u128::from(MAX_PERIOD_US) {
        return Err(LimitError::BurstTooLarge { burst, requests });
    }
    Ok(burst)
}
