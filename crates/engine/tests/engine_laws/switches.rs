//! Kill switches.

use std::fs;
use std::time::Duration;

use tidegate::{Acquired, Domain, Limiter, Request, Rule, Switch, SwitchError, Switches, per_minute};

use crate::support::limiter_of;

fn two_rules() -> Limiter {
    let one = Rule::by("one").limit(per_minute(1)).concurrency(1, Duration::from_mins(1));
    limiter_of(Domain::new("d").rule(one).rule(Rule::by("two").limit(per_minute(1)))).0
}

fn ask(limiter: &Limiter, key: &str) -> (bool, usize) {
    let decision = limiter.check_now(&Request::new("d", [(key, "v")]));
    (decision.allowed(), decision.limits().count())
}

fn throw(limiter: &Limiter, rule: Option<&str>, switch: Switch) {
    limiter.switch(rule, switch).expect("a rule of that name");
}

#[test]
fn shadow_counts_and_denies_nobody_and_the_counter_goes_on() {
    let limiter = two_rules();
    assert_eq!((ask(&limiter, "one"), ask(&limiter, "one")), ((true, 1), (false, 1)));
    throw(&limiter, Some("one"), Switch::Shadow);
    let decision = limiter.check_now(&Request::new("d", [("one", "v")]));
    assert!(decision.allowed());
    assert!(decision.limits().all(|limit| limit.shadow && !limit.allowed));
    throw(&limiter, Some("one"), Switch::Enforce);
    assert_eq!(ask(&limiter, "one"), (false, 1), "what was used is still used");
}

#[test]
fn off_looks_at_nothing_of_that_rule_and_leaves_the_others() {
    let limiter = two_rules();
    throw(&limiter, Some("one"), Switch::Off);
    for _ in 0..5 {
        assert_eq!(ask(&limiter, "one"), (true, 0));
        // Kept, so that a slot, if there were any, stayed taken.
        let Acquired::Permit(permit) = limiter.acquire_now(&Request::new("d", [("one", "v")])) else {
            panic!("nobody looks at the slots")
        };
        let _ = permit.detach();
    }
    assert_eq!((ask(&limiter, "two"), ask(&limiter, "two")), ((true, 1), (false, 1)));
}

#[test]
fn what_switches_off_more_counts() {
    let limiter = two_rules();
    throw(&limiter, Some("one"), Switch::Shadow);
    throw(&limiter, None, Switch::Off);
    assert_eq!((ask(&limiter, "one"), ask(&limiter, "two")), ((true, 0), (true, 0)));
    throw(&limiter, None, Switch::Enforce);
    assert_eq!((ask(&limiter, "one"), ask(&limiter, "one")), ((true, 1), (true, 1)));
    assert_eq!((ask(&limiter, "two"), ask(&limiter, "two")), ((true, 1), (false, 1)));
    let stands = Switches { all: Switch::Enforce, rules: [("one".to_owned(), Switch::Shadow)].into() };
    assert_eq!(limiter.switches(), stands);
}

#[test]
fn a_rule_that_is_not_there_cannot_be_switched() {
    let limiter = two_rules();
    assert_eq!(limiter.switch(Some("three"), Switch::Off), Err(SwitchError::NoRule("three".to_owned())));
    assert_eq!(limiter.switches(), Switches::default());
}

#[test]
fn switches_work_while_the_rule_files_are_broken_and_outlast_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.yaml");
    let rules =
        "domain: d\ndescriptors:\n  - key: one\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n";
    fs::write(&path, rules).expect("the disk is well");
    let limiter = Limiter::builder().rules(&path).watch(false).build().expect("good rules");
    fs::write(&path, "domain: [").expect("the disk is well");
    limiter.reload().expect_err("they are broken");
    throw(&limiter, Some("one"), Switch::Off);
    assert_eq!((ask(&limiter, "one"), ask(&limiter, "one")), ((true, 0), (true, 0)));
    fs::write(&path, rules).expect("the disk is well");
    limiter.reload().expect("they are good again");
    assert_eq!(ask(&limiter, "one"), (true, 0), "still off");
}

#[test]
fn switches_are_read_from_a_text() {
    let read = Switches::read_rules("api_key=shadow, key=value/other = off,").expect("two switches");
    let expected = [("api_key".to_owned(), Switch::Shadow), ("key=value/other".to_owned(), Switch::Off)];
    assert_eq!(read, expected.into());
    assert_eq!(Switches::read_rules("a=on"), Err(SwitchError::Mode("on".to_owned())));
    assert_eq!(Switches::read_rules("a"), Err(SwitchError::List("a".to_owned())));
}
