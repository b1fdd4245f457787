//! The tables.

use tidegate_catalog::{Catalog, Error, Precondition};

use crate::world::{SERVER, World, ann, tier};

laws! { what_is_stored_survives_the_next_start }

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
