//! Regularly looks up which server holds which partitions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;
use tokio::time::{sleep, timeout};

use super::routes::Routes;
use super::url::{Host, Topology};
use super::{Shared, sentinel};

/// How often the topology is looked up without a request; with sentinels, more often.
pub(super) const AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// Minimum time between two lookups, however often they are requested.
const AT_MOST_EVERY: Duration = Duration::from_millis(100);
/// Timeout of a reply from one server.
const PATIENCE: Duration = Duration::from_millis(300);

/// Looks up the topology at intervals and whenever that is requested, until the store is dropped.
pub(super) async fn keep_refreshing(
    store: Weak<Shared>,
    requested: Arc<tokio::sync::Notify>,
    every: Duration,
) {
    loop {
        // Refresh after a timeout as well as after a request.
        let _ = timeout(every, requested.notified()).await;
        let Some(shared) = store.upgrade() else { return };
        refresh(&shared).await;
        drop(shared);
        sleep(AT_MOST_EVERY).await;
    }
}

/// Looks up the topology once. Returns whether every partition has a server.
pub(super) async fn refresh(shared: &Arc<Shared>) -> bool {
    match &shared.url.topology {
        Topology::Single | Topology::Sharded => true,
        Topology::Sentinel { name } => sentinel::find_primary(shared, name).await,
        Topology::Cluster => find_slots(shared).await,
    }
}

async fn find_slots(shared: &Arc<Shared>) -> bool {
    let known = shared.routes.load_full();
    // Working servers first: an unresponsive one costs time, and may not know that it was replaced.
    let mut nodes: Vec<_> = known.nodes.iter().collect();
    nodes.sort_by_key(|node| node.breaker.open_for().is_some());
    let hosts = nodes.iter().map(|node| node.host.load_full());
    let hosts: Vec<_> = hosts.chain(shared.url.hosts.iter().cloned().map(Arc::new)).collect();
    for host in hosts {
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let Some(Value::Array(found)) = send(shared, &host, &slots).await else { continue };
        let slots: Vec<_> = found.iter().filter_map(|range| slot_range(range, &host.name)).collect();
        let routes = known.cluster(&slots, shared.settings.partitions);
        let whole = (0..shared.settings.partitions).all(|partition| routes.of(partition).is_some());
        if !routes.agrees(&known) {
            tracing::info!(asked = %host, servers = routes.nodes.len(), "the cluster's slots have moved");
            retire_missing(&known, &routes);
            shared.routes.store(Arc::new(routes));
        }
        return whole;
    }
    false
}

/// Ends the lanes to servers that are no longer part of the cluster.
fn retire_missing(before: &Routes, after: &Routes) {
    for node in &before.nodes {
        if !after.nodes.iter().any(|other| Arc::ptr_eq(node, other)) {
            node.retire();
        }
    }
}

async fn send(shared: &Shared, host: &Host, command: &redis::Cmd) -> Option<Value> {
    let reply = async {
        let mut connection = shared.connect(host).await.ok()?;
        connection.send_packed_command(command).await.ok()
    };
    timeout(PATIENCE, reply).await.ok().flatten()
}

/// Parses a range of slots: first, last, the primary, its replicas.
fn slot_range(range: &Value, asked: &str) -> Option<(u16, u16, Host)> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &**range else { return None };
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, host_of(primary, asked)?))
}

/// Parses a host name and port. A server that does not know its own name gets the name by which it was asked.
pub(super) fn host_of(pair: &[Value], asked: &str) -> Option<Host> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    };
    let port = text(pair.get(1)?)?.parse().ok()?;
    let name = text(&pair[0]).filter(|name| !name.is_empty()).unwrap_or_else(|| asked.to_owned());
    Some(Host { name, port })
}
