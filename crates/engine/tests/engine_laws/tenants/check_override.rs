//! An override that acts on nothing is refused, and told what there is instead.

use tidegate::{LimitChange, Override, OverrideField, Tenant};

use super::{endpoint, requests, rules, steady};
use crate::support::limiter;

/// The field and the reason, or nothing.
fn problem(limiter: &tidegate::Limiter, written: &Override) -> (String, String) {
    match limiter.check_override(&Tenant::new("bob"), written) {
        Ok(()) => (String::new(), String::new()),
        Err(problem) => (problem.field.to_string(), problem.reason),
    }
}

#[test]
fn good_overrides_pass() {
    let (limiter, _) = rules();
    let good = [
        steady(5),
        Override::unlimited().limit("daily"),
        endpoint(None, 1),
        endpoint(Some("/orders"), 0),
        endpoint(Some("anything"), 1 << 53),
        Override::of(requests(1)).entry("ip", Some("::1")),
        steady(5).domain("d"),
    ];
    for good in good {
        assert_eq!(problem(&limiter, &good), (String::new(), String::new()), "{good:?}");
    }
}

#[test]
fn bad_ones_name_the_field_and_what_there_is() {
    let (limiter, _) = rules();
    let burst = LimitChange { burst: Some(0), ..LimitChange::default() };
    let table = [
        (steady(1).domain("x"), "domain", "domain \"x\" has no rules; domains with tenants: d"),
        (
            steady(1).entry("path", None),
            "descriptor",
            "no rule with limits is for path; rules with fixed values: the tenant's own, with no descriptor, endpoint:/orders",
        ),
        (Override::of(requests(1)), "limit", "rule api_key has several limits; name one of steady, daily"),
        (
            steady(1).limit("hourly"),
            "limit",
            "rule api_key has no limit called \"hourly\"; its limits: steady, daily",
        ),
        (
            Override::of(burst).limit("steady"),
            "burst",
            "limit \"steady\" of rule api_key: burst must be at least 1, got 0",
        ),
        (
            Override::of(requests(1)).entry("region", Some("eu")),
            "descriptor",
            "all tenants share the counter of rule region=eu; put the tenant's entry on the way to it, or override another rule",
        ),
        (
            endpoint(None, u64::MAX),
            "requests",
            "limit \"minute\" of rule api_key/endpoint=/orders: requests must be at most 9007199254740992 (2^53), got 18446744073709551615",
        ),
    ];
    for (written, field, reason) in table {
        assert_eq!(problem(&limiter, &written), (field.to_owned(), reason.to_owned()));
    }
}

#[test]
fn rules_without_tenants_have_none() {
    let (limiter, _) =
        limiter("{domain: d, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]}");
    let (field, reason) = problem(&limiter, &steady(1));
    assert_eq!(field, "domain");
    assert_eq!(reason, "no domain says which entry names the tenant; add `tenant: KEY` to its rules");
}

#[test]
fn a_counter_that_tenants_share_cannot_be_one_tenants() {
    let text = "
domain: d
tenant: k
descriptors: [{key: k, value: 'free-*', share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}]
";
    let (limiter, _) = limiter(text);
    let wrong = limiter.check_override(&Tenant::new("free-1"), &Override::of(requests(1)));
    assert_eq!(wrong.expect_err("it is shared").field, OverrideField::Descriptor);
}
