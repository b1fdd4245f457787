//! Follows a primary that Redis Sentinel monitors.
//!
//! There are two sources. Each sentinel can be asked for the primary it knows and its epoch: a later epoch is a later
//! failover, so the latest epoch is right. Sentinels also publish events: a planned failover is announced before the
//! replica is promoted. From then on the old primary is fenced, because it keeps replying for seconds, and what it
//! counts then is lost.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::node::Node;
use super::topology_refresh::host_of;
use super::url::Host;

/// How often sentinels are asked when no change was announced.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(500);
/// How long one sentinel may take to reply.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long to wait before subscribing again after a subscription has failed.
const LISTEN_AGAIN: Duration = Duration::from_millis(500);
/// How often a listener without messages checks whether the store still exists.
const STORE_CHECK: Duration = Duration::from_secs(5);
/// The longest time a primary is fenced after its replacement was announced: a promotion takes about a second, and
/// one that takes longer may never happen.
const LONGEST_FENCE: Duration = Duration::from_secs(3);

/// Published by the sentinel that leads a failover, right before it promotes the replica it has chosen.
const PROMOTING: &str = "+failover-state-send-slaveof-noone";
/// Published when the chosen replica did not become a primary, and when none could be chosen.
const ABORTED: [&str; 2] = ["-failover-abort-slave-timeout", "-failover-abort-no-good-slave"];
/// Published when there is another primary: by the leader as soon as it is promoted, then by every sentinel.
const PROMOTED: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// Connections to sentinels, and what they have reported.
#[derive(Default)]
pub(super) struct Sentinels {
    connections: Mutex<HashMap<Host, MultiplexedConnection>>,
    /// The epoch of the primary in use.
    epoch: AtomicU64,
}

/// The primary that a sentinel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    primary: Host,
    epoch: u64,
}

/// Asks all sentinels at once for the primary, and moves to it. Returns whether a primary is known.
pub(super) async fn find_primary(shared: &Arc<Shared>, name: &str) -> bool {
    let routes = shared.routes.load();
    let Some(node) = routes.nodes.first() else { return false };
    let ask = |sentinel| async move { (sentinel, ask(shared, sentinel, name).await) };
    let mut answers: FuturesUnordered<_> = shared.url.hosts.iter().map(ask).collect();
    let mut views = Vec::new();
    while let Some((sentinel, view)) = answers.next().await {
        let Some(view) = view else { continue };
        // A later epoch needs no majority, and unresponsive sentinels are not waited for.
        if view.epoch > shared.sentinels.epoch.load(Ordering::Acquire) || is_unknown(node) {
            follow(shared, node, sentinel, &view);
        }
        views.push((sentinel, view));
    }
    let (current, epoch) = (node.host.load(), shared.sentinels.epoch.load(Ordering::Acquire));
    if let Some((sentinel, view)) = settled_on(&views, &current, epoch, shared.url.hosts.len()) {
        follow(shared, node, sentinel, view);
    }
    !is_unknown(node)
}

/// Returns the view to follow once all sentinels were asked, if it differs from the current one: the view with the
/// latest epoch. If all epochs are earlier than the known one, as after a new setup of the sentinels, a majority has
/// to agree.
fn settled_on<'v, S: Copy>(
    views: &'v [(S, View)],
    current: &Host,
    epoch: u64,
    sentinels: usize,
) -> Option<(S, &'v View)> {
    let latest = views.iter().map(|(_, view)| view.epoch).max()?;
    let mut named = views.iter().filter(|(_, view)| view.epoch == latest);
    if named.clone().any(|(_, view)| view.primary == *current) && latest >= epoch {
        return None;
    }
    let enough = latest >= epoch || 2 * views.len() > sentinels;
    named.next().filter(|_| enough).map(|(sentinel, view)| (*sentinel, view))
}

fn is_unknown(node: &Node) -> bool {
    node.host.load().port == 0
}

fn follow(shared: &Shared, node: &Node, sentinel: &Host, view: &View) {
    shared.sentinels.epoch.store(view.epoch, Ordering::Release);
    let View { primary, epoch } = view;
    if **node.host.load() != *primary {
        tracing::info!(%sentinel, %primary, epoch, "the sentinels name a primary");
        node.move_to(primary.clone());
    }
}

async fn ask(shared: &Shared, sentinel: &Host, name: &str) -> Option<View> {
    let asked = async {
        let known = shared.sentinels.connections.lock().get(sentinel).cloned();
        let mut connection = match known {
            Some(connection) => connection,
            None => shared.connect_sentinel(sentinel).await.ok()?,
        };
        let mut pipeline = redis::Pipeline::with_capacity(2);
        pipeline.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        pipeline.cmd("SENTINEL").arg("MASTER").arg(name);
        let values = connection.send_packed_commands(&pipeline, 0, 2).await.ok()?;
        shared.sentinels.connections.lock().insert(sentinel.clone(), connection);
        let [Value::Array(address), Value::Array(fields)] = &*values else { return None };
        Some(View { primary: host_of(address, &sentinel.name)?, epoch: epoch_in(fields)? })
    };
    let view = timeout(PATIENCE, asked).await.ok().flatten();
    if view.is_none() {
        shared.sentinels.connections.lock().remove(sentinel);
    }
    view
}

/// Returns the epoch from the fields that a sentinel reports of a primary: alternating names and values.
fn epoch_in(fields: &[Value]) -> Option<u64> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    let field = fields.chunks_exact(2).find(|field| text(&field[0]).as_deref() == Some("config-epoch"))?;
    text(&field[1])?.parse().ok()
}

/// Listens to one sentinel until the store is dropped.
pub(super) async fn listen(store: Weak<Shared>, sentinel: Host, name: String) {
    let channels: Vec<_> = [PROMOTING].into_iter().chain(ABORTED).chain(PROMOTED).collect();
    while let Some(shared) = store.upgrade() {
        let subscribed = timeout(PATIENCE, shared.subscribe(&sentinel, &channels)).await;
        // Look up what was published before the subscription.
        shared.refresh_topology();
        drop(shared);
        if let Ok(Ok(mut subscription)) = subscribed {
            let mut messages = pin!(subscription.on_message());
            loop {
                let message = timeout(STORE_CHECK, messages.next()).await;
                let Some(shared) = store.upgrade() else { return };
                match message {
                    Err(_) => {}
                    Ok(None) => break,
                    Ok(Some(message)) => {
                        let text = String::from_utf8_lossy(message.get_payload_bytes());
                        hear(&shared, &name, message.get_channel_name(), &text);
                    }
                }
            }
        }
        sleep(LISTEN_AGAIN).await;
    }
}

fn hear(shared: &Arc<Shared>, name: &str, channel: &str, text: &str) {
    if primary_in(channel, text) != Some(name) {
        return;
    }
    let routes = shared.routes.load();
    let Some(node) = routes.nodes.first() else { return };
    if channel == PROMOTING {
        fence(node);
    } else if ABORTED.contains(&channel) {
        node.lift_any_fence();
    }
    shared.refresh_topology();
}

/// Keeps requests from the primary until another is known, but for a limited time.
fn fence(node: &Arc<Node>) {
    let Some(number) = node.fence() else { return };
    tracing::info!(server = node.name, "the sentinels replace the primary");
    let node = Arc::clone(node);
    tokio::spawn(async move {
        sleep(LONGEST_FENCE).await;
        node.lift_fence(number);
    });
}

/// Returns the name of the primary that a message is about, from `name …` of a switch, `master name …`, or `slave … @
/// name …`.
fn primary_in<'t>(channel: &str, text: &'t str) -> Option<&'t str> {
    let mut words = text.split(' ');
    if channel == "+switch-master" {
        return words.next();
    }
    match text.split_once(" @ ") {
        Some((_, primary)) => primary.split(' ').next(),
        None => words.nth(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(port: u16, epoch: u64) -> ((), View) {
        ((), View { primary: host(port), epoch })
    }

    fn host(port: u16) -> Host {
        Host { name: "h".to_owned(), port }
    }

    /// Returns the port that three sentinels settle on; port 1 of epoch 5 is known.
    fn port(views: &[((), View)]) -> Option<u16> {
        settled_on(views, &host(1), 5, 3).map(|((), view)| view.primary.port)
    }

    #[test]
    fn the_latest_epoch_counts_and_earlier_ones_only_from_most_sentinels() {
        assert_eq!(port(&[]), None);
        assert_eq!(port(&[view(1, 5), view(1, 5), view(1, 5)]), None);
        assert_eq!(port(&[view(1, 5), view(1, 5), view(2, 6)]), Some(2), "a failover");
        assert_eq!(port(&[view(2, 4), view(1, 5), view(2, 4)]), None, "they have not heard of it yet");
        assert_eq!(port(&[view(2, 4)]), None, "one that was cut off");
        assert_eq!(port(&[view(2, 0), view(2, 0)]), Some(2), "set up anew");
        assert_eq!(port(&[view(2, 5), view(2, 5), view(2, 5)]), Some(2), "told another address");
        assert_eq!(port(&[view(2, 5), view(1, 5)]), None, "some were told another address");
    }

    #[test]
    fn messages_name_the_primary_they_are_about() {
        let cases = [
            ("+switch-master", "limits 10.0.0.1 6379 10.0.0.2 6379"),
            (ABORTED[0], "master limits 10.0.0.1 6379"),
            (PROMOTING, "slave 10.0.0.2:6379 10.0.0.2 6379 @ limits 10.0.0.1 6379"),
        ];
        for (channel, text) in cases {
            assert_eq!(primary_in(channel, text), Some("limits"), "{channel}");
        }
    }
}
