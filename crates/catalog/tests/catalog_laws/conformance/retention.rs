//! What need not be kept any longer goes, and nobody misses a deletion for it.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_catalog::{
    AuditFilter, Catalog, Error, PURGE_ROWS, PURGE_VERSIONS, Precondition, Purged, Retention, Role,
    TokenDraft, TokenHash,
};

use super::feed::{Step, random_histories, step, take, without_uses};
use crate::picture::Picture;
use crate::world::{World, ann, ann_at, at, tier};

laws! {
    a_node_that_was_away_for_longer_misses_no_deletion,
    what_is_younger_than_that_stays,
    without_an_end_all_history_stays,
    the_newest_versions_of_rules_stay,
    rules_that_were_deleted_go_with_all_their_versions,
    tokens_that_have_ended_go,
    what_came_back_stays,
    a_purge_is_bounded_and_leaves_no_trace,
    many_may_purge_while_others_write,
}

const ANY: Precondition = Precondition::Any;

/// So many versions, and history for so many seconds.
fn keep(versions: u32, seconds: u64) -> Retention {
    let history = Some(Duration::from_secs(seconds));
    Retention { versions: NonZeroU32::new(versions).unwrap(), history }
}

/// Until nothing is left to purge.
async fn purge(catalog: &Catalog, retention: Retention, second: i64) -> Purged {
    let mut all = Purged::default();
    loop {
        let some = catalog.purge(&retention, at(second)).await.unwrap();
        if some.is_empty() {
            return all;
        }
        all += some;
    }
}

async fn create_token(catalog: &Catalog, id: &str, expires_at: Option<i64>) {
    let (id, name) = (id.to_owned(), id.to_owned());
    let expires_at = expires_at.map(at);
    let draft = TokenDraft { id, name, role: Role::Viewer, hash: TokenHash([7; 32]), expires_at };
    catalog.create_token(&draft, &ann()).await.unwrap();
}

async fn changes(catalog: &Catalog) -> Vec<u64> {
    let listed = catalog.audit(&AuditFilter::default(), None, 1_000).await.unwrap();
    listed.items.iter().map(|entry| entry.id).collect()
}

async fn a_node_that_was_away_for_longer_misses_no_deletion(world: World) {
    let catalog = &world.catalog;
    let copies = (World::sqlite().await, World::sqlite().await);
    let (away, there) = (&copies.0.catalog, &copies.1.catalog);
    for name in ["acme", "other"] {
        catalog.put_tenant(name, &tier("t"), ANY, &ann()).await.unwrap();
        catalog.put_rules(name, "1", "", ANY, &ann()).await.unwrap();
        create_token(catalog, name, None).await;
    }
    away.apply(&catalog.everything().await.unwrap()).await.unwrap();
    let left_at = away.version().await.unwrap();
    catalog.delete_tenant("acme", ANY, &ann_at(1)).await.unwrap();
    catalog.delete_rules("acme", "", ANY, &ann_at(1)).await.unwrap();
    catalog.revoke_token("acme", &ann_at(1)).await.unwrap();
    there.apply(&catalog.changes_since(0).await.unwrap()).await.unwrap();
    let purged = purge(catalog, keep(9, 10), 100).await;
    assert_eq!((purged.tenants, purged.domains, purged.tokens), (1, 1, 1));
    catalog.put_tenant("new", &tier("t"), ANY, &ann_at(100)).await.unwrap();
    // Who had heard of the deletions is told only what is new.
    let news = catalog.changes_since(there.version().await.unwrap()).await.unwrap();
    assert_eq!((news.whole, news.tenants.len()), (false, 1));
    // Who had not is told everything, and so takes them for gone.
    let told = catalog.changes_since(left_at).await.unwrap();
    assert!(told.whole);
    away.apply(&told).await.unwrap();
    let picture = Picture::of(&away.everything().await.unwrap());
    assert_eq!(picture.tenants.keys().collect::<Vec<_>>(), ["new", "other"]);
    assert_eq!(picture.rules.keys().collect::<Vec<_>>(), ["other"]);
    assert_eq!(picture.tokens.keys().collect::<Vec<_>>(), ["other"]);
    there.apply(&news).await.unwrap();
    assert_eq!(there.everything().await.unwrap().tenants, away.everything().await.unwrap().tenants);
}

async fn what_is_younger_than_that_stays(world: World) {
    let catalog = &world.catalog;
    for name in ["old", "young"] {
        catalog.put_tenant(name, &tier("t"), ANY, &ann()).await.unwrap();
    }
    catalog.delete_tenant("old", ANY, &ann_at(9)).await.unwrap();
    catalog.delete_tenant("young", ANY, &ann_at(10)).await.unwrap();
    // What was 10 s ago is not older than 10 s.
    assert_eq!(purge(catalog, keep(9, 10), 20).await, Purged { tenants: 1, changes: 3, ..Purged::default() });
    assert_eq!(changes(catalog).await, [4]);
    assert!(matches!(catalog.audit_entry(1).await, Err(Error::NotFound { .. })));
    assert!(!catalog.changes_since(3).await.unwrap().whole);
    assert!(catalog.changes_since(2).await.unwrap().whole);
}

async fn without_an_end_all_history_stays(world: World) {
    let catalog = &world.catalog;
    catalog.put_tenant("acme", &tier("t"), ANY, &ann()).await.unwrap();
    catalog.delete_tenant("acme", ANY, &ann()).await.unwrap();
    let for_ever = Retention { history: None, ..keep(1, 1) };
    // Nor is there anything from before all time.
    for retention in [for_ever, keep(1, u64::MAX)] {
        assert_eq!(purge(catalog, retention, 1_000_000_000).await, Purged::default());
    }
    assert_eq!(changes(catalog).await, [2, 1]);
    assert!(!catalog.changes_since(0).await.unwrap().whole);
}

async fn the_newest_versions_of_rules_stay(world: World) {
    let catalog = &world.catalog;
    for text in 1..=7 {
        catalog.put_rules("api", &text.to_string(), "", ANY, &ann()).await.unwrap();
    }
    catalog.put_rules("few", "1", "", ANY, &ann()).await.unwrap();
    let retention = Retention { history: None, ..keep(3, 1) };
    assert_eq!(purge(catalog, retention, 9).await, Purged { versions: 4, ..Purged::default() });
    let kept = catalog.rule_versions("api", None, 100).await.unwrap().items;
    assert_eq!(kept.iter().map(|rules| rules.version).collect::<Vec<_>>(), [7, 6, 5]);
    assert_eq!(catalog.rules("few").await.unwrap().version, 1);
    let gone = catalog.roll_back_rules("api", 4, "", ANY, &ann()).await;
    assert!(matches!(gone, Err(Error::NotFound { kind: "version", .. })));
    let back = catalog.roll_back_rules("api", 5, "", ANY, &ann()).await.unwrap();
    assert_eq!((back.version, back.text.as_deref()), (8, Some("5")));
    // Old versions are no part of the feed: nobody has to begin anew.
    assert!(!catalog.changes_since(0).await.unwrap().whole);
    // However old it is, the current version stays.
    purge(catalog, keep(1, 1), 1_000_000).await;
    assert_eq!(catalog.rules("api").await.unwrap(), back);
    assert_eq!(catalog.rule_versions("api", None, 100).await.unwrap().items, [back]);
}

async fn rules_that_were_deleted_go_with_all_their_versions(world: World) {
    let catalog = &world.catalog;
    let versions = 2 * PURGE_VERSIONS + 5;
    for text in 0..versions {
        catalog.put_rules("api", &text.to_string(), "", ANY, &ann()).await.unwrap();
    }
    catalog.delete_rules("api", "", ANY, &ann_at(5)).await.unwrap();
    let purged = purge(catalog, keep(10_000, 10), 15).await;
    assert_eq!((purged.domains, purged.versions), (0, 0));
    let purged = purge(catalog, keep(10_000, 10), 16).await;
    assert_eq!((purged.domains, purged.versions), (1, versions));
    assert!(catalog.rule_versions("api", None, 100).await.unwrap().items.is_empty());
    let anew = catalog.put_rules("api", "anew", "", Precondition::Absent, &ann_at(20)).await.unwrap();
    assert_eq!(anew.version, 1);
}

async fn tokens_that_have_ended_go(world: World) {
    let catalog = &world.catalog;
    create_token(catalog, "expired", Some(5)).await;
    create_token(catalog, "expires", Some(50)).await;
    create_token(catalog, "holds", None).await;
    create_token(catalog, "revoked", Some(50)).await;
    catalog.revoke_token("revoked", &ann_at(5)).await.unwrap();
    assert_eq!(purge(catalog, keep(1, 10), 15).await.tokens, 0);
    assert_eq!(purge(catalog, keep(1, 10), 16).await.tokens, 2);
    let left: Vec<String> = catalog.tokens().await.unwrap().into_iter().map(|token| token.id).collect();
    assert_eq!(left, ["expires", "holds"]);
}

async fn what_came_back_stays(world: World) {
    let catalog = &world.catalog;
    catalog.put_tenant("acme", &tier("t"), ANY, &ann()).await.unwrap();
    catalog.put_rules("api", "1", "", ANY, &ann()).await.unwrap();
    catalog.delete_tenant("acme", ANY, &ann()).await.unwrap();
    catalog.delete_rules("api", "", ANY, &ann()).await.unwrap();
    catalog.put_tenant("acme", &tier("t"), ANY, &ann()).await.unwrap();
    catalog.roll_back_rules("api", 1, "", ANY, &ann()).await.unwrap();
    let purged = purge(catalog, keep(100, 10), 100).await;
    assert_eq!(purged, Purged { changes: 6, ..Purged::default() });
    assert_eq!(catalog.tenant("acme").await.unwrap().tier.as_deref(), Some("t"));
    assert_eq!(catalog.rules("api").await.unwrap().version, 3);
}

async fn a_purge_is_bounded_and_leaves_no_trace(world: World) {
    let catalog = &world.catalog;
    for number in 0..=PURGE_ROWS {
        catalog.record("a", "b", &number.to_string(), None, None, &ann()).await.unwrap();
    }
    let version = catalog.version().await.unwrap();
    for wanted in [PURGE_ROWS, 1, 0] {
        let purged = catalog.purge(&keep(1, 10), at(100)).await.unwrap();
        assert_eq!(purged, Purged { changes: wanted, ..Purged::default() });
    }
    // What nobody has to hear of is no change.
    assert_eq!(catalog.version().await.unwrap(), version);
    assert!(catalog.changes_since(0).await.unwrap().is_empty());
    assert!(changes(catalog).await.is_empty());
}

async fn many_may_purge_while_others_write(world: World) {
    const ROUNDS: i64 = 30;
    let nodes = [world.another().await, world.another().await, world.another().await];
    let [one, other, writer] = &nodes;
    // Everything that is deleted is old at once.
    let purging = async |catalog: &Catalog| {
        for round in 0..ROUNDS {
            purge(catalog, keep(2, 1), 1_000 + round).await;
        }
    };
    let writing = async {
        for round in 0..ROUNDS {
            writer.put_tenant("acme", &tier(&round.to_string()), ANY, &ann()).await.unwrap();
            writer.put_rules("api", &round.to_string(), "", ANY, &ann()).await.unwrap();
            writer.delete_tenant("acme", ANY, &ann()).await.unwrap();
            writer.put_tenant("acme", &tier("back"), ANY, &ann()).await.unwrap();
            let there = writer.tenant("acme").await.unwrap();
            assert_eq!(there.tier.as_deref(), Some("back"));
            let follow = writer.changes_since(there.revision - 1).await.unwrap();
            assert!(!follow.whole && follow.version == there.revision, "round {round}");
        }
    };
    tokio::join!(purging(one), purging(other), writing);
    purge(one, keep(2, 1), 5_000).await;
    assert_eq!(world.catalog.rules("api").await.unwrap().text, Some((ROUNDS - 1).to_string()));
    assert_eq!(world.catalog.rule_versions("api", None, 100).await.unwrap().items.len(), 2);
    assert_eq!(Picture::of(&world.catalog.everything().await.unwrap()).tenants.len(), 1);
}

/// A picture of what counts: tokens that were revoked do so whether they are there or not.
fn what_counts(picture: Picture) -> Picture {
    let mut picture = without_uses(picture);
    picture.tokens.retain(|_, token| token.revoked_at.is_none());
    picture
}

/// Takes steps, one per second; none is a purge of all but the last three seconds.
async fn is_followed_while_purged(world: World, steps: Vec<Option<Step>>) {
    let catalog = &world.catalog;
    let copies = World::sqlite().await;
    let copy = &copies.catalog;
    let mut model = Picture::default();
    let mut history = vec![(0, Picture::default())];
    for (second, step) in (0..).zip(&steps) {
        match step {
            None => drop(purge(catalog, keep(2, 3), second).await),
            Some(Step::Copy) => {
                let since = copy.version().await.unwrap();
                copy.apply(&catalog.changes_since(since).await.unwrap()).await.unwrap();
                let held = Picture::of(&copy.everything().await.unwrap());
                assert_eq!(what_counts(held), what_counts(model.clone()));
            }
            Some(step) => Box::pin(take(step, second, catalog, &mut model)).await,
        }
        history.push((catalog.version().await.unwrap(), model.clone()));
    }
    for (version, mut picture) in history {
        picture.follow(&catalog.changes_since(version).await.unwrap());
        assert_eq!(what_counts(picture), what_counts(model.clone()), "from {version}");
    }
}

/// Steps, and purges among them.
fn step_or_purge() -> impl Strategy<Value = Option<Step>> {
    prop_oneof![6 => step().prop_map(Some), 1 => Just(None)]
}

#[test]
fn from_any_version_the_feed_leads_to_everything_whatever_was_purged_on_sqlite() {
    random_histories(24, World::sqlite, step_or_purge(), is_followed_while_purged);
}

#[test]
fn from_any_version_the_feed_leads_to_everything_whatever_was_purged_on_postgres() {
    random_histories(12, World::postgres, step_or_purge(), is_followed_while_purged);
}
