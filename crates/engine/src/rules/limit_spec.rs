//! A limit as written in a rule file or in code, before it is validated.

use tidegate_core::{Algorithm, LeakyMode, Limit, LimitError, LimitField, Window};

/// The defaults for limits that do not set a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The algorithm of a limit that names none.
    pub algorithm: AlgorithmName,
    /// Whether denied requests are charged too, as in envoyproxy/ratelimit.
    pub count_denied: bool,
    /// The largest count for which limits in code are exact; 0 to turn this off. A limit that is written in
    /// code (in Rust, or sent with a request) and sets neither an algorithm nor a burst becomes a sliding log
    /// if it has at most this many requests and `algorithm` is the sliding window, which estimates small
    /// counts badly.
    pub exact_up_to: u64,
}

/// Up to this number of requests, a timestamp per request is cheap, and the estimate of a sliding window is
/// inaccurate.
pub(crate) const SMALL: u64 = 10;

impl Default for Defaults {
    fn default() -> Self {
        Self { algorithm: AlgorithmName::SlidingWindow, count_denied: false, exact_up_to: SMALL }
    }
}

impl Defaults {
    /// Returns the defaults of envoyproxy/ratelimit: fixed windows, in which denied requests count.
    pub fn envoy_ratelimit() -> Self {
        Self { algorithm: AlgorithmName::FixedWindow, count_denied: true, exact_up_to: 0 }
    }
}

/// The algorithms that a limit can have.
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
    /// Every name in rule files, with its algorithm. `gcra` is another name for `token_bucket`.
    pub const ALL: [(&'static str, Self); 7] = [
        ("fixed_window", Self::FixedWindow),
        ("sliding_window", Self::SlidingWindow),
        ("sub_windows", Self::SubWindows),
        ("sliding_log", Self::SlidingLog),
        ("token_bucket", Self::TokenBucket),
        ("gcra", Self::TokenBucket),
        ("leaky_bucket", Self::LeakyBucket),
    ];

    /// Returns the algorithm with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    /// Returns the name of the algorithm in rule files.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// A limit as written in code, such as `per_minute(100).burst(20)`.
///
/// Nothing is checked until the limiter is built, which reports every mistake at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// The name. A limit without a name is named after its window.
    pub name: Option<String>,
    /// The units allowed per window.
    pub requests: u64,
    /// The window.
    pub window: Window,
    /// The algorithm; `None` for the default.
    pub algorithm: Option<AlgorithmName>,
    /// The most units allowed at once, for token and leaky buckets.
    pub burst: Option<u64>,
    /// The number of sub-windows, for `sub_windows`.
    pub buckets: Option<u32>,
    /// Whether a leaky bucket denies or queues requests that do not fit.
    pub mode: Option<LeakyMode>,
    pub(crate) replaces: Vec<String>,
}

/// Creates a limit of `requests` per second.
pub fn per_second(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(1))
}

/// Creates a limit of `requests` per minute.
pub fn per_minute(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(60))
}

/// Creates a limit of `requests` per hour.
pub fn per_hour(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(3_600))
}

/// Creates a limit of `requests` per day of 24 hours, aligned to the epoch. For days in a time zone, use
/// [`LimitSpec::new`] with a calendar window.
pub fn per_day(requests: u64) -> LimitSpec {
    LimitSpec::new(requests, Window::seconds(86_400))
}

/// Creates a limit of `requests` per `period`.
pub fn per(requests: u64, period: std::time::Duration) -> LimitSpec {
    LimitSpec::new(requests, Window::Period { us: u64::try_from(period.as_micros()).unwrap_or(u64::MAX) })
}

impl LimitSpec {
    /// Creates a limit of `requests` per `window`, with the default algorithm (see [`Defaults`]).
    pub fn new(requests: u64, window: Window) -> Self {
        let (name, algorithm, burst, buckets, mode) = (None, None, None, None, None);
        Self { name, requests, window, algorithm, burst, buckets, mode, replaces: Vec::new() }
    }

    /// Sets the name of the limit, which decisions show and tiers refer to. A limit without a name is named
    /// after its window.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the most units allowed at once. Makes the limit a token bucket, unless it has an algorithm.
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

    /// Uses two counters weighted by overlap. The default for limits of more than 10 requests.
    #[must_use]
    pub fn sliding_window(self) -> Self {
        self.with(AlgorithmName::SlidingWindow)
    }

    /// Uses a ring of `buckets` smaller windows.
    #[must_use]
    pub fn sub_windows(mut self, buckets: u32) -> Self {
        self.buckets = Some(buckets);
        self.with(AlgorithmName::SubWindows)
    }

    /// Uses a timestamp per request. The default for limits of up to 10 requests.
    #[must_use]
    pub fn sliding_log(self) -> Self {
        self.with(AlgorithmName::SlidingLog)
    }

    /// Uses a token bucket. Its burst is `requests` unless it is set.
    #[must_use]
    pub fn token_bucket(self) -> Self {
        self.with(AlgorithmName::TokenBucket)
    }

    /// Uses a leaky bucket that denies what does not fit. It holds 1 unit unless `burst` is set.
    #[must_use]
    pub fn leaky_bucket(self) -> Self {
        self.with(AlgorithmName::LeakyBucket)
    }

    /// Uses a leaky bucket that holds up to `depth` units in a queue.
    #[must_use]
    pub fn queue(mut self, depth: u64) -> Self {
        self.mode = Some(LeakyMode::Queue);
        self.burst = Some(depth);
        self.with(AlgorithmName::LeakyBucket)
    }

    /// Uses this algorithm.
    #[must_use]
    pub fn with(mut self, algorithm: AlgorithmName) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    /// Returns the name that decisions show: the given one, else that of the window.
    pub(crate) fn effective_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.window.to_string())
    }

    /// Returns the limit as it applies in code: a sliding log if it is small and sets no algorithm.
    pub(crate) fn written_in_code(&self, defaults: &Defaults) -> Self {
        let small = self.requests <= defaults.exact_up_to;
        let estimated = self.algorithm.is_none() && defaults.algorithm == AlgorithmName::SlidingWindow;
        let calendar = matches!(self.window, Window::Calendar(_));
        let mut spec = self.clone();
        if small && estimated && !calendar && self.burst.is_none() && self.buckets.is_none() {
            spec.algorithm = Some(AlgorithmName::SlidingLog);
        }
        spec
    }

    /// Validates the numbers and returns the limit.
    pub(crate) fn build(&self, defaults: &Defaults) -> Result<Limit, SpecError> {
        let named = self.algorithm.unwrap_or(defaults.algorithm);
        let bucketed = matches!(named, AlgorithmName::TokenBucket | AlgorithmName::LeakyBucket);
        if self.burst.is_some() && !bucketed {
            return Err(SpecError::own_field(
                LimitField::Burst,
                "token_bucket, gcra and leaky_bucket",
                named,
            ));
        }
        if self.buckets.is_some() && named != AlgorithmName::SubWindows {
            return Err(SpecError::own_field(LimitField::Buckets, "sub_windows", named));
        }
        if self.mode.is_some() && named != AlgorithmName::LeakyBucket {
            return Err(SpecError::own_field(LimitField::Mode, "leaky_bucket", named));
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

    /// Returns this limit with the changes of a tier or override. If the algorithm changes, the fields that
    /// only the old one has are dropped.
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

/// The changes of a tier or override to a limit. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// The new requests per window.
    pub requests: Option<u64>,
    /// The new burst.
    pub burst: Option<u64>,
    /// The new window.
    pub window: Option<Window>,
    /// The new algorithm.
    pub algorithm: Option<AlgorithmName>,
}

/// The reason why a limit is invalid, and the field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecError {
    pub(crate) field: LimitField,
    pub(crate) reason: String,
}

impl SpecError {
    fn own_field(field: LimitField, owners: &str, found: AlgorithmName) -> Self {
        let found = found.name();
        let reason = format!(
            "{field} belongs to {owners}, but the algorithm here is {found}; set algorithm or remove {field}"
        );
        Self { field, reason }
    }
}

impl From<LimitError> for SpecError {
    fn from(error: LimitError) -> Self {
        Self { field: error.field(), reason: error.to_string() }
    }
}
