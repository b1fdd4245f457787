//! Counts the nodes that share the store: each registers itself every second.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Value;
use tokio::time::{sleep, timeout};

use super::Shared;

const EVERY: Duration = Duration::from_secs(1);
/// Timeout of counting the nodes.
const PATIENCE: Duration = Duration::from_millis(500);

/// Registers a node with the server's time, removes nodes that were silent for five seconds, and counts the rest.
const SCRIPT: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 5000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 5000, '+inf')
redis.call('PEXPIRE', KEYS[1], 10000)
return redis.call('ZCARD', KEYS[1])";

/// Registers this node and counts all nodes, until the store is dropped.
pub(super) async fn keep_registered(store: Weak<Shared>, name: String) {
    while let Some(shared) = store.upgrade() {
        // Without a reply the last count stays. The next attempt makes a new connection, maybe to another server.
        if timeout(PATIENCE, count(&shared, &name)).await.is_err() {
            *shared.presence.lock().await = None;
        }
        drop(shared);
        sleep(EVERY).await;
    }
}

async fn count(shared: &Shared, name: &str) -> Option<()> {
    const PARTITION: u32 = 0;
    let node = shared.routes.load().of(PARTITION)?.node.clone();
    let term = node.term();
    let mut kept = shared.presence.lock().await;
    if kept.as_ref().is_none_or(|(made_in, _)| *made_in != term) {
        *kept = Some((term, node.connect(shared).await.ok()?));
    }
    let (_, connection) = kept.as_mut()?;
    let mut command = redis::cmd("EVAL");
    command.arg(SCRIPT).arg(1).arg(format!("{}:{{{PARTITION}}}:nodes", shared.settings.prefix)).arg(name);
    let Ok(Value::Int(nodes)) = connection.send_packed_command(&command).await else {
        *kept = None;
        return None;
    };
    shared.nodes.store(u32::try_from(nodes).unwrap_or(1).max(1), Ordering::Relaxed);
    Some(())
}
