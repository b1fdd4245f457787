//! Changes that administrators make: written to the catalog, put in force here, written down in the trail.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tidegate::{Micros, Switch};
use tidegate_audit::Change;
use tidegate_catalog::{
    AuditEntry, AuditFilter, By, Error, Precondition, Role, Rules, SwitchMode, Tenant, TenantDraft, Token,
    TokenDraft, TokenHash,
};

use super::Control;
use crate::access::Secret;

/// How long the answer to an administrator waits for the audit trail's disk.
const TRAIL_DEADLINE: Duration = Duration::from_secs(2);

impl Control {
    /// Makes a tenant be what the draft says.
    pub(crate) async fn put_tenant(
        &self,
        by: &By,
        name: &str,
        draft: &TenantDraft,
        precondition: Precondition,
    ) -> Result<Tenant, Error> {
        let stored = self.0.catalog.put_tenant(name, draft, precondition, by).await?;
        self.changed(by).await;
        Ok(stored)
    }

    pub(crate) async fn delete_tenant(&self, by: &By, name: &str, precondition: Precondition) -> Result<(), Error> {
        self.0.catalog.delete_tenant(name, precondition, by).await?;
        self.changed(by).await;
        Ok(())
    }

    pub(crate) async fn put_rules(
        &self,
        by: &By,
        domain: &str,
        text: &str,
        comment: &str,
        precondition: Precondition,
    ) -> Result<Rules, Error> {
        let stored = self.0.catalog.put_rules(domain, text, comment, precondition, by).await?;
        self.changed(by).await;
        Ok(stored)
    }

    pub(crate) async fn roll_back(
        &self,
        by: &By,
        domain: &str,
        version: u64,
        comment: &str,
    ) -> Result<Rules, Error> {
        let stored = self.0.catalog.roll_back_rules(domain, version, comment, Precondition::Any, by).await?;
        self.changed(by).await;
        Ok(stored)
    }

    pub(crate) async fn delete_rules(&self, by: &By, domain: &str, precondition: Precondition) -> Result<(), Error> {
        self.0.catalog.delete_rules(domain, "", precondition, by).await?;
        self.changed(by).await;
        Ok(())
    }

    pub(crate) async fn set_switch(&self, by: &By, rule: &str, mode: Switch) -> Result<(), Error> {
        let mode = match mode {
            Switch::Enforce => SwitchMode::Enforce,
            Switch::Shadow => SwitchMode::Shadow,
            Switch::Off => SwitchMode::Off,
        };
        self.0.catalog.set_switch(rule, mode, Precondition::Any, by).await?;
        self.changed(by).await;
        Ok(())
    }

    pub(crate) async fn create_token(
        &self,
        by: &By,
        secret: &Secret,
        name: &str,
        role: Role,
        expires_at: Option<Timestamp>,
    ) -> Result<Token, Error> {
        let draft = TokenDraft {
            id: secret.id().to_owned(),
            name: name.to_owned(),
            role,
            hash: TokenHash(secret.hash()),
            expires_at,
        };
        let made = self.0.catalog.create_token(&draft, by).await?;
        self.changed(by).await;
        Ok(made)
    }

    pub(crate) async fn revoke_token(&self, by: &By, id: &str) -> Result<(), Error> {
        self.0.catalog.revoke_token(id, by).await?;
        self.changed(by).await;
        Ok(())
    }

    /// Writes down what was done to something that the catalog does not hold.
    pub(crate) async fn note(
        &self,
        by: &By,
        action: &str,
        object: &str,
        before: Option<Value>,
    ) -> Result<(), Error> {
        self.0.catalog.note(action, "usage", object, before, by).await?;
        self.changed(by).await;
        Ok(())
    }

    /// Puts a change in force here before it is answered, and writes it down.
    async fn changed(&self, by: &By) {
        // If it fails, it was told, and is tried again within a second.
        let _ = self.refresh().await;
        let Some(trail) = &self.0.trail else { return };
        let filter = AuditFilter { actor: Some(by.actor.clone()), ..AuditFilter::default() };
        let newest = self.0.catalog.audit(&filter, None, 10).await;
        let entries = newest.map(|page| page.items).unwrap_or_default();
        // A write that changed nothing has no entry.
        let Some(entry) = entries.into_iter().find(|entry| entry.request_id == by.request_id) else { return };
        let change = self.change(entry);
        if let Err(error) = trail.record_and_wait(change).within(TRAIL_DEADLINE).await {
            tracing::warn!(%error, request_id = by.request_id, "a change is not in the audit files; the catalog has it");
        }
    }

    fn change(&self, entry: AuditEntry) -> Change {
        Change {
            at: Micros(u64::try_from(entry.at.as_microsecond()).unwrap_or_default()),
            actor: entry.actor,
            action: entry.action,
            object: entry.object,
            before: entry.before,
            after: entry.after,
            request_id: entry.request_id,
            node: self.0.node.clone(),
        }
    }
}
