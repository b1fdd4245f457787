//! Divides the connections that the process may have among its listeners, so that none can use up another's share.
//!
//! A connection is an open file, and the process has one limit on those. The files that the program itself needs are
//! subtracted first, then the share of the admin listener, and the rest is divided among the other listeners. Memory
//! is divided the same way.

use std::fmt;

use super::listener::Listener;
use crate::config::settings::Store;
use crate::config::{Origin, Settings};
use crate::memory::{ConnectionCost, Memory};

/// Maximum connections of the admin listener: enough for scrapers, probes and people.
const ADMIN_CONNECTIONS: usize = 256;
/// Minimum connections of the admin listener, however low the file limit is.
const LEAST_ADMIN: usize = 8;
/// Files that the program itself opens: logs, counters, the catalog and its connections, the audit log, and a few for
/// connections that are accepted only to be closed.
const OWN_FILES: usize = 64;
/// Files that the runtime of a thread opens.
const THREAD_FILES: usize = 4;
/// Connections of a thread to the servers of a shared store.
const STORE_FILES: usize = 8;

/// A listener with fewer connections than this causes a warning, even if the settings ask for no more.
const FEW: usize = 1024;

/// A listener's share of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A fixed number of connections, reserved for this listener.
    Own(usize),
    /// An equal part of the remaining connections, divided among the open listeners.
    Equal,
}

/// The file descriptors that the process may have open.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// The limit of the system on open files.
    pub limit: usize,
    /// Files that the process needs besides connections.
    pub own: usize,
}

impl Files {
    /// Raises the limit as far as the system allows, and counts the files that the program needs for itself.
    pub fn raise(settings: &Settings, workers: usize) -> Self {
        // If it fails, the limit stays as it is.
        let raised = rlimit::increase_nofile_limit(u64::MAX);
        let limit = rlimit::getrlimit(rlimit::Resource::NOFILE).map(|(soft, _)| soft).or(raised);
        let shared = settings.store != Store::Memory;
        let each = THREAD_FILES + if shared { STORE_FILES } else { 0 };
        let limit = limit.map_or(1024, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self { limit, own: OWN_FILES + each * (workers + 2) }
    }

    /// Returns the number of connections reserved for the admin listener.
    pub fn admin_connections(self, settings: &Settings) -> usize {
        (self.for_connections() / 8).clamp(LEAST_ADMIN, ADMIN_CONNECTIONS).min(settings.connections.max)
    }

    fn for_connections(self) -> usize {
        self.limit.saturating_sub(self.own)
    }
}

/// The maximum number of connections of each listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    listeners: Vec<(&'static str, usize)>,
    /// The number of open listeners that share the remaining connections.
    sharing: usize,
    /// Files that each of the sharing listeners gets.
    files_each: usize,
}

impl Capacity {
    /// Divides what the settings, the files and the memory allow among the listeners.
    pub fn new(listeners: &[Listener], settings: &Settings, files: Files, memory: &Memory) -> Self {
        let max = settings.connections.max;
        let owned = listeners.iter().map(|listener| match listener.share {
            Share::Own(connections) => connections,
            Share::Equal => 0,
        });
        let owned: usize = owned.sum();
        let is_sharing = |listener: &&Listener| listener.share == Share::Equal && !listener.address.is_off();
        let sharing = listeners.iter().filter(is_sharing).count();
        let files_each = files.for_connections().saturating_sub(owned) / sharing.max(1);
        let fit = |listener: &Listener| match listener.share {
            Share::Own(connections) => connections,
            Share::Equal => {
                let cost =
                    ConnectionCost { header_bytes: settings.header_bytes, tls: listener.tls.is_some() };
                // The memory for connections is enough for two listeners.
                let in_memory = memory.max_connections(cost) * 2 / sharing.max(2);
                max.min(files_each).min(in_memory).max(1)
            }
        };
        let listeners = listeners.iter().map(|listener| (listener.name, fit(listener))).collect();
        Self { listeners, sharing, files_each }
    }

    /// Returns the maximum number of connections of the listener with this name.
    pub fn of(&self, name: &str) -> usize {
        self.listeners.iter().find(|(known, _)| *known == name).map_or(1, |(_, connections)| *connections)
    }

    /// Logs a warning for settings that cannot be met. Defaults are reduced silently, unless few connections are
    /// left.
    pub fn warn(&self, settings: &Settings, files: Files, memory: &Memory) {
        let is_set = |name| settings.in_force().find(name).is_some_and(|held| held.origin != Origin::Default);
        let max = settings.connections.max;
        let needed = files.own + ADMIN_CONNECTIONS + max.saturating_mul(self.sharing);
        if files.limit < needed && (is_set("connections.max") || self.files_each < FEW) {
            tracing::warn!(
                limit = files.limit,
                needed,
                connections = %self,
                "the limit on open files is too low for connections.max; each listener has its share"
            );
        }
        let (bytes, source) = (memory.limit(), memory.source());
        let most = self.listeners.iter().map(|(_, connections)| *connections).max().unwrap_or_default();
        if is_set("connections.max") && most < max.min(self.files_each) {
            tracing::warn!(
                connections = %self,
                memory_bytes = bytes,
                memory_by = %source,
                "connections.max does not fit memory.max_bytes; each listener has its share"
            );
        }
        if is_set("memory.max_keys") && settings.memory.max_keys > memory.max_keys() {
            tracing::warn!(
                keys = memory.max_keys(),
                memory_bytes = bytes,
                memory_by = %source,
                "memory.max_keys does not fit memory.max_bytes; fewer are kept"
            );
        }
    }
}

/// Formats the limits as in `grpc 16384, http 16384, admin 256`.
impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, connections)) in self.listeners.iter().enumerate() {
            write!(f, "{}{name} {connections}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
