//! The audit trail of the catalog: who changed what, and the state before and after.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::page::{self, Page};
use crate::sql::connection::Connection;
use crate::sql::{Arg, Listing, Row};
use crate::{By, name};

const ENTRY: &str = "id, at, actor, action, object_kind, object, before, after, request_id";

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// The version of the catalog after the change.
    pub id: u64,
    /// When the change was made, by the clock of the node that made it.
    pub at: Timestamp,
    /// The name of the token or component that made the change.
    pub actor: String,
    /// The action, such as `put_tenant`.
    pub action: String,
    /// The kind of the changed object, such as `tenant`.
    pub object_kind: String,
    /// The name of the changed object.
    pub object: String,
    /// The state of the object before the change; `None` if it did not exist.
    pub before: Option<Value>,
    /// The state of the object after the change; `None` if it was deleted.
    pub after: Option<Value>,
    /// The ID of the request that asked for the change.
    pub request_id: String,
}

/// Which changes to list. All conditions that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only changes by this actor.
    pub actor: Option<String>,
    /// Only changes by this action.
    pub action: Option<String>,
    /// Only changes of this kind of object.
    pub object_kind: Option<String>,
    /// Only changes of the object with this name.
    pub object: Option<String>,
    /// Only changes at this time or later.
    pub from: Option<Timestamp>,
    /// Only changes before this time.
    pub to: Option<Timestamp>,
    /// No changes of this kind of object.
    pub except_kind: Option<String>,
}

impl Catalog {
    /// Returns the change with this ID, which is the version of the catalog after it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such change, or the database fails.
    pub async fn audit_entry(&self, id: u64) -> Result<AuditEntry> {
        self.within(async {
            let mut read = self.read().await?;
            let found = find(&mut read, id).await?;
            read.done().await;
            found.ok_or_else(|| Error::not_found("change", &id.to_string()))
        })
        .await
    }

    /// Lists changes, the newest first. `cursor` is the [`next`](Page::next) of the previous page, or `None`
    /// for the first one.
    ///
    /// # Errors
    ///
    /// Returns an error if the cursor is invalid, or the database fails.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEntry>> {
        let size = page::size(limit);
        let (sql, args) = listing(filter, page::key(cursor)?.as_deref(), size)?;
        self.within(async {
            let mut read = self.read().await?;
            let entries = read.rows(sql, &args, read_entry).await?;
            read.done().await;
            Ok(Page::of(entries, size, |entry| format!("{} {}", entry.at.as_microsecond(), entry.id)))
        })
        .await
    }

    /// Records an action on an object that is not in the catalog, such as the reset of a counter. Returns the
    /// ID of the entry.
    ///
    /// # Errors
    ///
    /// Returns an error if a name is invalid, or the database fails.
    pub async fn record(
        &self,
        action: &str,
        object_kind: &str,
        object: &str,
        before: Option<Value>,
        after: Option<Value>,
        by: &By,
    ) -> Result<u64> {
        for (field, text) in [("action", action), ("object_kind", object_kind), ("object", object)] {
            name::check(field, text)?;
        }
        self.change(|| async {
            let write = self.begin(by).await?;
            let revision = write.revision;
            let states = [before.clone(), after.clone()];
            write.prepared(action, object_kind, object, states, revision).await
        })
        .await
    }
}

/// Returns the change with this ID, if there is one.
pub(crate) async fn find(connection: &mut Connection, id: u64) -> Result<Option<AuditEntry>> {
    let sql = format!("SELECT {ENTRY} FROM audit WHERE id = $1");
    connection.row(sql, &[id.into()], read_entry).await
}

pub(crate) fn listing(filter: &AuditFilter, after: Option<&str>, size: usize) -> Result<(String, Vec<Arg>)> {
    let mut listing = Listing::new(format!("SELECT {ENTRY} FROM audit WHERE id > 0"));
    let equals = [
        ("actor", &filter.actor),
        ("action", &filter.action),
        ("object_kind", &filter.object_kind),
        ("object", &filter.object),
    ];
    for (column, value) in equals {
        if let Some(value) = value {
            name::check_text(column, value, page::MAX_PAGE)?;
            listing.and(&format!("{column} ="), value);
        }
    }
    if let Some(hidden) = &filter.except_kind {
        name::check_text("object_kind", hidden, page::MAX_PAGE)?;
        listing.and("object_kind <>", hidden);
    }
    if let Some(from) = filter.from {
        listing.and("at >=", from);
    }
    if let Some(to) = filter.to {
        listing.and("at <", to);
    }
    if let Some(after) = after {
        let (at, id) = after.split_once(' ').ok_or_else(page::invalid_cursor)?;
        let at: i64 = at.parse().map_err(|_| page::invalid_cursor())?;
        let id: i64 = id.parse().map_err(|_| page::invalid_cursor())?;
        listing.and("(at, id) < (", at);
        listing.push(",");
        listing.arg(id);
        listing.push(")");
    }
    listing.push("ORDER BY at DESC, id DESC LIMIT");
    listing.arg(page::fetch_size(size));
    Ok(listing.done())
}

pub(crate) async fn store(connection: &mut Connection, entry: &AuditEntry) -> Result<()> {
    let sql = format!("INSERT INTO audit ({ENTRY}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
    let [before, after] = [&entry.before, &entry.after].map(|value| value.as_ref().map(Value::to_string));
    let args = [
        entry.id.into(),
        entry.at.into(),
        (&entry.actor).into(),
        (&entry.action).into(),
        (&entry.object_kind).into(),
        (&entry.object).into(),
        before.as_deref().into(),
        after.as_deref().into(),
        (&entry.request_id).into(),
    ];
    connection.execute(sql, &args).await
}

fn read_entry(row: &Row<'_>) -> Result<AuditEntry> {
    Ok(AuditEntry {
        id: row.number(0)?,
        at: row.time(1)?,
        actor: row.text(2)?,
        action: row.text(3)?,
        object_kind: row.text(4)?,
        object: row.text(5)?,
        before: json(row.maybe_text(6)?)?,
        after: json(row.maybe_text(7)?)?,
        request_id: row.text(8)?,
    })
}

fn json(text: Option<String>) -> Result<Option<Value>> {
    let parsed = text.map(|text| serde_json::from_str(&text)).transpose();
    parsed.map_err(|error| Error::Other(format!("an audit entry is not JSON: {error}")))
}
