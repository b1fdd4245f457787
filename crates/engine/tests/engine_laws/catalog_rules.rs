//! Rules that come from the catalog, beside files and code.

use std::fs;

use tidegate::{CatalogRules, Domain, Limiter, Owner, Request, Rule, per_minute};

use crate::support::left;

fn rules(domain: &str, requests: u64) -> CatalogRules {
    let text = format!(
        "{{domain: {domain}, descriptors: [{{key: k, rate_limit: {{unit: minute, requests_per_unit: {requests}}}}}]}}"
    );
    CatalogRules { domain: domain.to_owned(), text }
}

/// With domain `code` in code and domain `file` in a file.
fn limiter() -> (Limiter, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("file.yaml"), rules("file", 2).text).expect("it can be written");
    let code = Domain::new("code").rule(Rule::by("k").limit(per_minute(1)));
    let limiter = Limiter::builder().domain(code).rules(folder.path()).watch(false).build();
    (limiter.expect("good rules"), folder)
}

fn of(limiter: &Limiter, domain: &str) -> Vec<u64> {
    left(limiter, &Request::new(domain, [("k", "v")]))
}

#[test]
fn they_act_beside_the_others_and_are_replaced_whole() {
    let (limiter, _folder) = limiter();
    limiter.set_catalog_rules(vec![rules("a", 3), rules("b", 4)]).expect("good rules");
    let all = ["code", "file", "a", "b"].map(|domain| of(&limiter, domain));
    assert_eq!(all, [vec![1], vec![2], vec![3], vec![4]]);
    limiter.set_catalog_rules(vec![rules("b", 5)]).expect("good rules");
    let all = ["code", "file", "a", "b"].map(|domain| of(&limiter, domain));
    assert_eq!(all, [vec![1], vec![2], vec![], vec![5]]);
    limiter.reload().expect("good rules");
    assert_eq!(of(&limiter, "b"), [5], "a reload of the files keeps them");
}

#[test]
fn a_domain_has_one_owner_and_a_clash_names_both() {
    let (limiter, folder) = limiter();
    let path = folder.path().join("file.yaml").display().to_string();
    limiter.set_catalog_rules(vec![rules("a", 3)]).expect("good rules");
    let owners = ["code", "file", "a", "x"].map(|domain| limiter.owner_of(domain));
    assert_eq!(owners, [Some(Owner::Code), Some(Owner::File(path.clone())), Some(Owner::Catalog), None]);
    for (domain, owner) in [("code", "code"), ("file", path.as_str())] {
        let problems = limiter.set_catalog_rules(vec![rules("a", 9), rules(domain, 3)]).expect_err("a clash");
        let expected = format!(
            "catalog:{domain}: domain: domain {domain:?} is defined in {owner} already; a domain has one \
             owner: remove it there or from the catalog"
        );
        assert_eq!(problems.to_string(), expected);
        assert_eq!(of(&limiter, "a"), [3], "the last good rules stay");
    }
    fs::write(folder.path().join("a.yaml"), rules("a", 7).text).expect("it can be written");
    limiter.reload().expect_err("the file takes the catalog's domain");
    assert_eq!(of(&limiter, "a"), [3]);
    limiter.set_catalog_rules(Vec::new()).expect("good rules");
    limiter.reload().expect("the catalog gave it up");
    assert_eq!((of(&limiter, "a"), limiter.refused_rules().is_none()), (vec![7], true));
}

#[test]
fn mistakes_change_nothing_and_name_the_catalog() {
    let (limiter, _folder) = limiter();
    limiter.set_catalog_rules(vec![rules("a", 3)]).expect("good rules");
    let bad = CatalogRules { domain: "a".to_owned(), text: "domain: b".to_owned() };
    let problems = limiter.set_catalog_rules(vec![bad, rules("c", 1)]).expect_err("another domain");
    assert!(problems.to_string().starts_with("catalog:a: domain: must be \"a\""), "{problems}");
    let bad = CatalogRules { domain: "a".to_owned(), text: "domain: a\ndescriptors: 7".to_owned() };
    let problems = limiter.set_catalog_rules(vec![bad]).expect_err("no descriptors");
    assert!(problems.to_string().starts_with("catalog:a:2:14: descriptors: "), "{problems}");
    assert_eq!((of(&limiter, "a"), of(&limiter, "c")), (vec![3], vec![]));
}

#[test]
fn a_text_is_checked_against_the_rules_in_force_without_acting() {
    let (limiter, _folder) = limiter();
    let text = |rules: &str| format!("{{domain: a, descriptors: [{rules}]}}");
    let rule = |key: &str, requests: u64| {
        format!("{{key: {key}, rate_limit: {{unit: minute, requests_per_unit: {requests}}}}}")
    };
    let first = text(&format!("{}, {}, {}", rule("stays", 1), rule("changes", 1), rule("goes", 1)));
    let change = limiter.check_rules(Some("a"), &first).expect("good rules");
    assert_eq!((change.domain.as_str(), change.added.len(), change.domain_changed), ("a", 3, true));
    assert_eq!(of(&limiter, "a"), [0; 0], "nothing is put in force");

    limiter
        .set_catalog_rules(vec![CatalogRules { domain: "a".to_owned(), text: first }])
        .expect("good rules");
    let second = text(&format!("{}, {}, {}", rule("stays", 1), rule("changes", 2), rule("comes", 1)));
    let change = limiter.check_rules(None, &second).expect("good rules");
    assert_eq!((change.added, change.removed), (vec!["comes".to_owned()], vec!["goes".to_owned()]));
    assert_eq!((change.changed, change.domain_changed), (vec!["changes".to_owned()], false));
    let tenants = second.replace("{domain: a,", "{domain: a, tenant: k,");
    assert!(limiter.check_rules(None, &tenants).expect("good rules").domain_changed);

    limiter.check_rules(Some("b"), &second).expect_err("another domain");
    let never = text(&format!("{}, {}", rule("'k', value: '*'", 1), rule("'k', value: 'x*'", 1)));
    assert!(!limiter.check_rules(None, &never).expect("they load").findings.is_empty(), "the lint is told");
}

#[test]
fn a_default_domain_is_in_force_until_somebody_defines_one_of_its_name() {
    let default = Domain::new("apps").rule(Rule::by("k").limit(per_minute(1)));
    let limiter = Limiter::builder().default_domain(default).watch(false).build().expect("good rules");
    assert_eq!(of(&limiter, "apps"), [1]);
    assert_eq!(limiter.owner_of("apps"), None, "nobody has to give it up");
    limiter.set_catalog_rules(vec![rules("apps", 7)]).expect("good rules");
    assert_eq!(of(&limiter, "apps"), [7], "the catalog's replace it");
    limiter.reload().expect("good rules");
    assert_eq!((of(&limiter, "apps"), limiter.domain_names().len()), (vec![7], 1));
    limiter.set_catalog_rules(Vec::new()).expect("good rules");
    assert_eq!(of(&limiter, "apps"), [1], "without them it is back");
}
