//! Follows the catalog.
//!
//! Every second, on every notification of `PostgreSQL`, and after every change made here, data that is newer than the
//! version in force is applied. Overrides begin and end by a timer, from the data that this node already has, so that
//! nothing has to be written for it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use tidegate::{Limiter, Origin, Problems, RulesText, Update};
use tidegate_catalog::{Changes, Error, Rules, Status, TenantChange, Token};
use tokio::time::{Instant, sleep};

use super::Control;
use super::tenants::engine_tenant;

/// How often the catalog is read, whether it notifies of changes or not.
const POLL: Duration = Duration::from_secs(1);
/// How often the last use of tokens is written to the catalog.
const TOUCH_TOKENS: Duration = Duration::from_secs(30);
/// The part of the catalog that is in force on this node.
#[derive(Default)]
pub(super) struct CatalogState {
    version: u64,
    /// The identity of the database.
    identity: String,
    rules: BTreeMap<String, Rules>,
    tokens: BTreeMap<String, Token>,
    /// Whether something in the catalog could not be put in force, and is tried again.
    incomplete: bool,
}

impl CatalogState {
    fn apply(&mut self, changes: &Changes) {
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

    fn texts(&self) -> Vec<RulesText> {
        let text = |rules: &Rules| rules.text.clone().unwrap_or_default();
        let rules = self.rules.iter();
        rules.map(|(domain, rules)| RulesText { domain: domain.clone(), text: text(rules) }).collect()
    }
}

impl Control {
    /// Copies what is new in the catalog into this node's copy. If the catalog is unreachable, the copy stays as it is.
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
        self.observe_clock(&status);
        if was_copy && status.identity == inner.local.identity().await? {
            let since = inner.local.version().await?;
            return inner.local.apply(&inner.catalog.changes_since(since).await?).await;
        }
        // Nothing of another database may stay.
        inner.local.become_copy(&status.identity, &inner.catalog.everything().await?).await
    }

    fn observe_clock(&self, status: &Status) {
        if let Some(reading) = status.clock {
            self.0.registry.clock().observe(reading);
        }
    }

    /// Loads what this node has, before there is a limiter.
    pub(super) async fn load(&self) -> Result<(), Error> {
        let all = self.0.local.everything().await?;
        let mut state = self.0.state.lock().await;
        state.identity = self.0.local.identity().await?;
        state.apply(&all);
        self.0.switches.lock().apply(&all);
        *self.0.due_until.lock().await = self.now();
        self.put_tokens(&state);
        self.0.health.reached(all.version);
        Ok(())
    }

    /// Returns whether there are rules in the catalog.
    pub async fn has_rules(&self) -> bool {
        !self.0.state.lock().await.rules.is_empty()
    }

    /// Puts what was loaded in force, and follows the catalog from now on.
    pub async fn start(&self, limiter: &Limiter) {
        if self.0.limiter.set(limiter.clone()).is_err() {
            return;
        }
        let mut state = self.0.state.lock().await;
        // Without rules there is nothing to compile.
        if !state.rules.is_empty() {
            state.incomplete = !self.put(limiter, Some(state.texts()), Update::new()).await;
        }
        drop(state);
        self.put_switches().await;
        tokio::spawn(self.clone().follow());
        tokio::spawn(self.clone().listen());
        tokio::spawn(self.clone().run_timer());
        tokio::spawn(self.clone().run_purges());
    }

    async fn follow(self) {
        let mut noted = Instant::now();
        loop {
            // A failure has been logged, and is retried.
            if self.refresh().await.is_ok() {
                self.resolve_uncertain().await;
            }
            if noted.elapsed() >= TOUCH_TOKENS {
                noted = Instant::now();
                self.touch_tokens().await;
            }
            tokio::select! {
                () = sleep(POLL) => {}
                () = self.0.notified.notified() => {}
            }
        }
    }

    /// Waits for notifications of `PostgreSQL` over its own connection, as long as there are any.
    async fn listen(self) {
        loop {
            match self.0.catalog.listen().await {
                Ok(Some(mut listener)) => {
                    while listener.next().await.is_ok() {
                        self.0.notified.notify_one();
                    }
                    // A notification may have been missed.
                    self.0.notified.notify_one();
                }
                Ok(None) => {
                    if self.0.catalog.is_pooled() {
                        tracing::info!(
                            "a pooler is in front of the catalog, so changes are read once a second; catalog_listen \
                             may name an address behind the pooler"
                        );
                    }
                    return;
                }
                // An unreachable catalog is logged elsewhere.
                Err(_) => {}
            }
            sleep(POLL).await;
        }
    }

    /// Lets overrides begin and end, whether the catalog is reachable or not.
    async fn run_timer(self) {
        loop {
            if let Err(error) = self.apply_due_overrides(self.now()).await {
                tracing::warn!(%error, "overrides cannot begin or end");
            }
            tokio::select! {
                () = sleep(self.until_next_due().await) => {}
                () = self.0.retime.notified() => {}
            }
        }
    }

    /// Puts in force what is newer in the catalog.
    ///
    /// # Errors
    /// If the catalog is unreachable. Nothing has changed then.
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
        let mut state = self.0.state.lock().await;
        let status = self.0.catalog.status().await?;
        self.observe_clock(&status);
        self.drop_stand_in_switches().await;
        let is_another = self.0.is_copy && status.identity != state.identity;
        if status.version == state.version && !is_another {
            if state.incomplete {
                state.incomplete = !self.put(limiter, Some(state.texts()), Update::new().all_tenants()).await;
            }
            return Ok(());
        }
        // Nothing of another database may stay.
        let changes = if is_another {
            self.0.catalog.everything().await?
        } else {
            self.0.catalog.changes_since(state.version).await?
        };
        // From here on only local data is used, so overrides begin and end at most a moment later.
        let due_until = self.0.due_until.lock().await;
        if is_another {
            self.0.local.become_copy(&status.identity, &changes).await?;
            state.identity = status.identity;
        } else if self.0.is_copy {
            self.0.local.apply(&changes).await?;
        }
        state.apply(&changes);
        self.0.switches.lock().apply(&changes);
        if changes.whole || !changes.tokens.is_empty() {
            self.put_tokens(&state);
        }
        if changes.whole || !changes.switches.is_empty() {
            self.put_switches().await;
        }
        let rules = (changes.whole || !changes.rules.is_empty()).then(|| state.texts());
        let update = if changes.whole {
            // Tenants that no longer exist are dropped.
            Update::new().all_tenants()
        } else {
            let now = self.now();
            Update::new().tenants(changes.tenants.iter().map(|change| match change {
                TenantChange::Put(tenant) => tidegate::TenantChange::Put(engine_tenant(tenant, now)),
                TenantChange::Gone(name) => tidegate::TenantChange::Gone(name.clone()),
            }))
        };
        let is_complete = self.put(limiter, rules, update).await;
        if changes.whole || !changes.rules.is_empty() {
            state.incomplete = !is_complete;
        }
        drop(due_until);
        self.0.retime.notify_one();
        self.0.health.reached(changes.version);
        // Set last: a node that is ready has the catalog in force.
        self.0.health.set_known();
        Ok(())
    }

    /// Lets overrides begin and end that are due.
    async fn apply_due_overrides(&self, now: Timestamp) -> Result<(), Error> {
        let Some(limiter) = self.0.limiter.get() else { return Ok(()) };
        let mut due_until = self.0.due_until.lock().await;
        // A clock that was set back restores overrides that had ended.
        let (from, to) = ((*due_until).min(now), (*due_until).max(now));
        let mut changes = Vec::new();
        for name in self.0.local.tenants_turned(from, to).await? {
            match self.0.local.tenant(&name).await {
                Ok(tenant) => changes.push(tidegate::TenantChange::Put(engine_tenant(&tenant, now))),
                Err(Error::NotFound { .. }) => changes.push(tidegate::TenantChange::Gone(name)),
                Err(error) => return Err(error),
            }
        }
        if !changes.is_empty() {
            self.put(limiter, None, Update::new().tenants(changes)).await;
        }
        *due_until = now;
        Ok(())
    }

    async fn until_next_due(&self) -> Duration {
        let due_until = *self.0.due_until.lock().await;
        let Ok(Some(next)) = self.0.local.next_turn(due_until).await else { return POLL };
        let until = Duration::try_from(self.now().until(next).unwrap_or(0.seconds()));
        until.unwrap_or(Duration::ZERO).min(POLL)
    }

    /// Puts an update in force on another thread, with the catalog's rules if they are given. Returns whether all of
    /// it is in force then.
    async fn put(&self, limiter: &Limiter, rules: Option<Vec<RulesText>>, update: Update) -> bool {
        let (limiter, with_rules) = (limiter.clone(), rules.is_some());
        let put = move || {
            let (update, clashes) = match rules {
                Some(rules) => with_own_domains(&limiter, rules, update),
                None => (update, Vec::new()),
            };
            let problems = limiter.update(update).err().as_ref().map(Problems::to_string);
            problems.or_else(|| (!clashes.is_empty()).then(|| clashes.join("; ")))
        };
        let refused = tokio::task::spawn_blocking(put).await.unwrap_or_else(|error| Some(error.to_string()));
        let is_complete = refused.is_none();
        if with_rules || !is_complete {
            self.0.health.set_refused(refused);
        }
        is_complete
    }

    /// Puts the current switches in force.
    pub(super) async fn put_switches(&self) {
        let Some(limiter) = self.0.limiter.get().cloned() else { return };
        let control = self.clone();
        run_blocking(move || {
            // Locked for the whole time, so that the newest switches are put in force last.
            let board = control.0.switches.lock();
            limiter.set_switches(board.switches());
            control.0.health.set_switches(board.states());
        })
        .await;
    }

    /// Removes the switches of this node alone that stood in for the catalog while it was unreachable.
    async fn drop_stand_in_switches(&self) {
        let removed = self.0.switches.lock().catalog_is_back();
        if !removed.is_empty() {
            tracing::warn!(
                rules = removed.join(", "),
                "the catalog is reachable again; its switches replace those that were set on this node alone"
            );
            self.put_switches().await;
        }
    }

    fn put_tokens(&self, state: &CatalogState) {
        self.0.registry.replace(&state.tokens);
    }

    async fn touch_tokens(&self) {
        let used = self.0.registry.take_used();
        if !used.is_empty()
            && let Err(error) = self.0.catalog.touch_tokens(&used).await
        {
            tracing::debug!(%error, "the last use of tokens was not written to the catalog");
        }
    }

    /// Returns the version of a domain's rules that is in force on this node.
    pub(crate) async fn rules_version_in_force(&self, domain: &str) -> Option<u64> {
        self.0.state.lock().await.rules.get(domain).map(|rules| rules.version)
    }
}

/// Adds the rules of the catalog to an update, without the domains that rule files have: such a domain stays the
/// file's, which does not affect the others. Returns what to tell about each of those.
fn with_own_domains(limiter: &Limiter, mut rules: Vec<RulesText>, update: Update) -> (Update, Vec<String>) {
    let mut clashes = Vec::new();
    rules.retain(|rules| match limiter.owner_of(&rules.domain) {
        Some(owner) if owner.origin == Origin::Files => {
            clashes.push(format!("domain {:?} is also in the rule file {}", rules.domain, owner.source));
            false
        }
        _ => true,
    });
    (update.rules(Origin::Catalog, rules), clashes)
}

/// Runs work that may wait for a lock on another thread.
async fn run_blocking(work: impl FnOnce() + Send + 'static) {
    // The work does not panic, and is not cancelled.
    let _ = tokio::task::spawn_blocking(work).await;
}
