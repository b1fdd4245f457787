//! Putting tenants in force.

use std::collections::BTreeMap;

use tidegate_core::Key;

use super::own::Draft;
use super::table::Tenants;
use super::{Tenant, TenantChange, TenantSource};
use crate::limiter::{Inner, Limiter};
use crate::rules::problem::{Problem, Problems};
use crate::rules::tree::RuleSet;

impl Limiter {
    /// Puts changes to tenants in force, all at once. Decisions never wait for it, and counters stay as
    /// they are.
    ///
    /// When rules are loaded the next time, tenants are read from [`Builder::tenants`](crate::Builder::tenants)
    /// alone: what that does not know by then is gone.
    pub fn change_tenants(&self, changes: impl IntoIterator<Item = TenantChange>) {
        self.inner.change_tenants(changes);
    }

    /// How many tenants have a tier or limits of their own.
    pub fn tenants(&self) -> usize {
        self.inner.rules.load().tenants.len()
    }
}

impl Inner {
    fn change_tenants(&self, changes: impl IntoIterator<Item = TenantChange>) {
        // Loading rules reads tenants, too: neither may undo what the other does.
        let _loading = self.source.lock();
        let rules = self.rules.load();
        let mut tenants = rules.tenants.clone();
        // Of several changes to one tenant the last counts.
        let mut last: BTreeMap<Key, (String, Option<Draft>)> = BTreeMap::new();
        for change in changes {
            let (name, draft) = match change {
                TenantChange::Gone(name) => (name, None),
                TenantChange::Put(tenant) => {
                    let draft = rules.draft(&tenant, &mut tenants);
                    (tenant.name, Some(draft).filter(|draft| *draft != Draft::default()))
                }
            };
            last.insert(rules.seed.text(&name), (name, draft));
        }
        last.retain(|tenant, (_, draft)| rules.tenants.find(*tenant).map(|own| own.draft()) != *draft);
        if last.is_empty() {
            return;
        }
        let (names, drafts): (Vec<String>, Vec<_>) =
            last.into_iter().map(|(tenant, (name, draft))| (name, (tenant, draft))).unzip();
        let tenants = tenants.changed(drafts);
        let mut next = RuleSet::clone(&rules);
        next.set_tenants(tenants);
        self.rules.store(next);
        tracing::debug!(tenants = names.len(), "tenants changed");
        #[cfg(feature = "redis")]
        if let Some(shared) = &self.shared {
            shared.forget_denials_of(&rules, &self.rules.load(), &names);
        }
    }
}

#[cfg(feature = "redis")]
impl crate::shared::Shared {
    /// Forgets what was denied these tenants: of those whose counters are all known only that, so that a
    /// flood of others goes on to cost nothing while tenants are changed one after the other.
    fn forget_denials_of(&self, before: &RuleSet, now: &RuleSet, tenants: &[String]) {
        for tenant in tenants {
            let reached = now.reached(tenant, None);
            let known = |rule: u32| reached.iter().any(|reached| reached.found.rule.place == rule);
            let draft = |rules: &RuleSet| {
                let own = rules.tenants.find(rules.seed.text(tenant));
                own.map(|own| own.draft()).unwrap_or_default()
            };
            let (old, new) = (draft(before), draft(now));
            if old.tier != new.tier || !old.own.iter().chain(&new.own).all(|own| known(own.rule)) {
                return self.store.forget_denials();
            }
            self.store.forget_denials_of(&now.charges(&reached, tenant));
        }
    }
}

impl RuleSet {
    /// Reads all tenants, and what they have under these rules.
    pub(crate) fn read_tenants(&mut self, source: &dyn TenantSource) -> Result<(), Problems> {
        let mut tenants = Tenants::default();
        let mut drafts: Vec<(Key, Draft)> = Vec::new();
        let read = source.each(&mut |tenant: Tenant| {
            let draft = self.draft(&tenant, &mut tenants);
            // As when it changes: whoever has nothing of its own is one like any other.
            if draft != Draft::default() {
                drafts.push((self.seed.text(&tenant.name), draft));
            }
        });
        read.map_err(|reason| {
            let message = format!("the tenants cannot be read: {reason}");
            Problems(vec![Problem { file: "tenants".to_owned(), place: None, field: String::new(), message }])
        })?;
        self.set_tenants(tenants.filled(drafts));
        Ok(())
    }
}
