//! Updates of rules, tenants and switches. All changes go through here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Origin, OriginState};
use crate::limiter::{Inner, Limiter};
use crate::rules::check;
use crate::rules::difference::Difference;
use crate::rules::model::Domain;
use crate::rules::problem::Problems;
use crate::rules::tree::RuleSet;
use crate::switches::Switches;
use crate::tenants::TenantChange;

/// The rules of a domain as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesText {
    /// The domain.
    pub domain: String,
    /// The rules in the format of a rule file. They must name the same domain.
    pub text: String,
}

/// An update of rules, tenants or switches, or of several of them. Anything that is not set stays unchanged.
///
/// ```
/// use tidegate::{Limiter, Origin, Request, RulesText, Switch, Switches, Update};
///
/// let text = "{domain: api, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]}";
/// let rules = RulesText { domain: "api".to_owned(), text: text.to_owned() };
/// let limiter = Limiter::builder().build()?;
///
/// limiter.update(Update::new().rules(Origin::Catalog, [rules]))?;
/// let request = Request::new("api", [("user", "ann")]);
/// assert_eq!(limiter.check_now(&request).remaining(), Some(4));
///
/// limiter.update(Update::new().switches(Switches { all: Switch::Off, ..Switches::default() }))?;
/// assert_eq!(limiter.check_now(&request).remaining(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "nothing changes until `Limiter::update` is called"]
pub struct Update {
    rules: Option<(Origin, Vec<RulesText>)>,
    tenants: Vec<TenantChange>,
    all_tenants: bool,
    switches: Option<Switches>,
}

impl Update {
    /// Creates an update that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces all domains of an origin by these.
    pub fn rules(mut self, origin: Origin, rules: impl IntoIterator<Item = RulesText>) -> Self {
        self.rules = Some((origin, rules.into_iter().collect()));
        self
    }

    /// Changes tenants, all at once. If a tenant is changed several times, the last change counts.
    ///
    /// When rules are loaded the next time, tenants are read again from [`Builder::tenants`](crate::Builder::tenants)
    /// alone: changes that this source does not have are lost.
    pub fn tenants(mut self, changes: impl IntoIterator<Item = TenantChange>) -> Self {
        self.tenants.extend(changes);
        self
    }

    /// Reads all tenants again from [`Builder::tenants`](crate::Builder::tenants), as every change of rules does.
    pub fn all_tenants(mut self) -> Self {
        self.all_tenants = true;
        self
    }

    /// Sets all switches. Switches of rules that do not exist take effect once the rules do.
    pub fn switches(mut self, switches: Switches) -> Self {
        self.switches = Some(switches);
        self
    }
}

impl Limiter {
    /// Puts an update in force. Decisions never wait for this, and counters are kept. It may take a while if tenants
    /// have to be read, so call it on a thread that may block. Switches take effect at once, even while another
    /// update is in progress.
    ///
    /// # Errors
    /// Returns every mistake in the rules, every domain that another origin also defines, or the reason why the
    /// tenants cannot be read. Then the last good rules of the origin stay in force. Switches, and changes of single
    /// tenants, still take effect.
    pub fn update(&self, update: Update) -> Result<(), Problems> {
        self.inner.update(update)
    }

    /// Reads the rule files again. All files are loaded, or nothing changes. This happens automatically within a
    /// second of a change to the files, unless [`Builder::watch`](crate::Builder::watch) is off.
    ///
    /// # Errors
    /// Returns every mistake in the files.
    pub fn reload(&self) -> Result<(), Problems> {
        self.inner.reload()
    }
}

impl Inner {
    pub(crate) fn update(&self, update: Update) -> Result<(), Problems> {
        // Applied first and without waiting: a kill switch must not wait for tenants to be read.
        if let Some(switches) = update.switches {
            self.switch(|known| *known = switches);
        }
        if update.rules.is_none() && !update.all_tenants && update.tenants.is_empty() {
            return Ok(());
        }
        let _updating = self.origins.updating.lock();
        let mut loaded = None;
        if let Some((origin, rules)) = update.rules {
            let read = check::read_all(origin, &rules, &self.defaults);
            loaded = Some(read.and_then(|domains| self.load(Some((origin, domains)))));
        }
        if update.all_tenants && !matches!(loaded, Some(Ok(()))) {
            let again = self.load(None);
            loaded = loaded.or(Some(again));
        }
        if !update.tenants.is_empty() {
            let _publishing = self.origins.publishing.lock();
            self.change_tenants(update.tenants);
        }
        loaded.unwrap_or(Ok(()))
    }

    pub(crate) fn reload(&self) -> Result<(), Problems> {
        let mut files = self.origins.updating.lock();
        let read = files.read(&self.defaults);
        let loaded = read.and_then(|domains| self.load(Some((Origin::Files, domains))));
        if let Err(problems) = &loaded {
            tracing::warn!(%problems, "rules refused, the last good ones stay in force");
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        self.refused.store(loaded.as_ref().err().cloned().map(Arc::new));
        loaded
    }

    /// Puts the new rules of one origin in force, with the last good rules of the others, and reads tenants. Called
    /// with the lock `updating` held.
    fn load(&self, brought: Option<(Origin, Vec<Domain>)>) -> Result<(), Problems> {
        let state = match brought {
            Some((origin, domains)) => self.origins.state().with(origin, domains),
            None => OriginState::clone(&self.origins.state()),
        };
        let rules = self.origins.compile(&state, self.backend.memory.seed())?;
        let _publishing = self.origins.publishing.lock();
        let switches = self.origins.state().switches.clone();
        self.put_in_force(OriginState { switches, ..state }, rules);
        Ok(())
    }

    /// Changes switches, and puts the last loaded rules in force with them.
    pub(crate) fn switch(&self, change: impl FnOnce(&mut Switches)) {
        let _publishing = self.origins.publishing.lock();
        let mut state = OriginState::clone(&self.origins.state());
        change(&mut state.switches);
        if state.switches == self.origins.state().switches {
            return;
        }
        tracing::warn!(switches = %state.switches, "switches changed");
        // The same rules compiled before, so this does not fail.
        if let Ok(mut rules) = state.compile(self.backend.memory.seed()) {
            // The rules have the same indexes, which the overrides of tenants refer to.
            rules.set_tenants(self.rules.load().tenants.clone());
            self.put_in_force(state, rules);
        }
    }

    /// Puts rules in force that were compiled from `state`. Called with the lock `publishing` held.
    fn put_in_force(&self, state: OriginState, mut rules: RuleSet) {
        rules.switch(&state.switches);
        rules.generation = self.rules.load().generation + 1;
        self.origins.state.store(Arc::new(state));
        let generation = rules.generation;
        let Difference { added, removed, changed } = Difference::between(&self.rules.load(), &rules);
        rules.go_on_counting(&self.rules.load());
        self.inline.keep_domains_of(&rules);
        self.rules.store(rules);
        self.backend.forget_denials();
        tracing::info!(
            generation,
            added = Difference::named(&added),
            removed = Difference::named(&removed),
            changed = Difference::named(&changed),
            "rules reloaded"
        );
    }
}
