//! Three nodes, one store, 64 clients: one limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tidegate_testkit::redis::RedisServer;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::client::{Client, Source, post};
use crate::support::service::{Service, Setup, get, until};

const NODES: usize = 3;
const CLIENTS: usize = 64;
/// Of every limit, in a year: nothing comes back while a test runs, and windows end in no test.
const LIMIT: usize = 60;
/// Calls of each client for each limit: ten times what all of them get.
const CALLS: usize = 10 * LIMIT / CLIENTS + 1;
const SLOTS: usize = 7;

const RULES: &str = "
domain: faults
descriptors:
  - key: token_bucket
    limits: [{ algorithm: token_bucket, requests: 60, per: year, burst: 60 }]
  - key: leaky_bucket
    limits: [{ algorithm: leaky_bucket, requests: 60, per: year, burst: 60 }]
  - key: fixed_window
    limits: [{ algorithm: fixed_window, requests: 60, per: year }]
  - key: sliding_window
    limits: [{ algorithm: sliding_window, requests: 60, per: year }]
  - key: sub_windows
    limits: [{ algorithm: sub_windows, requests: 60, per: year, buckets: 10 }]
  - key: sliding_log
    limits: [{ algorithm: sliding_log, requests: 60, per: year }]
  - key: concurrency
    concurrency: { max: 7, timeout: 1h }
";

/// Nodes that wait long enough for a busy machine: no decision here is to be taken without the store.
fn nodes(server: &RedisServer) -> Vec<Service> {
    let node = || Setup::rules(RULES).with("store", &server.url()).with("redis.deadline", "10s").start();
    (0..NODES).map(|_| node()).collect()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// What all clients together get of a limit.
fn admitted_in_all(key: &'static str) -> usize {
    let server = RedisServer::start();
    let nodes = nodes(&server);
    runtime().block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let mut client = Client::grpc(nodes[number % NODES].grpc).await;
            clients.spawn(async move {
                let mut admitted = 0;
                for _ in 0..CALLS {
                    let decision = client.ask(key, "all").await.expect("an answer");
                    assert_eq!(decision.source, Source::Redis, "nothing is wrong with the store");
                    admitted += usize::from(decision.allowed);
                }
                admitted
            });
        }
        clients.join_all().await.into_iter().sum()
    })
}

#[test]
fn three_nodes_share_one_token_bucket() {
    assert_eq!(admitted_in_all("token_bucket"), LIMIT);
}

#[test]
fn three_nodes_share_one_leaky_bucket() {
    assert_eq!(admitted_in_all("leaky_bucket"), LIMIT);
}

#[test]
fn three_nodes_share_one_fixed_window() {
    assert_eq!(admitted_in_all("fixed_window"), LIMIT);
}

#[test]
fn three_nodes_share_one_sliding_window() {
    assert_eq!(admitted_in_all("sliding_window"), LIMIT);
}

#[test]
fn three_nodes_share_one_set_of_sub_windows() {
    assert_eq!(admitted_in_all("sub_windows"), LIMIT);
}

#[test]
fn three_nodes_share_one_sliding_log() {
    assert_eq!(admitted_in_all("sliding_log"), LIMIT);
}

#[test]
fn three_nodes_that_count_each_other_share_what_they_admit_alone() {
    let server = RedisServer::start();
    let nodes = nodes(&server);
    let counted = |node: &Service| get(node.admin, "/readyz").json()["store"]["nodes"] == NODES;
    until("the nodes have counted each other", || nodes.iter().all(counted));
    server.kill();
    for node in &nodes {
        let pass = |_: &usize| node.check(super::DOMAIN, r#"{"sliding_window":"all"}"#).status == 200;
        // A half of the third that is its own.
        assert_eq!((0..LIMIT).filter(pass).count(), LIMIT / 2 / NODES);
    }
}

/// How many hold a slot, and the most that ever did.
#[derive(Default)]
struct Holders {
    now: AtomicUsize,
    most: AtomicUsize,
    in_all: AtomicUsize,
}

#[test]
fn three_nodes_share_one_set_of_slots() {
    let server = RedisServer::start();
    let nodes = nodes(&server);
    let holders = Arc::new(Holders::default());
    runtime().block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = connect(&nodes[number % NODES]).await;
            clients.spawn(hold_again_and_again(client, Arc::clone(&holders)));
        }
        clients.join_all().await;
    });
    let (most, in_all) = (holders.most.load(SeqCst), holders.in_all.load(SeqCst));
    assert!(most <= SLOTS, "{most} held one of {SLOTS} slots");
    assert!(in_all > CLIENTS, "only {in_all} were ever taken: slots do not return");
}

async fn connect(node: &Service) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(node.http).await.expect("it listens");
    let io = TokioIo::new(stream);
    let (client, connection) = hyper::client::conn::http1::handshake(io).await.expect("HTTP");
    tokio::spawn(connection);
    client
}

/// Takes slots and returns them, until it has had a few.
async fn hold_again_and_again(mut client: SendRequest<Full<Bytes>>, holders: Arc<Holders>) {
    const MOST_TRIES: usize = 2_000;
    let mut had = 0;
    for _ in 0..MOST_TRIES {
        let body = json!({ "domain": super::DOMAIN, "descriptor": { "concurrency": "all" } });
        let (status, answer) = post(&mut client, "/v1/acquire", body.to_string()).await.expect("an answer");
        match status {
            200 => {
                let now = holders.now.fetch_add(1, SeqCst) + 1;
                holders.most.fetch_max(now, SeqCst);
                holders.in_all.fetch_add(1, SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                holders.now.fetch_sub(1, SeqCst);
                let body = json!({ "permit": answer["permit"] }).to_string();
                let (status, _) = post(&mut client, "/v1/release", body).await.expect("an answer");
                assert_eq!(status, 204);
                had += 1;
            }
            429 => tokio::time::sleep(Duration::from_millis(5)).await,
            other => panic!("{other}: {answer}"),
        }
        if had == 3 {
            return;
        }
    }
    panic!("had only {had} slots in {MOST_TRIES} tries");
}
