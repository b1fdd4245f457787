//! What clients of a node see while its store fails: real servers, the real binary, real load.
//!
//! - [`server`]: one server that is killed, hangs, forgets, is full, slow or cut off
//! - [`load`], [`client`], [`notes`]: clients that ask all the time, and what they saw

mod client;
mod load;
mod notes;
mod server;

use crate::support::service::{Service, Setup};

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
";

/// One counter of every policy.
const EVERY_POLICY: [load::Asked; 3] = [("open", 0), ("closed", 0), ("tight", 0)];

/// A node on a store.
fn node(store: &str) -> Service {
    Setup::rules(RULES).with("store", store).start()
}
