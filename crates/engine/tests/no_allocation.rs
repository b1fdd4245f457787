//! Once a key exists, an allowed decision allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidegate::rules::file;
use tidegate::{
    Defaults, Domain, LimitChange, Limiter, Override, Request, Rule, Tenant, TenantChange, per_day, per_hour,
    per_minute, per_second,
};

/// Counts what its thread allocates; other threads, such as the limiter's own, do not disturb.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

#[expect(unsafe_code, reason = "an allocator cannot be written without; it hands everything on")]
// SAFETY: every call is handed on as it came, and counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Decides the request often, after a few times to make its keys, and counts allocations.
fn expect_none(what: &str, domain: Domain, make: impl Fn() -> Request<'static>) {
    expect_none_of(what, &Limiter::builder().domain(domain).build().expect("good rules"), make);
}

fn expect_none_of(what: &str, limiter: &Limiter, make: impl Fn() -> Request<'static>) {
    for _ in 0..10 {
        assert!(limiter.check_now(&make()).allowed(), "{what}");
    }
    let before = ALLOCATIONS.get();
    for _ in 0..1_000 {
        let decision = limiter.check_now(&make());
        assert!(decision.allowed());
        assert!(decision.remaining().is_some());
        assert!(decision.decided_by().is_some_and(|limit| !limit.rule.is_empty()));
    }
    let allocations = ALLOCATIONS.get() - before;
    assert_eq!(allocations, 0, "{what}: {allocations} allocations in 1000 decisions");
}

fn one() -> Request<'static> {
    Request::new("d", [("k", "ann")])
}

fn two() -> Request<'static> {
    Request::new("d", [("k", "ann"), ("path", "/v1/orders")]).and([("ip", "192.0.2.7")]).cost(2)
}

#[test]
fn the_allocator_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1]));
    assert_eq!(ALLOCATIONS.get(), before + 1);
}

#[test]
fn one_limit_of_each_algorithm() {
    let many = 1_000_000;
    let limits = [
        ("fixed_window", per_day(many).fixed_window()),
        ("sliding_window", per_day(many).sliding_window()),
        ("sub_windows", per_day(many).sub_windows(60)),
        ("token_bucket", per_day(many).token_bucket()),
        ("leaky_bucket", per_day(many).leaky_bucket().burst(many)),
    ];
    for (name, limit) in limits {
        expect_none(name, Domain::new("d").rule(Rule::by("k").limit(limit)), one);
    }
}

fn four_limits(key: &str) -> Rule {
    let many = 1_000_000;
    Rule::by(key)
        .limit(per_second(many).burst(many))
        .limit(per_minute(many))
        .limit(per_hour(many).fixed_window())
        .limit(per_day(many).sub_windows(24))
}

#[test]
fn four_limits_of_a_rule() {
    expect_none("four limits", Domain::new("d").rule(four_limits("k")), one);
}

#[test]
fn two_descriptors() {
    let domain = Domain::new("d")
        .rule(Rule::by("k").rule(Rule::by("path").value("/v1/*").limit(per_day(1_000_000))))
        .rule(Rule::by("ip").limit(per_day(1_000_000)));
    expect_none("two descriptors", domain, two);
}

#[test]
fn tiers_wildcards_shadow_and_hierarchy() {
    let text = "
domain: d
tenant: k
hierarchical: true
tenants: {ann: pro, bob: free}
descriptors:
  - key: k
    limits: [{name: main, requests: 10, per: day}]
    tiers: {pro: {main: {requests: 1000000}}, free: }
    descriptors:
      - {key: path, value: '/v1/*', rate_limit: {unit: day, requests_per_unit: 1000000}}
  - {key: ip, enforce_percent: 30, rate_limit: {unit: day, requests_per_unit: 1000000}}
";
    let domain = file::load("r.yaml", text, &Defaults::default()).expect("good rules");
    expect_none("tiers and the rest", domain, two);
}

#[test]
fn tenants_with_limits_of_their_own() {
    let many = LimitChange { requests: Some(1_000_000), ..LimitChange::default() };
    let domain = Domain::new("d")
        .tenant_key("k")
        .hierarchical()
        .rule(
            Rule::by("k")
                .limit(per_minute(2))
                .limit(per_day(1_000_000).burst(1_000_000))
                .rule(Rule::by("path").limit(per_day(2))),
        )
        .rule(Rule::by("ip").limit(per_day(2)));
    let ann = Tenant::new("ann")
        .tier("pro")
        .with(Override::of(many.clone()).limit("minute"))
        .with(Override::of(many.clone()).entry("path", Some("/v1/orders")))
        .with(Override::of(many).entry("ip", None));
    let limiter = Limiter::builder().domain(domain).build().expect("good rules");
    limiter.change_tenants([TenantChange::Put(ann)]);
    expect_none_of("one entry", &limiter, one);
    expect_none_of("two descriptors", &limiter, two);
}

#[test]
fn ten_thousand_rules() {
    let mut domain = Domain::new("d");
    for number in 0..5_000 {
        domain = domain
            .rule(Rule::by("k").value(&format!("user {number}")).limit(per_minute(5)))
            .rule(Rule::by(&format!("key {number}")).limit(per_minute(5)));
    }
    expect_none("ten thousand rules", domain.rule(four_limits("k")), one);
}

#[test]
fn several_domains() {
    let limiter = (0..50).fold(Limiter::builder(), |builder, number| {
        builder.domain(Domain::new(&format!("domain {number}")).rule(Rule::by("k").limit(per_day(1_000_000))))
    });
    let limiter = limiter.build().expect("good rules");
    let check = || limiter.check_now(&Request::new("domain 33", [("k", "ann")])).allowed();
    assert!(check());
    let before = ALLOCATIONS.get();
    assert!((0..1_000).all(|_| check()));
    assert_eq!(ALLOCATIONS.get(), before);
}
