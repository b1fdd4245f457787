//! Reservations of nodes that share a store, on a real server.

use std::time::Duration;

use tidegate::{
    Domain, Fallback, LimitSpec, Limiter, Request, Reservation, ReserveError, Reserved, Rule, SettleError,
    Source, per,
};
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_testkit::redis::{Fault, FaultProxy, RedisServer, Setup};

use super::{MINUTE, remaining};
use crate::support::by;

/// By the server's time, which does not stand still: no window ends meanwhile.
pub(crate) fn per_year(requests: u64) -> LimitSpec {
    per(requests, Duration::from_hours(365 * 24))
}

/// Patient, because these laws are not about time.
pub(crate) async fn node_at(url: &str, domain: Domain) -> Limiter {
    let deadline = Duration::from_secs(10);
    let url = url.parse().expect("an address");
    let config = RedisStoreConfig { deadline, nodes: Some(1), ..RedisStoreConfig::new(url) };
    let store = RedisStore::connect(config).await;
    let builder = Limiter::builder().domain(domain).redis_store(store, Fallback::default(), "secret");
    builder.build().expect("good rules")
}

async fn node(server: &RedisServer, limit: LimitSpec) -> Limiter {
    node_at(&server.url(), Domain::new("d").rule(Rule::by("k").limit(limit))).await
}

pub(crate) async fn reserve(limiter: &Limiter, request: &Request<'_>) -> Reservation {
    match limiter.reserve(request, MINUTE).await.expect("there is room to keep it") {
        Reserved::Reservation(reservation) => reservation,
        Reserved::Denied(decision) => panic!("{decision}"),
    }
}

async fn left(limiter: &Limiter) -> Option<u64> {
    limiter.peek(&by("v").cost(0)).await.remaining()
}

#[tokio::test]
async fn one_node_reserves_and_another_settles_once() {
    let server = RedisServer::start();
    for limit in [
        per_year(100).fixed_window(),
        per_year(100).sliding_window(),
        per_year(100).sub_windows(6),
        per_year(100).sliding_log(),
        per_year(100).token_bucket(),
    ] {
        let (one, two) = (node(&server, limit.clone()).await, node(&server, limit.clone()).await);
        let reservation = reserve(&one, &by("v").cost(80)).await;
        assert_eq!((reservation.decision.source(), one.reservations()), (Source::Shared, 0));
        let id = reservation.id.to_string();
        let settled = two.settle(&id, 30).await.expect("the store answers").expect("it is there");
        assert_eq!((settled.estimate, settled.cost, remaining(&settled)), (80, 30, vec![70]), "{limit:?}");
        for node in [&one, &two] {
            assert!(node.settle(&id, 0).await.expect("the store answers").is_none());
        }
        let over = reserve(&two, &by("v").cost(50)).await;
        one.settle(&over.id.to_string(), 95).await.expect("the store answers").expect("it is there");
        assert_eq!(left(&two).await, Some(0), "{limit:?}");
        assert!(!two.check(&by("v")).await.allowed(), "{limit:?}");
        server.command(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn of_many_who_settle_at_once_one_does() {
    let server = RedisServer::start();
    let limiter = node(&server, per_year(100)).await;
    let id = reserve(&limiter, &by("v").cost(80)).await.id.to_string();
    let all = (0..20).map(|_| {
        let (limiter, id) = (limiter.clone(), id.clone());
        tokio::spawn(async move { limiter.settle(&id, 0).await.expect("the store answers").is_some() })
    });
    let mut settled = 0;
    for one in all.collect::<Vec<_>>() {
        settled += usize::from(one.await.expect("it ends"));
    }
    assert_eq!((settled, left(&limiter).await), (1, Some(100)));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_on_two_nodes_overdraw_a_budget_by_no_more_than_their_estimates_were_wrong() {
    const BUDGET: u64 = 100_000;
    let server = RedisServer::start();
    let limit = per_year(BUDGET).fixed_window();
    let nodes = [node(&server, limit.clone()).await, node(&server, limit).await];
    let worker = |worker: u64| {
        let (one, two) = (nodes[(worker % 2) as usize].clone(), nodes[(worker / 2 % 2) as usize].clone());
        tokio::spawn(async move {
            let (mut used, mut too_low) = (0, 0);
            for round in 0..20_u64 {
                let estimate = 500 + (worker * 7_919 + round * 104_729) % 1_000;
                let cost = estimate * ((worker * 31 + round * 17) % 9) / 4;
                let reserved = one.reserve(&by("v").cost(estimate), MINUTE).await.expect("there is room");
                let Reserved::Reservation(reservation) = reserved else { continue };
                let settled = two.settle(&reservation.id.to_string(), cost).await;
                assert!(settled.expect("the store answers").is_some());
                used += cost;
                too_low += cost.saturating_sub(estimate);
            }
            (used, too_low)
        })
    };
    let (mut used, mut too_low) = (0, 0);
    for worker in (0..50).map(worker).collect::<Vec<_>>() {
        let (its, its_too_low) = worker.await.expect("it ends");
        (used, too_low) = (used + its, too_low + its_too_low);
    }
    assert!(used <= BUDGET + too_low, "{used} of {BUDGET}, {too_low} more than estimated");
    assert!(used > BUDGET / 2, "{used} of {BUDGET}: the budget was worth something");
}

#[tokio::test]
async fn a_reservation_outlives_the_node_that_made_it_and_expires_with_the_store() {
    let server = RedisServer::start();
    let one = node(&server, per_year(100)).await;
    let kept = reserve(&one, &by("v").cost(30)).await.id.to_string();
    let short = one.reserve(&by("v").cost(20), Duration::from_millis(50)).await.expect("there is room");
    let Reserved::Reservation(short) = short else { panic!("20 of 100") };
    drop(one);
    let two = node(&server, per_year(100)).await;
    let records = || server.command(&["KEYS", "*:r:*"]).items().len();
    tidegate_testkit::redis::until("the short one is gone", || (records() == 1).then_some(()));
    assert!(two.settle(&short.id.to_string(), 0).await.expect("the store answers").is_none());
    assert!(two.settle(&kept, 0).await.expect("the store answers").is_some());
    assert_eq!((left(&two).await, records()), (Some(80), 0));
}

#[tokio::test]
async fn while_the_store_fails_a_node_reserves_of_its_share_and_settles_that() {
    let server = RedisServer::start();
    let limiter = node(&server, per_year(100)).await;
    server.kill();
    let reservation = reserve(&limiter, &by("v").cost(40)).await;
    assert_eq!((reservation.decision.source(), limiter.reservations()), (Source::Fallback, 1));
    let settled = limiter.settle(&reservation.id.to_string(), 10).await.expect("memory does not fail");
    let settled = settled.expect("it is there");
    assert_eq!((settled.decision.source(), remaining(&settled)), (Source::Fallback, vec![40]), "half of 100");
    assert_eq!(limiter.reservations(), 0);
}

#[tokio::test]
async fn what_the_store_kept_is_settled_when_it_is_back() {
    // It writes everything down, and reads it again when it starts.
    let server = Setup::redis().set("appendonly", "yes").set("appendfsync", "always").start();
    let limiter = node(&server, per_year(100)).await;
    let id = reserve(&limiter, &by("v").cost(80)).await.id.to_string();
    server.kill();
    let failed = limiter.settle(&id, 10).await;
    assert!(matches!(failed, Err(SettleError::Store(_))), "{failed:?}");
    server.restart();
    // Whoever corrects over a connection that has broken unnoticed cannot know whether that was heard: another
    // decision finds out first.
    for _ in 0..200 {
        if limiter.peek(&by("v").cost(0)).await.source() == Source::Shared {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut settled = limiter.settle(&id, 10).await;
    for _ in 0..200 {
        if settled.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        settled = limiter.settle(&id, 10).await;
    }
    let settled = settled.expect("the store is back").expect("it was not settled yet");
    assert_eq!(remaining(&settled), [90]);
}

/// The server does what it is asked to, and the connection breaks before it can say so.
#[tokio::test]
async fn a_correction_whose_answer_was_lost_is_not_made_again() {
    for (estimate, cost, expected) in [(40, 0, 60), (10, 40, 20)] {
        let server = RedisServer::start();
        let proxy = FaultProxy::before(server.address());
        let limiter = node_at(&proxy.url(), Domain::new("d").rule(Rule::by("k").limit(per_year(100)))).await;
        assert!(limiter.check(&by("v").cost(40)).await.allowed());
        let id = reserve(&limiter, &by("v").cost(estimate)).await.id.to_string();
        // Counters are settled by the script's hash; records are taken by a script of their own.
        proxy.set(Fault::CutAnswer { to: "EVALSHA" });
        let lost = limiter.settle(&id, cost).await;
        assert!(matches!(lost, Err(SettleError::Store(_))), "{lost:?}");
        proxy.heal();
        let again = limiter.settle(&id, cost).await.expect("the store answers");
        assert!(again.is_none(), "{again:?}");
        assert_eq!(left(&limiter).await, Some(expected), "corrected once");
    }
}

/// Whoever settles goes away when the record is taken and the answer with it is still on its way.
#[tokio::test]
async fn what_was_begun_to_be_settled_is_settled_although_nobody_waits() {
    let server = RedisServer::start();
    let proxy = FaultProxy::before(server.address());
    let limiter = node_at(&proxy.url(), Domain::new("d").rule(Rule::by("k").limit(per_year(100)))).await;
    let id = reserve(&limiter, &by("v").cost(80)).await.id.to_string();
    proxy.set(Fault::Delay(Duration::from_secs(1)));
    let taken = async {
        while !server.command(&["KEYS", "*:r:*"]).items().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        biased;
        settled = limiter.settle(&id, 10) => panic!("it is not answered yet: {settled:?}"),
        () = taken => {}
    }
    proxy.heal();
    for _ in 0..200 {
        if left(&limiter).await == Some(90) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?} left of 100 after 10 were used", left(&limiter).await);
}

#[tokio::test]
async fn limits_that_a_request_brought_are_settled_on_another_node() {
    let server = RedisServer::start();
    let domain = || Domain::new("d").inline_limits(10);
    let (one, two) = (node_at(&server.url(), domain()).await, node_at(&server.url(), domain()).await);
    let limits = one.inline_limits("d", &[per_year(10), per_year(50).burst(20).named("slow")]);
    let limits = limits.expect("the domain allows it");
    let reservation = reserve(&one, &by("v").limits(&limits).cost(6)).await;
    let settled = two.settle(&reservation.id.to_string(), 2).await.expect("the store answers");
    assert_eq!(remaining(&settled.expect("it is there")), [8, 18]);
}

#[tokio::test]
async fn in_a_cluster_a_reservation_is_found_wherever_it_is() {
    let cluster = Setup::redis().start_cluster();
    let rule = Rule::by("k").limit(per_year(100));
    let domain = || Domain::new("d").rule(rule.clone()).rule(Rule::by("other").limit(per_year(100)));
    let (one, two) = (node_at(&cluster.url(), domain()).await, node_at(&cluster.url(), domain()).await);
    for number in 0..20 {
        let value = number.to_string();
        let request = Request::new("d", [("k", value.as_str())]).and([("other", value.as_str())]).cost(60);
        let id = reserve(&one, &request).await.id.to_string();
        let settled = two.settle(&id, 10).await.expect("the store answers").expect("it is there");
        assert_eq!(remaining(&settled), [90, 90]);
    }
}

#[tokio::test]
async fn on_all_nodes_together_whoever_reserves_without_end_is_refused_and_others_are_not() {
    let server = RedisServer::start();
    let node = async || {
        let url = server.url().parse().expect("an address");
        let config = RedisStoreConfig { deadline: Duration::from_secs(10), ..RedisStoreConfig::new(url) };
        let store = RedisStore::connect(config).await;
        let domain = Domain::new("d").rule(Rule::by("k").limit(per_year(1_000)));
        let builder = Limiter::builder().domain(domain).redis_store(store, Fallback::default(), "secret");
        // A hundredth of it is one holder's.
        builder.max_reservations(2_000).build().expect("good rules")
    };
    let nodes = [node().await, node().await];
    let hour = Duration::from_hours(1);
    let mut held = Vec::new();
    let refused = loop {
        let number = held.len();
        match nodes[number % 2].reserve(&by("greedy").cost(0), hour).await {
            Ok(Reserved::Reservation(reservation)) => held.push(reservation),
            other => break other.expect_err("it is full"),
        }
        assert!(number < 100, "there is an end to it");
    };
    assert_eq!((held.len(), refused), (20, ReserveError::FullOfHolder { count: 20 }));
    for node in &nodes {
        assert!(node.reserve(&by("greedy"), hour).await.is_err());
        reserve(node, &by("modest")).await;
    }
    // Settling makes room, on whichever node.
    for reservation in held.drain(..10) {
        nodes[1]
            .settle(&reservation.id.to_string(), 0)
            .await
            .expect("the store answers")
            .expect("it is there");
    }
    // The store remembers the denial for a moment.
    for _ in 0..1_000 {
        if nodes[0].reserve(&by("greedy"), hour).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("there is room again");
}
