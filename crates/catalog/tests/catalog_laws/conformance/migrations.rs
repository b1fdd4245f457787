//! The tables.

use tidegate_catalog::{Catalog, Error, Precondition};

use super::plans::run;
use crate::world::{SERVER, World, ann, tier};

laws! {
    what_is_stored_survives_the_next_start,
    tables_of_an_older_version_are_brought_up_to_date,
}

const NODES: usize = 8;

/// Starts nodes on one empty database at once; each writes as soon as it can.
async fn start_together<F>(open: impl Fn() -> F) -> Vec<Catalog>
where
    F: Future<Output = Result<Catalog, Error>> + Send + 'static,
{
    let nodes: Vec<_> = (0..NODES).map(|_| tokio::spawn(open())).collect();
    let mut catalogs = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let catalog = node.await.unwrap().unwrap();
        catalog.put_tenant(&index.to_string(), &tier("t"), Precondition::Absent, &ann()).await.unwrap();
        catalogs.push(catalog);
    }
    catalogs
}

async fn all_see_the_same(catalogs: &[Catalog]) {
    for catalog in catalogs {
        assert_eq!(catalog.version().await.unwrap(), NODES as u64);
    }
}

#[tokio::test]
async fn many_nodes_start_at_once_on_sqlite() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.db");
        all_see_the_same(&start_together(|| Catalog::sqlite(path.clone())).await).await;
    }
}

#[tokio::test]
async fn many_nodes_start_at_once_on_postgres() {
    for _ in 0..5 {
        let url = SERVER.url(&SERVER.create_database());
        let open = || {
            let catalog = Catalog::postgres(&url).unwrap();
            async move { catalog.migrate().await.map(|()| catalog) }
        };
        all_see_the_same(&start_together(open).await).await;
    }
}

#[tokio::test]
async fn tables_of_a_newer_version_are_left_alone() {
    let world = World::postgres().await;
    world.catalog.migrate().await.unwrap();
    SERVER.query(world.database().unwrap(), "INSERT INTO catalog_steps VALUES (99)");
    let refused = world.another().await.migrate().await.unwrap_err();
    assert!(
        matches!(refused, Error::Other(_)) && refused.to_string().contains("upgrade tidegate"),
        "{refused}"
    );
}

async fn what_is_stored_survives_the_next_start(world: World) {
    let put = world.catalog.put_tenant("acme", &tier("t"), Precondition::Any, &ann()).await.unwrap();
    assert_eq!(world.another().await.tenant("acme").await.unwrap(), put);
}

/// As the first step left them.
const OLDER: &str = "DROP INDEX tenants_gone; DROP INDEX domains_gone; DROP INDEX domains_version; \
     DROP INDEX tokens_ended; DELETE FROM catalog_steps WHERE step > 1";

async fn tables_of_an_older_version_are_brought_up_to_date(world: World) {
    let put = world.catalog.put_tenant("acme", &tier("t"), Precondition::Any, &ann()).await.unwrap();
    run(&world, OLDER).await;
    let next = world.another().await;
    assert_eq!(next.tenant("acme").await.unwrap(), put);
    // It has nothing left to do.
    world.another().await.migrate().await.unwrap();
    // They are there again: what is not there cannot be dropped.
    run(&world, OLDER).await;
}

#[tokio::test]
async fn the_file_is_for_nobody_else_to_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::sqlite().await;
    world.catalog.put_tenant("acme", &tier("t"), Precondition::Any, &ann()).await.unwrap();
    let file = world.file().unwrap();
    for file in [file.clone(), file.with_extension("db-wal")] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}
