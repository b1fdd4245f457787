//! Slots and estimates that the service keeps.

use std::time::Duration;

use tidegate::{Domain, Limiter, Request, Reserved, Rule, Source, VirtualClock, per_minute};
use tidegate_client::{Acquired, Client, ClientError, Fallback};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::stub::{Mode, Stub};
use super::{built, client_of};

fn export() -> Request<'static> {
    Request::new("shop", [("export", "ann")])
}

/// Waits for what a task in the background does.
async fn until(mut done: impl FnMut() -> bool) {
    let before = Instant::now();
    while !done() {
        assert!(before.elapsed() < Duration::from_secs(20), "it never happens");
        yield_now().await;
    }
}

#[tokio::test]
async fn a_permit_is_held_until_dropped() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let permit = client.acquire(&export()).await.permit().unwrap();
    assert_eq!(permit.timeout(), Some(Duration::from_secs(599)), "by the service's clock, a second in doubt");
    assert!(permit.renew().await);
    let Acquired::Denied(decision) = client.acquire(&export()).await else { panic!("there is one slot") };
    assert_eq!(decision.rendered().unwrap().status, 429);
    drop(permit);
    until(|| stub.held() == 0).await;
    assert!(client.acquire(&export()).await.permit().is_some());
}

#[tokio::test]
async fn a_detached_permit_is_renewed_and_released_by_its_id() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let id = client.acquire(&export()).await.permit().unwrap().detach();
    assert_eq!(stub.held(), 1);
    assert!(client.renew(id).await);
    assert!(client.release(id).await);
    assert_eq!(stub.held(), 0);
    assert!(!client.release(id).await);
    assert!(!client.renew(id).await);
}

#[tokio::test]
async fn without_a_service_permits_follow_the_fallback() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    for (fallback, granted) in [(Fallback::Allow, true), (Fallback::Deny, false), (Fallback::Local, true)] {
        let client = built(Client::builder(stub.url()).fallback(fallback));
        match client.acquire(&export()).await {
            Acquired::Permit(permit) => assert!(granted && permit.timeout().is_none()),
            Acquired::Denied(decision) => assert!(!granted && decision.source() == Source::Deny),
        }
    }
}

#[tokio::test]
async fn an_estimate_is_settled_once() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let limits = client.inline_limits("apps", &[per_minute(1_000)]).unwrap();
    let request = Request::new("apps", [("route", "complete")]).limits(&limits).cost(600);
    let lifetime = Duration::from_mins(1);
    let Reserved::Reservation(held) = client.reserve(&request, lifetime).await.unwrap() else {
        panic!("it fits")
    };
    assert_eq!((held.decision.remaining(), held.decision.source()), (Some(400), Source::Memory));
    assert_eq!(stub.asked()[0].1["ttl_ms"], 60_000);

    let denied = client.reserve(&request, lifetime).await.unwrap();
    assert!(matches!(denied, Reserved::Denied(decision) if decision.rendered().unwrap().status == 429));

    let id = held.id.to_string();
    let settled = client.settle(&id, 70).await.unwrap().unwrap();
    assert_eq!((settled.estimate, settled.cost, settled.decision.remaining()), (600, 70, Some(930)));
    assert!(client.settle(&id, 70).await.unwrap().is_none());

    stub.mode(Mode::Saying(503));
    let error = client.settle(&id, 70).await.unwrap_err();
    assert!(matches!(error, ClientError::Server { status: 503, .. }));
}

#[tokio::test]
async fn without_a_service_estimates_follow_the_fallback() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    let lifetime = Duration::from_mins(1);
    let request = || Request::new("llm", [("team", "search")]).cost(600);
    for (fallback, granted) in [(Fallback::Allow, true), (Fallback::Deny, false)] {
        let client = built(Client::builder(stub.url()).fallback(fallback));
        match client.reserve(&request(), lifetime).await.unwrap() {
            Reserved::Reservation(held) => assert!(granted && held.decision.source() == Source::Allow),
            Reserved::Denied(decision) => assert!(!granted && decision.source() == Source::Deny),
        }
    }
    // By rules of this process the client reserves and settles itself.
    let rules = Domain::new("llm").rule(Rule::by("team").limit(per_minute(1_000)));
    let client = built(Client::builder(stub.url()).local(Limiter::builder().domain(rules)));
    let Reserved::Reservation(held) = client.reserve(&request(), lifetime).await.unwrap() else {
        panic!("it fits")
    };
    assert_eq!(held.decision.source(), Source::Local);
    assert!(matches!(client.reserve(&request(), lifetime).await, Ok(Reserved::Denied(_))));
    let settled = client.settle(&held.id.to_string(), 100).await.unwrap().unwrap();
    assert_eq!(settled.decision.remaining(), Some(900));
}

#[tokio::test]
async fn what_was_charged_without_a_service_is_settled_here() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    let builder = || Client::builder(stub.url()).local(Limiter::builder().clock(VirtualClock::new()));
    let client = built(builder().local_limits([per_minute(1_000)]));
    let other = built(builder());
    let limits = other.inline_limits("apps", &[per_minute(1_000)]).unwrap();
    let bare = Request::new("apps", [("route", "complete")]);
    for (client, request) in [(client, bare.clone()), (other, bare.limits(&limits))] {
        let reserve = async |cost: u64| {
            let request = request.clone().cost(cost);
            match client.reserve(&request, Duration::from_mins(1)).await.unwrap() {
                Reserved::Reservation(held) => Some(held.id.to_string()),
                Reserved::Denied(decision) => {
                    assert_eq!(decision.source(), Source::Local);
                    None
                }
            }
        };
        for round in 1..=5 {
            let id = reserve(500).await.expect("the rest of each was given back");
            let settled = client.settle(&id, 1).await.unwrap().unwrap();
            assert_eq!((settled.estimate, settled.cost), (500, 1));
            assert_eq!(settled.decision.remaining(), Some(1_000 - round));
            assert!(client.settle(&id, 1).await.is_err(), "once: the service is asked about it then");
        }
        let id = reserve(1).await.unwrap();
        let settled = client.settle(&id, 2_000).await.unwrap().unwrap();
        assert_eq!(settled.decision.remaining(), Some(0));
        assert!(reserve(1).await.is_none(), "more was used than there is");
    }
}

#[tokio::test]
async fn an_estimate_that_nobody_looked_at_is_settled_without_the_service() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    let client = built(Client::builder(stub.url()).fallback(Fallback::Allow));
    let request = Request::new("llm", [("team", "search")]).cost(600);
    let Reserved::Reservation(held) = client.reserve(&request, Duration::from_mins(1)).await.unwrap() else {
        panic!("it passes")
    };
    stub.mode(Mode::Well);
    let settled = client.settle(&held.id.to_string(), 100).await.unwrap().unwrap();
    assert_eq!((settled.estimate, settled.cost, settled.decision.limits().count()), (600, 100, 0));
    assert!(stub.asked().iter().all(|(path, _)| path != "/v1/settle"));
}

#[tokio::test]
async fn limits_do_not_go_along_with_whoever_acquires() {
    let stub = Stub::start().await;
    let client = client_of(&stub);
    let limits = client.inline_limits("shop", &[per_minute(5)]).unwrap();
    assert!(client.acquire(&export().limits(&limits)).await.permit().is_some());
    assert!(stub.asked()[0].1["descriptors"][0].get("limits").is_none());
}
