//! What is given back goes to where it came from, and to the rules that are in force.

use tidegate::{Limiter, per_hour, per_minute};

use super::{remaining, reserve, settle};
use crate::support::{by, left, limited_by};

/// The virtual clock begins 20 seconds past a minute.
const TO_THE_MINUTE_US: u64 = 40_000_000;

#[test]
fn a_window_that_has_turned_over_gets_nothing() {
    let (limiter, clock) = limited_by(per_minute(10).fixed_window());
    let reservation = reserve(&limiter, &by("v").cost(8));
    clock.advance_us(TO_THE_MINUTE_US);
    assert!(limiter.check_now(&by("v").cost(6)).allowed());
    assert_eq!(remaining(&settle(&limiter, &reservation, 0)), [4]);
}

#[test]
fn an_overrun_counts_when_it_is_told() {
    let (limiter, clock) = limited_by(per_minute(10).fixed_window());
    let reservation = reserve(&limiter, &by("v").cost(8));
    clock.advance_us(TO_THE_MINUTE_US);
    assert_eq!(remaining(&settle(&limiter, &reservation, 11)), [7]);
}

#[test]
fn a_full_bucket_gets_nothing_on_top() {
    let (limiter, clock) = limited_by(per_minute(60).burst(10));
    let reservation = reserve(&limiter, &by("v").cost(8));
    clock.advance_us(30_000_000);
    assert_eq!(remaining(&settle(&limiter, &reservation, 0)), [10]);
    assert!(!limiter.check_now(&by("v").cost(11)).allowed());
}

#[test]
fn what_a_bucket_has_drained_meanwhile_is_not_given_back_again() {
    let (limiter, clock) = limited_by(per_minute(60).burst(10));
    let reservation = reserve(&limiter, &by("v").cost(10));
    // A token a second: it is full again, and then used up by somebody else.
    clock.advance_us(10_000_000);
    assert!(limiter.check_now(&by("v").cost(10)).allowed());
    assert_eq!(remaining(&settle(&limiter, &reservation, 0)), [0]);
}

#[test]
fn what_is_charged_and_new_since_is_only_looked_at_and_what_is_gone_is_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |limits: &str| {
        let text = format!("domain: d\ndescriptors:\n  - key: k\n    limits: [{limits}]\n");
        std::fs::write(folder.path().join("d.yaml"), text).expect("written");
    };
    write("{name: a, requests: 10, per: hour}, {name: b, requests: 20, per: hour}");
    let limiter = Limiter::builder().rules(folder.path()).watch(false).build().expect("good rules");
    let (less, more) = (reserve(&limiter, &by("v").cost(4)), reserve(&limiter, &by("v").cost(4)));
    write("{name: b, requests: 30, per: hour}, {name: c, requests: 40, per: hour}");
    limiter.reload().expect("good rules");
    assert_eq!(remaining(&settle(&limiter, &less, 1)), [25, 40]);
    assert_eq!(remaining(&settle(&limiter, &more, 9)), [20, 40]);
}

#[test]
fn a_rule_that_is_switched_off_is_not_settled() {
    let (limiter, _) = limited_by(per_hour(10));
    let reservation = reserve(&limiter, &by("v").cost(8));
    limiter.switch(None, tidegate::Switch::Off).expect("all rules can be switched");
    assert_eq!(remaining(&settle(&limiter, &reservation, 3)), [0_u64; 0]);
    limiter.switch(None, tidegate::Switch::Enforce).expect("all rules can be switched");
    assert_eq!(left(&limiter, &by("v")), [2], "the estimate stays");
}
