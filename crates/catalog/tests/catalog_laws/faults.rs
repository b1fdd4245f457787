//! `PostgreSQL` down, silent, restarted, replaced.

use std::fs;
use std::time::{Duration, Instant};

use tidegate_catalog::{AuditFilter, Catalog, DEADLINE, Error, Precondition};
use tidegate_testkit::postgres::{Pooler, PostgresServer, Setup, multi_host_url};

use crate::picture::Picture;
use crate::world::{World, ann, tier};

/// Far more than a call may take, for machines that are busy.
const MARGIN: Duration = Duration::from_secs(5);
/// As long as a fault may take to be over.
const PATIENCE: Duration = Duration::from_secs(30);

async fn write(catalog: &Catalog, name: &str) -> Result<u64, Error> {
    catalog.put_tenant("acme", &tier(name), Precondition::Any, &ann()).await.map(|tenant| tenant.revision)
}

/// Reads and writes both say so, and in time.
#[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
async fn assert_unavailable(catalog: &Catalog) {
    let start = Instant::now();
    let (read, written, fed) =
        tokio::join!(catalog.tenant("acme"), write(catalog, "lost"), catalog.changes_since(0));
    assert!(start.elapsed() < DEADLINE + MARGIN, "{:?}", start.elapsed());
    for outcome in [read.map(drop), written.map(drop), fed.map(drop)] {
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    }
}

/// Writes until it succeeds; what fails until then must say that it is unavailable.
#[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
async fn write_again(catalog: &Catalog, name: &str) -> u64 {
    let start = Instant::now();
    loop {
        match write(catalog, name).await {
            Ok(revision) => return revision,
            Err(Error::Unavailable(_) | Error::Uncertain { .. }) => {
                assert!(start.elapsed() < PATIENCE, "it never came back");
            }
            Err(other) => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn tier_of(catalog: &Catalog) -> Option<String> {
    catalog.tenant("acme").await.unwrap().tier
}

#[tokio::test]
async fn a_database_that_is_down_is_unavailable_until_it_is_back() {
    let server = PostgresServer::start();
    let catalog = Catalog::postgres(&server.url(&server.create_database())).unwrap();
    write(&catalog, "first").await.unwrap();
    for stop in [PostgresServer::stop, PostgresServer::kill] {
        stop(&server);
        Box::pin(assert_unavailable(&catalog)).await;
        assert!(matches!(catalog.listen().await, Err(Error::Unavailable(_))));
        server.restart();
        write_again(&catalog, "back").await;
        assert_eq!(tier_of(&catalog).await.as_deref(), Some("back"));
        write(&catalog, "first").await.unwrap();
    }
}

#[tokio::test]
async fn a_restart_under_connections_that_were_kept_costs_no_call() {
    let server = PostgresServer::start();
    let catalog = Catalog::postgres(&server.url(&server.create_database())).unwrap();
    tokio::join!(async { write(&catalog, "a").await.unwrap() }, async { catalog.version().await.unwrap() });
    server.restart();
    write(&catalog, "b").await.unwrap();
    assert_eq!(tier_of(&catalog).await.as_deref(), Some("b"));
}

/// Each transaction may be on another of the pooler's connections, between those of others.
#[tokio::test]
async fn a_pooler_that_hands_connections_around_is_no_hindrance() {
    let server = PostgresServer::start();
    let (database, pooler) = (server.create_database(), Pooler::start(&server, 3));
    let catalog = || Catalog::postgres(&pooler.url(&database)).unwrap();
    let nodes: Vec<Catalog> = (0..4).map(|_| catalog()).collect();
    let writes = nodes.iter().enumerate().map(|(node, catalog)| async move {
        for number in 0..25 {
            let name = format!("tenant-{node}-{number}");
            catalog.put_tenant(&name, &tier("pro"), Precondition::Any, &ann()).await.unwrap();
            assert_eq!(catalog.tenant(&name).await.unwrap().tier.as_deref(), Some("pro"));
            catalog.changes_since(0).await.unwrap();
        }
    });
    futures_util::future::join_all(writes).await;
    let (seen_by_one, direct) =
        (nodes[0].everything().await.unwrap(), Catalog::postgres(&server.url(&database)));
    let picture = Picture::of(&seen_by_one);
    assert_eq!(picture.tenants.len(), 100);
    assert_eq!(picture, Picture::of(&direct.unwrap().everything().await.unwrap()));
    assert_eq!(nodes[1].version().await.unwrap(), 100);
}

#[tokio::test]
async fn a_catalog_is_opened_while_its_database_is_down() {
    let server = PostgresServer::start();
    let url = server.url(&server.create_database());
    server.stop();
    let catalog = Catalog::postgres(&url).unwrap();
    Box::pin(assert_unavailable(&catalog)).await;
    server.restart();
    write_again(&catalog, "late").await;
}

#[tokio::test]
async fn a_database_that_is_silent_is_unavailable_in_time() {
    let server = PostgresServer::start();
    let catalog = Catalog::postgres(&server.url(&server.create_database())).unwrap();
    write(&catalog, "first").await.unwrap();
    server.pause();
    // More than there are connections.
    for _ in 0..2 {
        Box::pin(assert_unavailable(&catalog)).await;
    }
    server.resume();
    write_again(&catalog, "after").await;
    assert_eq!(tier_of(&catalog).await.as_deref(), Some("after"));
    // One entry for each version, whatever became of the writes in between.
    let trail = catalog.audit(&AuditFilter::default(), None, 100).await.unwrap().items;
    assert_eq!(trail.len() as u64, catalog.version().await.unwrap());
}

#[tokio::test]
async fn writes_and_reads_go_on_after_a_failover_and_nothing_acknowledged_is_lost() {
    let primary = Setup::new().set("synchronous_commit", "remote_apply").start();
    let database = primary.create_database();
    let standby = primary.start_standby();
    primary.query("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
    standby.query("postgres", "SELECT 1");
    primary.query("postgres", "SELECT pg_reload_conf()");
    let url = multi_host_url(&[&standby, &primary], &database);
    let catalog = Catalog::postgres(&url).unwrap();
    write_again(&catalog, "0").await;
    let writer = catalog.clone();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let writing = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            let name = format!("tenant-{number}");
            match writer.put_tenant(&name, &tier("t"), Precondition::Any, &ann()).await {
                Ok(_) => acknowledged.push(name),
                Err(Error::Unavailable(_) | Error::Uncertain { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            if stopped.try_recv().is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        acknowledged
    });
    let promoted = tokio::task::spawn_blocking(move || {
        primary.kill();
        standby.query("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''");
        standby.promote();
        (primary, standby)
    });
    let _servers = promoted.await.unwrap();
    write_again(&catalog, "new").await;
    stop.send(()).unwrap();
    let acknowledged = writing.await.unwrap();
    assert!(!acknowledged.is_empty());
    let picture = Picture::of(&catalog.everything().await.unwrap());
    for name in &acknowledged {
        assert!(picture.tenants.contains_key(name), "{name} is lost");
    }
}

#[tokio::test]
async fn whoever_saw_changes_that_a_failover_lost_hears_all_anew() {
    let primary = PostgresServer::start();
    let database = primary.create_database();
    let catalog = Catalog::postgres(&primary.url(&database)).unwrap();
    write(&catalog, "kept").await.unwrap();
    let standby = primary.start_standby();
    primary.wait_for_standby(&standby);
    standby.stop();
    for name in ["lost", "lost too"] {
        write(&catalog, name).await.unwrap();
    }
    let mut picture = Picture::of(&catalog.everything().await.unwrap());
    let seen = catalog.version().await.unwrap();
    assert_eq!(seen, 3);
    primary.kill();
    standby.restart();
    standby.promote();
    // As many changes as were lost, so that numbers alone would say that nothing is new.
    let other = Catalog::postgres(&multi_host_url(&[&primary, &standby], &database)).unwrap();
    for name in ["another", "one more"] {
        other.put_tenant(name, &tier("t"), Precondition::Any, &ann()).await.unwrap();
    }
    assert!(other.version().await.unwrap() > seen);
    let changes = other.changes_since(seen).await.unwrap();
    assert!(changes.whole);
    picture.follow(&changes);
    assert_eq!(picture, Picture::of(&other.everything().await.unwrap()));
    assert_eq!(picture.tenants["acme"].tier.as_deref(), Some("kept"));
    // Once only.
    assert!(other.changes_since(changes.version).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_silent_primary_does_not_keep_its_standby_from_being_found() {
    let primary = PostgresServer::start();
    let database = primary.create_database();
    let url = |standby: &PostgresServer| multi_host_url(&[&primary, standby], &database);
    let standby = primary.start_standby();
    let catalog = Catalog::postgres(&url(&standby)).unwrap();
    write(&catalog, "first").await.unwrap();
    primary.wait_for_standby(&standby);
    primary.pause();
    standby.promote();
    write_again(&catalog, "second").await;
    assert_eq!(standby.query(&database, "SELECT tier FROM tenants"), "second");
}

#[tokio::test]
async fn changes_are_told_at_once_and_the_end_is_told_too() {
    let server = PostgresServer::start();
    let url = server.url(&server.create_database());
    let (catalog, other) = (Catalog::postgres(&url).unwrap(), Catalog::postgres(&url).unwrap());
    catalog.migrate().await.unwrap();
    let mut listener = catalog.listen().await.unwrap().expect("PostgreSQL tells");
    for name in ["a", "b"] {
        let revision = write(&other, name).await.unwrap();
        let told = tokio::time::timeout(PATIENCE, listener.next()).await.expect("it is told");
        assert_eq!(told.unwrap(), revision);
    }
    server.stop();
    let told = tokio::time::timeout(PATIENCE, listener.next()).await.expect("the end is told");
    assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
    assert!(World::sqlite().await.catalog.listen().await.unwrap().is_none());
}

#[tokio::test]
async fn a_password_is_read_anew_from_its_file_and_tls_is_checked() {
    let server = Setup::new().password("first").tls().start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pass word");
    let database = server.create_database();
    let query = |mode: &str| {
        let (file, authority) = (file.display().to_string().replace(' ', "%20"), server.authority());
        format!("sslmode={mode}&sslrootcert={}&password_file={file}", authority.display())
    };
    let url = format!("postgres://tidegate@127.0.0.1:{}/{database}?{}", server.port(), query("verify-full"));
    let catalog = Catalog::postgres(&url).unwrap();
    assert!(
        matches!(write(&catalog, "a").await, Err(Error::Unavailable(reason)) if reason.contains("pass word"))
    );
    fs::write(&file, "wrong\n").unwrap();
    assert!(matches!(write(&catalog, "a").await, Err(Error::Unavailable(_))));
    fs::write(&file, "first\n").unwrap();
    write(&catalog, "a").await.unwrap();
    server.query("postgres", "ALTER USER tidegate PASSWORD 'second'");
    fs::write(&file, "second").unwrap();
    server.restart();
    write(&catalog, "b").await.unwrap();
    let tls = server.query(
        "postgres",
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_port > 0",
    );
    assert_eq!(tls, "t");
    // The authority is another's, or there is no TLS.
    let stranger = Setup::new().tls().start();
    let place = format!("postgres://tidegate@127.0.0.1:{}/postgres", stranger.port());
    for wrong in [query("verify-full"), "sslmode=disable".to_owned()] {
        let wrong = wrong.replace("password_file", "application_name");
        let refused = write(&Catalog::postgres(&format!("{place}?{wrong}")).unwrap(), "c").await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{wrong}: {refused:?}");
    }
}
