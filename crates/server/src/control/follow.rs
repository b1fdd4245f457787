//! Keeping up with the catalog.
//!
//! Every second, at once where `PostgreSQL` tells of a change, and after every change made here: whatever is
//! newer than the version in force is put in force. Overrides begin and end by a timer, from what is already
//! here, so that nothing has to be written for it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use tidegate::{CatalogRules, Limiter, Owner};
use tidegate_catalog::{Changes, Error, Rules, Status, TenantChange, Token};
use tokio::time::{Instant, sleep};

use super::Control;
use super::tenants::engine_tenant;

/// How often the catalog is looked at, whether it tells of changes or not.
const POLL: Duration = Duration::from_secs(1);
/// How often it is written down when tokens were used last.
const NOTE_USE: Duration = Duration::from_secs(30);
/// What of the catalog is in force here.
#[derive(Default)]
pub(super) struct Followed {
    version: u64,
    /// Of the database that it is of.
    identity: String,
    rules: BTreeMap<String, Rules>,
    tokens: BTreeMap<String, Token>,
    /// Something that the catalog says could not be put in force, and is tried again.
    unsettled: bool,
}

impl Followed {
    fn take_in(&mut self, changes: &Changes) {
        if changes.whole {
            self.rules.clear();
            self.tokens.clear();
        }
        for change in &changes.rules {
            match &change.rules {
                Some(rules) => self.rules.insert(change.domain.clone(), rules.clone()),
                None => self.rules.remove(&change.domain),
            };
        }
        let tokens = changes.tokens.iter().map(|token| (token.id.clone(), token.clone()));
        self.tokens.extend(tokens);
        self.version = changes.version;
    }

    fn catalog_rules(&self) -> Vec<CatalogRules> {
        let text = |rules: &Rules| rules.text.clone().unwrap_or_default();
        let rules = self.rules.iter();
        rules.map(|(domain, rules)| CatalogRules { domain: domain.clone(), text: text(rules) }).collect()
    }

    pub(super) fn rules_version(&self, domain: &str) -> Option<u64> {
        self.rules.get(domain).map(|rules| rules.version)
    }
}

impl Control {
    /// Writes what is new in the catalog into this node's copy. If the catalog is away, the copy stays.
    pub(super) async fn update_copy(&self) -> Result<(), Error> {
        let inner = &self.0;
        let was_copy = inner.local.is_copy().await?;
        if was_copy {
            inner.health.set_known();
        }
        match self.try_update_copy(was_copy).await {
            Ok(()) => {
                inner.health.set_known();
                inner.health.answered();
            }
            Err(error) => inner.health.failed(&error),
        }
        Ok(())
    }

    async fn try_update_copy(&self, was_copy: bool) -> Result<(), Error> {
        let inner = &self.0;
        let status = inner.catalog.status().await?;
        self.tell_time(&status);
        if was_copy && status.identity == inner.local.identity().await? {
            let since = inner.local.version().await?;
            return inner.local.apply(&inner.catalog.changes_since(since).await?).await;
        }
        // Of another database nothing may stay.
        inner.local.become_copy(&status.identity, &inner.catalog.everything().await?).await
    }

    fn tell_time(&self, status: &Status) {
        if let Some(reading) = status.clock {
            self.0.book.clock().observe(reading);
        }
    }

    /// Reads what this node has, before there is a limiter.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        let all = self.0.local.everything().await?;
        let mut followed = self.0.followed.lock().await;
        followed.identity = self.0.local.identity().await?;
        followed.take_in(&all);
        self.0.switches.lock().take_in(&all);
        *self.0.turned.lock().await = self.now();
        self.put_tokens(&followed);
        self.0.health.reached(all.version);
        Ok(())
    }

    /// Whether there are rules in the catalog.
    pub async fn has_rules(&self) -> bool {
        !self.0.followed.lock().await.rules.is_empty()
    }

    /// Puts what this node has read in force, and keeps up from now on.
    pub async fn start(&self, limiter: &Limiter) {
        if self.0.limiter.set(limiter.clone()).is_err() {
            return;
        }
        let mut followed = self.0.followed.lock().await;
        // Nothing is loaded a second time for nothing.
        if !followed.rules.is_empty() {
            followed.unsettled = !self.compile_rules(limiter, &followed).await;
        }
        drop(followed);
        self.put_switches().await;
        tokio::spawn(self.clone().keep_up());
        tokio::spawn(self.clone().keep_listening());
        tokio::spawn(self.clone().keep_time());
        tokio::spawn(self.clone().keep_tidy());
    }

    async fn keep_up(self) {
        let mut noted = Instant::now();
        loop {
            // What fails has been told, and is tried again.
            if self.refresh().await.is_ok() {
                self.record_waiting().await;
            }
            if noted.elapsed() >= NOTE_USE {
                noted = Instant::now();
                self.note_use().await;
            }
            tokio::select! {
                () = sleep(POLL) => {}
                () = self.0.told.notified() => {}
            }
        }
    }

    /// Hears of changes from `PostgreSQL`, over a connection of its own, for as long as it tells of any.
    async fn keep_listening(self) {
        loop {
            match self.0.catalog.listen().await {
                Ok(Some(mut listener)) => {
                    while listener.next().await.is_ok() {
                        self.0.told.notify_one();
                    }
                    // Something may have been missed.
                    self.0.told.notify_one();
                }
                Ok(None) => {
                    if self.0.catalog.is_pooled() {
                        tracing::info!(
                            "a pooler hands connections to the catalog around, so changes are looked for once a \
                             second; catalog_listen may name an address past the pooler"
                        );
                    }
                    return;
                }
                // That the catalog is away is told elsewhere.
                Err(_) => {}
            }
            sleep(POLL).await;
        }
    }

    /// Lets overrides begin and end, whether the catalog answers or not.
    async fn keep_time(self) {
        loop {
            if let Err(error) = self.turn(self.now()).await {
                tracing::warn!(%error, "overrides cannot begin or end");
            }
            tokio::select! {
                () = sleep(self.until_next_turn().await) => {}
                () = self.0.retime.notified() => {}
            }
        }
    }

    /// Puts in force whatever is newer in the catalog.
    ///
    /// # Errors
    /// If the catalog does not answer; all stays as it was.
    pub async fn refresh(&self) -> Result<(), Error> {
        let refreshed = self.try_refresh().await;
        match &refreshed {
            Ok(()) => self.0.health.answered(),
            Err(error) => {
                self.0.health.failed(error);
                self.0.switches.lock().outage();
            }
        }
        refreshed
    }

    async fn try_refresh(&self) -> Result<(), Error> {
        let Some(limiter) = self.0.limiter.get() else { return Ok(()) };
        let mut followed = self.0.followed.lock().await;
        let status = self.0.catalog.status().await?;
        self.tell_time(&status);
        self.give_way_to_catalog().await;
        let is_another = self.0.is_copy && status.identity != followed.identity;
        if status.version == followed.version && !is_another {
            if followed.unsettled {
                followed.unsettled = !(self.compile_rules(limiter, &followed).await && reload(limiter).await);
            }
            return Ok(());
        }
        // Of another database nothing may stay.
        let changes = if is_another {
            self.0.catalog.everything().await?
        } else {
            self.0.catalog.changes_since(followed.version).await?
        };
        // From here on nothing far away is asked: overrides begin and end meanwhile at most a moment later.
        let turned = self.0.turned.lock().await;
        if is_another {
            self.0.local.become_copy(&status.identity, &changes).await?;
            followed.identity = status.identity;
        } else if self.0.is_copy {
            self.0.local.apply(&changes).await?;
        }
        followed.take_in(&changes);
        self.0.switches.lock().take_in(&changes);
        if changes.whole || !changes.tokens.is_empty() {
            self.put_tokens(&followed);
        }
        if changes.whole || !changes.switches.is_empty() {
            self.put_switches().await;
        }
        if changes.whole || !changes.rules.is_empty() {
            followed.unsettled = !self.compile_rules(limiter, &followed).await;
        }
        // Loading rules reads all tenants anew; only then those that are not there any more are forgotten.
        if changes.whole {
            followed.unsettled |= !reload(limiter).await;
        } else {
            let now = self.now();
            let tenants = changes.tenants.iter().map(|change| match change {
                TenantChange::Put(tenant) => tidegate::TenantChange::Put(engine_tenant(tenant, now)),
                TenantChange::Gone(name) => tidegate::TenantChange::Gone(name.clone()),
            });
            let (limiter, tenants) = (limiter.clone(), tenants.collect::<Vec<_>>());
            aside(move || limiter.change_tenants(tenants)).await;
        }
        drop(turned);
        self.0.retime.notify_one();
        self.0.health.reached(changes.version);
        // Only now: whoever is ready has it in force.
        self.0.health.set_known();
        Ok(())
    }

    /// Lets overrides begin and end whose time has come.
    async fn turn(&self, now: Timestamp) -> Result<(), Error> {
        let Some(limiter) = self.0.limiter.get() else { return Ok(()) };
        let mut turned = self.0.turned.lock().await;
        // A clock that was set back brings back what had ended.
        let (from, to) = ((*turned).min(now), (*turned).max(now));
        let mut changes = Vec::new();
        for name in self.0.local.tenants_turned(from, to).await? {
            match self.0.local.tenant(&name).await {
                Ok(tenant) => changes.push(tidegate::TenantChange::Put(engine_tenant(&tenant, now))),
                Err(Error::NotFound { .. }) => changes.push(tidegate::TenantChange::Gone(name)),
                Err(error) => return Err(error),
            }
        }
        if !changes.is_empty() {
            let limiter = limiter.clone();
            aside(move || limiter.change_tenants(changes)).await;
        }
        *turned = now;
        Ok(())
    }

    async fn until_next_turn(&self) -> Duration {
        let turned = *self.0.turned.lock().await;
        let Ok(Some(next)) = self.0.local.next_turn(turned).await else { return POLL };
        let until = Duration::try_from(self.now().until(next).unwrap_or(0.seconds()));
        until.unwrap_or(Duration::ZERO).min(POLL)
    }

    /// Compiles the catalog's rules, away from this thread; false if not all of them are in force then.
    async fn compile_rules(&self, limiter: &Limiter, followed: &Followed) -> bool {
        let (limiter, mut rules) = (limiter.clone(), followed.catalog_rules());
        let put = move || {
            // A domain that a file has is the file's; the others need not suffer for it.
            let mut clashes = Vec::new();
            rules.retain(|rules| match limiter.owner_of(&rules.domain) {
                Some(Owner::File(file)) => {
                    clashes.push(format!("domain {:?} belongs to the file {file}, too", rules.domain));
                    false
                }
                _ => true,
            });
            match limiter.set_catalog_rules(rules) {
                Ok(()) if clashes.is_empty() => None,
                Ok(()) => Some(clashes.join("; ")),
                Err(problems) => Some(problems.to_string()),
            }
        };
        let refused = tokio::task::spawn_blocking(put).await.unwrap_or_else(|error| Some(error.to_string()));
        let settled = refused.is_none();
        self.0.health.set_refused(refused);
        settled
    }

    /// Puts the switches in force as they are now.
    pub(super) async fn put_switches(&self) {
        let Some(limiter) = self.0.limiter.get().cloned() else { return };
        let control = self.clone();
        aside(move || {
            // Held all the while, so that what is put last is what is newest.
            let board = control.0.switches.lock();
            limiter.set_switches(board.switches());
            control.0.health.set_switches(board.states());
        })
        .await;
    }

    /// The catalog answers: switches of this node alone that stood in for it are gone.
    async fn give_way_to_catalog(&self) {
        let gone = self.0.switches.lock().catalog_is_back();
        if !gone.is_empty() {
            tracing::warn!(
                rules = gone.join(", "),
                "the catalog answers again; its switches replace those that were set on this node alone"
            );
            self.put_switches().await;
        }
    }

    fn put_tokens(&self, followed: &Followed) {
        self.0.book.replace(&followed.tokens);
    }

    async fn note_use(&self) {
        let used = self.0.book.take_used();
        if !used.is_empty()
            && let Err(error) = self.0.catalog.touch_tokens(&used).await
        {
            tracing::debug!(%error, "when tokens were used is not written down");
        }
    }

    pub(super) async fn followed_rules_version(&self, domain: &str) -> Option<u64> {
        self.0.followed.lock().await.rules_version(domain)
    }
}

/// Whether all was loaded; if not, that has been logged.
async fn reload(limiter: &Limiter) -> bool {
    let limiter = limiter.clone();
    tokio::task::spawn_blocking(move || limiter.reload()).await.is_ok_and(|loaded| loaded.is_ok())
}

/// Does what may wait for a lock, away from this thread.
async fn aside(work: impl FnOnce() + Send + 'static) {
    // It does not panic, and nobody stops it.
    let _ = tokio::task::spawn_blocking(work).await;
}
