//! What is done without the service.

use std::time::Duration;

use tidegate::{
    Decision, Domain, Limiter, Remote, RemoteFallback, Request, Rule, Source, VirtualClock, per_minute,
};
use tokio::time::Instant;

use super::built;
use super::stub::{Mode, Stub};

/// Short, and yet a stub that is well makes it.
const DEADLINE: Duration = Duration::from_millis(400);

/// Far above the deadline: a machine may be busy.
const LONG: Duration = Duration::from_secs(20);

fn ann() -> Request<'static> {
    Request::new("shop", [("user", "ann")])
}

async fn in_time(limiter: &Limiter, request: &Request<'_>) -> Decision {
    let before = Instant::now();
    let decision = limiter.check(request).await;
    assert!(before.elapsed() < LONG);
    decision
}

#[tokio::test]
async fn the_fallback_decides_whatever_is_wrong() {
    let stub = Stub::start().await;
    for mode in [Mode::Hanging, Mode::Saying(500), Mode::Saying(503), Mode::Garbled, Mode::Saying(403)] {
        stub.mode(mode);
        for (fallback, allowed, source) in
            [(RemoteFallback::Allow, true, Source::Allow), (RemoteFallback::Deny, false, Source::Deny)]
        {
            let limiter = built(
                Limiter::builder().remote(Remote::new(stub.url()).deadline(DEADLINE).fallback(fallback)),
            );
            let decision = in_time(&limiter, &ann()).await;
            assert_eq!((decision.allowed(), decision.source()), (allowed, source));
            let retry = if allowed { None } else { Some(Duration::from_secs(1)) };
            assert_eq!((decision.retry_after(), decision.limits().count()), (retry, 0));
        }
    }
}

#[tokio::test]
async fn without_a_service_limits_are_counted_here() {
    // Nobody listens: the port was somebody's until just now.
    let mut stub = Stub::start().await;
    stub.kill().await;
    let clock = VirtualClock::new();
    let remote = || Remote::new(stub.url()).deadline(DEADLINE);
    let passing = async |limiter: &Limiter, request: &Request<'_>| {
        let mut passed = 0;
        for _ in 0..10 {
            let decision = in_time(limiter, request).await;
            passed += usize::from(decision.allowed());
            if !decision.allowed() {
                assert_eq!(decision.source(), Source::Local);
                assert!(decision.decided_by().is_some() && decision.retry_after().is_some());
            }
        }
        passed
    };
    // Nothing is known of them: they pass.
    let limiter = built(Limiter::builder().remote(remote()).clock(clock.clone()));
    assert_eq!(passing(&limiter, &ann()).await, 10);
    assert_eq!(limiter.check(&ann()).await.source(), Source::Allow);
    // What the request brings along.
    let limits = limiter.inline_limits("apps", &[per_minute(4)]).unwrap();
    assert_eq!(passing(&limiter, &ann().limits(&limits)).await, 4);
    // What the application says for the case.
    let limiter =
        built(Limiter::builder().remote(remote().local_limits([per_minute(5)])).clock(clock.clone()));
    assert_eq!(passing(&limiter, &ann()).await, 5);
    assert_eq!(passing(&limiter, &Request::new("shop", [("user", "bob")])).await, 5, "each has a counter");
    assert_eq!(passing(&limiter, &Request::new("mail", [("user", "ann")])).await, 5, "each domain, too");
    // The limiter's own rules.
    let rules = Domain::new("shop").rule(Rule::by("user").limit(per_minute(6)));
    let limiter = built(Limiter::builder().domain(rules).remote(remote()).clock(clock));
    assert_eq!(passing(&limiter, &ann()).await, 6);
}

#[tokio::test]
async fn a_refusal_is_told_and_the_service_is_still_asked() {
    let stub = Stub::start().await;
    let limiter = built(Limiter::builder().remote(Remote::new(stub.url()).deadline(LONG)));
    for mode in [Mode::Saying(403), Mode::Saying(500)] {
        stub.mode(mode);
        assert!(limiter.check(&ann()).await.rendered().is_none());
    }
    stub.mode(Mode::Well);
    assert!(limiter.check(&ann()).await.rendered().is_some());
    let health = limiter.remote_health().unwrap();
    assert!(health.available);
    assert_eq!((health.refused, health.failed, health.answered, health.skipped), (1, 1, 1, 0));
}

#[tokio::test]
async fn a_dead_service_is_asked_by_one_at_a_time_and_found_when_it_is_back() {
    let mut stub = Stub::start().await;
    let remote = Remote::new(stub.url()).deadline(DEADLINE).fallback(RemoteFallback::Allow);
    let limiter = built(Limiter::builder().remote(remote));
    assert!(limiter.check(&ann()).await.rendered().is_some());

    stub.kill().await;
    let before = Instant::now();
    for _ in 0..2_000 {
        let decision = limiter.check(&ann()).await;
        assert!(decision.allowed() && decision.rendered().is_none());
    }
    assert!(before.elapsed() < LONG, "nothing blocks on a dead service");
    let health = limiter.remote_health().unwrap();
    assert!(!health.available);
    assert!(health.skipped > 1_000, "most were not even sent: {health:?}");

    stub.restart().await;
    let before = Instant::now();
    while limiter.check(&ann()).await.rendered().is_none() {
        assert!(before.elapsed() < 3 * LONG, "it is never found");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(limiter.remote_health().unwrap().available);
    assert!(limiter.check(&ann()).await.rendered().is_some());
}

#[tokio::test]
async fn a_service_that_hangs_costs_one_deadline_and_not_one_each() {
    let stub = Stub::start().await;
    stub.mode(Mode::Hanging);
    let remote = Remote::new(stub.url()).deadline(DEADLINE).fallback(RemoteFallback::Deny);
    let limiter = built(Limiter::builder().remote(remote));
    for _ in 0..200 {
        assert!(!in_time(&limiter, &ann()).await.allowed());
    }
    let health = limiter.remote_health().unwrap();
    assert!(health.failed < 50 && health.skipped > 100, "{health:?}");
}

#[test]
fn a_limiter_outlives_the_runtime_it_was_used_on() {
    let one = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The stub has a thread of its own.
    let (address, stop) = (std::sync::mpsc::channel(), tokio::sync::oneshot::channel::<()>());
    let stub = std::thread::spawn(move || {
        one().block_on(async {
            let stub = Stub::start().await;
            address.0.send(stub.url()).unwrap();
            _ = stop.1.await;
        });
    });
    let limiter = built(Limiter::builder().remote(Remote::new(address.1.recv().unwrap()).deadline(LONG)));
    for _ in 0..2 {
        let runtime = one();
        assert!(runtime.block_on(limiter.check(&ann())).rendered().is_some());
    }
    drop(stop.0);
    stub.join().unwrap();
}

#[tokio::test]
async fn a_refund_without_a_service_goes_to_what_is_counted_here() {
    let mut stub = Stub::start().await;
    stub.kill().await;
    let clock = VirtualClock::new();
    let local =
        |remote: Remote| built(Limiter::builder().remote(remote.deadline(DEADLINE)).clock(clock.clone()));
    let limiter = local(Remote::new(stub.url()).local_limits([per_minute(5)]));
    assert!(limiter.check(&ann().cost(5)).await.allowed());
    assert!(!limiter.check(&ann()).await.allowed());
    limiter.refund(&ann().cost(2)).await;
    assert!(limiter.check(&ann().cost(2)).await.allowed());
    assert!(!limiter.check(&ann()).await.allowed());
    // By the limiter's own rules, where it has some.
    let shop = Domain::new("shop").rule(Rule::by("user").limit(per_minute(2)));
    let remote = Remote::new(stub.url()).deadline(DEADLINE);
    let limiter = built(Limiter::builder().domain(shop).remote(remote).clock(clock.clone()));
    assert!(limiter.check(&ann().cost(2)).await.allowed());
    limiter.refund(&ann()).await;
    assert_eq!((limiter.check(&ann()).await.allowed(), limiter.check(&ann()).await.allowed()), (true, false));
    // Nothing is counted where everything passes, or nothing does.
    for fallback in [RemoteFallback::Allow, RemoteFallback::Deny] {
        local(Remote::new(stub.url()).fallback(fallback)).refund(&ann()).await;
    }
}

#[tokio::test]
async fn a_refund_that_is_refused_or_answered_with_nonsense_is_counted_as_such() {
    let stub = Stub::start().await;
    let limiter = built(Limiter::builder().remote(Remote::new(stub.url()).deadline(LONG)));
    for (mode, refused, failed) in [(Mode::Saying(403), 1, 0), (Mode::Saying(503), 1, 1)] {
        stub.mode(mode);
        limiter.refund(&ann()).await;
        let health = limiter.remote_health().unwrap();
        assert_eq!((health.refused, health.failed), (refused, failed));
    }
}
