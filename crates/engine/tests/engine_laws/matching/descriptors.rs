//! Requests with several descriptors.

use tidegate::Request;

use crate::support::{left, limiter, limits_of};

const TWO: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: ip, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: free}
";

#[test]
fn every_descriptor_finds_its_own_rule() {
    let (limiter, _) = limiter(TWO);
    let request = Request::new("d", [("ip", "::1")])
        .and([("unknown", "")])
        .and([("user", "ann")])
        .and([("free", "")])
        .and([("user", "ann"), ("ip", "::1")]);
    assert_eq!(limits_of(&limiter, &request), ["ip (minute)", "user (minute)"]);
    let decision = limiter.check_now(&request);
    assert_eq!(decision.limits().map(|limit| limit.descriptor).collect::<Vec<_>>(), [0, 2].map(Some));
}

#[test]
fn a_request_passes_if_all_its_descriptors_do() {
    let (limiter, _) = limiter(TWO);
    let ann = Request::new("d", [("user", "ann")]).and([("ip", "::1")]);
    let bob = Request::new("d", [("user", "bob")]).and([("ip", "::1")]);
    for _ in 0..3 {
        assert!(limiter.check_now(&ann).allowed());
    }
    assert!(!limiter.check_now(&ann).allowed());
    // What was denied took nothing of the address.
    assert_eq!(left(&limiter, &bob), [3, 2]);
    assert!(limiter.check_now(&bob).allowed());
    assert!(limiter.check_now(&bob).allowed());
    assert!(!limiter.check_now(&bob).allowed());
    assert_eq!(left(&limiter, &bob), [1, 0]);
}

#[test]
fn the_same_descriptor_twice_is_charged_twice_or_not_at_all() {
    let (limiter, _) = limiter(TWO);
    let once = Request::new("d", [("user", "ann")]);
    let twice = once.clone().and([("user", "ann")]);
    let decision = limiter.check_now(&twice);
    assert!(decision.allowed());
    assert_eq!(decision.limits().map(|limit| limit.remaining).collect::<Vec<_>>(), [2, 1]);
    let denied = limiter.check_now(&twice);
    assert!(!denied.allowed());
    assert_eq!(
        denied.limits().map(|limit| (limit.allowed, limit.remaining)).collect::<Vec<_>>(),
        [(true, 1), (false, 1)]
    );
    assert_eq!(left(&limiter, &once), [1]);
    assert!(limiter.check_now(&once).allowed());
}

#[test]
fn many_descriptors_are_charged_all_or_nothing() {
    let (limiter, _) = limiter(TWO);
    let users: Vec<String> = (0..100).map(|number| format!("user {number}")).collect();
    let all = users
        .iter()
        .fold(Request::new("d", [("ip", "::1")]), |request, user| request.and([("user", user.as_str())]));
    for left_after in [2, 1, 0] {
        let decision = limiter.check_now(&all);
        assert!(decision.allowed());
        assert_eq!(decision.limits().count(), 101);
        assert_eq!(decision.remaining(), Some(left_after));
    }
    limiter.refund_now(&Request::new("d", [("user", "user 50")]).cost(1));
    assert!(!limiter.check_now(&all).allowed());
    assert_eq!(left(&limiter, &Request::new("d", [("user", "user 50")])), [1]);
    assert_eq!(left(&limiter, &Request::new("d", [("ip", "::1")])), [2]);
}
