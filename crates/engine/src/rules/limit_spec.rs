//! A limit as somebody wrote it, in a rule file or in code, before it is checked.

use tidegate_core::{Algorithm, LeakyMode, Limit, LimitError, Window};

/// What applies where a rule does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The algorithm of a limit that names none.
    pub algorithm: AlgorithmName,
    /// Whether a denied request is charged all the same, as envoyproxy/ratelimit does.
    pub count_denied: bool,
    /// A limit that is written in code (in Rust, or sent with a request) and names neither an algorithm nor a
    /// burst is a sliding log if it has at most so many requests and `algorithm` is the sliding window, whose
    /// estimate is coarse for small counts. 0 switches this off.
    pub exact_up_to: u64,
}

/// Up to so many requests a stamp for each is cheap, and the estimate of a sliding window is far off.
pub(crate) const SMALL: u64 = 10;

impl Default for Defaults {
    fn default() -> Self {
        Self { algorithm: AlgorithmName::SlidingWindow, count_denied: false, exact_up_to: SMALL }
    }
}

impl Defaults {
    /// The defaults of envoyproxy/ratelimit: fixed windows, in which denied requests count.
    pub fn envoy_ratelimit() -> Self {
        Self { algorithm: AlgorithmName::FixedWindow, count_denied: true, exact_up_to: 0 }
    }
}

/// The algorithms a rate limit can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described in tidegate_core::Algorithm")]
pub enum AlgorithmName {
    FixedWindow,
    SlidingWindow,
    SubWindows,
    SlidingLog,
    TokenBucket,
    LeakyBucket,
}

impl AlgorithmName {
    /// Every name a rule file may use; `gcra` is another name for `token_bucket`.
    pub const ALL: [(&'static str, Self); 7] = [
        ("fixed_window", Self::FixedWindow),
        ("sliding_window", Self::SlidingWindow),
        ("sub_windows", Self::SubWindows),
        ("sliding_log", Self::SlidingLog),
        ("token_bucket", Self::TokenBucket),
        ("gcra", Self::TokenBucket),
        ("leaky_bucket", Self::LeakyBucket),
    ];

    /// The algorithm of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// A limit as written: `per_minute(100).burst(20)`.
///
/// Nothing is checked until the limiter is built, which reports every mistake at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    pub(crate) name: Option<String>,
    pub(crate) requests: u64,
    pub(crate) window: Window,
    pub(crate) algorithm: Option<AlgorithmName>,
    pub(crate) burst: Option<u64>,
    pub(crate) buckets: Option<u32>,
    pub(crate) mode: Option<LeakyMode>,
    pub(crate) replaces: Vec<String>,
}

/// `requests` per second.
pub fn per_second(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(1))
}

/// `requests` per minute.
pub fn per_minute(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(60))
}

/// `requests` per hour.
pub fn per_hour(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(3_600))
}

/// `requests` per day of 24 hours, aligned to the epoch; for days in a time zone see
/// [`LimitSpec::new`] with a calendar window.
pub fn per_day(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(86_400))
}

/// `requests` per any length of time.
pub fn per(requests: u64, period: std::time::Duration) -> LimitSpec {
    LimitSpec::new(requests, Window::Period { us: u64::try_from(period.as_micros()).unwrap_or(u64::MAX) })
}

impl LimitSpec {
    /// `requests` per `window`, with the default algorithm: see [`Defaults`].
    pub fn new(requests: u64, window: Window) -> Self {
        let (name, algorithm, burst, buckets, mode) = (None, None, None, None, None);
        Self { name, requests, window, algorithm, burst, buckets, mode, replaces: Vec::new() }
    }

    /// Names the limit; the name shows in decisions, and tiers refer to it. A limit without a name
    /// is called by its window.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The most that may pass at once. Makes the limit a token bucket unless it is a leaky one.
    #[must_use]
    pub fn burst(mut self, burst: u64) -> Self {
        self.algorithm.get_or_insert(AlgorithmName::TokenBucket);
        self.burst = Some(burst);
        self
    }

    /// Uses one counter per fixed window.
    #[must_use]
    pub fn fixed_window(self) -> Self {
        self.with(AlgorithmName::FixedWindow)
    }

    /// Uses two counters weighed by overlap; the default of limits over 10 requests.
    #[must_use]
    pub fn sliding_window(self) -> Self {
        self.with(AlgorithmName::SlidingWindow)
    }

    /// Uses a ring of smaller windows.
    #[must_use]
    pub fn sub_windows(mut self, buckets: u32) -> Self {
        self.buckets = Some(buckets);
        self.with(AlgorithmName::SubWindows)
    }

    /// Uses a stamp per request; the default of limits of up to 10 requests.
    #[must_use]
    pub fn sliding_log(self) -> Self {
        self.with(AlgorithmName::SlidingLog)
    }

    /// Uses a token bucket; its burst is `requests` unless set.
    #[must_use]
    pub fn token_bucket(self) -> Self {
        self.with(AlgorithmName::TokenBucket)
    }

    /// Uses a leaky bucket that denies what does not fit; it holds 1 unless `burst` is set.
    #[must_use]
    pub fn leaky_bucket(self) -> Self {
        self.with(AlgorithmName::LeakyBucket)
    }

    /// Uses a leaky bucket in which `depth` may wait their turn.
    #[must_use]
    pub fn queue(mut self, depth: u64) -> Self {
        self.mode = Some(LeakyMode::Queue);
        self.burst = Some(depth);
        self.with(AlgorithmName::LeakyBucket)
    }

    /// Uses the algorithm of that name.
    #[must_use]
    pub fn with(mut self, algorithm: AlgorithmName) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    /// The name decisions show: the one given, else the window.
    pub(crate) fn effective_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.window.to_string())
    }

    /// The limit as it applies where it was written in code: exact if it is small and names no algorithm.
    pub(crate) fn written_in_code(&self, defaults: &Defaults) -> Self {
        let small = self.requests <= defaults.exact_up_to;
        let usual = self.algorithm.is_none() && defaults.algorithm == AlgorithmName::SlidingWindow;
        let calendar = matches!(self.window, Window::Calendar(_));
        let mut spec = self.clone();
        if small && usual && !calendar && self.burst.is_none() && self.buckets.is_none() {
            spec.algorithm = Some(AlgorithmName::SlidingLog);
        }
        spec
    }

    /// Checks the numbers and makes them a limit.
    pub(crate) fn build(&self, defaults: &Defaults) -> Result<Limit, SpecError> {
        let named = self.algorithm.unwrap_or(defaults.algorithm);
        let bucketed = matches!(named, AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket);
        if self.burst.is_some() && !bucketed {
            return Err(SpecError::own_field("burst", "token_bucket, gcra and leaky_bucket", named));
        }
        if self.buckets.is_some() && named != AlgorithmName::SubWindows {
            return Err(SpecError::own_field("buckets", "sub_windows", named));
        }
        if self.mode.is_some() && named != AlgorithmName::LeakyBucket {
            return Err(SpecError::own_field("mode", "leaky_bucket", named));
        }
        let algorithm = match named {
            AlgorithmName::FixedWindow => Algorithm::FixedWindow,
            AlgorithmName::SlidingWindow => Algorithm::SlidingWindow,
            AlgorithmName::SubWindows => Algorithm::SubWindows { buckets: self.buckets.unwrap_or(60) },
            AlgorithmName::SlidingLog => Algorithm::SlidingLog,
            AlgorithmName::TokenBucket => {
                Algorithm::TokenBucket { burst: self.burst.unwrap_or(self.requests.max(1)) }
            }
            AlgorithmName::LeakyBucket => Algorithm::LeakyBucket {
                burst: self.burst.unwrap_or(1),
                mode: self.mode.unwrap_or(LeakyMode::Meter),
            },
        };
        Limit::new(algorithm, self.requests, self.window.clone()).map_err(SpecError::from)
    }

    /// This limit with a tier's numbers in place of its own. Another algorithm begins without the
    /// fields that only the first one has.
    pub(crate) fn changed(&self, change: &LimitChange) -> Self {
        let mut spec = self.clone();
        if change.algorithm.is_some() && change.algorithm != spec.algorithm {
            (spec.burst, spec.buckets, spec.mode) = (None, None, None);
        }
        spec.requests = change.requests.unwrap_or(spec.requests);
        spec.burst = change.burst.or(spec.burst);
        spec.window = change.window.clone().unwrap_or(spec.window);
        spec.algorithm = change.algorithm.or(spec.algorithm);
        spec
    }
}

/// What a tier changes about a limit; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// Other requests per window.
    pub requests: Option<u64>,
    /// Another burst.
    pub burst: Option<u64>,
    /// Another window.
    pub window: Option<Window>,
    /// Another algorithm.
    pub algorithm: Option<AlgorithmName>,
}

/// Why a written limit is not one: the field at fault and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecError {
    pub(crate) field: &'static str,
    pub(crate) reason: String,
}

impl SpecError {
    fn own_field(field: &'static str, owners: &str, found: AlgorithmName) -> Self {
        let found = found.name();
        let reason = format!(
            "{field} belongs to {owners}, but the algorithm here is {found}; set algorithm or remove {field}"
        );
        Self { field, reason }
    }
}

impl From<LimitError> for SpecError {
    fn from(error: LimitError) -> Self {
        let field = match &error {
            LimitError::Zero { field: "the window" } | LimitError::WindowTooLong { .. } => "per",
            LimitError::Zero { field } | LimitError::TooMany { field, .. } => field,
            LimitError::BurstTooLarge { .. } => "burst",
            LimitError::Buckets { .. } => "buckets",
            LimitError::TooManyLogged { .. } => "requests",
            LimitError::CalendarNotFixed { .. } => "calendar",
        };
        Self { field, reason: error.to_string() }
    }
}
