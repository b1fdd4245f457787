//! Rules that come from several origins.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use parking_lot::Mutex;
use tidegate::{
    Domain, LimitChange, Limiter, Origin, Override, Owner, Problems, ReadError, Request, Rule, RulesText,
    Switch, Switches, Tenant, TenantChange, TenantSource, Update, per_minute,
};

use crate::support::left;

fn rules(domain: &str, requests: u64) -> RulesText {
    let text = format!(
        "{{domain: {domain}, descriptors: [{{key: k, rate_limit: {{unit: minute, requests_per_unit: {requests}}}}}]}}"
    );
    RulesText { domain: domain.to_owned(), text }
}

/// Puts the rules of the catalog in force.
fn bring(limiter: &Limiter, rules: Vec<RulesText>) -> Result<(), Problems> {
    limiter.update(Update::new().rules(Origin::Catalog, rules))
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
    bring(&limiter, vec![rules("a", 3), rules("b", 4)]).expect("good rules");
    let all = ["code", "file", "a", "b"].map(|domain| of(&limiter, domain));
    assert_eq!(all, [vec![1], vec![2], vec![3], vec![4]]);
    bring(&limiter, vec![rules("b", 5)]).expect("good rules");
    let all = ["code", "file", "a", "b"].map(|domain| of(&limiter, domain));
    assert_eq!(all, [vec![1], vec![2], vec![], vec![5]]);
    limiter.reload().expect("good rules");
    assert_eq!(of(&limiter, "b"), [5], "a reload of the files keeps them");
}

#[test]
fn a_domain_has_one_owner_and_a_clash_names_both() {
    let (limiter, folder) = limiter();
    let path = folder.path().join("file.yaml").display().to_string();
    bring(&limiter, vec![rules("a", 3)]).expect("good rules");
    let owners = ["code", "file", "a", "x"].map(|domain| limiter.owner_of(domain));
    let owner = |origin, source: &str| Some(Owner { origin, source: source.to_owned() });
    let expected =
        [owner(Origin::Code, "code"), owner(Origin::Files, &path), owner(Origin::Catalog, "catalog:a"), None];
    assert_eq!(owners, expected);
    for (domain, owner) in [("code", "code"), ("file", path.as_str())] {
        let problems = bring(&limiter, vec![rules("a", 9), rules(domain, 3)]).expect_err("a clash");
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
    bring(&limiter, Vec::new()).expect("good rules");
    limiter.reload().expect("the catalog gave it up");
    assert_eq!((of(&limiter, "a"), limiter.refused_rules().is_none()), (vec![7], true));
}

#[test]
fn mistakes_change_nothing_and_name_the_catalog() {
    let (limiter, _folder) = limiter();
    bring(&limiter, vec![rules("a", 3)]).expect("good rules");
    let bad = RulesText { domain: "a".to_owned(), text: "domain: b".to_owned() };
    let problems = bring(&limiter, vec![bad, rules("c", 1)]).expect_err("another domain");
    assert!(problems.to_string().starts_with("catalog:a: domain: must be \"a\""), "{problems}");
    let bad = RulesText { domain: "a".to_owned(), text: "domain: a\ndescriptors: 7".to_owned() };
    let problems = bring(&limiter, vec![bad]).expect_err("no descriptors");
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

    bring(&limiter, vec![RulesText { domain: "a".to_owned(), text: first }]).expect("good rules");
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
    bring(&limiter, vec![rules("apps", 7)]).expect("good rules");
    assert_eq!(of(&limiter, "apps"), [7], "the catalog's replace it");
    limiter.reload().expect("good rules");
    assert_eq!((of(&limiter, "apps"), limiter.domain_names().len()), (vec![7], 1));
    bring(&limiter, Vec::new()).expect("good rules");
    assert_eq!(of(&limiter, "apps"), [1], "without them it is back");
}

#[test]
fn an_origin_that_is_broken_keeps_no_other_from_changing() {
    let (limiter, folder) = limiter();
    let path = folder.path().join("file.yaml");
    bring(&limiter, vec![rules("a", 3)]).expect("good rules");

    fs::write(&path, "domain: [").expect("it can be written");
    limiter.reload().expect_err("a broken file");
    bring(&limiter, vec![rules("a", 4)]).expect("the catalog's are good");
    assert_eq!((of(&limiter, "a"), of(&limiter, "file")), (vec![4], vec![2]));

    bring(&limiter, vec![rules("b", 1), RulesText { domain: "a".to_owned(), text: "domain: [".to_owned() }])
        .expect_err("a broken text");
    fs::write(&path, rules("file", 5).text).expect("it can be written");
    limiter.reload().expect("the file is good again");
    let all = ["a", "b", "file"].map(|domain| of(&limiter, domain));
    assert_eq!(all, [vec![4], vec![], vec![5]], "of the catalog, what was last good");
}

/// Counts how often tenants are read.
#[derive(Default)]
struct Counted(AtomicUsize);

impl TenantSource for Counted {
    fn each(&self, put: &mut dyn FnMut(Tenant)) -> Result<(), ReadError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        put(tenant("listed", 9));
        Ok(())
    }
}

fn tenant(name: &str, requests: u64) -> Tenant {
    let numbers = LimitChange { requests: Some(requests), ..LimitChange::default() };
    Tenant::new(name).with(Override::of(numbers))
}

#[test]
fn an_update_reads_tenants_once_and_only_if_rules_change() {
    let source = Arc::new(Counted::default());
    let domain = Domain::new("d").tenant_key("k").rule(Rule::by("k").limit(per_minute(1)));
    let limiter = Limiter::builder().domain(domain).tenants(Arc::clone(&source) as Arc<dyn TenantSource>);
    let limiter = limiter.build().expect("good rules");
    let read = || source.0.swap(0, Ordering::Relaxed);
    let listed = || left(&limiter, &Request::new("d", [("k", "listed")]));
    assert_eq!((read(), listed()), (1, vec![9]));

    let off = || Switches { all: Switch::Off, ..Switches::default() };
    limiter.update(Update::new().switches(off())).expect("nothing can be wrong");
    limiter.update(Update::new().switches(Switches::default())).expect("nothing can be wrong");
    let gone = TenantChange::Gone("listed".to_owned());
    limiter.update(Update::new().tenants([gone.clone()])).expect("nothing can be wrong");
    assert_eq!((read(), listed()), (0, vec![1]));

    let all = Update::new().rules(Origin::Catalog, [rules("a", 3)]).all_tenants().switches(off());
    limiter.update(all).expect("good rules");
    assert_eq!((read(), listed()), (1, vec![]), "all of it at once");
    limiter.update(Update::new().switches(Switches::default())).expect("nothing can be wrong");
    assert_eq!((read(), listed(), of(&limiter, "a")), (0, vec![9], vec![3]));

    limiter.update(Update::new().tenants([gone]).all_tenants()).expect("good rules");
    assert_eq!((read(), listed()), (1, vec![1]), "changes come after what was read");
}

#[test]
fn broken_rules_keep_neither_switches_nor_tenants_back() {
    let source = Arc::new(Counted::default());
    let domain = Domain::new("d").tenant_key("k").rule(Rule::by("k").limit(per_minute(1)));
    let limiter = Limiter::builder().domain(domain).tenants(Arc::clone(&source) as Arc<dyn TenantSource>);
    let limiter = limiter.build().expect("good rules");
    let broken = || Update::new().rules(Origin::Catalog, [rules("d", 3)]);
    let asked = |name: &str| left(&limiter, &Request::new("d", [("k", name)]));

    limiter
        .update(broken().tenants([TenantChange::Put(tenant("ann", 7))]))
        .expect_err("code has that domain");
    assert_eq!(asked("ann"), [7]);
    limiter.update(broken().all_tenants()).expect_err("code has that domain");
    assert_eq!((asked("ann"), asked("listed")), (vec![1], vec![9]), "the source does not have ann");
    let off = Switches { all: Switch::Off, ..Switches::default() };
    limiter.update(broken().switches(off)).expect_err("code has that domain");
    assert_eq!(asked("listed"), [0; 0]);
}

/// Lets a test hold tenants back.
struct Held(Mutex<mpsc::Receiver<()>>);

impl TenantSource for Held {
    fn each(&self, _: &mut dyn FnMut(Tenant)) -> Result<(), ReadError> {
        self.0.lock().recv().map_err(|_| "the test has ended".into())
    }
}

#[test]
fn nothing_but_another_update_waits_while_tenants_are_read() {
    let (release, held) = mpsc::channel();
    release.send(()).expect("the limiter reads once while it is built");
    let domain = Domain::new("d").tenant_key("k").rule(Rule::by("k").limit(per_minute(1)));
    let limiter = Limiter::builder().domain(domain).tenants(Arc::new(Held(Mutex::new(held)))).watch(false);
    let limiter = limiter.build().expect("good rules");
    let (asking, update) = (limiter.clone(), Update::new().rules(Origin::Catalog, [rules("a", 3)]));
    let updating = thread::spawn(move || asking.update(update));

    // If one of these waited for the update, it would wait for ever.
    let off = Switches { all: Switch::Off, ..Switches::default() };
    limiter.set_switches(off.clone());
    assert_eq!((limiter.switches(), of(&limiter, "d")), (off, vec![]), "a kill switch acts at once");
    assert_eq!(limiter.owner_of("d").map(|owner| owner.origin), Some(Origin::Code));
    assert!(limiter.outline("d").is_some());
    limiter.check_rules(Some("b"), &rules("b", 1).text).expect("good rules");

    release.send(()).expect("the update waits for it");
    updating.join().expect("no panic").expect("good rules");
    assert_eq!(
        (of(&limiter, "a"), of(&limiter, "d")),
        (vec![], vec![]),
        "what was loaded meanwhile is switched too"
    );
    limiter.set_switches(Switches::default());
    assert_eq!((of(&limiter, "a"), of(&limiter, "d")), (vec![3], vec![1]));
}
