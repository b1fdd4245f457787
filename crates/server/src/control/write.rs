//! Changes that administrators make: written to the catalog, put in force here, written down in the trail.
//!
//! Each is a task of its own, so that a caller who hangs up does not leave it half done.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tidegate::{Micros, Switch};
use tidegate_audit::Change;
use tidegate_catalog::{
    AuditEntry, By, Error, Precondition, Role, Rules, SwitchMode, Tenant, TenantDraft, Token, TokenDraft,
    TokenHash,
};

use super::Control;
use crate::access::{Secret, own};

/// How long the answer to an administrator waits for the audit trail's disk.
const TRAIL_DEADLINE: Duration = Duration::from_secs(2);

impl Control {
    /// Makes a tenant be what the draft says.
    pub(crate) async fn put_tenant(
        &self,
        by: By,
        name: String,
        draft: TenantDraft,
        precondition: Precondition,
    ) -> Result<Tenant, Error> {
        let control = self.clone();
        whole(async move {
            let stored = control.0.catalog.put_tenant(&name, &draft, precondition, &by).await?;
            control.changed(&by, stored.revision).await;
            Ok(stored)
        })
        .await
    }

    pub(crate) async fn delete_tenant(
        &self,
        by: By,
        name: String,
        precondition: Precondition,
    ) -> Result<(), Error> {
        let control = self.clone();
        whole(async move {
            let revision = control.0.catalog.delete_tenant(&name, precondition, &by).await?;
            control.changed(&by, revision).await;
            Ok(())
        })
        .await
    }

    pub(crate) async fn put_rules(
        &self,
        by: By,
        domain: String,
        text: String,
        comment: String,
        precondition: Precondition,
    ) -> Result<Rules, Error> {
        let control = self.clone();
        whole(async move {
            let stored = control.0.catalog.put_rules(&domain, &text, &comment, precondition, &by).await?;
            control.changed(&by, stored.revision).await;
            Ok(stored)
        })
        .await
    }

    pub(crate) async fn roll_back(
        &self,
        by: By,
        domain: String,
        version: u64,
        comment: String,
        precondition: Precondition,
    ) -> Result<Rules, Error> {
        let control = self.clone();
        whole(async move {
            let catalog = &control.0.catalog;
            let stored = catalog.roll_back_rules(&domain, version, &comment, precondition, &by).await?;
            control.changed(&by, stored.revision).await;
            Ok(stored)
        })
        .await
    }

    pub(crate) async fn delete_rules(
        &self,
        by: By,
        domain: String,
        precondition: Precondition,
    ) -> Result<(), Error> {
        let control = self.clone();
        whole(async move {
            let gone = control.0.catalog.delete_rules(&domain, "", precondition, &by).await?;
            control.changed(&by, gone.revision).await;
            Ok(())
        })
        .await
    }

    /// Throws a switch; gives its revision.
    pub(crate) async fn set_switch(
        &self,
        by: By,
        rule: String,
        mode: Switch,
        precondition: Precondition,
    ) -> Result<u64, Error> {
        let mode = match mode {
            Switch::Enforce => SwitchMode::Enforce,
            Switch::Shadow => SwitchMode::Shadow,
            Switch::Off => SwitchMode::Off,
        };
        let control = self.clone();
        whole(async move {
            let stored = control.0.catalog.set_switch(&rule, mode, precondition, &by).await?;
            control.changed(&by, stored.revision).await;
            Ok(stored.revision)
        })
        .await
    }

    /// Makes a token. Names tell who changed what, so those that count differ.
    pub(crate) async fn create_token(
        &self,
        by: By,
        secret: &Secret,
        name: String,
        role: Role,
        expires_at: Option<Timestamp>,
    ) -> Result<Token, Error> {
        let taken = self.0.catalog.tokens().await?;
        let taken = taken.iter().any(|token| token.name == name && token.holds_at(by.at));
        if taken || own::NAMES.contains(&name.as_str()) {
            let reason = format!("{name:?} is in use; choose another, or revoke that token first");
            return Err(Error::Invalid { field: "name".to_owned(), reason });
        }
        let (id, hash) = (secret.id().to_owned(), TokenHash(secret.hash()));
        let draft = TokenDraft { id, name, role, hash, expires_at };
        let control = self.clone();
        whole(async move {
            let made = control.0.catalog.create_token(&draft, &by).await?;
            control.changed(&by, made.revision).await;
            Ok(made)
        })
        .await
    }

    pub(crate) async fn revoke_token(&self, by: By, id: String) -> Result<(), Error> {
        let control = self.clone();
        whole(async move {
            let revoked = control.0.catalog.revoke_token(&id, &by).await?;
            control.changed(&by, revoked.revision).await;
            Ok(())
        })
        .await
    }

    /// Writes down what is about to be done to something that the catalog does not hold.
    pub(crate) async fn note(
        &self,
        by: By,
        action: &'static str,
        object: String,
        before: Value,
    ) -> Result<(), Error> {
        let control = self.clone();
        whole(async move {
            let noted = control.0.catalog.record(action, "usage", &object, Some(before), None, &by).await?;
            control.changed(&by, noted).await;
            Ok(())
        })
        .await
    }

    /// Puts a change in force here before it is answered, and writes it down.
    async fn changed(&self, by: &By, revision: u64) {
        // If it fails, it was told, and is tried again within a second.
        let _ = self.refresh().await;
        let Some(trail) = &self.0.trail else { return };
        let entry = match self.0.catalog.audit_entry(revision).await {
            // What changed nothing was written down when it did.
            Ok(entry) if entry.at != whole_us(by.at) || entry.request_id != by.request_id => return,
            Ok(entry) => entry,
            // Nor is what did so long ago that it is not kept.
            Err(Error::NotFound { .. }) => return,
            Err(error) => {
                tracing::warn!(%error, by.request_id, "a change is not in the audit files; the catalog has it");
                return;
            }
        };
        if let Err(error) = trail.record_and_wait(self.change(entry)).within(TRAIL_DEADLINE).await {
            tracing::warn!(%error, by.request_id, "a change is not in the audit files; the catalog has it");
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

/// As the catalog keeps it.
fn whole_us(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// Does all of it, whether somebody waits or not.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(Error::Other(error.to_string())))
}
