//! Getting in: passwords, users, TLS, and what is found out about a server.

use std::fs;

use tidegate_core::Limit;
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_stores::{Charge, Intent, Store, StoreError};
use tidegate_testkit::redis::{RedisServer, Setup};

use super::world::{RUNTIME, config};
use crate::limits;
use crate::world::SEED;

fn connect(config: RedisStoreConfig) -> RedisStore {
    RUNTIME.block_on(RedisStore::connect(config))
}

fn settle(store: &RedisStore, limit: &Limit) -> Result<bool, StoreError> {
    let charge = Charge::new(SEED.text("k"), limit, 1);
    RUNTIME.block_on(store.settle(&[charge], Intent::Take)).map(|verdicts| verdicts[0].allowed())
}

fn problems(store: &RedisStore) -> Vec<String> {
    let findings = RUNTIME.block_on(store.check_up());
    findings.into_iter().flat_map(|finding| finding.problems).collect()
}

#[test]
fn a_password_lets_in_and_a_wrong_one_is_said() {
    let server = Setup::redis().password("sesame").start();
    let limit = limits::fixed_window(5);
    assert_eq!(settle(&connect(config(&server.url())), &limit), Ok(true));
    let wrong = connect(config(&format!("redis://:wrong@{}", server.address())));
    assert!(matches!(settle(&wrong, &limit), Err(StoreError::Unreachable(_))));
    assert!(!problems(&wrong).is_empty());
}

#[test]
fn a_password_file_is_read_anew_for_each_connection() {
    let server = Setup::redis().password("first").start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("password");
    fs::write(&path, "outdated\n").expect("a file");
    let limit = limits::fixed_window(5);
    let store = connect(config(&format!("redis://{}?password_file={}", server.address(), path.display())));
    assert!(settle(&store, &limit).is_err());
    fs::write(&path, "first\n").expect("a file");
    assert_eq!(settle(&store, &limit), Ok(true));
}

#[test]
fn a_user_with_too_few_rights_is_told_which() {
    let rules = "on >pw ~world* +@all -hset";
    let server =
        Setup::redis().user("poor", rules).user("good", "on >pw ~world* +@all -@dangerous +info").start();
    let limit = limits::fixed_window(5);
    let good = connect(config(&server.url_as("good", "pw")));
    assert_eq!((settle(&good, &limit), problems(&good)), (Ok(true), Vec::new()));
    let poor = connect(config(&server.url_as("poor", "pw")));
    assert!(matches!(settle(&poor, &limit), Err(StoreError::Refused(_))));
    assert!(
        problems(&poor).iter().any(|problem| problem.contains("can't run this command")),
        "{:?}",
        problems(&poor)
    );
}

#[test]
fn tls_trusts_a_private_authority_and_nobody_else() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let server = Setup::redis().tls().start();
    let limit = limits::fixed_window(5);
    let url = format!("rediss://127.0.0.1:{}?ca={}", server.port(), server.authority().display());
    assert_eq!(settle(&connect(config(&url)), &limit), Ok(true));
    let other = Setup::redis().tls().start();
    let stranger = format!("rediss://127.0.0.1:{}?ca={}", server.port(), other.authority().display());
    assert!(matches!(settle(&connect(config(&stranger)), &limit), Err(StoreError::Unreachable(_))));
}

#[test]
fn a_policy_that_would_erase_counters_is_found() {
    let erasing = Setup::redis().memory(100 << 20, "allkeys-lru").start();
    let found = problems(&connect(config(&erasing.url())));
    assert!(
        found.iter().any(|problem| problem.contains("allkeys-lru") && problem.contains("set noeviction")),
        "{found:?}"
    );
    let keeping = Setup::redis().memory(100 << 20, "noeviction").start();
    assert_eq!(problems(&connect(config(&keeping.url()))), Vec::<String>::new());
    let findings = RUNTIME.block_on(connect(config(&keeping.url())).check_up());
    assert!(
        findings[0].version.as_deref().is_some_and(|version| version.starts_with("Redis 7")),
        "{findings:?}"
    );
}

#[test]
fn a_server_that_is_not_there_is_said_to_be() {
    let server = RedisServer::start();
    server.kill();
    let store = connect(config(&server.url()));
    assert!(matches!(settle(&store, &limits::fixed_window(5)), Err(StoreError::Unreachable(_))));
    assert!(!problems(&store).is_empty());
}
