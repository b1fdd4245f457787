//! Settlements on a store that fails and comes back: each is made once, and as a whole.

use std::time::Duration;

use tidegate::{Domain, Limiter, Request, Rule, SettleError, Settled};
use tidegate_stores::redis::Circuit;
use tidegate_testkit::redis::{Fault, FaultProxy, RedisServer};

use super::nodes::{node_at, per_year, reserve};
use super::remaining;
use crate::support::by;

const ALL: u64 = 100_000;

/// Waits until what a server lets through is one of these.
async fn until_one_is(limiter: &Limiter, circuits: &[Circuit]) {
    for _ in 0..10_000 {
        let health = limiter.store_health().expect("a store");
        if health.servers.iter().any(|(_, circuit, _)| circuits.contains(circuit)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("none is {circuits:?}: {:?}", limiter.store_health());
}

/// Asks until a server is left alone.
async fn until_open(limiter: &Limiter) {
    for number in 0..10_000 {
        let value = number.to_string();
        limiter.peek(&Request::new("d", [("k", value.as_str())]).cost(0)).await;
        let health = limiter.store_health().expect("a store");
        if health.servers.iter().any(|(_, circuit, _)| *circuit == Circuit::Open) {
            return;
        }
    }
    panic!("none is left alone: {:?}", limiter.store_health());
}

/// Settles until the store answers.
async fn settle_at_last(limiter: &Limiter, id: &str, cost: u64) -> Vec<u64> {
    remaining(&answer_at_last(limiter, id, cost).await.expect("it was not settled yet"))
}

/// Settles a reservation as soon as the store lets it. Returns `None` if it was settled before.
async fn answer_at_last(limiter: &Limiter, id: &str, cost: u64) -> Option<Settled> {
    for _ in 0..2_000 {
        match limiter.settle(id, cost).await {
            Ok(settled) => return settled,
            Err(SettleError::Store(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    panic!("{id} is not settled");
}

/// A server that has just come back is let a growing share of requests through: one correction of a settlement
/// may not be among those that are while another is not.
#[tokio::test]
async fn a_server_that_has_just_come_back_settles_a_reservation_as_a_whole_or_not_at_all() {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let rule =
        Rule::by("k").limit(per_year(ALL).named("one")).limit(per_year(ALL).fixed_window().named("two"));
    let limiter = node_at(&proxy.url(), Domain::new("d").rule(rule)).await;
    let mut held = Vec::new();
    for _ in 0..60 {
        held.push(reserve(&limiter, &by("v").cost(10)).await.id.to_string());
    }
    let mut refused = Vec::new();
    for some in held.chunks(12) {
        proxy.set(Fault::Refuse);
        until_open(&limiter).await;
        proxy.heal();
        until_one_is(&limiter, &[Circuit::Recovering]).await;
        for id in some {
            match limiter.settle(id, 0).await {
                Ok(settled) => assert!(settled.is_some()),
                Err(SettleError::Store(_)) => refused.push(id),
            }
        }
        until_one_is(&limiter, &[Circuit::Closed]).await;
    }
    assert!(!refused.is_empty(), "a server that comes back is spared");
    for id in refused {
        settle_at_last(&limiter, id, 0).await;
    }
    let left = limiter.peek(&by("v").cost(0)).await;
    assert_eq!(left.limits().map(|limit| limit.remaining).collect::<Vec<_>>(), [ALL, ALL]);
}

/// Of two servers one fails: what was settled on the other is not settled again, and the rest can be.
#[tokio::test]
async fn what_was_settled_in_part_is_put_back_and_settled_to_the_end_later() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let proxies = [FaultProxy::before(servers[0].address()), FaultProxy::before(servers[1].address())];
    let url = format!("redis+sharded://{},{}", proxies[0].address(), proxies[1].address());
    let rules = ["k", "other"].map(|key| Rule::by(key).limit(per_year(100)));
    let [one, two] = rules;
    let limiter = node_at(&url, Domain::new("d").rule(one).rule(two)).await;
    let mut held = Vec::new();
    for number in 0..30 {
        let value = format!("v{number}");
        let request = Request::new("d", [("k", value.as_str())]).and([("other", value.as_str())]).cost(60);
        held.push(reserve(&limiter, &request).await.id.to_string());
    }
    proxies[1].set(Fault::Refuse);
    until_open(&limiter).await;
    let mut rest = Vec::new();
    for id in &held {
        match limiter.settle(id, 10).await {
            Ok(settled) => assert_eq!(remaining(&settled.expect("it was not settled yet")), [90, 90]),
            Err(SettleError::Store(_)) => rest.push(id),
        }
    }
    assert!((1..30).contains(&rest.len()), "{} of 30 failed", rest.len());
    proxies[1].heal();
    for id in rest {
        // By another cost, which is then that of both.
        assert_eq!(settle_at_last(&limiter, id, 80).await, [20, 20]);
        assert!(answer_at_last(&limiter, id, 0).await.is_none(), "once");
    }
}

#[tokio::test]
async fn a_record_that_was_taken_without_a_reply_is_there_for_whoever_asked_and_for_nobody_else() {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let domain = || Domain::new("d").rule(Rule::by("k").limit(per_year(100)));
    let (asker, other) = (node_at(&proxy.url(), domain()).await, node_at(&server.url(), domain()).await);
    let id = reserve(&asker, &by("v").cost(40)).await.id.to_string();
    // In the script that takes records; those of counters are sent by their hash.
    proxy.set(Fault::CutAnswer { to: "GETDEL" });
    let lost = asker.settle(&id, 10).await;
    assert!(matches!(lost, Err(SettleError::Store(_))), "{lost:?}");
    proxy.heal();
    assert!(other.settle(&id, 0).await.expect("the store answers").is_none());
    assert_eq!(settle_at_last(&asker, &id, 10).await, [90]);
    for node in [&asker, &other] {
        assert!(node.settle(&id, 0).await.expect("the store answers").is_none());
    }
}
