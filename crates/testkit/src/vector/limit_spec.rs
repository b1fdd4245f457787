//! The limits in vector files.

use serde::{Deserialize, Serialize};
use tidegate_core::{Algorithm, Calendar, CalendarUnit, LeakyMode, Limit, Window};

/// A limit in a vector file, with the fields of its algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSpec {
    /// The name of the algorithm.
    pub algorithm: String,
    /// Requests per window; for `concurrency`, the number of slots.
    pub requests: u64,
    /// The length of the window in microseconds; absent for calendar windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_us: Option<u64>,
    /// The calendar window, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarSpec>,
    /// The burst of token and leaky buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// The number of buckets of `sub_windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u32>,
    /// The mode of leaky buckets: `meter` or `queue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// A calendar unit in a time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// `day`, `week`, `month` or `year`.
    pub unit: String,
    /// The IANA name of the time zone.
    pub zone: String,
}

impl From<&Limit> for LimitSpec {
    fn from(limit: &Limit) -> Self {
        let (period_us, calendar) = match limit.window() {
            Window::Period { us } => (Some(*us), None),
            Window::Calendar(calendar) => {
                let (unit, zone) = (calendar.unit().to_string(), calendar.zone_name().to_owned());
                (None, Some(CalendarSpec { unit, zone }))
            }
        };
        let (burst, buckets, mode) = match limit.algorithm() {
            Algorithm::SubWindows { buckets } => (None, Some(buckets), None),
            Algorithm::TokenBucket { burst } => (Some(burst), None, None),
            Algorithm::LeakyBucket { burst, mode: LeakyMode::Meter } => (Some(burst), None, Some("meter")),
            Algorithm::LeakyBucket { burst, mode: LeakyMode::Queue } => (Some(burst), None, Some("queue")),
            _ => (None, None, None),
        };
        Self {
            algorithm: limit.algorithm().name().to_owned(),
            requests: limit.requests(),
            period_us,
            calendar,
            burst,
            buckets,
            mode: mode.map(str::to_owned),
        }
    }
}

impl LimitSpec {
    /// Converts to a [`Limit`].
    ///
    /// # Panics
    /// Panics if the fields are not a valid limit.
    pub fn limit(&self) -> Limit {
        let burst = || self.burst.expect("buckets have a burst");
        let algorithm = match (self.algorithm.as_str(), self.mode.as_deref()) {
            ("fixed_window", None) => Algorithm::FixedWindow,
            ("sliding_window", None) => Algorithm::SlidingWindow,
            ("sub_windows", None) => {
                Algorithm::SubWindows { buckets: self.buckets.expect("sub_windows have buckets") }
            }
            ("sliding_log", None) => Algorithm::SlidingLog,
            ("token_bucket", None) => Algorithm::TokenBucket { burst: burst() },
            ("leaky_bucket", Some("meter")) => {
                Algorithm::LeakyBucket { burst: burst(), mode: LeakyMode::Meter }
            }
            ("leaky_bucket", Some("queue")) => {
                Algorithm::LeakyBucket { burst: burst(), mode: LeakyMode::Queue }
            }
            ("concurrency", None) => Algorithm::Concurrency,
            unknown => panic!("there is no algorithm {unknown:?}"),
        };
        Limit::new(algorithm, self.requests, self.window()).expect("vectors hold limits")
    }

    fn window(&self) -> Window {
        let Some(CalendarSpec { unit, zone }) = &self.calendar else {
            return Window::Period { us: self.period_us.expect("a period or a calendar") };
        };
        let unit = match unit.as_str() {
            "day" => CalendarUnit::Day,
            "week" => CalendarUnit::Week,
            "month" => CalendarUnit::Month,
            "year" => CalendarUnit::Year,
            unknown => panic!("there is no calendar unit {unknown:?}"),
        };
        Window::Calendar(Calendar::new(unit, zone).expect("vectors name zones that exist"))
    }
}
