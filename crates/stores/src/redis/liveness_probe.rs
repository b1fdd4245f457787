//! Probes servers that get no requests, so that a failed server is noticed before the next request.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::breaker::Circuit;
use super::checkup::{rehearsal, small_write};
use super::lane::{CONNECT_TIMEOUT, PROBE_EVERY};
use super::node::{Node, broken};
use super::reply::Reply;
use crate::error::StoreError;

/// A server that has not replied to anything for this long is probed.
const IDLE: Duration = Duration::from_secs(1);
/// Timeout of a probe while the breaker is closed, if the deadline is shorter. No request waits for a probe, and
/// three replies in a row that are slightly late, as on a busy machine, should not open the breaker.
const PATIENCE: Duration = Duration::from_millis(100);

/// Probes every idle server, until the store is dropped.
pub(super) async fn keep_probing(store: Weak<Shared>) {
    while let Some(shared) = store.upgrade() {
        let routes = shared.routes.load_full();
        let well = join_all(routes.nodes.iter().map(|node| is_well(&shared, node))).await;
        drop((shared, routes));
        sleep(if well.contains(&false) { PROBE_EVERY } else { IDLE }).await;
    }
}

/// Probes a server if it is idle. Returns false if it should be probed again soon.
async fn is_well(shared: &Arc<Shared>, node: &Arc<Node>) -> bool {
    let open = node.breaker.circuit() == Circuit::Open;
    let idle_for = if open { node.unprobed_for() } else { node.silent_for() };
    let Some(term) = node.open_term().filter(|_| idle_for >= IDLE) else { return !open };
    // A failed server has to run every command before its breaker closes.
    let command = if open { rehearsal(shared, node) } else { small_write(shared, node) };
    let Some(command) = command else { return true };
    let deadline = shared.settings.deadline;
    let patience = if open { deadline } else { deadline.max(PATIENCE) };
    let reply = probe(shared, node, term, &command, patience).await;
    if node.term() != term {
        return false;
    }
    match reply {
        Ok(()) => {
            if !open {
                node.heard();
                node.breaker.succeeded();
            } else if node.came_back() {
                shared.events.closed(node);
            }
            true
        }
        Err(error) => {
            *node.spare.lock().await = None;
            // If the breaker was open, it may have been closed meanwhile, and this failure is older.
            if !open {
                shared.events.failed(node, &error);
                if node.breaker.failed() {
                    shared.events.opened(node, &error);
                }
            }
            shared.refresh_topology();
            false
        }
    }
}

async fn probe(
    shared: &Shared,
    node: &Node,
    term: u64,
    command: &Cmd,
    patience: Duration,
) -> Result<(), StoreError> {
    let mut connection = connection(shared, node, term).await?;
    let reply = timeout(patience, connection.send_packed_command(command)).await;
    let value = reply.map_err(|_| StoreError::Late)?.map_err(broken)?;
    match value {
        Value::Okay | Value::Int(_) => Ok(()),
        Value::ServerError(error) => {
            if let Reply::Failed(error) = Reply::of(Value::ServerError(error)) {
                return Err(error);
            }
            // The server is alive, and its keys have moved.
            shared.refresh_topology();
            Ok(())
        }
        _ => Err(StoreError::Garbled),
    }
}

async fn connection(shared: &Shared, node: &Node, term: u64) -> Result<MultiplexedConnection, StoreError> {
    let mut spare = node.spare.lock().await;
    if let Some((made_in, connection)) = &*spare
        && *made_in == term
    {
        return Ok(connection.clone());
    }
    let made = timeout(CONNECT_TIMEOUT, node.connect(shared)).await;
    let connection = made.unwrap_or(Err(StoreError::Late))?;
    *spare = Some((term, connection.clone()));
    Ok(connection)
}
