//! Rule sets and their versions.

use tidegate_catalog::{Error, Precondition, Rules};

use crate::world::{World, ann, ann_at, at};

laws! {
    every_put_is_a_version,
    the_same_text_is_no_new_version,
    a_rollback_is_a_new_version_of_an_old_text,
    a_deletion_is_a_version_too,
    preconditions_guard_rules,
    histories_come_newest_first_and_page_by_page,
}

const TEXT: &str = "domain: api\ndescriptors:\n  - key: \"'; DROP TABLE rule_sets; --\" # ☃\n";

async fn put(world: &World, text: &str) -> Rules {
    world.catalog.put_rules("api", text, "why", Precondition::Any, &ann()).await.unwrap()
}

async fn every_put_is_a_version(world: World) {
    let first = world.catalog.put_rules("api", TEXT, "", Precondition::Absent, &ann()).await.unwrap();
    assert_eq!((first.version, first.text.as_deref(), first.created_at), (1, Some(TEXT), at(0)));
    let second = world.catalog.put_rules("api", "2", "why", Precondition::Any, &ann_at(9)).await.unwrap();
    assert_eq!((second.version, second.author.as_str(), second.comment.as_str()), (2, "ann", "why"));
    let other = world.catalog.put_rules("other", "o", "", Precondition::Any, &ann()).await.unwrap();
    assert_eq!((other.version, other.revision), (1, 3));
    assert_eq!(world.catalog.rules("api").await.unwrap(), second);
    assert_eq!(world.catalog.rules_version("api", 1).await.unwrap(), first);
    assert_eq!(world.catalog.all_rules().await.unwrap(), [second, other]);
    for (domain, version) in [("api", 3), ("api", 0), ("api", u64::MAX), ("none", 1)] {
        let missing = world.catalog.rules_version(domain, version).await;
        assert!(matches!(missing, Err(Error::NotFound { .. })));
    }
    let refused = world.catalog.put_rules("api", "a\0b", "", Precondition::Any, &ann()).await;
    assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "text"));
}

async fn the_same_text_is_no_new_version(world: World) {
    let first = put(&world, "1").await;
    assert_eq!(put(&world, "1").await, first);
    assert_eq!(world.catalog.version().await.unwrap(), 1);
    put(&world, "2").await;
    assert_eq!(put(&world, "1").await.version, 3);
}

async fn a_rollback_is_a_new_version_of_an_old_text(world: World) {
    put(&world, "1").await;
    put(&world, "2").await;
    let back = world.catalog.roll_back_rules("api", 1, "oops", Precondition::Any, &ann()).await.unwrap();
    assert_eq!((back.version, back.text.as_deref(), back.restored_from), (3, Some("1"), Some(1)));
    assert_eq!(world.catalog.rules("api").await.unwrap(), back);
    let again = world.catalog.roll_back_rules("api", 1, "oops", Precondition::Any, &ann()).await.unwrap();
    assert_eq!(again, back);
    let missing = world.catalog.roll_back_rules("api", 9, "", Precondition::Any, &ann()).await;
    assert!(matches!(missing, Err(Error::NotFound { kind: "version", .. })));
    world.catalog.delete_rules("api", "", Precondition::Any, &ann()).await.unwrap();
    let deletion = world.catalog.roll_back_rules("api", 4, "", Precondition::Any, &ann()).await;
    assert!(matches!(deletion, Err(Error::Invalid { field, .. }) if field == "version"));
    let revived = world.catalog.roll_back_rules("api", 2, "", Precondition::Absent, &ann()).await.unwrap();
    assert_eq!((revived.version, revived.text.as_deref()), (5, Some("2")));
}

async fn a_deletion_is_a_version_too(world: World) {
    put(&world, "1").await;
    let gone = world.catalog.delete_rules("api", "over", Precondition::Any, &ann()).await.unwrap();
    assert_eq!((gone.version, gone.text.as_deref(), gone.comment.as_str()), (2, None, "over"));
    assert!(matches!(world.catalog.rules("api").await, Err(Error::NotFound { kind: "rule set", .. })));
    assert!(world.catalog.all_rules().await.unwrap().is_empty());
    let again = world.catalog.delete_rules("api", "", Precondition::Any, &ann()).await;
    assert!(matches!(again, Err(Error::NotFound { .. })));
    assert_eq!(world.catalog.rules_version("api", 2).await.unwrap(), gone);
    assert_eq!(put(&world, "1").await.version, 3);
}

async fn preconditions_guard_rules(world: World) {
    let first = put(&world, "1").await;
    let write = async |condition| world.catalog.put_rules("api", "2", "", condition, &ann()).await;
    let current = Some(first.version);
    for wrong in [Precondition::Absent, Precondition::Revision(7)] {
        assert!(matches!(write(wrong).await, Err(Error::Precondition { current: now }) if now == current));
        let refused = world.catalog.delete_rules("api", "", wrong, &ann()).await;
        assert!(matches!(refused, Err(Error::Precondition { current: now }) if now == current));
        let refused = world.catalog.roll_back_rules("api", 1, "", wrong, &ann()).await;
        assert!(matches!(refused, Err(Error::Precondition { current: now }) if now == current));
    }
    assert_eq!(write(Precondition::Revision(first.version)).await.unwrap().version, 2);
}

async fn histories_come_newest_first_and_page_by_page(world: World) {
    for text in 1..=7 {
        put(&world, &text.to_string()).await;
    }
    world.catalog.put_rules("apix", "other", "", Precondition::Any, &ann()).await.unwrap();
    for size in [1, 3, 7, 100] {
        let mut versions = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = world.catalog.rule_versions("api", cursor.as_deref(), size).await.unwrap();
            versions.extend(page.items.iter().map(|rules| rules.version));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(versions, [7, 6, 5, 4, 3, 2, 1]);
    }
}
