//! What somebody who follows the feed has in memory.

use std::collections::BTreeMap;

use tidegate_catalog::{Changes, Rules, Switch, Tenant, TenantChange, Token};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) tenants: BTreeMap<String, Tenant>,
    pub(crate) rules: BTreeMap<String, Rules>,
    pub(crate) switches: BTreeMap<String, Switch>,
    pub(crate) tokens: BTreeMap<String, Token>,
}

impl Picture {
    pub(crate) fn of(changes: &Changes) -> Self {
        assert!(changes.whole);
        let mut picture = Self::default();
        picture.follow(changes);
        picture
    }

    pub(crate) fn follow(&mut self, changes: &Changes) {
        if changes.whole {
            *self = Self::default();
        }
        for change in &changes.tenants {
            match change {
                TenantChange::Put(tenant) => self.tenants.insert(tenant.name.clone(), tenant.clone()),
                TenantChange::Gone(name) => self.tenants.remove(name),
            };
        }
        for change in &changes.rules {
            match &change.rules {
                Some(rules) => self.rules.insert(change.domain.clone(), rules.clone()),
                None => self.rules.remove(&change.domain),
            };
        }
        for switch in &changes.switches {
            self.switches.insert(switch.rule.clone(), switch.clone());
        }
        for token in &changes.tokens {
            self.tokens.insert(token.id.clone(), token.clone());
        }
    }
}
