//! A limit: its numbers and its algorithm, validated on construction.

use std::fmt;

use thiserror::Error;

use crate::algorithm::token_bucket::{Prepared, Quick};
use crate::algorithm::{Algorithm, LeakyMode};
use crate::wide::{div_ceil, mul};
use crate::window::Window;

/// The largest count, cost or burst: 2^53. Up to there integers are exact in every language, including
/// those whose only numbers are 64-bit floats.
pub const MAX_COUNT: u64 = 1 << 53;

/// The longest window, and the longest time that a full burst may take to drain: 10 years of 365 days.
pub const MAX_PERIOD_US: u64 = 10 * 365 * 86_400 * 1_000_000;

/// The largest number of buckets of a `sub_windows` limit, which keeps one counter per bucket and key.
pub const MAX_BUCKETS: u32 = 10_000;

/// The largest count of a `sliding_log` limit, which keeps an entry per request and key, and of a
/// `concurrency` limit, which keeps an entry per slot holder and key.
pub const MAX_LOGGED: u64 = 1_000_000;

/// The numbers and the algorithm of a limit: how many requests, per which window, with which burst.
///
/// It is kept small, with no number stored twice, because each of many tenants may have limits of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    kind: Kind,
    requests: u64,
    window: Window,
    period_us: u64,
    burst: u64,
    /// Precomputed numbers for the fast path of buckets.
    prepared: Prepared,
    /// The share of one unit in the burst, scaled for [`Limit::weight_of`]: `15 x 2^60 / burst`, rounded up.
    sixteenth: u64,
}

/// The algorithm without its burst, which [`Limit`] stores in a field of its own.
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

/// The fields of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitField {
    /// The requests per window.
    Requests,
    /// The window.
    Window,
    /// The burst of a bucket.
    Burst,
    /// The number of buckets of `sub_windows`.
    Buckets,
    /// The mode of `leaky_bucket`.
    Mode,
    /// The calendar of the window.
    Calendar,
}

impl LimitField {
    /// Returns the name of the field in rule files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Window => "per",
            Self::Burst => "burst",
            Self::Buckets => "buckets",
            Self::Mode => "mode",
            Self::Calendar => "calendar",
        }
    }
}

/// Formats the field as it reads in a sentence.
impl fmt::Display for LimitField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Window { "the window" } else { self.name() })
    }
}

/// Reasons the numbers of a limit are rejected. Each message tells what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// A count is larger than [`MAX_COUNT`].
    #[error("{field} must be at most 9007199254740992 (2^53), got {found}")]
    TooMany {
        /// The field that is too large.
        field: LimitField,
        /// The rejected value.
        found: u64,
    },
    /// A number that must be positive is zero.
    #[error("{field} must be at least 1, got 0")]
    Zero {
        /// The field that is zero.
        field: LimitField,
    },
    /// The window is longer than [`MAX_PERIOD_US`].
    #[error("the window must be at most 10 years, got {found_us} microseconds")]
    WindowTooLong {
        /// The rejected length in microseconds.
        found_us: u64,
    },
    /// A full burst would take longer than [`MAX_PERIOD_US`] to drain.
    #[error(
        "a burst of {burst} at {requests} per window takes over 10 years to drain; lower burst or raise requests"
    )]
    BurstTooLarge {
        /// The rejected burst.
        burst: u64,
        /// Requests per window.
        requests: u64,
    },
    /// The number of buckets is 0 or larger than [`MAX_BUCKETS`].
    #[error("buckets must be between 1 and 10000, got {found}")]
    Buckets {
        /// The rejected number.
        found: u32,
    },
    /// The algorithm keeps an entry per request, and the count is larger than [`MAX_LOGGED`].
    #[error("{algorithm} keeps one entry per request, so it allows at most 1000000, got {found}; {instead}")]
    TooManyLogged {
        /// The name of the algorithm.
        algorithm: &'static str,
        /// The rejected count.
        found: u64,
        /// The remedy, as the end of the message.
        instead: &'static str,
    },
    /// A calendar window with an algorithm other than `fixed_window`.
    #[error(
        "calendar windows need algorithm fixed_window, got {algorithm}: only its windows have a beginning"
    )]
    CalendarNotFixed {
        /// The name of the algorithm.
        algorithm: &'static str,
    },
}

impl LimitError {
    /// Returns the field at fault.
    pub const fn field(&self) -> LimitField {
        match self {
            Self::TooMany { field, .. } | Self::Zero { field } => *field,
            Self::WindowTooLong { .. } => LimitField::Window,
            Self::BurstTooLarge { .. } => LimitField::Burst,
            Self::Buckets { .. } => LimitField::Buckets,
            Self::TooManyLogged { .. } => LimitField::Requests,
            Self::CalendarNotFixed { .. } => LimitField::Calendar,
        }
    }
}

impl Limit {
    /// Creates a limit of `requests` per `window`. A limit of zero requests is valid and denies everything.
    ///
    /// # Errors
    /// Returns an error if a number is out of range, or if the algorithm does not support the window.
    pub fn new(algorithm: Algorithm, requests: u64, window: Window) -> Result<Self, LimitError> {
        let period_us = window.period_us();
        let name = algorithm.name();
        if requests > MAX_COUNT {
            return Err(LimitError::TooMany { field: LimitField::Requests, found: requests });
        }
        if period_us == 0 {
            return Err(LimitError::Zero { field: LimitField::Window });
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
        let eligible = matches!(kind, Kind::TokenBucket | Kind::LeakyBucket { mode: LeakyMode::Meter });
        let prepared = Prepared::new(requests, period_us, burst, eligible);
        Ok(Self { kind, requests, window, period_us, burst, prepared, sixteenth })
    }

    /// Creates a token bucket whose burst equals its `requests` (but is at least 1).
    ///
    /// # Errors
    /// Returns the errors of [`Limit::new`].
    pub fn token_bucket(requests: u64, window: Window) -> Result<Self, LimitError> {
        Self::new(Algorithm::TokenBucket { burst: requests.max(1) }, requests, window)
    }

    /// Creates a limit of `max` slots held at once. A slot that is neither renewed nor released becomes free
    /// after `timeout`.
    ///
    /// # Errors
    /// Returns the errors of [`Limit::new`].
    pub fn concurrency(max: u64, timeout: Window) -> Result<Self, LimitError> {
        Self::new(Algorithm::Concurrency, max, timeout)
    }

    /// Returns the algorithm with its own fields.
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

    /// Returns the requests per window; for concurrency, the number of slots.
    #[inline]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the window; for concurrency, the timeout of a slot.
    #[inline]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the length of the window in microseconds.
    #[inline]
    pub fn period_us(&self) -> u64 {
        self.period_us
    }

    /// Returns the most units that may pass at one moment: `burst` if the algorithm has one, else `requests`.
    #[inline]
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns the burst compressed to ten bits. A bucket's state stores them to detect that the burst has
    /// changed since.
    #[inline]
    pub fn burst_trace(&self) -> u16 {
        self.prepared.burst_trace
    }

    /// Returns the fast path for charging this limit, or `None` if it has none. It has one if it is a token
    /// bucket or a leaky bucket in meter mode, and allows at least one request.
    #[inline]
    pub fn quick(&self) -> Option<Quick<'_>> {
        self.prepared.is_quick().then_some(Quick { limit: self, prepared: &self.prepared })
    }

    /// Returns how much would be lost by evicting a counter with `remaining` units left, as one byte: the
    /// larger, the more.
    ///
    /// The high four bits are the share of the limit that is used, in sixteenths; the low four bits are the
    /// magnitude of the used units, in powers of 16. So a flood of keys that are used little, or that have
    /// small limits, is evicted before a busy key.
    #[inline]
    pub fn weight(&self, remaining: u64) -> u8 {
        self.weight_of(self.burst.saturating_sub(remaining))
    }

    /// Returns the eviction weight, as [`Limit::weight`] does, of a counter of which `used` units are used.
    /// `used` must be at most the burst.
    #[inline]
    pub fn weight_of(&self, used: u64) -> u8 {
        // Does not overflow: the product is at most 15 x 2^60 plus the rounding of `sixteenth`.
        let sixteenths = (used * self.sixteenth) >> 60;
        let magnitude = u64::from((used | 1).ilog2() / 4);
        (sixteenths << 4 | magnitude) as u8
    }

    /// Returns whether this limit may hold requests in a queue.
    #[inline]
    pub fn queues(&self) -> bool {
        self.kind == Kind::LeakyBucket { mode: LeakyMode::Queue }
    }

    /// Returns a text that identifies the kind of state and the window. A counter continues under changed
    /// numbers if the family stays the same: requests, burst and mode may change.
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

/// Formats the limit as in `token_bucket, 100 per minute, burst 20`.
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

/// Returns `burst` if it is valid for a bucket that drains `requests` units per `period_us`.
fn check_burst(burst: u64, requests: u64, period_us: u64) -> Result<u64, LimitError> {
    if burst == 0 {
        return Err(LimitError::Zero { field: LimitField::Burst });
    }
    if burst > MAX_COUNT {
        return Err(LimitError::TooMany { field: LimitField::Burst, found: burst });
    }
    if requests > 0 && div_ceil(mul(burst, period_us), requests) > u128::from(MAX_PERIOD_US) {
        return Err(LimitError::BurstTooLarge { burst, requests });
    }
    Ok(burst)
}
