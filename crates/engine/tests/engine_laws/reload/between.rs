//! Rules that change while a call waits for the shared store: each call ends by those it began with.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tidegate::{
    Acquired, Fallback, Limiter, Origin, Permit, Request, Reservation, ReservationId, Reserved, RulesText,
    Source, Update,
};
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_testkit::redis::RedisServer;

const BEFORE: &str = "
domain: d
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 100 }
    concurrency: { max: 1, timeout: 1h }
";
const WITHOUT: &str =
    "domain: d\ndescriptors: [{ key: other, rate_limit: { unit: hour, requests_per_unit: 9 } }]";

fn put(limiter: &Limiter, text: &str) {
    let rules = RulesText { domain: "d".to_owned(), text: text.to_owned() };
    limiter.update(Update::new().rules(Origin::Catalog, [rules])).expect("good rules");
}

async fn node(server: &RedisServer) -> Limiter {
    let url = server.url().parse().expect("an address");
    let config = RedisStoreConfig { deadline: Duration::from_secs(10), ..RedisStoreConfig::new(url) };
    let store = RedisStore::connect(config).await;
    let builder = Limiter::builder().rules_may_come_later(true).redis_store(store, Fallback::default(), "s");
    let limiter = builder.build().expect("good rules");
    put(&limiter, BEFORE);
    limiter
}

fn ann() -> Request<'static> {
    Request::new("d", [("user", "ann")])
}

/// Begins a call, takes its rules away while it waits, lets it end, and puts the rules back.
async fn without_its_rules<T>(limiter: &Limiter, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    let begun = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    assert!(begun.is_pending(), "it waits for the store");
    put(limiter, WITHOUT);
    let ended = call.await;
    put(limiter, BEFORE);
    ended
}

async fn left(limiter: &Limiter) -> Option<u64> {
    limiter.peek(&ann().cost(0)).await.remaining()
}

fn permit(acquired: Acquired) -> Permit {
    acquired.permit().expect("a slot is free")
}

#[tokio::test]
async fn a_check_is_decided_by_the_rules_it_began_with_and_a_refund_gives_back_by_them() {
    let server = RedisServer::start();
    let limiter = node(&server).await;
    let decision = without_its_rules(&limiter, limiter.check(&ann())).await;
    assert_eq!((decision.remaining(), decision.source()), (Some(99), Source::Shared));
    assert_eq!(decision.decided_by().map(|by| by.rule), Some("user"));
    without_its_rules(&limiter, limiter.refund(&ann())).await;
    assert_eq!(left(&limiter).await, Some(100));
}

#[tokio::test]
async fn a_permit_returns_the_slot_that_was_taken_whatever_the_rules_say_by_then() {
    let server = RedisServer::start();
    let limiter = node(&server).await;
    let held = permit(without_its_rules(&limiter, limiter.acquire(&ann())).await);
    assert!(without_its_rules(&limiter, held.renew()).await, "it holds the slot");
    let slot = held.detach();
    assert!(without_its_rules(&limiter, limiter.renew(&ann(), slot)).await);
    assert!(without_its_rules(&limiter, limiter.release(&ann(), slot)).await);
    // And by dropping it, which returns the slot in the background.
    let held = permit(without_its_rules(&limiter, limiter.acquire(&ann())).await);
    assert!(matches!(limiter.acquire(&ann()).await, Acquired::Denied(_)), "it is held");
    drop(held);
    for _ in 0..1_000 {
        if let Acquired::Permit(again) = limiter.acquire(&ann()).await {
            drop(again);
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the slot is held still");
}

async fn reserved(
    reserving: impl Future<Output = Result<Reserved, tidegate::ReserveError>>,
) -> ReservationId {
    match reserving.await {
        Ok(Reserved::Reservation(Reservation { id, .. })) => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_estimate_is_charged_and_settled_by_the_rules_its_call_began_with() {
    let server = RedisServer::start();
    let limiter = node(&server).await;
    let (estimate, hour) = (ann().cost(40), Duration::from_hours(1));
    let id = Box::pin(reserved(without_its_rules(&limiter, limiter.reserve(&estimate, hour)))).await;
    assert_eq!(left(&limiter).await, Some(60));
    let settled = limiter.settle(&id.to_string(), 10).await.expect("the store answers");
    assert_eq!(settled.map(|settled| settled.decision.remaining()), Some(Some(90)));
    // Settling goes by the rules in force when it is done; the counter goes on under other numbers.
    let id = reserved(limiter.reserve(&estimate, hour)).await;
    let name = id.to_string();
    let mut settling = pin!(limiter.settle(&name, 10));
    assert!(poll_fn(|context| Poll::Ready(settling.as_mut().poll(context))).await.is_pending());
    put(&limiter, &BEFORE.replace("100", "200"));
    assert!(settling.await.expect("the store answers").is_some());
    assert_eq!(left(&limiter).await, Some(180));
}
