//! Replies that the script never gives, and keys that are not counters.

use std::time::Duration;

use tidegate_core::{Limit, Taken};
use tidegate_stores::redis::{Circuit, Failures, RedisStore, RedisStoreConfig};
use tidegate_stores::{Charge, Correction, Intent, Store, StoreError, Verdicts};
use tidegate_testkit::redis::{Impostor, RedisServer, Reply, until};

use super::world::{self, RUNTIME, RedisWorld, config};
use crate::conformance::World;
use crate::limits;
use crate::world::SEED;

fn connect(config: RedisStoreConfig) -> RedisStore {
    RUNTIME.block_on(RedisStore::connect(config))
}

fn charge<'l>(name: &str, limit: &'l Limit) -> Charge<'l> {
    let key = SEED.text(name);
    Charge { lease: key.mark, hold: true, ..Charge::new(key, limit, 1) }
}

fn settle(store: &RedisStore, charges: &[Charge<'_>]) -> Result<Verdicts, StoreError> {
    RUNTIME.block_on(store.settle(charges, Intent::Take))
}

/// Does what servers are asked before they are trusted, and settles nothing right.
fn impostor(reply: &'static str) -> Impostor {
    Impostor::start(move |command| {
        let settles = command[0] == b"EVALSHA" || command[1].len() > 2_000;
        let usual = if command[0] == b"SET" { "+OK\r\n" } else { ":1\r\n" };
        Some(if settles { reply } else { usual }.as_bytes().to_vec())
    })
}

/// Of one counter of a fixed window; the right answer would be the time and 14 bytes or nothing.
const WRONG: [&str; 14] = [
    ":1\r\n",
    "+OK\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*1\r\n:5\r\n",
    "*2\r\n$1\r\n5\r\n$-1\r\n",
    "*2\r\n:-5\r\n$-1\r\n",
    "*2\r\n:5\r\n:5\r\n",
    "*2\r\n:5\r\n$3\r\nabc\r\n",
    "*2\r\n:5\r\n*1\r\n*1\r\n:5\r\n",
    "*3\r\n:5\r\n$-1\r\n:1\r\n",
    "*2\r\n:5\r\n-ERR nested\r\n",
    "*3\r\n:5\r\n$-1\r\n$-1\r\n",
];

#[test]
fn a_reply_of_the_wrong_shape_is_a_failure_of_the_server() {
    let limit = limits::fixed_window(5);
    for wrong in WRONG {
        let impostor = impostor(wrong);
        let store = connect(config(&impostor.url()));
        for _ in 0..3 {
            let said = settle(&store, &[charge("k", &limit)]);
            assert!(matches!(said, Err(StoreError::Garbled)), "{wrong:?}: {said:?}");
        }
        // Whoever waits is told first.
        until("the breaker has opened", || (store.circuits()[0].1 != Circuit::Closed).then_some(()));
        assert_eq!(store.failures(), Failures { garbled: 3, ..Failures::default() }, "{wrong:?}");
    }
}

/// Lengths that nobody can mean, lines that are none, and a server that always asks to be asked again.
#[test]
fn a_reply_that_never_ends_is_a_failure_of_the_server() {
    let limit = limits::fixed_window(5);
    let endless = [
        "*1000000000\r\n:5\r\n",
        "*2\r\n:5\r\n$9000000000000000000\r\n",
        "*9223372036854775807\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        "nonsense\r\n",
        "*2\r\n:0\r\n:5\r\n",
        "-NOSCRIPT no\r\n",
    ];
    for reply in endless {
        let impostor = impostor(reply);
        let deadline = Duration::from_millis(50);
        let store = connect(RedisStoreConfig { deadline, ..config(&impostor.url()) });
        until("the breaker has opened", || {
            let said = settle(&store, &[charge("k", &limit)]);
            assert!(said.is_err(), "{reply:?}: {said:?}");
            (said == Err(StoreError::Open)).then_some(())
        });
        let Failures { late, unreachable, .. } = store.failures();
        assert!(late + unreachable >= 3, "{reply:?}: {:?}", store.failures());
    }
}

/// All counters of a store, in whatever servers it has, become strings that somebody else has written.
fn plant(servers: &[&RedisServer], prefix: &str) -> usize {
    let mut planted = 0;
    for server in servers.iter().filter(|server| server.info("role").as_deref() == Some("master")) {
        for key in server.command(&["KEYS", &format!("{prefix}:*")]).items() {
            let key = key.text();
            if !key.ends_with(":idle") {
                server.command(&["SET", &key, "somebody else's"]);
                planted += 1;
            }
        }
    }
    planted
}

/// A key of the wrong type fails its own decisions, whatever is asked of it, and nobody else's.
fn foreign_keys_fail_alone(url: &str, servers: &[&RedisServer]) {
    for limit in limits::every() {
        let settings = config(url);
        let prefix = settings.prefix.clone();
        let store = connect(settings);
        let foreign = charge("foreign", &limit);
        settle(&store, &[foreign]).expect("nobody has touched it yet");
        assert!(plant(servers, &prefix) > 0, "{limit:?} has a key");
        // Another window, so that it has another key even where many counters share one.
        let other = Limit::token_bucket(1_000, tidegate_core::Window::seconds(86_400)).expect("a limit");
        let (others, both) = ([charge("other", &other)], [foreign, charge("other", &other)]);
        RUNTIME.block_on(async {
            for round in 1..=5 {
                // On their way together, and so mostly in one batch.
                let (alone, together, sound) = tokio::join!(
                    store.settle(std::slice::from_ref(&foreign), Intent::Take),
                    store.settle(&both, Intent::Take),
                    store.settle(&others, Intent::Take),
                );
                assert_eq!(alone, Err(StoreError::Foreign), "{limit:?}");
                assert!(together.is_err(), "{limit:?}: {together:?}");
                // What was sent with the other to another server is given back in the background.
                assert!(sound.expect("it is another key")[0].remaining >= 1_000 - 2 * round);
            }
            assert_eq!(store.settle(&[foreign], Intent::Look).await, Err(StoreError::Foreign));
            assert_eq!(store.give_back(&[foreign]).await, Err(StoreError::Foreign));
            let corrected = store.correct(&[(foreign, Correction::Overdraw)]).await;
            assert_eq!(corrected[0], Err(StoreError::Foreign));
            assert_eq!(store.renew(&foreign).await, Err(StoreError::Foreign));
            assert_eq!(store.release(&foreign).await, Err(StoreError::Foreign));
        });
        let circuits = store.circuits();
        assert!(circuits.iter().all(|(_, circuit, _)| *circuit == Circuit::Closed), "{circuits:?}");
        let Failures { foreign, late, unreachable, refused, garbled, .. } = store.failures();
        assert!(foreign >= 10 && late + unreachable + refused + garbled == 0, "{:?}", store.failures());
    }
}

#[test]
fn a_key_of_the_wrong_type_fails_its_own_decisions_on_one_server() {
    let server = RedisServer::start();
    foreign_keys_fail_alone(&server.url(), &[&server]);
}

#[test]
fn a_key_of_the_wrong_type_fails_its_own_decisions_on_shards() {
    let (url, servers) = world::shards();
    foreign_keys_fail_alone(&url, &servers);
}

#[test]
fn a_key_of_the_wrong_type_fails_its_own_decisions_in_a_cluster() {
    let (url, servers) = world::cluster();
    foreign_keys_fail_alone(&url, &servers);
}

/// One field of a hash that many counters share.
#[test]
fn a_counter_that_was_written_over_leaves_its_neighbours_alone() {
    let server = RedisServer::start();
    for limit in [limits::fixed_window(50), limits::sliding_window(50), limits::token_bucket(50, 50)] {
        let settings = RedisStoreConfig { partitions: 1, ..config(&server.url()) };
        let pattern = format!("{}:*", settings.prefix);
        let store = connect(settings);
        settle(&store, &[charge("broken", &limit)]).expect("it is a counter");
        let keys = server.command(&["KEYS", &pattern]);
        let hash = keys.items().iter().map(Reply::text).find(|key| !key.ends_with(":idle"));
        let hash = hash.expect("the counter's hash");
        for field in server.command(&["HKEYS", &hash]).items() {
            if let Reply::Bulk(field) = field
                && field.len() == 16
            {
                server.command(&[b"HSET", hash.as_bytes(), field, b"odd"]);
            }
        }
        for number in 0..40 {
            // New ones look through their neighbours for what has expired.
            let neighbour = charge(&format!("neighbour {number}"), &limit);
            settle(&store, &[neighbour]).expect("a counter of its own");
            let broken = settle(&store, &[charge("broken", &limit)]);
            assert_eq!(broken, Err(StoreError::Foreign), "{limit:?}");
        }
        assert_eq!(store.circuits()[0].1, Circuit::Closed);
        server.command(&["FLUSHALL"]);
        settle(&store, &[charge("broken", &limit)]).expect("it starts anew");
    }
}

/// Sums above 2^53 are rounded in the script, and what is listed one by one is not.
#[test]
fn a_log_of_enormous_overruns_is_not_a_reply_of_the_wrong_shape() {
    for seed in 1..6_u64 {
        let world = RedisWorld::single();
        let limit = limits::sliding_log(2);
        let charge = |cost| Charge { cost, ..charge(&format!("enormous {seed}"), &limit) };
        for step in 0..40_u64 {
            world.set_now(world.now().plus(limits::PERIOD_US / (2 + seed * step % 7)));
            let cost = if step % 3 == 0 { u64::MAX } else { 1 + step * seed % 5 };
            let store = world.store();
            let corrected = RUNTIME.block_on(store.correct(&[(charge(cost), Correction::Overdraw)]));
            assert!(corrected[0].is_ok(), "step {step} of {seed}: {corrected:?}");
            let given = Correction::GiveBack(Taken { at: world.now(), clear_at: world.now() });
            let corrected = RUNTIME.block_on(store.correct(&[(charge(1), given)]));
            assert!(corrected[0].is_ok(), "step {step} of {seed}: {corrected:?}");
        }
    }
}
