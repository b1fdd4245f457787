//! `PgBouncer` before the database, and connections that break in the middle of a commit: whoever writes is
//! told what has happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tidegate_catalog::{AuditFilter, Catalog, Error, Listen, Precondition, Role, TokenDraft, TokenHash};
use tidegate_testkit::postgres::{Pooler, PostgresServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{SERVER, World, ann, tier};

const ANY: Precondition = Precondition::Any;
const PATIENCE: Duration = Duration::from_secs(30);

async fn put(catalog: &Catalog, name: &str) -> Result<u64, Error> {
    catalog.put_tenant(name, &tier("pro"), ANY, &ann()).await.map(|tenant| tenant.revision)
}

/// One entry for each version, each of which somebody was told of.
async fn assert_told(catalog: &Catalog, writes: usize) {
    let trail = catalog.audit(&AuditFilter::default(), None, 1_000).await.unwrap().items;
    assert_eq!((trail.len(), catalog.version().await.unwrap()), (writes, writes as u64));
}

/// As a node of an earlier version does, on every connection that the pooler has: it goes on listening for
/// whoever has that connection next.
async fn listen_through(pooler: &Pooler, database: &str, connections: usize) {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let options: PgConnectOptions = pooler.url(database).parse().unwrap();
        let mut client = options.extra_float_digits(None).connect().await.unwrap();
        sqlx::raw_sql("BEGIN; LISTEN tidegate_catalog").execute(&mut client).await.unwrap();
        clients.push(client);
    }
    for mut client in clients {
        sqlx::raw_sql("COMMIT").execute(&mut client).await.unwrap();
    }
}

#[tokio::test]
async fn what_others_listen_for_on_a_shared_connection_fails_no_write() {
    const CONNECTIONS: u32 = 3;
    let (database, pooler) = (SERVER.create_database(), Pooler::start(&SERVER, CONNECTIONS));
    let nodes: Vec<Catalog> = (0..3).map(|_| Catalog::postgres(&pooler.url(&database)).unwrap()).collect();
    nodes[0].migrate().await.unwrap();
    for round in 0..10 {
        listen_through(&pooler, &database, CONNECTIONS as usize).await;
        let writes = nodes.iter().enumerate().map(|(node, catalog)| async move {
            put(catalog, &format!("tenant-{node}-{round}")).await.unwrap();
            let draft = TokenDraft {
                id: format!("{node}-{round}"),
                name: "ci".to_owned(),
                role: Role::Check,
                hash: TokenHash([7; 32]),
                expires_at: None,
            };
            catalog.create_token(&draft, &ann()).await.unwrap();
            catalog.changes_since(0).await.unwrap();
        });
        futures_util::future::join_all(writes).await;
    }
    assert_told(&nodes[0], 60).await;
}

#[tokio::test]
async fn nobody_listens_behind_a_pooler_that_hands_connections_around() {
    for connections in [1, 2, 5] {
        let (database, pooler) = (SERVER.create_database(), Pooler::start(&SERVER, connections));
        let catalog = Catalog::postgres(&pooler.url(&database)).unwrap();
        put(&catalog, "acme").await.unwrap();
        assert!(catalog.listen().await.unwrap().is_none(), "{connections} connections");
        assert!(catalog.is_pooled());
        let listening = SERVER.query(
            "postgres",
            &format!(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND query LIKE 'LISTEN%'"
            ),
        );
        assert_eq!(listening, "0");
        put(&catalog, "globex").await.unwrap();
        assert_told(&catalog, 2).await;
    }
}

#[tokio::test]
async fn changes_are_told_past_the_pooler_and_by_one_that_keeps_sessions() {
    let database = SERVER.create_database();
    let (handing, keeping) = (Pooler::start(&SERVER, 2), Pooler::in_mode(&SERVER, "session", 8));
    let past = Catalog::postgres_listening(&handing.url(&database), Listen::At(SERVER.url(&database)));
    let through = Catalog::postgres(&keeping.url(&database));
    for catalog in [past.unwrap(), through.unwrap()] {
        put(&catalog, "before").await.unwrap();
        let mut listener = catalog.listen().await.unwrap().expect("it tells");
        let revision = put(&catalog, &format!("{:?}", catalog.version().await.unwrap())).await.unwrap();
        let told = tokio::time::timeout(PATIENCE, listener.next()).await.expect("it is told");
        assert_eq!(told.unwrap(), revision);
    }
    let silent = Catalog::postgres_listening(&SERVER.url(&database), Listen::Off).unwrap();
    assert!(silent.listen().await.unwrap().is_none());
}

#[tokio::test]
async fn nodes_in_every_mode_write_to_one_database_and_nothing_is_half_done() {
    const WRITES: usize = 12;
    let database = SERVER.create_database();
    let poolers = ["statement", "transaction", "session"]
        .map(|mode| Pooler::in_mode(&SERVER, mode, if mode == "session" { 9 } else { 3 }));
    let mut nodes: Vec<Catalog> =
        poolers.iter().map(|pooler| Catalog::postgres(&pooler.url(&database)).unwrap()).collect();
    // Two in statement mode: neither can lock the other out while it prepares a write.
    nodes.push(Catalog::postgres(&poolers[0].url(&database)).unwrap());
    nodes.push(Catalog::postgres(&SERVER.url(&database)).unwrap());
    let writes = nodes.iter().enumerate().map(|(node, catalog)| async move {
        for round in 0..WRITES {
            put(catalog, &format!("tenant-{node}-{round}")).await.unwrap();
            catalog.changes_since(0).await.unwrap();
        }
    });
    futures_util::future::join_all(writes).await;
    assert_told(&nodes[0], WRITES * nodes.len()).await;
    let all = nodes[4].everything().await.unwrap();
    for node in &nodes {
        assert_eq!(node.everything().await.unwrap(), all);
    }
    assert!(nodes[0].listen().await.unwrap().is_none() && nodes[0].is_pooled());
    let past = Listen::At(SERVER.url(&database));
    let past = Catalog::postgres_listening(&poolers[0].url(&database), past).unwrap();
    let mut listener = past.listen().await.unwrap().expect("it tells");
    let revision = put(&past, "told").await.unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, listener.next()).await.expect("it is told").unwrap(), revision);
}

/// A write that is on its way while somebody looks whether it has happened cannot happen afterwards.
#[tokio::test]
async fn a_write_that_was_looked_for_in_statement_mode_does_not_happen_later() {
    let world = World::per_statement().await;
    put(&world.catalog, "first").await.unwrap();
    let entry = world.catalog.audit_entry(1).await.unwrap();
    let unseen = tidegate_catalog::AuditEntry { id: 2, object: "second".to_owned(), ..entry };
    assert!(!world.catalog.has_happened(&unseen).await.unwrap());
    // Version 2 is used up: what was prepared for it is refused, and is prepared again by those who wait.
    assert_eq!(world.catalog.version().await.unwrap(), 2);
    assert_eq!(put(&world.catalog, "second").await.unwrap(), 3);
}

/// What becomes of connections in the middle of a commit.
#[derive(Clone, Copy)]
enum Trouble {
    None,
    /// The server commits, and nobody hears of it.
    AnswerLost,
    /// The server never hears of it.
    CommitLost,
    /// The server commits, nobody hears of it, and nobody can ask.
    ThenAway,
}

/// A way to a server on which commits get lost.
struct Line {
    trouble: Arc<AtomicU8>,
    port: u16,
}

impl Line {
    async fn to(server: &PostgresServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, behind) = (listener.local_addr().unwrap().port(), server.port());
        let trouble = Arc::new(AtomicU8::new(Trouble::None as u8));
        let shared = trouble.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, behind, shared.clone()));
            }
        });
        Self { trouble, port }
    }

    fn set(&self, trouble: Trouble) {
        self.trouble.store(trouble as u8, Ordering::SeqCst);
    }
}

async fn carry(client: TcpStream, port: u16, trouble: Arc<AtomicU8>) {
    const AWAY: u8 = 9;
    if trouble.load(Ordering::SeqCst) == AWAY {
        return;
    }
    let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let mut answers = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = tokio::select! {
            read = from_client.read(&mut buffer) => read.unwrap_or(0),
            _ = &mut answers => 0,
        };
        if read == 0 {
            return;
        }
        let sent = &buffer[..read];
        // Reads are committed, too; only a write follows the notification.
        let commits = sent.windows(6).any(|word| word == b"COMMIT");
        let now = trouble.load(Ordering::SeqCst);
        if !commits || now == Trouble::None as u8 {
            if to_server.write_all(sent).await.is_err() {
                return;
            }
            continue;
        }
        answers.abort();
        let _ = (&mut answers).await;
        if now != Trouble::CommitLost as u8 {
            to_server.write_all(sent).await.unwrap();
            // Once it was taken the server carries on without us.
            to_server.shutdown().await.unwrap();
        }
        trouble
            .store(if now == Trouble::ThenAway as u8 { AWAY } else { Trouble::None as u8 }, Ordering::SeqCst);
        return;
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_out_before_anybody_is_told() {
    let database = SERVER.create_database();
    let line = Line::to(&SERVER).await;
    let url = format!("postgres://tidegate@127.0.0.1:{}/{database}", line.port);
    let (catalog, direct) =
        (Catalog::postgres(&url).unwrap(), Catalog::postgres(&SERVER.url(&database)).unwrap());
    put(&catalog, "first").await.unwrap();
    line.set(Trouble::AnswerLost);
    assert_eq!(put(&catalog, "kept").await.unwrap(), 2);
    assert_eq!(direct.tenant("kept").await.unwrap().revision, 2);
    line.set(Trouble::CommitLost);
    let lost = put(&catalog, "lost").await;
    assert!(matches!(lost, Err(Error::Unavailable(_))), "{lost:?}");
    assert!(matches!(direct.tenant("lost").await, Err(Error::NotFound { .. })));
    assert_eq!(put(&catalog, "next").await.unwrap(), 3);
    line.set(Trouble::ThenAway);
    let unknown = put(&catalog, "unknown").await;
    let Err(Error::Uncertain { entry, .. }) = unknown else { panic!("{unknown:?}") };
    assert_eq!((entry.id, entry.object.as_str()), (4, "unknown"));
    line.set(Trouble::None);
    assert!(catalog.has_happened(&entry).await.unwrap());
    // An entry of another write with the same number is not ours.
    let other = tidegate_catalog::AuditEntry { object: "other".to_owned(), ..*entry };
    assert!(!catalog.has_happened(&other).await.unwrap());
    assert_told(&direct, 4).await;
}
