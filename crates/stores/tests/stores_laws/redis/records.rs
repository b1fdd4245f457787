//! Records beside the counters.

use std::time::Duration;

use tidegate_core::{Clock, Micros};
use tidegate_stores::StoreError;
use tidegate_stores::redis::RedisStore;
use tidegate_testkit::redis::{RedisServer, until};

use super::world::{RUNTIME, RedisWorld, config};
use crate::conformance::World;

const LONG: Duration = Duration::from_mins(1);

#[test]
fn a_record_is_taken_once_wherever_it_is() {
    let worlds = [
        RedisWorld::single,
        RedisWorld::valkey,
        RedisWorld::sentinel,
        RedisWorld::cluster,
        RedisWorld::sharded,
    ];
    for make in worlds {
        let world = make();
        RUNTIME.block_on(async {
            for number in 0..20_u8 {
                let name = format!("name {number}");
                world.store().keep(&name, &[number, 0, 255], LONG).await.expect("it is kept");
                let (found, now) = world.store().take_kept(&name, 7).await.expect("an answer");
                assert_eq!((found, now), (Some(vec![number, 0, 255]), world.now()), "{name}");
                assert_eq!(world.store().take_kept(&name, 8).await.expect("an answer").0, None, "{name}");
                // Whoever has the claim may have got no answer.
                let again = world.store().take_kept(&name, 7).await.expect("an answer").0;
                assert_eq!(again, Some(vec![number, 0, 255]), "{name}");
            }
        });
    }
}

#[test]
fn a_record_is_gone_after_its_time_and_the_time_told_is_the_servers() {
    let server = RedisServer::start();
    let store = RUNTIME.block_on(RedisStore::connect(config(&server.url())));
    let keep = store.keep("short", b"x", Duration::from_millis(1));
    RUNTIME.block_on(keep).expect("it is kept");
    until("it is gone", || (server.command(&["KEYS", "*:r:*"]).items().is_empty()).then_some(()));
    let (found, now) = RUNTIME.block_on(store.take_kept("short", 1)).expect("an answer");
    assert_eq!(found, None);
    let here = tidegate_stores::SystemClock::new().now();
    let Micros(apart) = Micros(here.since(now).max(now.since(here)));
    assert!(apart < 60_000_000, "{now:?} is told, it is {here:?}");
}

#[test]
fn a_server_that_is_gone_keeps_nothing_and_says_so() {
    let server = RedisServer::start();
    let store = RUNTIME.block_on(RedisStore::connect(config(&server.url())));
    RUNTIME.block_on(store.keep("name", b"x", LONG)).expect("it is kept");
    server.kill();
    let refused = RUNTIME.block_on(store.keep("other", b"x", LONG));
    assert!(matches!(refused, Err(StoreError::Unreachable(_) | StoreError::Broken(_))), "{refused:?}");
    RUNTIME.block_on(store.take_kept("name", 1)).expect_err("nobody answers");
    server.restart();
    until("it is used again", || RUNTIME.block_on(store.keep("other", b"y", LONG)).ok());
    assert_eq!(RUNTIME.block_on(store.take_kept("other", 2)).expect("an answer").0, Some(b"y".to_vec()));
}
