//! A rule may say that nothing is counted.

use tidegate::Request;

use crate::support::limiter;

#[test]
fn an_unlimited_rule_lets_everything_pass_and_stores_nothing() {
    let (limiter, _) = limiter(
        "
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: k, value: vip, rate_limit: {unlimited: true}}
",
    );
    let vip = Request::new("d", [("k", "vip")]);
    for _ in 0..100 {
        let decision = limiter.check_now(&vip.clone().cost(1_000_000));
        assert!(decision.allowed());
        assert_eq!(decision.limits().count(), 0);
        assert_eq!(decision.remaining(), None);
    }
    assert_eq!(limiter.stats().keys, 0);
    // It says nothing about the other descriptors of the request.
    let both = vip.and([("k", "ann")]);
    assert!(limiter.check_now(&both).allowed());
    assert!(!limiter.check_now(&both).allowed());
}

#[test]
fn zero_requests_are_a_ban_and_not_no_limit() {
    let algorithms =
        ["fixed_window", "sliding_window", "sub_windows", "sliding_log", "token_bucket", "leaky_bucket"];
    for algorithm in algorithms {
        let (limiter, clock) = limiter(&format!(
            "domain: d\ndescriptors: [{{key: k, rate_limit: {{unit: second, requests_per_unit: 0, algorithm: {algorithm}}}}}]"
        ));
        for _ in 0..3 {
            let decision = limiter.check_now(&Request::new("d", [("k", "v")]));
            assert!(!decision.allowed(), "{algorithm}");
            assert_eq!(decision.retry_after(), Some(std::time::Duration::MAX), "{algorithm}");
            clock.advance_us(5_000_000);
        }
    }
}
