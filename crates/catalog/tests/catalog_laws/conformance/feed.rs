//! The feed of changes, against a model, under random histories.

use std::panic::Location;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_catalog::{
    Catalog, Changes, Error, Precondition, Role, SwitchMode, TenantChange, TokenDraft, TokenHash,
};

use crate::picture::Picture;
use crate::world::{World, ann, ann_at, at, requests, tier, with};

laws! {
    a_new_catalog_is_empty_and_at_zero,
    what_is_gone_is_told_as_gone,
    a_version_that_never_was_gets_everything,
    changes_that_are_known_change_nothing,
    changes_with_a_gap_are_refused,
}

/// Something done to a catalog.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(usize, i64),
    Delete(usize),
    PutRules(usize, u8),
    DeleteRules(usize),
    RollBack(usize, u64),
    Switch(usize, SwitchMode),
    Create(usize),
    Revoke(usize),
    Touch(usize),
    /// The copy follows.
    Copy,
}

const NAMES: [&str; 4] = ["a", "b'", "ç", "d/d"];

pub(super) fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let modes = prop_oneof![Just(SwitchMode::Enforce), Just(SwitchMode::Shadow), Just(SwitchMode::Off)];
    prop_oneof![
        4 => (name(), 0..4_i64).prop_map(|(name, count)| Step::Put(name, count)),
        2 => name().prop_map(Step::Delete),
        2 => (name(), 0..3_u8).prop_map(|(name, text)| Step::PutRules(name, text)),
        1 => name().prop_map(Step::DeleteRules),
        1 => (name(), 1..3_u64).prop_map(|(name, version)| Step::RollBack(name, version)),
        1 => (name(), modes).prop_map(|(name, mode)| Step::Switch(name, mode)),
        1 => name().prop_map(Step::Create),
        1 => name().prop_map(Step::Revoke),
        1 => name().prop_map(Step::Touch),
        2 => Just(Step::Copy),
    ]
}

/// Does it, to the catalog and to the picture of what it should hold.
pub(super) async fn take(step: &Step, second: i64, catalog: &Catalog, model: &mut Picture) {
    let (any, by) = (Precondition::Any, ann_at(second));
    let outcome: Result<(), Error> = match step {
        Step::Put(name, count) => {
            let mut draft = with((0..*count).map(requests).collect());
            for (index, each) in draft.overrides.iter_mut().enumerate() {
                each.descriptor = format!("key:{index}");
            }
            let put = catalog.put_tenant(NAMES[*name], &draft, any, &by).await;
            put.map(|tenant| drop(model.tenants.insert(tenant.name.clone(), tenant)))
        }
        Step::Delete(name) => {
            let deleted = catalog.delete_tenant(NAMES[*name], any, &by).await;
            deleted.map(|_| drop(model.tenants.remove(NAMES[*name])))
        }
        Step::PutRules(name, text) => {
            let put = catalog.put_rules(NAMES[*name], &text.to_string(), "", any, &by).await;
            put.map(|rules| drop(model.rules.insert(rules.domain.clone(), rules)))
        }
        Step::DeleteRules(name) => {
            let deleted = catalog.delete_rules(NAMES[*name], "", any, &by).await;
            deleted.map(|_| drop(model.rules.remove(NAMES[*name])))
        }
        Step::RollBack(name, version) => {
            let put = catalog.roll_back_rules(NAMES[*name], *version, "", any, &by).await;
            put.map(|rules| drop(model.rules.insert(rules.domain.clone(), rules)))
        }
        Step::Switch(name, mode) => {
            let set = catalog.set_switch(NAMES[*name], *mode, any, &by).await;
            set.map(|switch| drop(model.switches.insert(switch.rule.clone(), switch)))
        }
        Step::Create(name) => {
            let id = NAMES[*name].to_owned();
            let hash = TokenHash([*name as u8; 32]);
            let draft = TokenDraft { name: id.clone(), id, role: Role::Viewer, hash, expires_at: None };
            let made = catalog.create_token(&draft, &by).await;
            made.map(|token| drop(model.tokens.insert(token.id.clone(), token)))
        }
        Step::Revoke(name) => {
            let revoked = catalog.revoke_token(NAMES[*name], &by).await;
            revoked.map(|token| drop(model.tokens.insert(token.id.clone(), token)))
        }
        Step::Touch(name) => catalog.touch_tokens(&[(NAMES[*name].to_owned(), at(second))]).await,
        Step::Copy => Ok(()),
    };
    match outcome {
        Ok(()) | Err(Error::NotFound { .. } | Error::Precondition { .. } | Error::Invalid { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// When a token was used last is no part of the feed.
pub(super) fn without_uses(mut picture: Picture) -> Picture {
    picture.tokens.values_mut().for_each(|token| token.last_used_at = None);
    picture
}

async fn follows_the_model(world: World, steps: Vec<Step>) {
    let catalog = &world.catalog;
    let copies = World::sqlite().await;
    let copy = &copies.catalog;
    let mut model = Picture::default();
    let mut history = vec![(0, Picture::default())];
    for (second, step) in (0..).zip(&steps) {
        Box::pin(take(step, second, catalog, &mut model)).await;
        history.push((catalog.version().await.unwrap(), model.clone()));
        if matches!(step, Step::Copy) {
            let changes = catalog.changes_since(copy.version().await.unwrap()).await.unwrap();
            copy.apply(&changes).await.unwrap();
            copy.apply(&changes).await.unwrap();
            let held = copy.everything().await.unwrap();
            assert_eq!(held.version, changes.version);
            assert_eq!(without_uses(Picture::of(&held)), without_uses(model.clone()));
        }
    }
    let all = catalog.everything().await.unwrap();
    assert_eq!(without_uses(Picture::of(&all)), without_uses(model.clone()));
    for (version, mut picture) in history {
        let changes = catalog.changes_since(version).await.unwrap();
        assert_eq!((changes.since, changes.version, changes.whole), (version, all.version, false));
        picture.follow(&changes);
        assert_eq!(without_uses(picture), without_uses(model.clone()), "from {version}");
    }
}

/// Holds a law to histories of random steps, each in a world of its own.
#[track_caller]
pub(super) fn random_histories<S: Strategy>(
    cases: u32,
    world: impl AsyncFn() -> World,
    steps: S,
    law: impl AsyncFn(World, Vec<S::Value>),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { source_file: Some(Location::caller().file()), ..tidegate_testkit::cases(cases) };
    let outcome = TestRunner::new(config).run(&proptest::collection::vec(steps, 1..40), |steps| {
        runtime.block_on(async { law(world().await, steps).await });
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn from_any_version_the_feed_leads_to_everything_on_sqlite() {
    random_histories(24, World::sqlite, step(), follows_the_model);
}

#[test]
fn from_any_version_the_feed_leads_to_everything_on_postgres() {
    random_histories(12, World::postgres, step(), follows_the_model);
}

async fn a_new_catalog_is_empty_and_at_zero(world: World) {
    assert_eq!(world.catalog.version().await.unwrap(), 0);
    assert!(world.catalog.changes_since(0).await.unwrap().is_empty());
    assert_eq!(Picture::of(&world.catalog.everything().await.unwrap()), Picture::default());
}

async fn what_is_gone_is_told_as_gone(world: World) {
    let catalog = &world.catalog;
    catalog.put_tenant("acme", &tier("t"), Precondition::Any, &ann()).await.unwrap();
    catalog.put_rules("api", "1", "", Precondition::Any, &ann()).await.unwrap();
    catalog.delete_tenant("acme", Precondition::Any, &ann()).await.unwrap();
    catalog.delete_rules("api", "", Precondition::Any, &ann()).await.unwrap();
    for since in [0, 2] {
        let changes = catalog.changes_since(since).await.unwrap();
        assert_eq!(changes.tenants, [TenantChange::Gone("acme".to_owned())]);
        assert_eq!((changes.rules[0].domain.as_str(), &changes.rules[0].rules), ("api", &None));
    }
    assert!(catalog.changes_since(4).await.unwrap().is_empty());
}

async fn a_version_that_never_was_gets_everything(world: World) {
    world.catalog.put_tenant("acme", &tier("t"), Precondition::Any, &ann()).await.unwrap();
    for since in [2, 1_000, u64::MAX] {
        let changes = world.catalog.changes_since(since).await.unwrap();
        assert_eq!(changes, world.catalog.everything().await.unwrap());
        assert!(changes.whole && changes.version == 1);
    }
}

async fn changes_that_are_known_change_nothing(world: World) {
    let catalog = &world.catalog;
    let copies = World::sqlite().await;
    let copy = &copies.catalog;
    catalog.put_tenant("acme", &tier("old"), Precondition::Any, &ann()).await.unwrap();
    let old = catalog.changes_since(0).await.unwrap();
    catalog.put_tenant("acme", &tier("new"), Precondition::Any, &ann()).await.unwrap();
    let new = catalog.changes_since(0).await.unwrap();
    copy.apply(&new).await.unwrap();
    copy.apply(&old).await.unwrap();
    assert_eq!(copy.tenant("acme").await.unwrap().tier.as_deref(), Some("new"));
    // Everything is taken even so: whoever says it knows better.
    let everything = Changes { whole: true, ..old };
    copy.apply(&everything).await.unwrap();
    assert_eq!(
        (copy.version().await.unwrap(), copy.everything().await.unwrap().tenants),
        (1, everything.tenants)
    );
}

async fn changes_with_a_gap_are_refused(world: World) {
    let copies = World::sqlite().await;
    let copy = &copies.catalog;
    for name in ["a", "b"] {
        world.catalog.put_tenant(name, &tier("t"), Precondition::Any, &ann()).await.unwrap();
    }
    let late = world.catalog.changes_since(1).await.unwrap();
    assert!(matches!(copy.apply(&late).await, Err(Error::Invalid { field, .. }) if field == "since"));
    assert_eq!(copy.version().await.unwrap(), 0);
}
