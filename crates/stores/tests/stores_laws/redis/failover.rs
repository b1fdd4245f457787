//! A primary that is replaced while it is well, as for maintenance.

use std::time::Duration;

use tidegate_core::{Algorithm, Limit, Window};
use tidegate_stores::redis::{RedisStore, RedisStoreConfig};
use tidegate_stores::{Charge, Intent, Store};
use tidegate_testkit::processor_waits::ProcessorWaits;
use tidegate_testkit::redis::{RedisServer, SentinelTrio, Setup, until};
use tokio::time::{Instant, sleep};

use super::world::{RUNTIME, config};
use crate::world::SEED;

/// In a window that does not end here.
const LIMIT: u64 = 800;
/// What may have been counted between the promotion and the moment a node heard of it, and what the replica
/// had not heard of: a fraction of a second of the load, with a margin for a busy machine.
const LOST: u64 = 100;
/// The next request of a node so long after the last was answered: about 200 in a second, by both nodes.
const PACE: Duration = Duration::from_millis(9);
/// After sentinels agree on the new primary every node asks it so soon, as docs/failure-modes.md promises. Time in
/// which nodes or servers had no processor is not counted.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(1);

/// What a node said until the limit was used up.
#[derive(Default)]
struct Seen {
    admitted: u64,
    /// When a request was sent last that the store did not settle.
    failed: Option<Instant>,
}

/// Asks one node until the store denies, as a rule with `on_store_error: deny` does: only what the store
/// admits passes.
async fn use_up(node: RedisStore) -> Seen {
    let limit = Limit::new(Algorithm::FixedWindow, LIMIT, Window::seconds(86_400 * 365)).expect("a limit");
    let charge = Charge::new(SEED.text("shared"), &limit, 1);
    let mut seen = Seen::default();
    loop {
        let at = Instant::now();
        match node.settle(&[charge], Intent::Take).await {
            Ok(verdicts) if verdicts[0].allowed() => seen.admitted += 1,
            Ok(_) => return seen,
            Err(_) => seen.failed = Some(at),
        }
        sleep(PACE).await;
    }
}

/// Tells a sentinel to put another in the place of the primary, again if it gives up, and returns when that
/// has happened.
fn fail_over(trio: &SentinelTrio) -> Instant {
    let (old, leader) = (trio.primary(), &trio.sentinels()[2]);
    until("another primary is named", || {
        let named = leader.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", trio.name()]);
        if named.items()[1].text() != old.port().to_string() {
            return Some(());
        }
        // It refuses while it is at it.
        let _ = leader.try_command(&["SENTINEL", "FAILOVER", trio.name()]);
        None
    });
    trio.wait_for_failover(old);
    let promoted = Instant::now();
    assert_eq!(old.info("role").as_deref(), Some("master"), "the old one has not been told yet");
    promoted
}

#[test]
fn a_planned_failover_is_followed_at_once_and_what_the_old_primary_counts_is_not_relied_upon() {
    let trio = Setup::redis().start_sentinel();
    for sentinel in trio.sentinels() {
        // As it is by default: the old primary is told after four of these, and goes on meanwhile.
        sentinel.command(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", "2000"]);
    }
    let waits = ProcessorWaits::start();
    let servers = trio.servers().iter().chain(trio.sentinels());
    servers.filter_map(RedisServer::process_id).for_each(|id| waits.add_process(id));
    // The nodes.
    waits.add_process(std::process::id());
    let shared = RedisStoreConfig { deadline: Duration::from_millis(200), ..config(&trio.url()) };
    let node = || RUNTIME.block_on(RedisStore::connect(shared.clone()));
    let nodes = [RUNTIME.spawn(use_up(node())), RUNTIME.spawn(use_up(node()))];
    std::thread::sleep(Duration::from_secs(1));
    let promoted = fail_over(&trio);
    let mut seen: Vec<Seen> = nodes.map(|node| RUNTIME.block_on(node).expect("no panic")).into();
    // One that has never known another primary finds the limit used up as well.
    seen.push(RUNTIME.block_on(use_up(node())));
    let admitted: u64 = seen.iter().map(|seen| seen.admitted).sum();
    assert!((LIMIT..=LIMIT + LOST).contains(&admitted), "{admitted} of {LIMIT} were admitted");
    let waited = waits.stop();
    for seen in seen {
        let late = seen.failed.map_or(Duration::ZERO, |at| at.saturating_duration_since(promoted));
        let waited = waited.between(promoted, promoted + late);
        println!("followed after {late:?}, {waited:?} of that without a processor");
        assert!(
            late < FOLLOWED_WITHIN + waited,
            "followed after {late:?}, {waited:?} of that without a processor"
        );
    }
}
