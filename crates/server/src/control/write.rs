//! Changes that administrators make: written to the catalog, put in force here, recorded in the audit files.
//!
//! Each change runs as its own task, so that a caller who disconnects does not leave it half done.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate::Switch;
use tidegate_audit::Change;
use tidegate_catalog::{
    By, Catalog, Error, Precondition, Role, Rules, SwitchMode, Tenant, TenantDraft, Token, TokenDraft,
    TokenHash,
};

use super::Control;
use super::record::{Announced, micros};
use super::switches::{SwitchOrigin, SwitchState};
use crate::access::{Secret, node_tokens};

impl Control {
    /// Replaces the tier and the overrides of a tenant.
    pub(crate) async fn put_tenant(
        &self,
        by: By,
        name: String,
        draft: TenantDraft,
        precondition: Precondition,
    ) -> Result<Tenant, Error> {
        self.change(move |catalog| async move { catalog.put_tenant(&name, &draft, precondition, &by).await })
            .await
    }

    pub(crate) async fn delete_tenant(
        &self,
        by: By,
        name: String,
        precondition: Precondition,
    ) -> Result<(), Error> {
        self.change(move |catalog| async move { catalog.delete_tenant(&name, precondition, &by).await })
            .await
            .map(drop)
    }

    pub(crate) async fn put_rules(
        &self,
        by: By,
        domain: String,
        text: String,
        comment: String,
        precondition: Precondition,
    ) -> Result<Rules, Error> {
        self.change(move |catalog| async move {
            catalog.put_rules(&domain, &text, &comment, precondition, &by).await
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
        self.change(move |catalog| async move {
            Box::pin(catalog.roll_back_rules(&domain, version, &comment, precondition, &by)).await
        })
        .await
    }

    pub(crate) async fn delete_rules(
        &self,
        by: By,
        domain: String,
        precondition: Precondition,
    ) -> Result<(), Error> {
        self.change(move |catalog| async move { catalog.delete_rules(&domain, "", precondition, &by).await })
            .await
            .map(drop)
    }

    /// Sets a switch in the catalog, and returns its revision.
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
        let set = self
            .change(move |catalog| async move { catalog.set_switch(&rule, mode, precondition, &by).await })
            .await?;
        Ok(set.revision)
    }

    /// Removes a switch from the catalog.
    pub(crate) async fn unset_switch(
        &self,
        by: By,
        rule: String,
        precondition: Precondition,
    ) -> Result<(), Error> {
        self.change(move |catalog| async move { catalog.unset_switch(&rule, precondition, &by).await })
            .await
            .map(drop)
    }

    /// Sets a switch on this node alone, or removes it. Returns whether one was set before. It does not need the
    /// catalog, which replaces it once it is reachable again.
    pub(crate) async fn set_local_switch(
        &self,
        by: By,
        rule: String,
        mode: Option<Switch>,
    ) -> Result<bool, Error> {
        let control = self.clone();
        whole(async move {
            let outage = !control.0.health.is_reachable();
            let recorded = |mode: Switch| json!({ "mode": mode, "node_only": true });
            let states = control.0.health.switches();
            let own = |state: &&SwitchState| state.rule == rule && state.from == SwitchOrigin::Node;
            let before = states.iter().find(own).map(|state| recorded(state.mode));
            let was_there = control.0.switches.lock().set_node(&rule, mode, outage);
            if mode.is_none() && !was_there {
                return Ok(false);
            }
            control.put_switches().await;
            let action = if mode.is_some() { "set_switch" } else { "unset_switch" };
            let change = Change {
                at: micros(by.at),
                actor: by.actor,
                action: action.to_owned(),
                object: rule,
                before,
                after: mode.map(recorded),
                request_id: by.request_id,
                node: control.0.node.clone(),
            };
            control.record_local(change).await;
            Ok(was_there)
        })
        .await
    }

    /// Creates a token. Audit records name tokens, so no two valid ones have the same name.
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
        if taken || node_tokens::NAMES.contains(&name.as_str()) {
            let reason = format!("{name:?} is in use; choose another, or revoke that token first");
            return Err(Error::Invalid { field: "name".to_owned(), reason });
        }
        let (id, hash) = (secret.id().to_owned(), TokenHash(secret.hash()));
        let draft = TokenDraft { id, name, role, hash, expires_at };
        self.change(move |catalog| async move { catalog.create_token(&draft, &by).await }).await
    }

    pub(crate) async fn revoke_token(&self, by: By, id: String) -> Result<(), Error> {
        self.change(move |catalog| async move { catalog.revoke_token(&id, &by).await }).await.map(drop)
    }

    /// Records what is about to be done to something that the catalog does not hold.
    pub(crate) async fn note(
        &self,
        by: By,
        action: &'static str,
        object: String,
        before: Value,
    ) -> Result<(), Error> {
        self.change(move |catalog| async move {
            catalog.record(action, "usage", &object, Some(before), None, &by).await
        })
        .await
        .map(drop)
    }

    /// Writes to the catalog, puts the change in force here, and records it in the audit files as the catalog made
    /// it. A change whose outcome is unknown is looked into later.
    async fn change<T, F>(&self, write: impl FnOnce(Catalog) -> F + Send + 'static) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let control = self.clone();
        whole(async move {
            let announced = Announced::new(&control.0.outbox);
            let journal = announced.journal();
            let written = write(control.0.catalog.with_journal(&journal)).await;
            match &written {
                Ok(_) => {
                    control.note_made(&journal, &announced).await;
                    // A failure has been logged, and is retried within a second.
                    let _ = control.refresh().await;
                    control.record(&journal, &announced).await;
                }
                Err(Error::Uncertain { entry, .. }) => control.keep_uncertain(entry, &announced).await,
                Err(_) => {}
            }
            announced.forget_rest().await;
            written
        })
        .await
    }
}

/// Runs work to its end, even if the caller stops waiting for it.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(Error::Other(error.to_string())))
}
