//! Several who write at once.

use tidegate_catalog::{Allowance, AuditFilter, By, Catalog, Error, Precondition, SwitchMode};

use crate::world::{World, ann, at, requests, tier, with};

laws! {
    of_two_who_expect_the_same_revision_one_wins,
    no_update_is_lost,
    versions_have_no_gaps_and_no_doubles,
    whoever_gives_up_leaves_nothing_behind,
}

const WRITERS: usize = 8;

async fn of_two_who_expect_the_same_revision_one_wins(world: World) {
    for round in 0..5_u64 {
        let condition = if round == 0 { Precondition::Absent } else { Precondition::Revision(round) };
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let catalog = if writer % 2 == 0 { world.catalog.clone() } else { world.another().await };
            writers.push(tokio::spawn(async move {
                let draft = tier(&format!("{round}-{writer}"));
                catalog.put_tenant("acme", &draft, condition, &ann()).await
            }));
        }
        let (mut won, mut lost) = (Vec::new(), 0);
        for writer in writers {
            match writer.await.unwrap() {
                Ok(tenant) => won.push(tenant),
                Err(Error::Precondition { current }) => {
                    assert_eq!(current, Some(round + 1));
                    lost += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((won.len(), lost), (1, WRITERS - 1));
        assert_eq!(world.catalog.tenant("acme").await.unwrap(), won[0]);
    }
}

/// Raises a tenant's limit by one, however often others are in the way. Requests have names of their own: by these
/// a writer whose commit was not answered recognizes its change.
async fn increment(catalog: &Catalog, request: &str) {
    let by = By::new("ann", request, at(0));
    loop {
        let tenant = catalog.tenant("acme").await.unwrap();
        let Allowance::Limited(numbers) = &tenant.overrides[0].allowance else { panic!("{tenant:?}") };
        let draft = with(vec![requests(numbers.requests.cast_signed() + 1)]);
        let put = catalog.put_tenant("acme", &draft, Precondition::Revision(tenant.revision), &by).await;
        match put {
            Ok(_) => return,
            Err(Error::Precondition { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

async fn no_update_is_lost(world: World) {
    const EACH: usize = 5;
    let draft = with(vec![requests(0)]);
    world.catalog.put_tenant("acme", &draft, Precondition::Any, &ann()).await.unwrap();
    let mut writers = Vec::new();
    for writer in 0..4 {
        let catalog = world.another().await;
        writers.push(tokio::spawn(async move {
            for round in 0..EACH {
                increment(&catalog, &format!("request-{writer}-{round}")).await;
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let tenant = world.catalog.tenant("acme").await.unwrap();
    let Allowance::Limited(numbers) = &tenant.overrides[0].allowance else { panic!("{tenant:?}") };
    assert_eq!(numbers.requests, 4 * EACH as u64);
}

async fn versions_have_no_gaps_and_no_doubles(world: World) {
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let catalog = world.another().await;
        writers.push(tokio::spawn(async move {
            let mut revisions = Vec::new();
            for mode in [SwitchMode::Off, SwitchMode::Shadow, SwitchMode::Off] {
                let set =
                    catalog.set_switch(&format!("rule-{writer}"), mode, Precondition::Any, &ann()).await;
                revisions.push(set.unwrap().revision);
            }
            revisions
        }));
    }
    let mut revisions = Vec::new();
    for writer in writers {
        revisions.extend(writer.await.unwrap());
    }
    revisions.sort_unstable();
    let count = 3 * WRITERS as u64;
    assert_eq!(revisions, (1..=count).collect::<Vec<u64>>());
    assert_eq!(world.catalog.version().await.unwrap(), count);
}

/// A write whose caller goes away, wherever it is just then, happens whole or not at all, and neither holds up
/// the others nor disturbs their answers.
async fn whoever_gives_up_leaves_nothing_behind(world: World) {
    let catalog = &world.catalog;
    catalog.migrate().await.unwrap();
    for polls in 1..40 {
        let name = format!("tenant-{polls}");
        let (draft, by) = (with(vec![requests(1)]), ann());
        let mut write = Box::pin(catalog.put_tenant(&name, &draft, Precondition::Any, &by));
        let mut left = polls;
        let given_up = std::future::poll_fn(|context| {
            left -= 1;
            match write.as_mut().poll(context) {
                std::task::Poll::Pending if left > 0 => std::task::Poll::Pending,
                _ => std::task::Poll::Ready(()),
            }
        });
        given_up.await;
        drop(write);
        let after = catalog.put_tenant("after", &tier(&name), Precondition::Any, &ann()).await.unwrap();
        assert_eq!(catalog.tenant("after").await.unwrap(), after);
        match catalog.tenant(&name).await {
            Ok(tenant) => assert_eq!(tenant.overrides.len(), 1),
            Err(Error::NotFound { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let trail = catalog.audit(&AuditFilter::default(), None, 1_000).await.unwrap().items;
    assert_eq!(trail.len() as u64, catalog.version().await.unwrap());
}
