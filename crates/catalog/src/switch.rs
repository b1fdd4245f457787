//! Switches, which put rules into shadow mode or turn them off without a change of their text.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::sql::connection::{Connection, unexpected};
use crate::sql::{Arg, Row, batch};
use crate::{By, Precondition, name};

pub(crate) const SWITCH: &str = "rule, mode, updated_at, revision";
/// The longest ID of a rule, in characters. A rule path may be longer than a name.
const MAX_RULE: usize = 512;

/// A switch, which overrides the mode of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// The ID of the rule, or `*` for all rules.
    pub rule: String,
    /// The mode of the rule.
    pub mode: SwitchMode,
    /// When the switch was set.
    pub updated_at: Timestamp,
    /// The version of the catalog that changed the switch last. Rises with every change.
    pub revision: u64,
}

/// The mode that a switch gives to its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchMode {
    /// The rule works as its file says.
    Enforce,
    /// The rule is evaluated and counted, but denies nothing.
    Shadow,
    /// The rule is ignored.
    Off,
}

impl SwitchMode {
    /// Returns the name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }

    /// Returns the mode with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Enforce, Self::Shadow, Self::Off].into_iter().find(|mode| mode.name() == name)
    }
}

impl Catalog {
    /// Sets the switch of a rule, or of all rules if `rule` is `*`.
    ///
    /// # Errors
    ///
    /// Returns an error if the rule ID is invalid, the precondition does not hold, or the database fails.
    pub async fn set_switch(
        &self,
        rule: &str,
        mode: SwitchMode,
        precondition: Precondition,
        by: &By,
    ) -> Result<Switch> {
        check_rule(rule)?;
        self.change(|| async {
            let mut write = self.begin(by).await?;
            let before = find(&mut write, rule).await?;
            precondition.check(before.as_ref().map(|switch| switch.revision))?;
            if let Some(before) = before.as_ref().filter(|before| before.mode == mode) {
                return write.unchanged(before.clone()).await;
            }
            let (updated_at, revision) = (write.by.at, write.revision);
            let after = Switch { rule: rule.to_owned(), mode, updated_at, revision };
            store(&mut write, &[&after]).await?;
            let states = [before.as_ref().map(audited), Some(audited(&after))];
            write.prepared("set_switch", "switch", rule, states, after).await
        })
        .await
    }

    /// Removes the switch of a rule, as if it had never been set, and returns the revision of the removal. No
    /// row is left for the feed, so its readers get the full contents once.
    ///
    /// # Errors
    ///
    /// Returns an error if the switch is not set, the precondition does not hold, or the database fails.
    pub async fn unset_switch(&self, rule: &str, precondition: Precondition, by: &By) -> Result<u64> {
        check_rule(rule)?;
        self.change(|| async {
            let mut write = self.begin(by).await?;
            let before = find(&mut write, rule).await?;
            precondition.check(before.as_ref().map(|switch| switch.revision))?;
            let before = before.ok_or_else(|| Error::not_found("switch", rule))?;
            let revision = write.revision;
            write.execute("DELETE FROM switches WHERE rule = $1", &[rule.into()]).await?;
            write.execute("UPDATE catalog SET base = $1", &[revision.into()]).await?;
            let states = [Some(audited(&before)), None];
            write.prepared("unset_switch", "switch", rule, states, revision).await
        })
        .await
    }

    /// Returns the switch of a rule.
    ///
    /// # Errors
    ///
    /// Returns an error if the switch is not set, or the database fails.
    pub async fn switch(&self, rule: &str) -> Result<Switch> {
        check_rule(rule)?;
        self.within(async {
            let mut read = self.read().await?;
            let found = find(&mut read, rule).await?;
            read.done().await;
            found.ok_or_else(|| Error::not_found("switch", rule))
        })
        .await
    }

    /// Returns all switches that are set, sorted by rule.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn switches(&self) -> Result<Vec<Switch>> {
        self.within(async {
            let mut read = self.read().await?;
            let sql = format!("SELECT {SWITCH} FROM switches ORDER BY rule");
            let found = read.rows(sql, &[], read_switch).await?;
            read.done().await;
            Ok(found)
        })
        .await
    }
}

fn audited(switch: &Switch) -> serde_json::Value {
    serde_json::json!({ "mode": switch.mode })
}

fn check_rule(rule: &str) -> Result<()> {
    name::check_bounded("rule", rule, MAX_RULE)
}

async fn find(connection: &mut Connection, rule: &str) -> Result<Option<Switch>> {
    let sql = format!("SELECT {SWITCH} FROM switches WHERE rule = $1");
    connection.row(sql, &[rule.into()], read_switch).await
}

pub(crate) async fn store(connection: &mut Connection, switches: &[&Switch]) -> Result<()> {
    let args = |switch: &&Switch| {
        let mode = switch.mode.name().into();
        vec![(&switch.rule).into(), mode, switch.updated_at.into(), switch.revision.into()]
    };
    let rows: Vec<Vec<Arg>> = switches.iter().map(args).collect();
    let conflict = " ON CONFLICT (rule) DO UPDATE SET mode = excluded.mode, \
         updated_at = excluded.updated_at, revision = excluded.revision";
    batch::insert(connection, &format!("switches ({SWITCH})"), &rows, conflict).await
}

pub(crate) fn read_switch(row: &Row<'_>) -> Result<Switch> {
    let mode = row.text(1)?;
    Ok(Switch {
        rule: row.text(0)?,
        mode: SwitchMode::named(&mode).ok_or_else(|| unexpected(1, &mode))?,
        updated_at: row.time(2)?,
        revision: row.number(3)?,
    })
}
