//! Switches.

use tidegate_catalog::{Error, Precondition, SwitchMode};

use crate::world::{World, ann, at};

laws! { a_switch_is_as_it_was_set_last, switches_are_guarded_and_named }

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
