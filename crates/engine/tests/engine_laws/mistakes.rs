//! Mistakes in rules built in code, and between code and files.

use std::fs;
use std::time::Duration;

use tidegate::{
    AlgorithmName, BuildError, Builder, Domain, LimitChange, LimitSpec, Limiter, Rule, TierLimit, per,
    per_day, per_hour, per_minute, per_second,
};

/// What is wrong, line by line.
fn problems(builder: Builder) -> Vec<String> {
    match builder.build() {
        Ok(_) => Vec::new(),
        Err(BuildError::Rules(problems)) => {
            assert!(problems.0.iter().all(|problem| problem.place.is_none()), "code has no lines");
            problems.0.iter().map(ToString::to_string).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

fn of(domain: Domain) -> Vec<String> {
    problems(Limiter::builder().domain(domain))
}

fn of_rule(rule: Rule) -> Vec<String> {
    of(Domain::new("d").tenant_key("k").rule(rule))
}

fn of_limit(limit: LimitSpec) -> Vec<String> {
    of_rule(Rule::by("k").limit(limit))
}

#[test]
fn a_domain_is_defined_once() {
    let twice = Limiter::builder().domain(Domain::new("d")).domain(Domain::new("e")).domain(Domain::new("d"));
    assert_eq!(problems(twice), [r#"code: domain: domain "d" is defined twice; give each domain one place"#]);
}

#[test]
fn a_domain_is_defined_once_in_code_and_files_together() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.yaml"), folder.path().join("two.yaml"));
    fs::write(&one, "domain: d").unwrap();
    fs::write(&two, "domain: e").unwrap();
    let builder = Limiter::builder().rules(&one).rules(&two).domain(Domain::new("e"));
    let expected = format!(
        "{}: domain: domain \"e\" is defined in code already; a domain has one owner: remove it there or from the files",
        two.display()
    );
    assert_eq!(problems(builder), [expected]);
    // Two paths of one domain, too; or the same path twice.
    let builder = Limiter::builder().rules(&one).rules(&one);
    let expected =
        format!("{}: domain: domain \"d\" is defined twice; give each domain one place", one.display());
    assert_eq!(problems(builder), [expected]);
}

#[test]
fn domains_and_keys_have_names() {
    assert_eq!(of(Domain::new("")), ["code: domain: must not be empty"]);
    assert_eq!(of_rule(Rule::by("")), ["code: key must not be empty"]);
    assert_eq!(of_rule(Rule::by("k").rule(Rule::by("").value("v"))), ["code: k/=v: key must not be empty"]);
}

#[test]
fn a_key_and_value_are_used_once_at_one_level() {
    let twice = "is defined twice at one level; merge the two rules";
    let table: [(&[Option<&str>], &str); 4] = [
        (&[None, Some("a"), None], "k"),
        (&[Some("a"), Some("b"), Some("a")], "k=a"),
        (&[Some("a*"), Some("b*"), Some("*"), Some("a*")], "k=a*"),
        // An empty value is none.
        (&[Some(""), None], "k"),
    ];
    for (values, id) in table {
        let rules = values.iter().map(|value| match value {
            Some(value) => Rule::by("k").value(value),
            None => Rule::by("k"),
        });
        let (above, below) = (rules.clone(), rules);
        let domain = above.fold(Domain::new("d"), Domain::rule);
        assert_eq!(of(domain), [format!("code: {id}: {twice}")]);
        let parent = below.fold(Rule::by("p"), Rule::rule);
        assert_eq!(of_rule(parent), [format!("code: p/{id}: {twice}")]);
    }
    let apart =
        Domain::new("d").rule(Rule::by("k").rule(Rule::by("k"))).rule(Rule::by("l").rule(Rule::by("k")));
    assert_eq!(of(apart), [""; 0]);
}

#[test]
fn numbers_are_within_bounds() {
    let years = Duration::from_hours(11 * 365 * 24);
    let table: [(LimitSpec, &str); 9] = [
        (
            per_minute(1 << 60),
            "limit \"minute\": requests must be at most 9007199254740992 (2^53), got 1152921504606846976",
        ),
        (per(1, Duration::ZERO), "limit \"0h\": the window must be at least 1, got 0"),
        (
            per(1, years),
            "limit \"96360h\": the window must be at most 10 years, got 346896000000000 microseconds",
        ),
        (
            per(1, Duration::MAX),
            "limit \"18446744073709551615us\": the window must be at most 10 years, got 18446744073709551615 microseconds",
        ),
        (per_minute(5).burst(0), "limit \"minute\": burst must be at least 1, got 0"),
        (
            per_day(1).burst(1 << 40),
            "limit \"day\": a burst of 1099511627776 at 1 per window takes over 10 years to drain; lower burst or raise requests",
        ),
        (per_hour(5).sub_windows(0), "limit \"hour\": buckets must be between 1 and 10000, got 0"),
        (
            per_hour(2_000_000).sliding_log(),
            "limit \"hour\": sliding_log keeps one entry per request, so it allows at most 1000000, got 2000000; use sub_windows for large counts",
        ),
        (
            per_second(5).burst(9).fixed_window().named("own"),
            "limit \"own\": burst belongs to token_bucket, gcra and leaky_bucket, but the algorithm here is fixed_window; set algorithm or remove burst",
        ),
    ];
    for (limit, expected) in table {
        assert_eq!(of_limit(limit), [format!("code: k: {expected}")]);
    }
}

#[test]
fn holders_are_within_bounds() {
    let of = |max, timeout| of_rule(Rule::by("k").concurrency(max, timeout));
    assert_eq!(
        of(2_000_000, Duration::from_secs(1)),
        [
            "code: k: concurrency: concurrency keeps one entry per request, so it allows at most 1000000, got 2000000; lower max"
        ]
    );
    assert_eq!(of(1, Duration::ZERO), ["code: k: concurrency: the window must be at least 1, got 0"]);
    assert_eq!(
        of(1, Duration::MAX),
        ["code: k: concurrency: the window must be at most 10 years, got 18446744073709551615 microseconds"]
    );
}

#[test]
fn limits_of_a_rule_are_told_apart_by_name() {
    let rule =
        Rule::by("k").limit(per_minute(5)).limit(per_minute(9).burst(1)).limit(per_hour(1).named("minute"));
    let twice = r#"code: k: two limits are called "minute"; name them"#;
    assert_eq!(of_rule(rule), [twice, twice]);
    let rule = Rule::by("k").limit(per_minute(5)).limit(per_minute(9).named("other")).limit(per_hour(9));
    assert_eq!(of_rule(rule), [""; 0]);
}

#[test]
fn tiers_change_limits_that_are_there_to_numbers_that_are_good() {
    let change =
        |requests, burst| TierLimit::Change(LimitChange { requests, burst, ..LimitChange::default() });
    let rule = || Rule::by("k").limit(per_minute(5)).limit(per_hour(9).named("slow"));
    // Whether a tenant is on the tier or not.
    for domain in [Domain::new("d").tenant_key("k"), Domain::new("d").tenant_key("k").tenant("acme", "pro")] {
        let of = |rule| of(domain.clone().rule(rule));
        assert_eq!(
            of(rule().tier("pro", "hour", TierLimit::Unlimited)),
            [r#"code: k: tier "pro" changes limit "hour", which the rule does not have"#]
        );
        assert_eq!(
            of(rule().tier("pro", "slow", change(Some(1 << 60), None))),
            [
                r#"code: k: tier "pro", limit "slow": requests must be at most 9007199254740992 (2^53), got 1152921504606846976"#
            ]
        );
        assert_eq!(
            of(rule().tier("pro", "minute", change(None, Some(9)))),
            [
                "code: k: tier \"pro\", limit \"minute\": burst belongs to token_bucket, gcra and leaky_bucket, \
             but the algorithm here is sliding_window; set algorithm or remove burst"
            ]
        );
        assert_eq!(
            of(rule().tier("pro", "slow", change(Some(1), None)).tier("free", "slow", TierLimit::Unlimited)),
            [""; 0]
        );
        let to_bucket = LimitChange {
            burst: Some(9),
            algorithm: Some(AlgorithmName::TokenBucket),
            ..LimitChange::default()
        };
        assert_eq!(of(rule().tier("pro", "minute", TierLimit::Change(to_bucket))), [""; 0]);
    }
}

#[test]
fn a_mistake_is_told_once_however_many_tiers_there_are() {
    let mut rule = Rule::by("k").limit(per_minute(1 << 60)).limit(per_hour(1)).limit(per_hour(2));
    for tier in ["a", "b", "c"] {
        let change = LimitChange { requests: Some(1 << 61), ..LimitChange::default() };
        rule = rule.tier(tier, "minute", TierLimit::Change(change));
    }
    let domain = ["a", "b", "c"]
        .into_iter()
        .fold(Domain::new("d").tenant_key("k"), |domain, tier| domain.tenant(tier, tier));
    assert_eq!(
        of(domain.rule(rule)),
        [
            "code: k: limit \"minute\": requests must be at most 9007199254740992 (2^53), got 1152921504606846976",
            "code: k: two limits are called \"hour\"; name them",
        ]
    );
}

#[test]
fn tiers_need_to_know_whose_they_are() {
    let rule = Rule::by("k").limit(per_minute(5)).tier("pro", "minute", TierLimit::Unlimited);
    assert_eq!(
        of(Domain::new("d").rule(rule)),
        ["code: k: has tiers, but the domain does not say which key names the tenant"]
    );
}

#[test]
fn a_domain_has_no_more_tiers_than_can_be_told_apart() {
    let many = |count: usize| {
        (0..count).fold(Domain::new("d").tenant_key("k"), |domain, number| {
            domain.tenant(&number.to_string(), &format!("tier {number}"))
        })
    };
    assert_eq!(of(many(65_536)), ["code: tiers: a domain has at most 65535 tiers, got 65536"]);
    assert_eq!(of(many(65_535)), [""; 0]);
}

#[test]
fn percent_are_at_most_100() {
    assert_eq!(
        of_rule(Rule::by("k").enforce_percent(101)),
        ["code: k: enforce_percent must be between 0 and 100, got 101"]
    );
    assert_eq!(of_rule(Rule::by("k").enforce_percent(100)), [""; 0]);
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_rules() {
    let one = Domain::new("one")
        .rule(Rule::by("a").limit(per_minute(1 << 60)).rule(Rule::by("").enforce_percent(200)))
        .rule(Rule::by("b").concurrency(1, Duration::ZERO));
    let two = Domain::new("").rule(Rule::by("c")).rule(Rule::by("c"));
    let found = problems(Limiter::builder().domain(one).domain(two).domain(Domain::new("one")));
    let starts = [
        "code: a: limit \"minute\": requests must",
        "code: a/: key must not be empty",
        "code: a/: enforce_percent must",
        "code: b: concurrency: the window must",
        "code: domain: must not be empty",
        "code: c: is defined twice",
        "code: domain: domain \"one\" is defined twice",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn mistakes_of_files_come_before_code_is_looked_at() {
    let builder = Limiter::builder().rules("/nowhere/at/all.yaml").domain(Domain::new(""));
    assert_eq!(
        problems(builder),
        [
            "/nowhere/at/all.yaml: cannot be read: No such file or directory (os error 2); check the path and its permissions"
        ]
    );
}
