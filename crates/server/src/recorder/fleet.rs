//! What the nodes that share a store tell each other: that they are there, and their most frequent keys.
//!
//! Every two seconds a node writes its heartbeat and its lists into the shared store, each with an expiry. Lists are
//! merged when somebody asks. No decision waits for any of it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidegate::Micros;
use tidegate_stores::redis::RedisStore;
use utoipa::ToSchema;

use super::Inner;
use super::top::{By, Span, TopKey};
use crate::build_info;

/// How often a node writes.
pub(super) const PUBLISH_EVERY: Duration = Duration::from_secs(2);
/// How long what it wrote is kept.
const LIFETIME: Duration = Duration::from_mins(1);
/// After which time a node that writes nothing is not merged any more.
const FRESH_US: u64 = 15_000_000;
/// After which time a node that writes nothing is forgotten.
const FORGET: Duration = Duration::from_mins(10);
/// Keys of each list that a node writes.
const PUBLISHED_KEYS: usize = 100;
/// The list of nodes in the store.
const NODES: &str = "recorder:nodes";

/// The other nodes.
pub(super) struct Fleet {
    pub(super) store: RedisStore,
    /// Tells nodes apart that have the same name.
    id: String,
    seen: Mutex<Vec<Heartbeat>>,
}

/// That a node is there.
#[derive(Clone, Serialize, Deserialize)]
struct Heartbeat {
    id: String,
    name: String,
    version: String,
    at_us: u64,
    degradation: u8,
    rules_version: String,
}

/// A node.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct NodeView {
    name: String,
    version: String,
    #[schema(format = DateTime)]
    last_seen: String,
    /// The level of degradation.
    degradation: u8,
    rules_version: String,
    /// Whether it is the node that answers.
    #[serde(rename = "self")]
    own: bool,
}

/// A key of one list, or of several that were merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FleetKey {
    pub(crate) domain: String,
    pub(crate) rule: String,
    /// The fingerprint, which is the same on all nodes.
    pub(crate) fingerprint: String,
    pub(crate) text: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) count: u64,
    pub(crate) error: u64,
    #[serde(with = "as_us")]
    pub(crate) last: Micros,
}

mod as_us {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use tidegate::Micros;

    pub(super) fn serialize<S: Serializer>(at: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(at.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Micros, D::Error> {
        u64::deserialize(deserializer).map(Micros)
    }
}

impl From<TopKey> for FleetKey {
    fn from(key: TopKey) -> Self {
        Self {
            domain: key.name.domain.to_string(),
            rule: key.name.rule.to_string(),
            fingerprint: super::fingerprint(key.key),
            text: key.name.text.as_deref().map(str::to_owned),
            tenant: key.name.tenant.as_deref().map(str::to_owned),
            count: key.count,
            error: key.error,
            last: key.last,
        }
    }
}

/// The lists of a node, by kind and span.
type Lists = Vec<(By, Span, Vec<FleetKey>)>;

impl Fleet {
    pub(super) fn new(store: RedisStore) -> Self {
        let mut random = [0; 8];
        // Without random bytes, nodes are told apart by name alone.
        let _ = getrandom::fill(&mut random);
        Self { store, id: format!("{:016x}", u64::from_le_bytes(random)), seen: Mutex::default() }
    }

    /// Writes what this node has to tell, and reads who else is there.
    async fn publish(&self, inner: &Inner) {
        let now = self.store.about();
        let heartbeat = Heartbeat { id: self.id.clone(), at_us: now.0, ..own(inner) };
        let Ok(record) = serde_json::to_vec(&heartbeat) else { return };
        let is_over = |record: &[u8]| {
            let read: Result<Heartbeat, _> = serde_json::from_slice(record);
            read.map_or(true, |beat| beat.at_us.saturating_add(FORGET.as_micros() as u64) < now.0)
        };
        let registered = self.store.register(NODES, (&self.id, &record), FORGET, is_over);
        match registered.await {
            Ok(members) => {
                let members = members.iter().filter_map(|record| serde_json::from_slice(record).ok());
                *self.seen.lock() = members.collect();
            }
            Err(error) => return tracing::debug!(%error, "this node is not announced to the others"),
        }
        let lists = lists(inner);
        if let Ok(record) = serde_json::to_vec(&lists)
            && let Err(error) = self.store.keep(&top_record(&self.id), &record, LIFETIME).await
        {
            tracing::debug!(%error, "the top keys are not announced to the other nodes");
        }
    }

    /// Adds the keys of the other nodes. Returns whether all of them could be read.
    async fn merge(&self, by: By, span: Span, keys: &mut HashMap<String, FleetKey>) -> bool {
        let now = self.store.about();
        let others: Vec<Heartbeat> = self.seen.lock().clone();
        let mut missed = Vec::new();
        for beat in others.iter().filter(|beat| beat.id != self.id && beat.at_us + FRESH_US > now.0) {
            let Ok(record) = self.store.read_kept(&top_record(&beat.id)).await else { return false };
            let lists: Lists =
                record.and_then(|record| serde_json::from_slice(&record).ok()).unwrap_or_default();
            let list = lists.into_iter().find(|(of, over, _)| (*of, *over) == (by, span));
            let Some((_, _, list)) = list else { continue };
            // A key that a full list does not have may have as many as the last one that it has.
            let least = list.last().filter(|_| list.len() >= PUBLISHED_KEYS).map_or(0, |key| key.count);
            missed.push((least, list.iter().map(|key| key.fingerprint.clone()).collect::<Vec<_>>()));
            for key in list {
                add(keys, key);
            }
        }
        for (least, listed) in missed.iter().filter(|(least, _)| *least > 0) {
            for key in keys.values_mut().filter(|key| !listed.contains(&key.fingerprint)) {
                key.error += least;
            }
        }
        true
    }
}

fn top_record(id: &str) -> String {
    format!("recorder:top:{id}")
}

fn add(keys: &mut HashMap<String, FleetKey>, more: FleetKey) {
    match keys.get_mut(&more.fingerprint) {
        None => drop(keys.insert(more.fingerprint.clone(), more)),
        Some(key) => {
            key.count += more.count;
            key.error += more.error;
            key.last = key.last.max(more.last);
            // Where one node hides the key by now, so do all.
            if more.text.is_none() {
                (key.text, key.tenant) = (None, None);
            }
        }
    }
}

fn lists(inner: &Inner) -> Lists {
    let book = inner.collect();
    let now = inner.limiter.now();
    let all = By::ALL.into_iter().flat_map(|by| Span::ALL.map(|span| (by, span)));
    all.map(|(by, span)| {
        let keys = book.top.list(by, span, now, PUBLISHED_KEYS, |_, _| true);
        (by, span, keys.into_iter().map(FleetKey::from).collect())
    })
    .collect()
}

fn own(inner: &Inner) -> Heartbeat {
    Heartbeat {
        id: String::new(),
        name: inner.node.clone(),
        version: format!("{}+{}", build_info::VERSION, build_info::COMMIT),
        at_us: inner.limiter.now().0,
        degradation: inner.health.degradation(),
        rules_version: inner.limiter.generation().to_string(),
    }
}

fn view(beat: Heartbeat, own: bool) -> NodeView {
    NodeView {
        name: beat.name,
        version: beat.version,
        last_seen: crate::admin::timestamp(Micros(beat.at_us)),
        degradation: beat.degradation,
        rules_version: beat.rules_version,
        own,
    }
}

impl Inner {
    /// Announces this node to the others from time to time, if there is a shared store.
    pub(super) async fn announce(&self) {
        if let Some(fleet) = &self.fleet {
            fleet.publish(self).await;
        }
    }

    /// Returns every node, this one first.
    pub(super) fn nodes(&self) -> Vec<NodeView> {
        let mut nodes = vec![view(own(self), true)];
        if let Some(fleet) = &self.fleet {
            let mut others = fleet.seen.lock().clone();
            others.retain(|beat| beat.id != fleet.id);
            others.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
            nodes.extend(others.into_iter().map(|beat| view(beat, false)));
        }
        nodes
    }

    /// Returns the most frequent keys of all nodes, and whether those of other nodes are among them.
    pub(super) async fn fleet_top(
        &self,
        (by, span): (By, Span),
        limit: usize,
        keep: impl Fn(&str, &str) -> bool,
    ) -> (Vec<FleetKey>, bool) {
        let own: Vec<FleetKey> = {
            let book = self.collect();
            let keys = book.top.list(by, span, self.limiter.now(), usize::MAX, |_, _| true);
            keys.into_iter().map(FleetKey::from).collect()
        };
        let mut keys: HashMap<String, FleetKey> = HashMap::new();
        for key in own {
            add(&mut keys, key);
        }
        let before = self.fleet.as_ref().map(|_| keys.clone());
        let merged = match &self.fleet {
            Some(fleet) => fleet.merge(by, span, &mut keys).await,
            None => false,
        };
        if let Some(before) = before.filter(|_| !merged) {
            keys = before;
        }
        let mut keys: Vec<FleetKey> = keys.into_values().filter(|key| keep(&key.domain, &key.rule)).collect();
        keys.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.fingerprint.cmp(&b.fingerprint)));
        keys.truncate(limit);
        (keys, merged)
    }
}
