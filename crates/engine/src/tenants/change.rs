//! Applies changes of tenants.

use std::collections::BTreeMap;

use tidegate_core::Key;
use tidegate_stores::Charge;

use super::own::Draft;
use super::table::Tenants;
use super::{Tenant, TenantChange, TenantSource};
use crate::limiter::{Inner, Limiter};
use crate::rules::origins::update::Update;
use crate::rules::problem::{Problem, Problems};
use crate::rules::tree::RuleSet;

impl Limiter {
    /// Applies changes of tenants, all at once. Decisions never wait for this, and counters are kept.
    ///
    /// When rules are loaded the next time, tenants are read again from [`Builder::tenants`](crate::Builder::tenants)
    /// alone: changes that this source does not have are lost.
    pub fn change_tenants(&self, changes: impl IntoIterator<Item = TenantChange>) {
        // Changes of tenants cannot fail: overrides that match no rule are skipped.
        let _ = self.inner.update(Update::new().tenants(changes));
    }

    /// Returns the number of tenants that have a tier or overrides.
    pub fn tenants(&self) -> usize {
        self.inner.rules.load().tenants.len()
    }
}

impl Inner {
    /// Applies changes of tenants. Called with both locks of [`Origins`](crate::rules::origins::Origins) held,
    /// because loading rules reads tenants too.
    pub(crate) fn change_tenants(&self, changes: Vec<TenantChange>) {
        let rules = self.rules.load();
        let mut tenants = rules.tenants.clone();
        // If a tenant is changed several times, the last change counts.
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
        if let Some(shared) = self.backend.shared() {
            shared.forget_denials_of(&rules, &self.rules.load(), &names);
        }
    }
}

impl RuleSet {
    /// Calls `changed` with a charge of cost 0 for every counter of a tenant that has changed since the rules
    /// `before`. If not all of its counters are known, does nothing and returns false.
    pub(crate) fn changed_counters(
        &self,
        before: &RuleSet,
        tenant: &str,
        changed: impl FnOnce(&[Charge<'_>]),
    ) -> bool {
        let reached = self.reached(tenant, None);
        let known = |rule: u32| reached.iter().any(|reached| reached.found.rule.global_index == rule);
        let draft = |rules: &RuleSet| {
            let own = rules.tenants.find(rules.seed.text(tenant));
            own.map(|own| own.draft()).unwrap_or_default()
        };
        let (old, new) = (draft(before), draft(self));
        let all_known = old.tier == new.tier && old.own.iter().chain(&new.own).all(|own| known(own.rule));
        if all_known {
            changed(&self.charges(&reached, tenant));
        }
        all_known
    }

    /// Reads all tenants, and resolves their overrides with these rules.
    pub(crate) fn read_tenants(&mut self, source: &dyn TenantSource) -> Result<(), Problems> {
        let mut tenants = Tenants::default();
        let mut drafts: Vec<(Key, Draft)> = Vec::new();
        let read = source.each(&mut |tenant: Tenant| {
            let draft = self.draft(&tenant, &mut tenants);
            // As for changes: a tenant without a tier or overrides is not stored.
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
