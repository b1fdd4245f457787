//! Changes that administrators make: written to the catalog, put in force here, written down in the trail.
//!
//! Each is a task of its own, so that a caller who hangs up does not leave it half done.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate::Switch;
use tidegate_audit::Change;
use tidegate_catalog::{
    By, Error, Precondition, Role, Rules, SwitchMode, Tenant, TenantDraft, Token, TokenDraft, TokenHash,
};

use super::Control;
use super::record::micros;
use super::switches::{SwitchOrigin, SwitchState};
use crate::access::{Secret, own};

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
            let stored = control.0.catalog.put_tenant(&name, &draft, precondition, &by).await;
            control.settled(&by, stored, |tenant| tenant.revision).await
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
            let deleted = control.0.catalog.delete_tenant(&name, precondition, &by).await;
            control.settled(&by, deleted, |revision| *revision).await.map(drop)
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
            let stored = control.0.catalog.put_rules(&domain, &text, &comment, precondition, &by).await;
            control.settled(&by, stored, |rules| rules.revision).await
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
            let rolled_back = catalog.roll_back_rules(&domain, version, &comment, precondition, &by);
            let stored = Box::pin(rolled_back).await;
            control.settled(&by, stored, |rules| rules.revision).await
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
            let gone = control.0.catalog.delete_rules(&domain, "", precondition, &by).await;
            control.settled(&by, gone, |rules| rules.revision).await.map(drop)
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
            let stored = control.0.catalog.set_switch(&rule, mode, precondition, &by).await;
            Ok(control.settled(&by, stored, |switch| switch.revision).await?.revision)
        })
        .await
    }

    /// Removes a switch from the catalog.
    pub(crate) async fn unset_switch(
        &self,
        by: By,
        rule: String,
        precondition: Precondition,
    ) -> Result<(), Error> {
        let control = self.clone();
        whole(async move {
            let gone = control.0.catalog.unset_switch(&rule, precondition, &by).await;
            control.settled(&by, gone, |revision| *revision).await.map(drop)
        })
        .await
    }

    /// Throws a switch on this node alone, or removes it; whether one was there. It does not need the
    /// catalog, which has the last word once it answers again.
    pub(crate) async fn set_local_switch(
        &self,
        by: By,
        rule: String,
        mode: Option<Switch>,
    ) -> Result<bool, Error> {
        let control = self.clone();
        whole(async move {
            let outage = !control.0.health.is_there();
            let told = |mode: Switch| json!({ "mode": mode, "node_only": true });
            let states = control.0.health.switches();
            let own = |state: &&SwitchState| state.rule == rule && state.from == SwitchOrigin::Node;
            let before = states.iter().find(own).map(|state| told(state.mode));
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
                after: mode.map(told),
                request_id: by.request_id,
                node: control.0.node.clone(),
            };
            control.record_own(change).await;
            Ok(was_there)
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
            let made = control.0.catalog.create_token(&draft, &by).await;
            control.settled(&by, made, |token| token.revision).await
        })
        .await
    }

    pub(crate) async fn revoke_token(&self, by: By, id: String) -> Result<(), Error> {
        let control = self.clone();
        whole(async move {
            let revoked = control.0.catalog.revoke_token(&id, &by).await;
            control.settled(&by, revoked, |token| token.revision).await.map(drop)
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
            let noted = control.0.catalog.record(action, "usage", &object, Some(before), None, &by).await;
            control.settled(&by, noted, |revision| *revision).await.map(drop)
        })
        .await
    }

    /// Puts a change in force here before it is answered, and writes it down. One of which it is not known
    /// whether it was made is kept in mind.
    async fn settled<T>(
        &self,
        by: &By,
        written: Result<T, Error>,
        revision: impl Fn(&T) -> u64,
    ) -> Result<T, Error> {
        match &written {
            Ok(value) => {
                // If it fails, it was told, and is tried again within a second.
                let _ = self.refresh().await;
                self.record(by, revision(value)).await;
            }
            Err(Error::Uncertain { entry, .. }) => self.record_uncertain((**entry).clone()),
            Err(_) => {}
        }
        written
    }
}

/// Does all of it, whether somebody waits or not.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(Error::Other(error.to_string())))
}
