//! What many tests need: limiters from texts, answers in a few words, waiting for a condition.

use std::thread;
use std::time::Duration;

use tidegate::rules::file;
use tidegate::{
    Clock, Decision, Defaults, Domain, LimitSpec, Limiter, Request, Rule, VirtualClock, per, per_second,
};
use tidegate_stores::SystemClock;

/// The domain of a rule file with this text.
pub(crate) fn domain(text: &str) -> Domain {
    file::load("r.yaml", text, &Defaults::default()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A limiter with these rules, and its clock.
pub(crate) fn limiter_of(domain: Domain) -> (Limiter, VirtualClock) {
    let clock = VirtualClock::new();
    let limiter = Limiter::builder().domain(domain).clock(clock.clone()).build();
    (limiter.unwrap_or_else(|error| panic!("{error}")), clock)
}

/// A limiter with the rules of this text, and its clock.
pub(crate) fn limiter(text: &str) -> (Limiter, VirtualClock) {
    limiter_of(domain(text))
}

/// A limiter of domain `d` with one limit per value of the key `k`.
pub(crate) fn limited_by(limit: LimitSpec) -> (Limiter, VirtualClock) {
    limiter_of(Domain::new("d").rule(Rule::by("k").limit(limit)))
}

/// A request of domain `d` with the entry `k` of this value.
pub(crate) fn by(value: &str) -> Request<'_> {
    Request::new("d", [("k", value)])
}

/// Which limits a request falls under, each as `rule (limit)`.
pub(crate) fn limits_of(limiter: &Limiter, request: &Request<'_>) -> Vec<String> {
    names(&limiter.peek_now(request))
}

/// The limits of a decision, each as `rule (limit)`.
pub(crate) fn names(decision: &Decision) -> Vec<String> {
    decision.limits().map(|limit| format!("{} ({})", limit.rule, limit.name)).collect()
}

/// What is left of each limit of a request, as it stands.
pub(crate) fn left(limiter: &Limiter, request: &Request<'_>) -> Vec<u64> {
    limiter.peek_now(&request.clone().cost(0)).limits().map(|limit| limit.remaining).collect()
}

/// How many times a request passes before it is denied, at most `most`.
pub(crate) fn passes(limiter: &Limiter, request: &Request<'_>, most: usize) -> usize {
    (0..most).take_while(|_| limiter.check_now(request).allowed()).count()
}

/// A limit of each algorithm, none of whose numbers divide each other.
pub(crate) fn every_algorithm() -> Vec<(&'static str, LimitSpec)> {
    let seven = || per(7, Duration::from_micros(10_000_019));
    vec![
        ("fixed_window", seven().fixed_window()),
        ("sliding_window", seven().sliding_window()),
        ("sub_windows", seven().sub_windows(9)),
        ("sliding_log", seven().sliding_log()),
        ("token_bucket", seven().token_bucket()),
        ("token_bucket with a burst", seven().burst(3)),
        ("leaky_bucket", seven().leaky_bucket()),
        ("leaky_bucket with a burst", seven().leaky_bucket().burst(3)),
        ("a queue", seven().queue(5)),
        ("large counts", per_second(1 << 40).token_bucket().burst(1 << 20)),
    ]
}

/// Waits until the condition holds and answers how long that took. The bound is wide, for machines
/// that are busy with other things.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let clock = SystemClock::new();
    let start = clock.now();
    for _ in 0..3_000 {
        if holds() {
            return Duration::from_micros(clock.now().since(start));
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within half a minute");
}
