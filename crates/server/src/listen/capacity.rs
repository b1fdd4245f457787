//! How many connections each listener may have, so that none takes another's.
//!
//! Connections are files to the system, and the whole process has one limit of them. What the program itself
//! needs comes off first, then the admin listener's part, and the rest is shared by the others. The same goes
//! for memory.

use crate::config::settings::{Store, Tls};
use crate::config::{Origin, Settings};
use crate::memory::{ConnectionCost, Memory};

/// Connections of the admin listener: enough for scrapers, probes and people.
const ADMIN_CONNECTIONS: usize = 256;
/// The fewest that the admin listener has, however few files there are.
const LEAST_ADMIN: usize = 8;
/// Files that the program has open by itself: logs, counters, the catalog and its connections, the trail, and a
/// few for connections that are accepted only to be closed.
const OWN_FILES: usize = 64;
/// Files of a thread: what it waits with, and what wakes it.
const THREAD_FILES: usize = 4;
/// Connections of a thread to the servers of a shared store.
const STORE_FILES: usize = 8;

/// So few connections of a listener are worth a warning, even if nobody asked for more.
const FEW: usize = 1024;

/// Connections that each listener may have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The gRPC listener.
    pub grpc: usize,
    /// The HTTP listener.
    pub http: usize,
    /// The admin listener.
    pub admin: usize,
}

/// What the system grants.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Files that the process may have open.
    pub limit: usize,
    /// Files that it needs besides connections.
    pub own: usize,
}

impl Files {
    /// Raises the limit as far as it may be raised, and counts what the program needs for itself.
    pub fn raise(settings: &Settings, workers: usize) -> Self {
        // It fails where it is not allowed, and then the limit stays as it is.
        let raised = rlimit::increase_nofile_limit(u64::MAX);
        let limit = rlimit::getrlimit(rlimit::Resource::NOFILE).map(|(soft, _)| soft).or(raised);
        let shared = settings.store != Store::Memory;
        let each = THREAD_FILES + if shared { STORE_FILES } else { 0 };
        let limit = limit.map_or(1024, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self { limit, own: OWN_FILES + each * (workers + 2) }
    }
}

impl Capacity {
    /// What fits the settings, the files and the memory.
    pub fn new(settings: &Settings, files: Files, memory: &Memory) -> Self {
        let max = settings.connections.max;
        let left = files.limit.saturating_sub(files.own);
        let admin = (left / 8).clamp(LEAST_ADMIN, ADMIN_CONNECTIONS).min(max);
        let share = Self { grpc: 0, http: 0, admin }.share_of_files(settings, files);
        let fit = |tls: &Option<Tls>| {
            let cost = ConnectionCost { header_bytes: settings.header_bytes, tls: tls.is_some() };
            max.min(share).min(memory.max_connections(cost)).max(1)
        };
        Self { grpc: fit(&settings.grpc.tls), http: fit(&settings.http.tls), admin }
    }

    /// Warns in the log of settings that do not fit. What nobody has set is fitted without a word, unless little
    /// is left of it.
    pub fn warn(self, settings: &Settings, files: Files, memory: &Memory) {
        let Self { grpc, http, admin } = self;
        let is_set = |name| settings.in_force().find(name).is_some_and(|held| held.origin != Origin::Default);
        let needed = Self::files_needed(settings, files);
        if files.limit < needed && (is_set("connections.max") || self.share_of_files(settings, files) < FEW) {
            tracing::warn!(
                limit = files.limit,
                needed,
                grpc,
                http,
                admin,
                "the limit on open files is too low for connections.max; each listener has its share"
            );
        }
        let (bytes, source) = (memory.limit(), memory.source());
        let most = grpc.max(http);
        if is_set("connections.max")
            && most < settings.connections.max.min(self.share_of_files(settings, files))
        {
            tracing::warn!(
                grpc,
                http,
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

    /// Connections that one listener may have for the files that there are.
    fn share_of_files(self, settings: &Settings, files: Files) -> usize {
        let listeners = [&settings.grpc.listen, &settings.http.listen];
        let sharing = listeners.iter().filter(|listen| !listen.is_off()).count();
        files.limit.saturating_sub(files.own).saturating_sub(self.admin) / sharing.max(1)
    }

    /// Files that would be enough for all connections that the settings allow.
    pub fn files_needed(settings: &Settings, files: Files) -> usize {
        let listeners = [&settings.grpc.listen, &settings.http.listen];
        let on = listeners.iter().filter(|listen| !listen.is_off()).count();
        files.own + ADMIN_CONNECTIONS + settings.connections.max.saturating_mul(on)
    }
}
