//! Limiters that share a store, on a real server.

use std::time::Duration;

use tidegate::{
    Acquired, Decision, Domain, Fallback, LimitChange, Limiter, OnStoreError, Override, Request, Rule,
    Source, StoreErrorStage, Switch, Tenant, TenantChange, per_hour,
};
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_testkit::redis::RedisServer;

/// Patient, because these laws are not about time.
async fn node(server: &RedisServer, domain: Domain, nodes: u32) -> Limiter {
    let url = server.url().parse().expect("an address");
    let deadline = Duration::from_secs(10);
    let config = RedisStoreConfig { deadline, nodes: Some(nodes), ..RedisStoreConfig::new(url) };
    let store = RedisStore::connect(config).await;
    let builder = Limiter::builder().domain(domain).redis_store(store, Fallback::default(), "secret");
    builder.build().expect("good rules")
}

fn ann() -> Request<'static> {
    Request::new("d", [("user", "ann")])
}

fn ten() -> Rule {
    Rule::by("user").limit(per_hour(10))
}

async fn admitted(limiter: &Limiter, asked: usize) -> (usize, Source) {
    let mut admitted = 0;
    let mut source = Source::Memory;
    for _ in 0..asked {
        let decision = limiter.check(&ann()).await;
        admitted += usize::from(decision.allowed());
        source = decision.source();
    }
    (admitted, source)
}

#[tokio::test]
async fn two_nodes_have_one_limit_and_refunds_cross() {
    let server = RedisServer::start();
    let one = node(&server, Domain::new("d").rule(ten()), 2).await;
    let two = node(&server, Domain::new("d").rule(ten()), 2).await;
    assert_eq!(admitted(&one, 6).await, (6, Source::Shared));
    assert_eq!(admitted(&two, 6).await, (4, Source::Shared));
    one.refund(&ann().cost(2)).await;
    // The second remembers its denial for a moment; the first does not.
    assert_eq!(admitted(&one, 3).await.0, 2);
    assert_eq!(one.peek(&ann()).await.remaining(), Some(0));
}

#[tokio::test]
async fn slots_are_held_for_all_nodes_and_return_with_the_permit() {
    let server = RedisServer::start();
    let domain = || Domain::new("d").rule(Rule::by("user").concurrency(1, Duration::from_mins(1)));
    let (one, two) = (node(&server, domain(), 2).await, node(&server, domain(), 2).await);
    let Acquired::Permit(permit) = one.acquire(&ann()).await else { panic!("the slot is free") };
    assert!(permit.renew().await);
    assert!(matches!(two.acquire(&ann()).await, Acquired::Denied(_)));
    let slot = permit.detach();
    assert!(two.renew(&ann(), slot).await, "any node may renew it");
    assert!(two.release(&ann(), slot).await && !two.release(&ann(), slot).await);
    let Acquired::Permit(permit) = two.acquire(&ann()).await else { panic!("it was returned") };
    drop(permit);
    let acquired = one.acquire(&ann()).await;
    assert!(matches!(acquired, Acquired::Permit(_)), "dropping returns it: {acquired:?}");
}

#[tokio::test]
async fn without_the_store_a_node_admits_half_of_its_share() {
    let server = RedisServer::start();
    let limiter = node(&server, Domain::new("d").rule(ten()), 2).await;
    server.kill();
    assert_eq!(admitted(&limiter, 20).await, (2, Source::Fallback), "10 / 2 nodes / 2, rounded down");
    let health = limiter.store_health().expect("a shared store");
    assert_eq!((health.local, health.degradation()), (20, 2));
}

#[tokio::test]
async fn each_rule_says_what_to_do_without_the_store() {
    let server = RedisServer::start();
    let staged = OnStoreError::Staged {
        first: StoreErrorStage::Deny,
        after: Duration::from_hours(1),
        then: StoreErrorStage::Allow,
    };
    for (policy, expected) in [(OnStoreError::Allow, 20), (OnStoreError::Deny, 0), (staged, 0)] {
        let limiter = node(&server, Domain::new("d").rule(ten().on_store_error(policy)), 1).await;
        server.kill();
        assert_eq!(admitted(&limiter, 20).await, (expected, Source::Fallback), "{policy:?}");
        server.restart();
    }
}

#[tokio::test]
async fn a_denial_of_one_rule_without_the_store_takes_nothing_of_another() {
    let server = RedisServer::start();
    let deny = Rule::by("ip").limit(per_hour(10)).on_store_error(OnStoreError::Deny);
    let limiter = node(&server, Domain::new("d").rule(ten()).rule(deny), 1).await;
    server.kill();
    let both = ann().and([("ip", "192.0.2.1")]);
    for _ in 0..10 {
        let decision: Decision = limiter.check(&both).await;
        assert!(!decision.allowed() && decision.retry_after() == Some(Duration::from_secs(1)));
    }
    assert_eq!(admitted(&limiter, 20).await.0, 5, "the share of the user is untouched");
}

#[tokio::test]
async fn a_switch_acts_at_once_in_spite_of_a_remembered_denial() {
    let server = RedisServer::start();
    let limiter = node(&server, Domain::new("d").rule(ten()), 1).await;
    assert_eq!(admitted(&limiter, 12).await.0, 10);
    limiter.switch(Some("user"), Switch::Shadow).expect("a rule");
    assert_eq!(admitted(&limiter, 3).await.0, 3);
}

#[tokio::test]
async fn an_explanation_says_what_the_shared_store_holds() {
    let server = RedisServer::start();
    let (one, two) = (
        node(&server, Domain::new("d").rule(ten()), 2).await,
        node(&server, Domain::new("d").rule(ten()), 2).await,
    );
    assert_eq!(admitted(&one, 4).await.0, 4);
    let story = two.explain_anywhere(&ann()).await.to_string();
    assert!(story.contains("6 left before, 5 after"), "{story}");
    assert_eq!(admitted(&two, 20).await.0, 6, "explaining takes nothing");
}

/// `ann` with so many requests of her own.
fn own(requests: u64) -> [TenantChange; 1] {
    let change = LimitChange { requests: Some(requests), ..LimitChange::default() };
    [TenantChange::Put(Tenant::new("ann").with(Override::of(change)))]
}

#[tokio::test]
async fn nodes_with_the_same_overrides_share_one_limit_and_its_usage() {
    let server = RedisServer::start();
    let domain = || Domain::new("d").tenant_key("user").rule(ten());
    let (one, two) = (node(&server, domain(), 2).await, node(&server, domain(), 2).await);
    one.change_tenants(own(6));
    two.change_tenants(own(6));
    assert_eq!(admitted(&one, 4).await, (4, Source::Shared));
    let usage = two.usage("ann", None).await;
    assert_eq!(usage.iter().map(|usage| (usage.used, usage.remaining)).collect::<Vec<_>>(), [(4, 2)]);
    assert_eq!(admitted(&two, 9).await.0, 2);
    assert_eq!(one.reset_usage("ann", None).await, Ok(1));
    assert_eq!(admitted(&one, 9).await.0, 6, "a reset acts on the shared store");
}

#[tokio::test]
async fn a_raised_override_acts_at_once_in_spite_of_a_remembered_denial_and_keeps_the_counter() {
    let server = RedisServer::start();
    let limiter = node(&server, Domain::new("d").tenant_key("user").rule(ten()), 1).await;
    assert_eq!(admitted(&limiter, 12).await.0, 10);
    limiter.change_tenants(own(13));
    assert_eq!(admitted(&limiter, 9).await.0, 3);
    limiter.change_tenants(own(11));
    assert_eq!(admitted(&limiter, 2).await.0, 0);
}
