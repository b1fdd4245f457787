//! Tenants and their overrides.

use tidegate_catalog::{
    Allowance, AuditFilter, Catalog, Error, Numbers, OverrideDraft, Precondition, TenantDraft, TenantFilter,
    Unit, Window,
};

use crate::world::{World, ann, ann_at, at, requests, tier, with};

laws! {
    what_is_put_is_what_is_read,
    any_name_comes_back_as_it_was,
    the_same_again_leaves_no_trace,
    a_put_replaces_the_whole_set,
    what_stays_keeps_its_date,
    what_is_deleted_is_gone_until_it_is_put_again,
    preconditions_guard_every_write,
    lists_are_in_the_order_of_bytes_and_page_by_page,
    lists_of_a_tier_and_of_a_prefix_hold_what_belongs_there,
    overrides_turn_when_they_begin_and_when_they_end,
    an_override_that_has_ended_is_refused_unless_it_was_there_already,
}

/// Texts that SQL, shells, paths and terminals would trip over.
const STRANGE: [&str; 12] = [
    "'; DROP TABLE tenants; --",
    "\" OR 1=1 --",
    "$1",
    "%",
    "_",
    r"\",
    "a/b/../c?d=e&f#g",
    "%2e%2e%2f",
    "Ünïcödé ☃ 日本語 🦀",
    "e\u{301}",
    "\u{10ffff}",
    " ",
];

async fn what_is_put_is_what_is_read(world: World) {
    let text = |text: &str| Some(text.to_owned());
    let draft = TenantDraft {
        tier: text("pro"),
        overrides: vec![
            OverrideDraft {
                domain: text("api"),
                descriptor: "endpoint:POST /api/v1/orders".to_owned(),
                limit: text("steady"),
                unit: text("Minute"),
                burst: Some(1_000),
                algorithm: text("token_bucket"),
                effective_at: Some("2027-02-01T00:00:00.123456789Z".parse().unwrap()),
                expires_at: Some("2027-03-01T00:00:00Z".parse().unwrap()),
                ..requests(500)
            },
            OverrideDraft { unlimited: true, ..OverrideDraft::default() },
            OverrideDraft { descriptor: "a".to_owned(), duration_us: Some(90_000_000), ..requests(1 << 53) },
        ],
    };
    let put = world.catalog.put_tenant("acme", &draft, Precondition::Any, &ann()).await.unwrap();
    assert_eq!(world.catalog.tenant("acme").await.unwrap(), put);
    assert_eq!((put.tier.as_deref(), put.updated_at, put.revision), (Some("pro"), at(0), 1));
    let [first, second, third] = &put.overrides[..] else { panic!("{put:?}") };
    assert_eq!(first.descriptor.to_string(), "endpoint:POST /api/v1/orders");
    assert_eq!((first.domain.as_deref(), first.limit.as_deref()), (Some("api"), Some("steady")));
    let window = Some(Window::Unit(Unit::Minute));
    let numbers = Numbers { requests: 500, window, burst: Some(1_000), algorithm: text("token_bucket") };
    assert_eq!(first.allowance, Allowance::Limited(numbers));
    assert_eq!(first.effective_at.unwrap().to_string(), "2027-02-01T00:00:00.123456Z");
    assert!(first.holds_at(first.effective_at.unwrap()) && !first.holds_at(first.expires_at.unwrap()));
    assert_eq!((&second.allowance, second.descriptor.entries().len()), (&Allowance::Unlimited, 0));
    let window = Some(Window::DurationUs(90_000_000));
    let numbers = Numbers { requests: 1 << 53, window, burst: None, algorithm: None };
    assert_eq!(third.allowance, Allowance::Limited(numbers));
}

async fn any_name_comes_back_as_it_was(world: World) {
    let long = ["x", "é", "🦀"].map(|letter| letter.repeat(256));
    let names: Vec<&str> = STRANGE.into_iter().chain(long.iter().map(String::as_str)).collect();
    for name in &names {
        let each = OverrideDraft {
            domain: Some((*name).to_owned()),
            limit: Some((*name).to_owned()),
            descriptor: "key".to_owned(),
            ..requests(1)
        };
        let draft = TenantDraft { tier: Some((*name).to_owned()), overrides: vec![each] };
        let put = world.catalog.put_tenant(name, &draft, Precondition::Absent, &ann()).await.unwrap();
        assert_eq!(world.catalog.tenant(name).await.unwrap(), put);
        assert_eq!((put.name.as_str(), put.tier.as_deref()), (*name, Some(*name)));
        assert_eq!(put.overrides[0].domain.as_deref(), Some(*name));
        let filter = TenantFilter { tier: Some((*name).to_owned()), prefix: Some((*name).to_owned()) };
        assert_eq!(listed(&world.catalog, &filter, 10).await, [*name]);
    }
    assert_eq!(listed(&world.catalog, &TenantFilter::default(), 3).await.len(), names.len());
    for wrong in ["", &"x".repeat(257), "a\0", "a\r\nb"] {
        let refused = world.catalog.put_tenant(wrong, &tier("t"), Precondition::Any, &ann()).await;
        assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "tenant"), "{wrong:?}");
    }
}

async fn the_same_again_leaves_no_trace(world: World) {
    let draft = with(vec![requests(5)]);
    let first = world.catalog.put_tenant("acme", &draft, Precondition::Any, &ann()).await.unwrap();
    let again = world.catalog.put_tenant("acme", &draft, Precondition::Any, &ann_at(60)).await.unwrap();
    assert_eq!(again, first);
    let guarded = Precondition::Revision(first.revision);
    assert_eq!(world.catalog.put_tenant("acme", &draft, guarded, &ann_at(60)).await.unwrap(), first);
    assert_eq!(world.catalog.version().await.unwrap(), first.revision);
    assert_eq!(world.catalog.audit(&AuditFilter::default(), None, 10).await.unwrap().items.len(), 1);
}

async fn a_put_replaces_the_whole_set(world: World) {
    let key = |name: &str| OverrideDraft { descriptor: name.to_owned(), ..requests(5) };
    for keys in [vec!["a", "b", "c"], vec!["c", "d"], vec![], vec!["b"]] {
        let draft = with(keys.iter().map(|name| key(name)).collect());
        world.catalog.put_tenant("acme", &draft, Precondition::Any, &ann()).await.unwrap();
        let stored = world.catalog.tenant("acme").await.unwrap().overrides;
        let stored: Vec<String> = stored.iter().map(|each| each.descriptor.to_string()).collect();
        assert_eq!(stored, keys);
    }
}

async fn what_stays_keeps_its_date(world: World) {
    let key = |name: &str, count| OverrideDraft { descriptor: name.to_owned(), ..requests(count) };
    let put = async |draft, second| {
        world.catalog.put_tenant("acme", &draft, Precondition::Any, &ann_at(second)).await.unwrap()
    };
    put(with(vec![key("a", 1), key("b", 1)]), 0).await;
    let stored = put(with(vec![key("b", 2), key("a", 1)]), 60).await;
    assert_eq!(stored.updated_at, at(60));
    assert_eq!([stored.overrides[0].created_at, stored.overrides[1].created_at], [at(60), at(0)]);
    assert_eq!(world.catalog.tenant("acme").await.unwrap(), stored);
}

async fn what_is_deleted_is_gone_until_it_is_put_again(world: World) {
    let catalog = &world.catalog;
    let missing = |result| matches!(result, Err(Error::NotFound { kind: "tenant", .. }));
    assert!(missing(catalog.tenant("acme").await.map(drop)));
    assert!(missing(catalog.delete_tenant("acme", Precondition::Any, &ann()).await.map(drop)));
    catalog.put_tenant("acme", &with(vec![requests(1)]), Precondition::Any, &ann()).await.unwrap();
    assert_eq!(catalog.delete_tenant("acme", Precondition::Any, &ann()).await.unwrap(), 2);
    assert!(missing(catalog.tenant("acme").await.map(drop)));
    assert!(missing(catalog.delete_tenant("acme", Precondition::Any, &ann()).await.map(drop)));
    assert!(listed(catalog, &TenantFilter::default(), 10).await.is_empty());
    let back = catalog.put_tenant("acme", &tier("pro"), Precondition::Absent, &ann()).await.unwrap();
    assert_eq!((back.revision, back.overrides.len()), (3, 0));
    assert_eq!(catalog.tenant("acme").await.unwrap(), back);
}

async fn preconditions_guard_every_write(world: World) {
    let catalog = &world.catalog;
    let current = |result| match result {
        Err(Error::Precondition { current }) => current,
        other => panic!("{other:?}"),
    };
    let put = async |name, condition| {
        catalog.put_tenant("acme", &tier(name), condition, &ann()).await.map(|tenant| tenant.revision)
    };
    assert_eq!(current(put("a", Precondition::Revision(1)).await), None);
    assert_eq!(put("a", Precondition::Absent).await.unwrap(), 1);
    assert_eq!(current(put("b", Precondition::Absent).await), Some(1));
    assert_eq!(put("b", Precondition::Revision(1)).await.unwrap(), 2);
    assert_eq!(current(put("c", Precondition::Revision(1)).await), Some(2));
    let wrong = Precondition::Revision(u64::MAX);
    assert_eq!(current(catalog.delete_tenant("acme", wrong, &ann()).await), Some(2));
    assert_eq!(catalog.tenant("acme").await.unwrap().tier.as_deref(), Some("b"));
    assert_eq!(catalog.delete_tenant("acme", Precondition::Revision(2), &ann()).await.unwrap(), 3);
    assert_eq!(current(put("d", Precondition::Revision(3)).await), None);
    // What did not happen left no number behind.
    assert_eq!(catalog.version().await.unwrap(), 3);
}

async fn lists_are_in_the_order_of_bytes_and_page_by_page(world: World) {
    let mut names = vec!["b", "a", "B", "aa", "a b", "z", "é", "Z", "10", "9", "~", "日本", "🦀", "\u{ffff}"];
    for name in &names {
        world.catalog.put_tenant(name, &tier("t"), Precondition::Any, &ann()).await.unwrap();
    }
    names.sort_unstable();
    for size in [1, 2, 3, 13, 14, 100] {
        assert_eq!(listed(&world.catalog, &TenantFilter::default(), size).await, names);
    }
    for cursor in ["?", "AA==", "////", "gA"] {
        let refused = world.catalog.tenants(&TenantFilter::default(), Some(cursor), 10).await;
        assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "cursor"), "{cursor}");
    }
}

async fn lists_of_a_tier_and_of_a_prefix_hold_what_belongs_there(world: World) {
    let names =
        ["a", "a%", "a%b", "ab", "a_", "a\u{10ffff}", "a\u{10ffff}z", "b", "é", "éa", "\u{d7ff}", "\u{e000}"];
    for (index, name) in names.iter().enumerate() {
        let tier = tier(if index % 2 == 0 { "even" } else { "odd" });
        world.catalog.put_tenant(name, &tier, Precondition::Any, &ann()).await.unwrap();
    }
    for prefix in ["", "a", "a%", "a_", "a\u{10ffff}", "\u{10ffff}", "é", "\u{d7ff}", "x"] {
        for tier in [None, Some("even"), Some("odd"), Some("none")] {
            let belongs = |(index, name): &(usize, &&str)| {
                let kind = if index % 2 == 0 { "even" } else { "odd" };
                name.starts_with(prefix) && tier.is_none_or(|tier| tier == kind)
            };
            let mut wanted: Vec<&str> =
                names.iter().enumerate().filter(belongs).map(|(_, name)| *name).collect();
            wanted.sort_unstable();
            let filter = TenantFilter { tier: tier.map(str::to_owned), prefix: Some(prefix.to_owned()) };
            assert_eq!(listed(&world.catalog, &filter, 2).await, wanted, "{filter:?}");
        }
    }
}

async fn overrides_turn_when_they_begin_and_when_they_end(world: World) {
    let catalog = &world.catalog;
    let span = |from: Option<i64>, to: Option<i64>| OverrideDraft {
        effective_at: from.map(at),
        expires_at: to.map(at),
        ..requests(1)
    };
    for (name, overrides) in [
        ("always", vec![span(None, None)]),
        ("from", vec![span(Some(10), None)]),
        ("until", vec![span(None, Some(20))]),
        ("steps", vec![span(Some(5), Some(10)), span(Some(10), Some(30))]),
    ] {
        catalog.put_tenant(name, &with(overrides), Precondition::Any, &ann()).await.unwrap();
    }
    let turned = async |from, to| catalog.tenants_turned(at(from), at(to)).await.unwrap();
    assert_eq!(turned(0, 100).await, ["from", "steps", "until"]);
    assert_eq!(turned(5, 10).await, ["from", "steps"]);
    assert_eq!(turned(10, 19).await, [""; 0]);
    assert_eq!(turned(19, 20).await, ["until"]);
    assert_eq!(turned(30, 100).await, [""; 0]);
    let mut turns = Vec::new();
    let mut now = at(0);
    while let Some(next) = catalog.next_turn(now).await.unwrap() {
        turns.push(next);
        now = next;
    }
    assert_eq!(turns, [5, 10, 20, 30].map(at));
    catalog.delete_tenant("steps", Precondition::Any, &ann()).await.unwrap();
    assert_eq!(catalog.next_turn(at(0)).await.unwrap(), Some(at(10)));
}

/// All names, by pages of that size.
async fn listed(catalog: &Catalog, filter: &TenantFilter, size: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let page = catalog.tenants(filter, cursor.as_deref(), size).await.unwrap();
        assert!(page.items.len() <= size);
        names.extend(page.items.into_iter().map(|tenant| tenant.name));
        cursor = page.next;
        if cursor.is_none() {
            return names;
        }
    }
}

async fn an_override_that_has_ended_is_refused_unless_it_was_there_already(world: World) {
    let catalog = &world.catalog;
    let ending = |second| OverrideDraft { expires_at: Some(at(second)), ..requests(5) };
    let put = async |overrides: Vec<OverrideDraft>, now| {
        catalog.put_tenant("acme", &with(overrides), Precondition::Any, &ann_at(now)).await
    };
    let other = || OverrideDraft { descriptor: "a".to_owned(), ..requests(1) };
    for past in [-1_000_000, -1, 0] {
        let refused = put(vec![other(), ending(past)], 0).await;
        assert!(matches!(refused, Err(Error::Invalid { field, .. }) if field == "overrides[1].expires_at"));
    }
    assert_eq!(catalog.version().await.unwrap(), 0);
    put(vec![ending(10)], 0).await.unwrap();
    // What is shown can be put again, with what is new beside it.
    let kept = put(vec![ending(10), other()], 20).await.unwrap();
    assert_eq!(kept.overrides[0].created_at, at(0));
    // Changed, it is new.
    let changed = OverrideDraft { requests: Some(6), ..ending(10) };
    assert!(matches!(put(vec![changed], 20).await, Err(Error::Invalid { .. })));
}
