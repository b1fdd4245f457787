//! `vectors/identity.json`: which counter a limit that is written in code is charged to.

#[cfg(feature = "redis")]
use tidegate::Fallback;
use tidegate::rules::file::window_of;
use tidegate::{Domain, LimitSpec, Limiter, Request};
#[cfg(feature = "redis")]
use tidegate_testkit::redis::RedisServer;
use tidegate_testkit::vector::{IdentityLimit, IdentityTally, identity_cases};

use crate::support::limiter_of;

fn spec(sent: &IdentityLimit) -> LimitSpec {
    let window = window_of(&sent.per).expect("a window");
    let spec = LimitSpec::new(sent.requests, window);
    let spec = sent.burst.map_or(spec.clone(), |burst| spec.burst(burst));
    sent.name.as_ref().map_or(spec.clone(), |name| spec.named(name))
}

async fn counts_as_the_vectors_say(limiter: &Limiter, case: &tidegate_testkit::vector::IdentityCase) {
    let mut tally = IdentityTally::default();
    for ask in &case.asks {
        let limits: Vec<_> = ask.sent.limits.iter().map(spec).collect();
        let limits = limiter.inline_limits("apps", &limits).expect("the domain allows it");
        let entries: Vec<_> = ask.sent.entries.iter().map(|(key, value)| (&**key, &**value)).collect();
        let decision = limiter.check(&Request::new("apps", entries).limits(&limits)).await;
        let left: Vec<_> = decision.limits().map(|limit| limit.remaining).collect();
        assert_eq!(left, tally.left_after(ask), "{}: {ask:?}", case.name);
    }
}

fn apps() -> Domain {
    Domain::new("apps").inline_limits(1_000)
}

#[tokio::test]
async fn in_memory_limits_are_counted_as_the_vectors_say() {
    for case in identity_cases() {
        let (limiter, _) = limiter_of(apps());
        counts_as_the_vectors_say(&limiter, &case).await;
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn on_a_shared_store_limits_are_counted_as_the_vectors_say() {
    use tidegate_stores::redis::{RedisStore, RedisStoreConfig};

    let server = RedisServer::start();
    for (number, case) in identity_cases().into_iter().enumerate() {
        let url = server.url().parse().expect("an address");
        let deadline = std::time::Duration::from_secs(10);
        let store = RedisStore::connect(RedisStoreConfig { deadline, ..RedisStoreConfig::new(url) }).await;
        // Each case has keys of its own.
        let secret = format!("case {number}");
        let builder = Limiter::builder().domain(apps()).redis_store(store, Fallback::default(), &secret);
        counts_as_the_vectors_say(&builder.build().expect("good rules"), &case).await;
    }
}
