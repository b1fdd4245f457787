//! Tokens.

use tidegate_catalog::{AuditFilter, Error, Role, TokenDraft, TokenHash};

use crate::world::{World, ann, ann_at, at};

laws! {
    a_token_is_as_it_was_made,
    a_revoked_token_stays_revoked,
    the_last_use_is_kept_and_is_no_change,
    neither_secrets_nor_hashes_are_shown,
}

fn draft(id: &str, role: Role) -> TokenDraft {
    TokenDraft {
        id: id.to_owned(),
        name: "ci 'robot'".to_owned(),
        role,
        hash: TokenHash([0xa7; 32]),
        expires_at: None,
    }
}

async fn a_token_is_as_it_was_made(world: World) {
    let roles = [Role::Viewer, Role::Operator, Role::Admin, Role::Check];
    let mut made = Vec::new();
    for (id, role) in ["a", "b", "c", "d"].into_iter().zip(roles) {
        let draft = TokenDraft { expires_at: Some(at(60)), ..draft(id, role) };
        let token = world.catalog.create_token(&draft, &ann()).await.unwrap();
        assert_eq!((&token.id, token.role, token.hash), (&draft.id, role, draft.hash));
        assert!(token.holds_at(at(59)) && !token.holds_at(at(60)));
        made.push(token);
    }
    assert_eq!(world.catalog.tokens().await.unwrap(), made);
    let again = world.catalog.create_token(&draft("a", Role::Admin), &ann()).await;
    assert!(matches!(again, Err(Error::Precondition { current: Some(1) })));
    let past = TokenDraft { expires_at: Some(at(0)), ..draft("e", Role::Admin) };
    let refused = world.catalog.create_token(&past, &ann()).await;
    assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "expires_at"));
}

async fn a_revoked_token_stays_revoked(world: World) {
    world.catalog.create_token(&draft("a", Role::Admin), &ann()).await.unwrap();
    let revoked = world.catalog.revoke_token("a", &ann_at(5)).await.unwrap();
    assert_eq!((revoked.revoked_at, revoked.revision), (Some(at(5)), 2));
    assert!(!revoked.holds_at(at(5)));
    assert_eq!(world.catalog.revoke_token("a", &ann_at(9)).await.unwrap(), revoked);
    assert_eq!(world.catalog.version().await.unwrap(), 2);
    let missing = world.catalog.revoke_token("b", &ann()).await;
    assert!(matches!(missing, Err(Error::NotFound { kind: "token", .. })));
}

async fn the_last_use_is_kept_and_is_no_change(world: World) {
    for id in ["a", "b"] {
        world.catalog.create_token(&draft(id, Role::Check), &ann()).await.unwrap();
    }
    let used = |id: &str, second| (id.to_owned(), at(second));
    world.catalog.touch_tokens(&[used("b", 7), used("a", 9), used("gone", 1), used("'", 1)]).await.unwrap();
    // Another node was slower to tell.
    world.catalog.touch_tokens(&[used("a", 8)]).await.unwrap();
    let tokens = world.catalog.tokens().await.unwrap();
    assert_eq!([tokens[0].last_used_at, tokens[1].last_used_at], [Some(at(9)), Some(at(7))]);
    assert_eq!(world.catalog.version().await.unwrap(), 2);
    assert_eq!(world.catalog.audit(&AuditFilter::default(), None, 10).await.unwrap().items.len(), 2);
    // Nor does a change forget it.
    assert_eq!(world.catalog.revoke_token("a", &ann()).await.unwrap().last_used_at, Some(at(9)));
    assert_eq!(world.catalog.tokens().await.unwrap()[0].last_used_at, Some(at(9)));
}

async fn neither_secrets_nor_hashes_are_shown(world: World) {
    let token = world.catalog.create_token(&draft("a", Role::Check), &ann()).await.unwrap();
    world.catalog.revoke_token("a", &ann()).await.unwrap();
    let trail = world.catalog.audit(&AuditFilter::default(), None, 10).await.unwrap().items;
    let shown = format!("{trail:?} {token:?}").to_lowercase();
    assert!(trail.len() == 2 && shown.contains("check"));
    assert!(!shown.contains("a7a7") && !shown.contains("167, 167") && !shown.contains("hash\""));
}
