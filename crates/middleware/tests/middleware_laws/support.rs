//! What the tests share: rendering into plain values, and decisions to render.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate::{
    Decision, Domain, LimitSpec, Limiter, Micros, Request, Rule, VirtualClock, Window, per, per_day,
};
use tidegate_middleware::{Headers, Renderer};

/// The cases of a file of vectors.
pub(crate) fn vectors<T: DeserializeOwned>(file: &str) -> Vec<T> {
    #[derive(Deserialize)]
    struct Vectors<T> {
        cases: Vec<T>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str::<Vectors<T>>(&text).unwrap().cases
}

/// The time at which [`VirtualClock::new`] stands.
pub(crate) const START: Micros = Micros(1_700_000_000_000_000);

pub(crate) const EVERY: Headers =
    Headers { ratelimit: true, draft06: true, x_ratelimit: true, partition_key: true };

/// The headers in order, by name and value.
pub(crate) fn headers(
    of: Headers,
    request: &Request<'_>,
    decision: &Decision,
    now: Micros,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    Renderer::new(of).headers(request, decision, now, |name, value| {
        found.push((name.as_str().to_owned(), value.to_owned()));
    });
    found
}

pub(crate) fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    let mut values = headers.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let value = values.next();
    assert_eq!(values.next(), None, "{name} occurs twice");
    value
}

pub(crate) fn body(request: &Request<'_>, decision: &Decision) -> String {
    let mut out = Vec::new();
    Renderer::default().body(request, decision, &mut out);
    String::from_utf8(out).unwrap()
}

pub(crate) fn json(request: &Request<'_>, decision: &Decision) -> Value {
    serde_json::from_str(&body(request, decision)).unwrap()
}

pub(crate) fn limiter(domain: Domain) -> (Limiter, VirtualClock) {
    let clock = VirtualClock::new();
    let built = Limiter::builder().domain(domain).clock(clock.clone()).build();
    (built.unwrap_or_else(|error| panic!("{error}")), clock)
}

/// Limits of every algorithm that has a window, from milliseconds to months.
pub(crate) fn any_limit() -> impl Strategy<Value = LimitSpec> {
    let length_ms = prop_oneof![1_u64..5_000, 1_000_u64..100_000_000];
    (1_u64..50, length_ms, 0_u8..7, 1_u64..40).prop_map(|(requests, ms, kind, burst)| {
        let plain = per(requests, Duration::from_millis(ms));
        match kind {
            0 => plain.fixed_window(),
            1 => plain.sliding_window(),
            2 => plain.sub_windows(10),
            3 => plain.sliding_log(),
            4 => plain.burst(burst),
            5 => plain.leaky_bucket(),
            _ => LimitSpec::new(requests, Window::named("month").unwrap()).fixed_window(),
        }
    })
}

/// What happened before a decision, and the decision: a domain, and requests with the time before each.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) limits: Vec<LimitSpec>,
    pub(crate) shadow: bool,
    pub(crate) user: String,
    pub(crate) requests: Vec<(u64, u64)>,
}

pub(crate) fn any_story() -> impl Strategy<Value = Story> {
    let requests = prop::collection::vec((0_u64..3_000_000, 0_u64..20), 1..12);
    (prop::collection::vec(any_limit(), 1..4), any::<bool>(), "[a-z0-9]{1,12}", requests)
        .prop_map(|(limits, shadow, user, requests)| Story { limits, shadow, user, requests })
}

impl Story {
    /// Plays it with a new limiter and hands the last decision, with its time, to `look`.
    pub(crate) fn play<T>(&self, look: impl FnOnce(&Request<'_>, &Decision, Micros) -> T) -> T {
        let named = |(index, limit): (usize, &LimitSpec)| limit.clone().named(&format!("l{index}"));
        let rule = self.limits.iter().enumerate().map(named).fold(Rule::by("user"), Rule::limit);
        let by_ip = Rule::by("ip").limit(per_day(30));
        let by_ip = if self.shadow { by_ip.shadow() } else { by_ip };
        let (limiter, clock) = limiter(Domain::new("api").rule(rule).rule(by_ip));
        let mut now = START;
        let mut last = None;
        for (wait_us, cost) in &self.requests {
            clock.advance_us(*wait_us);
            now = now.plus(*wait_us);
            let request = self.request().cost(*cost);
            last = Some((limiter.check_now(&request), request));
        }
        let (decision, request) = last.expect("a story has a request");
        look(&request, &decision, now)
    }

    fn request(&self) -> Request<'_> {
        Request::new("api", [("user", self.user.as_str())])
            .and([("ip", "192.0.2.7")])
            .and([("ip", "192.0.2.8")])
    }
}
