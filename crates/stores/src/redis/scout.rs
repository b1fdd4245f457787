//! Finding out where the servers are, again and again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;
use tokio::time::{sleep, timeout};

use super::routes::Routes;
use super::url::{Host, Topology};
use super::{Shared, sentinel};

/// A scout that nobody calls looks around all the same; where sentinels are, more often.
pub(super) const AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// However often it is called.
const AT_MOST_EVERY: Duration = Duration::from_millis(100);
/// How long one server may take to say what it knows.
const PATIENCE: Duration = Duration::from_millis(300);

/// Looks around whenever a lane says so, until the store is gone.
pub(super) async fn scout(store: Weak<Shared>, called: Arc<tokio::sync::Notify>, every: Duration) {
    loop {
        // Whether called or not makes no difference.
        let _ = timeout(every, called.notified()).await;
        let Some(shared) = store.upgrade() else { return };
        look(&shared).await;
        drop(shared);
        sleep(AT_MOST_EVERY).await;
    }
}

/// Looks around once. Answers whether every part has a server.
pub(super) async fn look(shared: &Arc<Shared>) -> bool {
    match &shared.url.topology {
        Topology::Single | Topology::Sharded => true,
        Topology::Sentinel { name } => sentinel::find_primary(shared, name).await,
        Topology::Cluster => find_slots(shared).await,
    }
}

async fn find_slots(shared: &Arc<Shared>) -> bool {
    let known = shared.routes.load_full();
    // Those that work first: one that hangs would only cost time, and may know nothing of its loss.
    let mut nodes: Vec<_> = known.nodes.iter().collect();
    nodes.sort_by_key(|node| node.breaker.open_for().is_some());
    let hosts = nodes.iter().map(|node| node.host.load_full());
    let hosts: Vec<_> = hosts.chain(shared.url.hosts.iter().cloned().map(Arc::new)).collect();
    for host in hosts {
        let mut ask = redis::cmd("CLUSTER");
        ask.arg("SLOTS");
        let Some(Value::Array(found)) = say(shared, &host, &ask).await else { continue };
        let slots: Vec<_> = found.iter().filter_map(|range| slot_range(range, &host.name)).collect();
        let routes = known.cluster(&slots, shared.settings.parts);
        let whole = (0..shared.settings.parts).all(|part| routes.of(part).is_some());
        if !routes.agrees(&known) {
            tracing::info!(asked = %host, servers = routes.nodes.len(), "the cluster's slots have moved");
            retire_missing(&known, &routes);
            shared.routes.store(Arc::new(routes));
        }
        return whole;
    }
    false
}

/// Ends the lanes to servers that are no part of the cluster any more.
fn retire_missing(before: &Routes, after: &Routes) {
    for node in &before.nodes {
        if !after.nodes.iter().any(|other| Arc::ptr_eq(node, other)) {
            node.retire();
        }
    }
}

async fn say(shared: &Shared, host: &Host, command: &redis::Cmd) -> Option<Value> {
    let asked = async {
        let mut connection = shared.connect(host).await.ok()?;
        connection.send_packed_command(command).await.ok()
    };
    timeout(PATIENCE, asked).await.ok().flatten()
}

/// First slot, last slot, the primary, its replicas.
fn slot_range(range: &Value, asked: &str) -> Option<(u16, u16, Host)> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &**range else { return None };
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, host_of(primary, asked)?))
}

/// Name and port; a server that does not know its own name is called what it was asked by.
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
