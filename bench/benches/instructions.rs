//! Instructions of [`COUNTED`] decisions on as many keys, counted by callgrind.
//!
//! Run by `cd bench && cargo run --release -- instructions`, which divides by the number of
//! decisions and compares with the counts kept in `instructions.json`. Callgrind collects only within
//! the benchmark function and only on the thread that entered it, so that neither setting up nor the
//! limiter's keeper thread is counted; whatever a benchmark is given it hands back, so that dropping
//! it is not counted either.

#![expect(missing_docs, unused_qualifications, reason = "so are the items that gungraun's macros make")]

use std::hint::black_box;
use std::time::Duration;

use gungraun::prelude::*;
use tidegate::{Acquired, Domain, LimitSpec, Limiter, Request, Rule, per};
use tidegate_bench::stream::{COUNTED, name};
use tidegate_bench::subject::{self, DAY, Governor, ask, ask_governor};
use tidegate_bench::tenants::{self, TENANTS};

const HOUR: Duration = Duration::from_hours(1);

/// A limiter and the texts it is asked with, in the order they arrive.
type Ready<L> = (L, Vec<String>);

/// Every text once, in random order.
fn shuffled(text: impl Fn(usize) -> String) -> Vec<String> {
    let mut texts: Vec<_> = (0..COUNTED).map(text).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut texts);
    texts
}

fn governor_ready(governor: Governor) -> Ready<Governor> {
    let names = shuffled(name);
    for name in &names {
        ask_governor(&governor, name);
    }
    (governor, names)
}

fn limiter(domain: Domain) -> Limiter {
    Limiter::builder().domain(domain).build().expect("valid limits")
}

/// One rule for every user, with these limits.
fn users(limits: impl IntoIterator<Item = LimitSpec>) -> Ready<Limiter> {
    let rule = limits.into_iter().fold(Rule::by("user"), Rule::limit);
    let (limiter, names) = (limiter(Domain::new("api").rule(rule)), shuffled(name));
    for name in &names {
        ask(&limiter, name);
    }
    (limiter, names)
}

/// The limit of that name in [`subject::every_algorithm`].
fn limit(name: &str) -> [LimitSpec; 1] {
    let all = subject::every_algorithm(10_000, DAY);
    let (_, limit) = all.into_iter().find(|(known, _)| *known == name).expect("an algorithm of that name");
    [limit]
}

fn four_buckets() -> [LimitSpec; 4] {
    let periods = [(100, HOUR), (1_000, DAY), (5_000, 7 * DAY), (20_000, 30 * DAY)];
    periods.map(|(requests, period)| per(requests, period).token_bucket())
}

fn four_algorithms() -> [LimitSpec; 4] {
    [
        per(100, HOUR).token_bucket(),
        per(1_000, DAY).sliding_window(),
        per(5_000, 7 * DAY).sub_windows(60),
        per(20_000, 30 * DAY).fixed_window(),
    ]
}

/// `count` rules for a path each, made by `value` of their number, and one for all other paths.
fn paths(count: usize, value: impl Fn(usize) -> String, asked: impl Fn(usize) -> String) -> Ready<Limiter> {
    let domain = (0..count).fold(Domain::new("api"), |domain, number| {
        domain.rule(Rule::by("path").value(&value(number)).limit(subject::generous()))
    });
    let limiter = limiter(domain.rule(Rule::by("path").limit(subject::generous())));
    asking_for_paths((limiter, shuffled(asked)))
}

/// Every request falls under one of `count` rules.
fn rules(count: usize) -> Ready<Limiter> {
    let path = |number| format!("/v1/items/{number:06}");
    paths(count, path, |number| path(number % count))
}

/// No request falls under any of `count` rules but under the one for all others.
fn other_rules(count: usize) -> Ready<Limiter> {
    paths(count, |number| format!("/v1/items/{number:06}"), |number| format!("/v2/items/{number:06}"))
}

/// Every request falls under one of `count` rules whose values have a `*`.
fn patterns(count: usize) -> Ready<Limiter> {
    let asked = |number| format!("/v1/items/{:06}/parts", number % count);
    paths(count, |number| format!("/v1/items/{number:06}/*"), asked)
}

fn user_and_address() -> Ready<Limiter> {
    let rules = ["user", "address"].map(|key| Rule::by(key).limit(subject::generous()));
    let ready = (limiter(rules.into_iter().fold(Domain::new("api"), Domain::rule)), shuffled(name));
    two_descriptors(ready)
}

/// What Envoy and gateways ask most: a limit for each key and endpoint, one for each address, one for all.
fn key_address_and_all() -> Ready<Limiter> {
    let endpoint = Rule::by("endpoint").limit(subject::generous());
    let domain = Domain::new("api")
        .rule(Rule::by("api_key").rule(endpoint))
        .rule(Rule::by("remote_address").limit(subject::generous()))
        .rule(Rule::by("global").limit(per(1_000_000_000, DAY).token_bucket()));
    three_descriptors((limiter(domain), shuffled(name)))
}

fn tenant_and_user() -> Ready<Limiter> {
    let user = Rule::by("user").limit(subject::generous());
    let tenant = Rule::by("tenant").limit(per(1_000_000, DAY).token_bucket()).rule(user);
    two_levels((limiter(Domain::new("api").hierarchical().rule(tenant)), shuffled(name)))
}

/// Users that are tenants, `count` of whom have limits of their own, asking by `text`.
fn tenants_of(
    limits: impl IntoIterator<Item = LimitSpec>,
    tiers: bool,
    count: usize,
    text: impl Fn(usize) -> String,
) -> Ready<Limiter> {
    let limiter = tenants::of_users(limits, tiers, count).expect("valid limits");
    let names = shuffled(text);
    for name in &names {
        ask(&limiter, name);
    }
    (limiter, names)
}

fn one_limit(count: usize) -> Ready<Limiter> {
    tenants_of([subject::generous()], false, count, name)
}

/// Nobody who asks has limits of their own.
fn others() -> Ready<Limiter> {
    tenants_of([subject::generous()], false, TENANTS, |number| name(TENANTS + number))
}

fn two_limits(count: usize) -> Ready<Limiter> {
    tenants_of([per(100, HOUR).token_bucket(), subject::generous()], true, count, name)
}

fn below_tenants(count: usize) -> Ready<Limiter> {
    let limiter = tenants::of_paths(subject::generous(), count).expect("valid limits");
    by_tenant_and_user((limiter, shuffled(name)))
}

fn slots() -> Ready<Limiter> {
    let rule = Rule::by("user").concurrency(10, HOUR);
    taking_slots((limiter(Domain::new("api").rule(rule)), shuffled(name)))
}

#[library_benchmark]
#[bench::governor(governor_ready(subject::governor()))]
#[bench::governor_denied(governor_ready(subject::strict_governor()))]
fn beside(ready: Ready<Governor>) -> Ready<Governor> {
    for name in &ready.1 {
        black_box(ask_governor(&ready.0, name));
    }
    ready
}

#[library_benchmark]
#[bench::token_bucket(users([subject::generous()]))]
#[bench::fixed_window(users(limit("fixed_window")))]
#[bench::sliding_window(users(limit("sliding_window")))]
#[bench::sub_windows_10(users(limit("sub_windows, k=10")))]
#[bench::sub_windows_60(users(limit("sub_windows, k=60")))]
#[bench::sliding_log(users(limit("sliding_log")))]
#[bench::leaky_bucket(users(limit("leaky_bucket, meter")))]
#[bench::denied(users([per(1, DAY).token_bucket()]))]
#[bench::limits_1(users([subject::generous()]))]
#[bench::limits_4(users(four_buckets()))]
#[bench::limits_4_of_4_algorithms(users(four_algorithms()))]
#[bench::no_tenants(one_limit(0))]
#[bench::other_tenants(others())]
#[bench::own_limit(one_limit(TENANTS))]
#[bench::no_tenants_two_limits(two_limits(0))]
#[bench::own_limit_of_two(two_limits(TENANTS))]
fn user(ready: Ready<Limiter>) -> Ready<Limiter> {
    for name in &ready.1 {
        black_box(ask(&ready.0, name));
    }
    ready
}

#[library_benchmark]
#[bench::rules_10(rules(10))]
#[bench::rules_10000(rules(10_000))]
#[bench::other_rules_10(other_rules(10))]
#[bench::other_rules_10000(other_rules(10_000))]
#[bench::patterns_10(patterns(10))]
#[bench::patterns_100(patterns(100))]
#[bench::patterns_1000(patterns(1_000))]
fn path(ready: Ready<Limiter>) -> Ready<Limiter> {
    asking_for_paths(ready)
}

fn asking_for_paths(ready: Ready<Limiter>) -> Ready<Limiter> {
    for path in &ready.1 {
        black_box(ready.0.check_now(&Request::new("api", [("path", path.as_str())])).allowed());
    }
    ready
}

#[library_benchmark]
#[bench::two_descriptors(user_and_address())]
fn several_descriptors(ready: Ready<Limiter>) -> Ready<Limiter> {
    two_descriptors(ready)
}

fn two_descriptors(ready: Ready<Limiter>) -> Ready<Limiter> {
    for name in &ready.1 {
        let request = Request::new("api", [("user", name.as_str())]).and([("address", name.as_str())]);
        black_box(ready.0.check_now(&request).allowed());
    }
    ready
}

#[library_benchmark]
#[bench::three_descriptors(key_address_and_all())]
fn typical_descriptors(ready: Ready<Limiter>) -> Ready<Limiter> {
    three_descriptors(ready)
}

fn three_descriptors(ready: Ready<Limiter>) -> Ready<Limiter> {
    for name in &ready.1 {
        let request = Request::new("api", [("api_key", name.as_str()), ("endpoint", "GET /v1/items")])
            .and([("remote_address", name.as_str())])
            .and([("global", "all")]);
        black_box(ready.0.check_now(&request).allowed());
    }
    ready
}

#[library_benchmark]
#[bench::two_levels(tenant_and_user())]
fn hierarchy(ready: Ready<Limiter>) -> Ready<Limiter> {
    two_levels(ready)
}

fn two_levels(ready: Ready<Limiter>) -> Ready<Limiter> {
    for name in &ready.1 {
        let request = Request::new("api", [("tenant", "acme"), ("user", name.as_str())]);
        black_box(ready.0.check_now(&request).allowed());
    }
    ready
}

#[library_benchmark]
#[bench::no_tenants_two_entries(below_tenants(0))]
#[bench::own_value(below_tenants(TENANTS))]
fn below(ready: Ready<Limiter>) -> Ready<Limiter> {
    by_tenant_and_user(ready)
}

fn by_tenant_and_user(ready: Ready<Limiter>) -> Ready<Limiter> {
    for name in &ready.1 {
        let request = Request::new("api", [("tenant", name.as_str()), ("user", "ann")]);
        black_box(ready.0.check_now(&request).allowed());
    }
    ready
}

#[library_benchmark]
#[bench::slot_taken_and_returned(slots())]
fn concurrency(ready: Ready<Limiter>) -> Ready<Limiter> {
    taking_slots(ready)
}

fn taking_slots(ready: Ready<Limiter>) -> Ready<Limiter> {
    for name in &ready.1 {
        let acquired = ready.0.acquire_now(&Request::new("api", [("user", name.as_str())]));
        black_box(matches!(acquired, Acquired::Permit(_)));
    }
    ready
}

library_benchmark_group!(
    name = decisions,
    benchmarks =
        [beside, user, path, several_descriptors, typical_descriptors, hierarchy, below, concurrency]
);
main!(library_benchmark_groups = decisions);
