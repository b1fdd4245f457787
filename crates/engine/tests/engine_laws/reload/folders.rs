//! Folders of rule files, several paths, and rules in code beside them.

use std::fs;

use tidegate::{Domain, Limiter, Request, Rule, per_minute};

use super::{Rules, in_force, limit};
use crate::support::wait_until;

fn domains(limiter: &Limiter) -> Vec<String> {
    limiter.listing().into_iter().map(|domain| domain.domain).collect()
}

fn file_of(domain: &str) -> String {
    limit(5).replace("domain: d", &format!("domain: {domain}"))
}

#[test]
fn files_that_are_added_and_removed_are_noticed() {
    let rules = Rules::new();
    rules.write("m.yaml", &file_of("m"));
    let limiter = rules.watched(rules.folder.path());
    assert_eq!(domains(&limiter), ["m"]);
    rules.write("z.yml", &file_of("z"));
    wait_until("a file is added", || domains(&limiter) == ["m", "z"]);
    rules.write("a.yaml", &file_of("a"));
    wait_until("another", || domains(&limiter) == ["a", "m", "z"]);
    fs::remove_file(rules.path("m.yaml")).unwrap();
    wait_until("one is removed", || domains(&limiter) == ["a", "z"]);
    fs::rename(rules.path("a.yaml"), rules.path("zz.yaml")).unwrap();
    wait_until("one is renamed", || domains(&limiter) == ["z", "a"]);
    let request = Request::new("m", [("k", "v")]);
    assert!(limiter.check_now(&request).decided_by().is_none());
}

#[test]
fn a_folder_that_becomes_empty_keeps_the_last_rules() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(1));
    let limiter = rules.watched(rules.folder.path());
    fs::remove_file(rules.path("r.yaml")).unwrap();
    wait_until("the file is missed", || limiter.refused_rules().is_some());
    assert_eq!(in_force(&limiter), Some(1));
}

#[test]
fn files_that_are_no_rules_change_nothing() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(1));
    let limiter = rules.unwatched(rules.folder.path());
    for name in ["notes.txt", ".hidden.yaml", "r.yaml.bak", "r.json"] {
        rules.write(name, "{");
    }
    fs::create_dir(rules.path("folder.yaml")).unwrap();
    limiter.reload().expect("good rules");
    assert_eq!(domains(&limiter), ["d"]);
}

#[test]
fn rules_come_from_code_and_from_any_number_of_paths() {
    let rules = Rules::new();
    rules.write("one.yaml", &file_of("one"));
    fs::create_dir(rules.path("more")).unwrap();
    rules.write("more/two.yaml", &file_of("two"));
    let builder = Limiter::builder()
        .rules(rules.path("one.yaml"))
        .rules(rules.path("more"))
        .domain(Domain::new("code").rule(Rule::by("k").limit(per_minute(1))));
    let limiter = builder.clock(rules.clock.clone()).build().expect("good rules");
    assert_eq!(domains(&limiter), ["code", "one", "two"]);
    rules.write("more/three.yaml", &file_of("three"));
    wait_until("a file is added", || domains(&limiter) == ["code", "one", "three", "two"]);
    // What code says stays through reloads, with its counters.
    let code = Request::new("code", [("k", "v")]);
    assert!(limiter.check_now(&code).allowed());
    limiter.reload().expect("good rules");
    assert!(!limiter.check_now(&code).allowed());
}

#[test]
fn unwatched_files_change_nothing_until_told_to() {
    let rules = Rules::new();
    rules.write("r.yaml", &limit(1));
    let (unwatched, watched) = (rules.unwatched(rules.path("r.yaml")), rules.watched(rules.path("r.yaml")));
    rules.write("r.yaml", &limit(2));
    wait_until("the other one sees it", || in_force(&watched) == Some(2));
    assert_eq!((in_force(&unwatched), unwatched.generation()), (Some(1), 1));
    unwatched.reload().expect("good rules");
    assert_eq!((in_force(&unwatched), unwatched.generation()), (Some(2), 2));
}
