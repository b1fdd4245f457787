//! The audit trail.

use serde_json::json;
use tidegate_catalog::{AuditEntry, AuditFilter, By, Catalog, Error, Journal, Precondition, SwitchMode};

use crate::world::{World, ann, at, requests, tier, with};

laws! {
    every_change_leaves_one_entry_with_before_and_after,
    a_journal_has_the_entry_of_each_change_as_the_trail_does,
    the_trail_is_newest_first_and_page_by_page,
    filters_hold_all_at_once,
    who_writes_has_a_name,
    a_kind_of_thing_can_be_left_out,
}

async fn all(catalog: &Catalog, filter: &AuditFilter, size: usize) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = catalog.audit(filter, cursor.as_deref(), size).await.unwrap();
        entries.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return entries;
        }
    }
}

async fn every_change_leaves_one_entry_with_before_and_after(world: World) {
    let (catalog, any) = (&world.catalog, Precondition::Any);
    catalog.put_tenant("acme", &tier("pro"), any, &ann()).await.unwrap();
    catalog.put_tenant("acme", &with(vec![requests(5)]), any, &ann()).await.unwrap();
    catalog.delete_tenant("acme", any, &ann()).await.unwrap();
    catalog.put_rules("api", "1", "first", any, &ann()).await.unwrap();
    catalog.delete_rules("api", "", any, &ann()).await.unwrap();
    catalog.roll_back_rules("api", 1, "", any, &ann()).await.unwrap();
    catalog.set_switch("*", SwitchMode::Off, any, &ann()).await.unwrap();
    catalog.record("reset_usage", "usage", "acme", Some(json!({ "used": 7 })), None, &ann()).await.unwrap();
    let mut trail = all(catalog, &AuditFilter::default(), 100).await;
    trail.reverse();
    let ids: Vec<u64> = trail.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, (1..=8).collect::<Vec<u64>>());
    let told: Vec<String> = trail
        .iter()
        .map(|entry| format!("{} {} {}", entry.action, entry.object_kind, entry.object))
        .collect();
    let wanted = [
        "put_tenant tenant acme",
        "put_tenant tenant acme",
        "delete_tenant tenant acme",
        "put_rules rules api",
        "delete_rules rules api",
        "roll_back_rules rules api",
        "set_switch switch *",
        "reset_usage usage acme",
    ];
    assert_eq!(told, wanted);
    assert_eq!(trail[0].before, None);
    assert_eq!(trail[0].after, Some(json!({ "tier": "pro", "overrides": [] })));
    assert_eq!(trail[1].before, trail[0].after);
    assert_eq!(trail[1].after.as_ref().unwrap()["overrides"][0]["limited"]["requests"], 5);
    assert_eq!((&trail[2].before, &trail[2].after), (&trail[1].after, &None));
    assert_eq!(trail[5].after.as_ref().unwrap()["restored_from"], 1);
    assert_eq!((trail[6].before.clone(), trail[6].after.clone()), (None, Some(json!({ "mode": "off" }))));
    let first = &trail[0];
    assert_eq!((first.actor.as_str(), first.request_id.as_str(), first.at), ("ann", "request-1", at(0)));
}

async fn the_trail_is_newest_first_and_page_by_page(world: World) {
    // Two at the same moment, and one whose clock was behind.
    for second in [5, 9, 9, 7, 20] {
        let by = By::new("ann", "r", at(second));
        world.catalog.record("a", "b", "c", None, None, &by).await.unwrap();
    }
    for size in [1, 2, 5, 100] {
        let trail = all(&world.catalog, &AuditFilter::default(), size).await;
        let ids: Vec<u64> = trail.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [5, 3, 2, 4, 1]);
    }
    for cursor in ["x", "MQ", "MSB4"] {
        let refused = world.catalog.audit(&AuditFilter::default(), Some(cursor), 5).await;
        assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "cursor"));
    }
}

async fn filters_hold_all_at_once(world: World) {
    let entries =
        [("ann", "put", "x", 0), ("bob", "put", "x", 1), ("ann", "cut", "x", 2), ("ann", "put", "y'", 3)];
    for (actor, action, object, second) in entries {
        let by = By::new(actor, "r", at(second));
        world.catalog.record(action, "thing", object, None, None, &by).await.unwrap();
    }
    let text = |text: &str| Some(text.to_owned());
    let none = AuditFilter::default;
    for (filter, wanted) in [
        (AuditFilter { actor: text("ann"), ..none() }, vec![4, 3, 1]),
        (AuditFilter { actor: text("ann"), action: text("put"), ..none() }, vec![4, 1]),
        (AuditFilter { object: text("x"), ..none() }, vec![3, 2, 1]),
        (AuditFilter { object: text("y'"), object_kind: text("thing"), ..none() }, vec![4]),
        (AuditFilter { object: text("x"), object_kind: text("other"), ..none() }, vec![]),
        (AuditFilter { from: Some(at(1)), to: Some(at(3)), ..none() }, vec![3, 2]),
        (AuditFilter { actor: text("' OR 1=1 --"), ..none() }, vec![]),
    ] {
        let trail = all(&world.catalog, &filter, 1).await;
        let ids: Vec<u64> = trail.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, wanted, "{filter:?}");
    }
}

async fn a_kind_of_thing_can_be_left_out(world: World) {
    for (kind, second) in [("token", 0), ("tenant", 1), ("token", 2), ("switch", 3)] {
        world.catalog.record("a", kind, "x", None, None, &By::new("ann", "r", at(second))).await.unwrap();
    }
    let shown = AuditFilter { except_kind: Some("token".to_owned()), ..AuditFilter::default() };
    for size in [1, 2, 10] {
        let ids: Vec<u64> = all(&world.catalog, &shown, size).await.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [4, 2]);
    }
    let hidden = AuditFilter { object_kind: Some("token".to_owned()), ..shown };
    assert!(all(&world.catalog, &hidden, 10).await.is_empty());
}

async fn a_journal_has_the_entry_of_each_change_as_the_trail_does(world: World) {
    let (journal, any) = (Journal::default(), Precondition::Any);
    let catalog = world.catalog.with_journal(&journal);
    catalog.put_tenant("acme", &tier("pro"), any, &ann()).await.unwrap();
    catalog.put_rules("api", "1", "first", any, &ann()).await.unwrap();
    catalog.delete_tenant("acme", any, &ann()).await.unwrap();
    let mut trail = all(&catalog, &AuditFilter::default(), 100).await;
    trail.reverse();
    assert_eq!(journal.take(), trail);
    // Neither what changes nothing nor what others change is in it.
    catalog.put_rules("api", "1", "", any, &ann()).await.unwrap();
    catalog.delete_tenant("acme", any, &ann()).await.unwrap_err();
    world.catalog.put_tenant("globex", &tier("pro"), any, &ann()).await.unwrap();
    assert_eq!(journal.take(), []);
}

async fn who_writes_has_a_name(world: World) {
    for (by, field) in [(By::new("", "r", at(0)), "actor"), (By::new("a", "r\n", at(0)), "request_id")] {
        let refused = world.catalog.put_tenant("acme", &tier("t"), Precondition::Any, &by).await;
        assert!(matches!(refused, Err(Error::Invalid { field: named, .. }) if named == field));
    }
    assert_eq!(world.catalog.version().await.unwrap(), 0);
}
