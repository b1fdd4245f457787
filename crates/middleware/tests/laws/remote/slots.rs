//! Slots and estimates that the service keeps.

use std::time::{Duration, Instant};

use tidegate::{
    Acquired, Limiter, Remote, RemoteError, RemoteFallback, RemoteReserved, Request, Source, per_minute,
};
use tokio::task::yield_now;

use super::stub::{Mode, Stub};
use super::{asking, built};

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
    let limiter = asking(&stub);
    let permit = limiter.acquire(&export()).await.permit().unwrap();
    assert!(permit.timeout().is_some());
    assert!(permit.renew().await);
    let Acquired::Denied(decision) = limiter.acquire(&export()).await else { panic!("there is one slot") };
    assert_eq!(decision.rendered().unwrap().status, 429);
    drop(permit);
    until(|| stub.held() == 0).await;
    assert!(limiter.acquire(&export()).await.permit().is_some());
}

#[tokio::test]
async fn a_detached_permit_is_renewed_and_released_by_its_lease() {
    let stub = Stub::start().await;
    let limiter = asking(&stub);
    let lease = limiter.acquire(&export()).await.permit().unwrap().detach();
    assert_eq!(stub.held(), 1);
    assert!(limiter.renew(&export(), lease).await);
    assert!(limiter.release(&export(), lease).await);
    assert_eq!(stub.held(), 0);
    assert!(!limiter.release(&export(), lease).await);
    assert!(!limiter.renew(&export(), lease).await);
}

#[tokio::test]
async fn without_a_service_permits_follow_the_fallback() {
    let stub = Stub::start().await;
    stub.mode(Mode::Saying(500));
    for (fallback, granted) in
        [(RemoteFallback::Allow, true), (RemoteFallback::Deny, false), (RemoteFallback::Local, true)]
    {
        let limiter = built(Limiter::builder().remote(Remote::new(stub.url()).fallback(fallback)));
        match limiter.acquire(&export()).await {
            Acquired::Permit(permit) => assert!(granted && permit.timeout().is_none()),
            Acquired::Denied(decision) => assert!(!granted && decision.source() == Source::Deny),
        }
    }
}

#[tokio::test]
async fn an_estimate_is_settled_once() {
    let stub = Stub::start().await;
    let limiter = asking(&stub);
    let limits = limiter.inline_limits("apps", &[per_minute(1_000)]).unwrap();
    let request = Request::new("apps", [("route", "complete")]).limits(&limits).cost(600);
    let reserved = limiter.reserve_remote(&request, Duration::from_mins(1)).await.unwrap();
    let RemoteReserved::Reservation(reservation) = reserved else { panic!("it fits") };
    assert_eq!(reservation.decision.remaining(), Some(400));
    assert_eq!(stub.asked()[0].1["ttl_ms"], 60_000);

    let denied = limiter.reserve_remote(&request, Duration::from_mins(1)).await.unwrap();
    assert!(matches!(denied, RemoteReserved::Denied(decision) if decision.rendered().unwrap().status == 429));

    let settled = limiter.settle_remote(&reservation.id, 70).await.unwrap().unwrap();
    assert_eq!((settled.estimate, settled.cost), (600, 70));
    assert_eq!(limiter.settle_remote(&reservation.id, 70).await, Ok(None));

    stub.mode(Mode::Saying(503));
    let error = limiter.settle_remote(&reservation.id, 70).await.unwrap_err();
    assert!(matches!(error, RemoteError::Unwell { status: 503, .. }));
    let local = built(Limiter::builder());
    let error = local.reserve_remote(&request, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error, RemoteError::NoService);
}
