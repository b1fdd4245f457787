//! What clients of a node see while its store fails: real servers, the real binary, real load.
//!
//! - [`server`]: one server that is killed, hangs, forgets, is full, slow or cut off
//! - [`sentinel`], [`cluster`], [`shards`]: many servers, of which one fails
//! - [`clock`]: a server whose clock jumps
//! - [`nodes`]: many nodes and no fault at all
//! - [`load`], [`client`], [`notes`]: clients that ask all the time, and what they saw
//! - [`homes`]: which server has which counter
//! - [`document`]: what is written about all this

mod client;
mod clock;
mod cluster;
mod document;
mod homes;
mod load;
mod nodes;
mod notes;
mod sentinel;
mod server;
mod shards;

use std::time::Duration;

use crate::support::service::{Answer, Service, Setup, get, post, until};

/// The domain of every rule here.
const DOMAIN: &str = "faults";

/// What `tight` admits in a day.
const LIMIT: usize = 40;
/// What of it a node admits by itself while the store is away: half, for it is alone.
const SHARE: usize = 20;

/// `open` and `closed` have room for all calls of a test; `tight` does not.
const RULES: &str = "
domain: faults
descriptors:
  - key: free
    rate_limit: { unlimited: true }
  - key: open
    on_store_error: allow
    rate_limit: { unit: day, requests_per_unit: 1_000_000 }
  - key: closed
    on_store_error: deny
    rate_limit: { unit: day, requests_per_unit: 1_000_000 }
  - key: tight
    on_store_error: local
    rate_limit: { unit: day, requests_per_unit: 40 }
  - key: staged
    on_store_error: { first: deny, after: 1s, then: allow }
    rate_limit: { unit: day, requests_per_unit: 1_000_000 }
  - key: job
    concurrency: { max: 4, timeout: 1h }
";

/// One counter of every policy.
const EVERY_POLICY: [load::Asked; 3] = [("open", 0), ("closed", 0), ("tight", 0)];

/// Long enough for a breaker to open and for every policy to show.
const A_WHILE: Duration = Duration::from_secs(2);
/// The store decides again so soon after it is back.
const BACK_WITHIN: Duration = Duration::from_secs(1);
/// The same after a failover of a cluster.
const CLUSTER_BACK_WITHIN: Duration = Duration::from_secs(2);

/// A node on a store, with the usual settings.
fn node(store: &str) -> Service {
    setup(store).start()
}

fn setup(store: &str) -> Setup {
    Setup::rules(RULES).with("store", store)
}

/// One that waits for the store much longer: for faults that answer at once, where a deadline missed
/// because the machine is busy would look like another.
fn patient_node(store: &str) -> Service {
    setup(store).with("redis.deadline", "2s").start()
}

/// Asks a node until the store has decided. A node that waits for 15 ms decides by itself now and then on a machine
/// that has other things to do.
fn decided_by_store(node: &Service, descriptor: &str) {
    until("the store decides", || node.check(DOMAIN, descriptor).json()["source"] == "redis");
}

/// Asks a node for a slot of a key.
fn acquire(node: &Service, key: &str) -> Answer {
    let answer =
        post(node.http, "/v1/acquire", &format!(r#"{{"domain":"{DOMAIN}","descriptor":{{"{key}":"all"}}}}"#));
    assert!(matches!(answer.status, 200 | 429), "{}: {}", answer.status, answer.body);
    answer
}

/// How bad a node finds its own state.
fn degradation(node: &Service) -> u64 {
    let detail = get(node.admin, "/readyz").json();
    detail["store"]["degradation"].as_u64().expect("a number")
}
