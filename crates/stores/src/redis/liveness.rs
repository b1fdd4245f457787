//! Asking servers that nobody asks: one that has died must not look well for as long as there is no traffic.

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

/// A server that was silent for so long is asked.
const IDLE: Duration = Duration::from_secs(1);
/// How long a server that is trusted may take to answer, if the deadline is shorter. Nobody waits for it, and
/// three answers in a row that are a little late, as on a busy machine, are no reason to leave it alone.
const PATIENCE: Duration = Duration::from_millis(100);

/// Asks every server that was silent for a while, until the store is gone.
pub(super) async fn keep_asking(store: Weak<Shared>) {
    while let Some(shared) = store.upgrade() {
        let routes = shared.routes.load_full();
        let well = join_all(routes.nodes.iter().map(|node| is_well(&shared, node))).await;
        drop((shared, routes));
        sleep(if well.contains(&false) { PROBE_EVERY } else { IDLE }).await;
    }
}

/// Whether a server need not be asked again soon.
async fn is_well(shared: &Arc<Shared>, node: &Arc<Node>) -> bool {
    let open = node.breaker.circuit() == Circuit::Open;
    let asked_for = if open { node.unprobed_for() } else { node.silent_for() };
    // Before looking for a fence: one that falls later begins another term.
    let term = node.term();
    if node.is_fenced() || asked_for < IDLE {
        return !open;
    }
    // One that has failed has to do all of its work to be trusted again.
    let command = if open { rehearsal(shared, node) } else { small_write(shared, node) };
    let Some(command) = command else { return true };
    let deadline = shared.settings.deadline;
    let patience = if open { deadline } else { deadline.max(PATIENCE) };
    let answer = ask(shared, node, term, &command, patience).await;
    if node.term() != term {
        return false;
    }
    match answer {
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
            // One that was left alone may have been found back meanwhile, and this is old news.
            if !open {
                shared.events.failed(node, &error);
                if node.breaker.failed() {
                    shared.events.opened(node, &error);
                }
            }
            shared.look_again();
            false
        }
    }
}

async fn ask(
    shared: &Shared,
    node: &Node,
    term: u64,
    command: &Cmd,
    patience: Duration,
) -> Result<(), StoreError> {
    let mut connection = connection(shared, node, term).await?;
    let answer = timeout(patience, connection.send_packed_command(command)).await;
    let value = answer.map_err(|_| StoreError::Late)?.map_err(broken)?;
    match value {
        Value::Okay | Value::Int(_) => Ok(()),
        Value::ServerError(error) => {
            if let Reply::Failed(error) = Reply::of(Value::ServerError(error)) {
                return Err(error);
            }
            // The server lives, and says that its keys have moved.
            shared.look_again();
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
