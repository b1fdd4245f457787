//! A bad file changes nothing but what is said about it.

use std::fs;

use super::{Rules, in_force, limit};
use crate::support::{by, wait_until};

const BAD: &str = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}]\n";

#[test]
fn the_last_good_rules_stay_and_the_reason_is_told_until_it_is_repaired() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(3));
    let limiter = rules.watched(rules.path("r.yaml"));
    assert!(limiter.refused_rules().is_none());
    limiter.check_now(&by("v"));

    rules.write("r.yaml", BAD);
    wait_until("the bad file is refused", || limiter.refused_rules().is_some());
    let told = limiter.refused_rules().expect("it was refused").to_string();
    let place =
        format!("{}:2:43: descriptors[0].rate_limit.unit: must be one of", rules.path("r.yaml").display());
    assert!(told.starts_with(&place), "{told}");
    assert!(told.contains("fortnight"), "{told}");
    assert_eq!((in_force(&limiter), limiter.generation()), (Some(3), 1));
    assert_eq!(limiter.check_now(&by("v")).remaining(), Some(1));

    // Another mistake, another reason.
    rules.write("r.yaml", "domain: [");
    wait_until("the reason changes", || limiter.refused_rules().is_some_and(|why| why.to_string() != told));

    rules.write("r.yaml", &limit(4));
    wait_until("it is repaired", || limiter.refused_rules().is_none());
    assert_eq!((in_force(&limiter), limiter.generation()), (Some(4), 2));
    assert_eq!(limiter.check_now(&by("v")).remaining(), Some(1));
}

#[test]
fn going_back_to_the_rules_in_force_clears_the_reason() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(3));
    let limiter = rules.watched(rules.path("r.yaml"));
    rules.write("r.yaml", BAD);
    wait_until("the bad file is refused", || limiter.refused_rules().is_some());
    rules.write("r.yaml", &limit(3));
    wait_until("it is as it was", || limiter.refused_rules().is_none());
    assert_eq!(in_force(&limiter), Some(3));
}

#[test]
fn one_bad_file_of_a_folder_holds_back_the_good_ones() {
    let rules = Rules::new();
    rules.write("a.yaml", &limit(1));
    rules.write("b.yaml", &limit(1).replace("domain: d", "domain: e"));
    let limiter = rules.unwatched(rules.folder.path());
    rules.write("a.yaml", &limit(2));
    rules.write("b.yaml", BAD);
    let problems = limiter.reload().unwrap_err();
    assert_eq!(problems.0.len(), 2, "{problems}");
    assert!(problems.0.iter().all(|problem| problem.file.ends_with("b.yaml")));
    assert_eq!(in_force(&limiter), Some(1));
    fs::remove_file(rules.path("b.yaml")).unwrap();
    limiter.reload().expect("good rules");
    assert_eq!(in_force(&limiter), Some(2));
}

#[test]
fn an_explicit_reload_says_what_is_wrong() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(3));
    let path = rules.path("r.yaml").display().to_string();
    let limiter = rules.unwatched(rules.path("r.yaml"));
    let refusal = |text: &str| {
        rules.write("r.yaml", text);
        let problems = limiter.reload().unwrap_err();
        // Whoever asks later hears the same.
        assert_eq!(limiter.refused_rules().as_deref(), Some(&problems));
        assert_eq!(limiter.generation(), 1);
        problems.to_string().replace(&path, "r.yaml")
    };
    assert_eq!(refusal(""), "r.yaml: the file is empty; begin with `domain: NAME`");
    assert_eq!(
        refusal("domain: d\ndomian: e\ndescriptors: [{key: k, limits: [{requests: 1}]}]"),
        "r.yaml:2:1: domian: unknown field; allowed: domain, descriptors, tenant, hierarchical, tenants, \
         inline_limits, forward_auth; did you mean domain?\n\
         r.yaml:3:33: descriptors[0].limits[0].per: missing; give one of second, minute, hour, day, week, \
         month, year, or a duration such as 250ms, 90s or 1h30m"
    );
    fs::remove_file(rules.path("r.yaml")).unwrap();
    let problems = limiter.reload().unwrap_err().to_string();
    assert_eq!(
        problems.replace(&path, "r.yaml"),
        "r.yaml: cannot be read: No such file or directory (os error 2); check the path and its permissions"
    );
    assert_eq!(in_force(&limiter), Some(3));
    rules.write("r.yaml", &limit(5));
    limiter.reload().expect("good rules");
    assert!(limiter.refused_rules().is_none());
    assert_eq!((in_force(&limiter), limiter.generation()), (Some(5), 2));
}
