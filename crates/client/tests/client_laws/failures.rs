//! What is done without the service.

use std::time::Duration;

use tidegate::{Decision, Domain, Limiter, Request, Rule, Source, VirtualClock, per_minute};
use tidegate_client::{Builder, Client, Fallback};
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

async fn in_time(client: &Client, request: &Request<'_>) -> Decision {
    let before = Instant::now();
    let decision = client.check(request).await;
    assert!(before.elapsed() < LONG);
    decision
}

#[tokio::test]
async fn the_fallback_decides_whatever_is_wrong() {
    let stub = Stub::start().await;
    for mode in [Mode::Hanging, Mode::Saying(500), Mode::Saying(503), Mode::Garbled, Mode::Saying(403)] {
        stub.mode(mode);
        for (fallback, allowed, source) in
            [(Fallback::Allow, true, Source::Allow), (Fallback::Deny, false, Source::Deny)]
        {
            let client = built(Client::builder(stub.url()).deadline(DEADLINE).fallback(fallback));
            let decision = in_time(&client, &ann()).await;
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
    let local = || Limiter::builder().clock(clock.clone());
    let builder = || Client::builder(stub.url()).deadline(DEADLINE);
    let passing = async |client: &Client, request: &Request<'_>| {
        let mut passed = 0;
        for _ in 0..10 {
            let decision = in_time(client, request).await;
            passed += usize::from(decision.allowed());
            if !decision.allowed() {
                assert_eq!(decision.source(), Source::Local);
                assert!(decision.decided_by().is_some() && decision.retry_after().is_some());
            }
        }
        passed
    };
    // Nothing is known of them: they pass.
    let client = built(builder().local(local()));
    assert_eq!(passing(&client, &ann()).await, 10);
    assert_eq!(client.check(&ann()).await.source(), Source::Allow);
    // What the request brings along.
    let limits = client.inline_limits("apps", &[per_minute(4)]).unwrap();
    assert_eq!(passing(&client, &ann().limits(&limits)).await, 4);
    // What the application says for the case.
    let client = built(builder().local_limits([per_minute(5)]).local(local()));
    assert_eq!(passing(&client, &ann()).await, 5);
    assert_eq!(passing(&client, &Request::new("shop", [("user", "bob")])).await, 5, "each has a counter");
    assert_eq!(passing(&client, &Request::new("mail", [("user", "ann")])).await, 5, "each domain, too");
    // The client's own rules.
    let rules = Domain::new("shop").rule(Rule::by("user").limit(per_minute(6)));
    let client = built(builder().local(local().domain(rules)));
    assert_eq!(passing(&client, &ann()).await, 6);
}

#[tokio::test]
async fn a_refusal_is_told_and_the_service_is_still_asked() {
    let stub = Stub::start().await;
    let client = built(Client::builder(stub.url()).deadline(LONG));
    for mode in [Mode::Saying(403), Mode::Saying(500)] {
        stub.mode(mode);
        assert!(client.check(&ann()).await.rendered().is_none());
    }
    stub.mode(Mode::Well);
    assert!(client.check(&ann()).await.rendered().is_some());
    let health = client.health();
    assert!(health.available);
    assert_eq!((health.refused, health.failed, health.answered, health.skipped), (1, 1, 1, 0));
}

#[tokio::test]
async fn a_dead_service_is_asked_by_one_at_a_time_and_found_when_it_is_back() {
    let mut stub = Stub::start().await;
    let client = built(Client::builder(stub.url()).deadline(DEADLINE).fallback(Fallback::Allow));
    assert!(client.check(&ann()).await.rendered().is_some());

    stub.kill().await;
    let before = Instant::now();
    for _ in 0..2_000 {
        let decision = client.check(&ann()).await;
        assert!(decision.allowed() && decision.rendered().is_none());
    }
    assert!(before.elapsed() < LONG, "nothing blocks on a dead service");
    let health = client.health();
    assert!(!health.available);
    assert!(health.skipped > 1_000, "most were not even sent: {health:?}");

    stub.restart().await;
    let before = Instant::now();
    while client.check(&ann()).await.rendered().is_none() {
        assert!(before.elapsed() < 3 * LONG, "it is never found");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(client.health().available);
    assert!(client.check(&ann()).await.rendered().is_some());
}

#[tokio::test]
async fn a_service_that_hangs_costs_one_deadline_and_not_one_each() {
    let stub = Stub::start().await;
    stub.mode(Mode::Hanging);
    let client = built(Client::builder(stub.url()).deadline(DEADLINE).fallback(Fallback::Deny));
    for _ in 0..200 {
        assert!(!in_time(&client, &ann()).await.allowed());
    }
    let health = client.health();
    assert!(health.failed < 50 && health.skipped > 100, "{health:?}");
}

#[test]
fn a_client_outlives_the_runtime_it_was_used_on() {
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
    let client = built(Client::builder(address.1.recv().unwrap()).deadline(LONG));
    for _ in 0..2 {
        let runtime = one();
        assert!(runtime.block_on(client.check(&ann())).rendered().is_some());
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
        |builder: Builder| built(builder.deadline(DEADLINE).local(Limiter::builder().clock(clock.clone())));
    let client = local(Client::builder(stub.url()).local_limits([per_minute(5)]));
    assert!(client.check(&ann().cost(5)).await.allowed());
    assert!(!client.check(&ann()).await.allowed());
    client.refund(&ann().cost(2)).await;
    assert!(client.check(&ann().cost(2)).await.allowed());
    assert!(!client.check(&ann()).await.allowed());
    // By the client's own rules, where it has some.
    let shop = Domain::new("shop").rule(Rule::by("user").limit(per_minute(2)));
    let rules = Limiter::builder().domain(shop).clock(clock.clone());
    let client = built(Client::builder(stub.url()).deadline(DEADLINE).local(rules));
    assert!(client.check(&ann().cost(2)).await.allowed());
    client.refund(&ann()).await;
    assert_eq!((client.check(&ann()).await.allowed(), client.check(&ann()).await.allowed()), (true, false));
    // Nothing is counted where everything passes, or nothing does.
    for fallback in [Fallback::Allow, Fallback::Deny] {
        local(Client::builder(stub.url()).fallback(fallback)).refund(&ann()).await;
    }
}

#[tokio::test]
async fn a_refund_that_is_refused_or_answered_with_nonsense_is_counted_as_such() {
    let stub = Stub::start().await;
    let client = built(Client::builder(stub.url()).deadline(LONG));
    for (mode, refused, failed) in [(Mode::Saying(403), 1, 0), (Mode::Saying(503), 1, 1)] {
        stub.mode(mode);
        client.refund(&ann()).await;
        let health = client.health();
        assert_eq!((health.refused, health.failed), (refused, failed));
    }
}
