//! Switches.

use tidegate_catalog::{Error, Precondition, SwitchMode};

use crate::world::{World, ann, at};

laws! {
    a_switch_is_as_it_was_set_last,
    a_switch_that_is_unset_is_as_if_it_had_never_been,
    switches_are_guarded_and_named,
}

async fn a_switch_is_as_it_was_set_last(world: World) {
    let catalog = &world.catalog;
    assert!(matches!(catalog.switch("*").await, Err(Error::NotFound { kind: "switch", .. })));
    for (rule, mode) in [("*", SwitchMode::Off), ("a/b", SwitchMode::Shadow), ("*", SwitchMode::Enforce)] {
        let set = catalog.set_switch(rule, mode, Precondition::Any, &ann()).await.unwrap();
        assert_eq!((set.mode, set.updated_at), (mode, at(0)));
        assert_eq!(catalog.switch(rule).await.unwrap(), set);
        // The same again is nothing new.
        assert_eq!(catalog.set_switch(rule, mode, Precondition::Any, &ann()).await.unwrap(), set);
    }
    let all = catalog.switches().await.unwrap();
    let all: Vec<(&str, SwitchMode)> = all.iter().map(|each| (each.rule.as_str(), each.mode)).collect();
    assert_eq!(all, [("*", SwitchMode::Enforce), ("a/b", SwitchMode::Shadow)]);
    assert_eq!(catalog.version().await.unwrap(), 3);
}

async fn switches_are_guarded_and_named(world: World) {
    let set = async |rule: &str, condition| {
        world.catalog.set_switch(rule, SwitchMode::Off, condition, &ann()).await
    };
    set("'; --", Precondition::Absent).await.unwrap();
    set(&"🦀".repeat(512), Precondition::Absent).await.unwrap();
    for wrong in [Precondition::Absent, Precondition::Revision(9)] {
        assert!(matches!(set("'; --", wrong).await, Err(Error::Precondition { current: Some(1) })));
    }
    for wrong in ["", "a\0", &"x".repeat(513)] {
        assert!(
            matches!(set(wrong, Precondition::Any).await, Err(Error::Invalid { field, .. }) if field == "rule")
        );
    }
}

async fn a_switch_that_is_unset_is_as_if_it_had_never_been(world: World) {
    let catalog = &world.catalog;
    let node = World::sqlite().await;
    let copy = &node.catalog;
    catalog.set_switch("a", SwitchMode::Off, Precondition::Any, &ann()).await.unwrap();
    catalog.set_switch("b", SwitchMode::Shadow, Precondition::Any, &ann()).await.unwrap();
    copy.apply(&catalog.everything().await.unwrap()).await.unwrap();
    let wrong = catalog.unset_switch("a", Precondition::Revision(9), &ann()).await;
    assert!(matches!(wrong, Err(Error::Precondition { current: Some(1) })));
    assert_eq!(catalog.unset_switch("a", Precondition::Any, &ann()).await.unwrap(), 3);
    for missing in [
        catalog.switch("a").await.map(drop),
        catalog.unset_switch("a", Precondition::Any, &ann()).await.map(drop),
    ] {
        assert!(matches!(missing, Err(Error::NotFound { kind: "switch", .. })));
    }
    // Whoever follows hears of it.
    copy.apply(&catalog.changes_since(copy.version().await.unwrap()).await.unwrap()).await.unwrap();
    let left = copy.switches().await.unwrap();
    assert_eq!(left.iter().map(|switch| switch.rule.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(catalog.changes_since(3).await.unwrap().is_empty());
    let told = catalog.audit_entry(3).await.unwrap();
    assert_eq!(
        (told.action.as_str(), told.before, told.after),
        ("unset_switch", Some(serde_json::json!({ "mode": "off" })), None)
    );
}
