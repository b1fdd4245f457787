//! Rule sets: the text of a domain's rules, and its earlier versions.

use jiff::Timestamp;
use serde::Serialize;

use crate::catalog::{Catalog, Prepared, Write};
use crate::error::{Error, Result};
use crate::page::{self, Page};
use crate::sql::connection::Connection;
use crate::sql::{Arg, Row, batch};
use crate::{By, Precondition, name};

/// The longest text of a rule set, in characters.
pub const MAX_RULES: usize = 1 << 20;
/// The longest comment, in characters.
const MAX_COMMENT: usize = 4_096;
/// The most versions on a page. There are fewer than of other objects because the texts are long.
const MAX_VERSIONS: usize = 100;
pub(crate) const RULES: &str = "domain, version, text, author, comment, restored_from, created_at, revision";

/// A version of a domain's rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// The domain.
    pub domain: String,
    /// The number of the version. The first is 1 and there are no gaps; the oldest may be
    /// [purged](Catalog::purge).
    pub version: u64,
    /// The YAML text of the rules; `None` if this version is a deletion.
    pub text: Option<String>,
    /// The actor that stored this version.
    pub author: String,
    /// The comment of the author.
    pub comment: String,
    /// The version that this one restores, if it is a rollback.
    pub restored_from: Option<u64>,
    /// When this version was stored.
    pub created_at: Timestamp,
    /// The version of the catalog after this change.
    pub revision: u64,
}

impl Catalog {
    /// Stores `text` as the rules of a domain. The caller must have validated it: this call does not parse
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if a name or text is too long or has invalid characters, the precondition does not
    /// hold, or the database fails.
    pub async fn put_rules(
        &self,
        domain: &str,
        text: &str,
        comment: &str,
        precondition: Precondition,
        by: &By,
    ) -> Result<Rules> {
        name::check("domain", domain)?;
        name::check_text("text", text, MAX_RULES)?;
        name::check_text("comment", comment, MAX_COMMENT)?;
        self.change(|| async {
            let write = self.begin(by).await?;
            put(write, "put_rules", domain, Some(text), comment, None, precondition).await
        })
        .await
    }

    /// Restores the text of an older version of a domain's rules, as a new version.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such version or it is a deletion, the precondition does not hold, or
    /// the database fails.
    pub async fn roll_back_rules(
        &self,
        domain: &str,
        version: u64,
        comment: &str,
        precondition: Precondition,
        by: &By,
    ) -> Result<Rules> {
        name::check("domain", domain)?;
        name::check_text("comment", comment, MAX_COMMENT)?;
        self.change(|| async {
            let mut write = self.begin(by).await?;
            let old = of_version(&mut write, domain, version).await?;
            let old = old.ok_or_else(|| no_version(domain, version))?;
            let Some(text) = old.text else {
                return Err(Error::invalid(
                    "version",
                    format!("{version} is a deletion: choose a version that has a text"),
                ));
            };
            put(write, "roll_back_rules", domain, Some(&text), comment, Some(version), precondition).await
        })
        .await
    }

    /// Deletes the rules of a domain, and returns the version that records the deletion.
    ///
    /// # Errors
    ///
    /// Returns an error if the domain has no rules, the precondition does not hold, or the database fails.
    pub async fn delete_rules(
        &self,
        domain: &str,
        comment: &str,
        precondition: Precondition,
        by: &By,
    ) -> Result<Rules> {
        name::check("domain", domain)?;
        name::check_text("comment", comment, MAX_COMMENT)?;
        self.change(|| async {
            let write = self.begin(by).await?;
            put(write, "delete_rules", domain, None, comment, None, precondition).await
        })
        .await
    }

    /// Returns the current rules of a domain.
    ///
    /// # Errors
    ///
    /// Returns an error if the domain has no rules, or the database fails.
    pub async fn rules(&self, domain: &str) -> Result<Rules> {
        name::check("domain", domain)?;
        self.within(async {
            let mut read = self.read().await?;
            let found = current(&mut read, domain).await?;
            read.done().await;
            found.filter(|rules| rules.text.is_some()).ok_or_else(|| Error::not_found("rule set", domain))
        })
        .await
    }

    /// Returns the current rules of every domain that has any, sorted by domain.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn all_rules(&self) -> Result<Vec<Rules>> {
        self.within(async {
            let mut read = self.read().await?;
            let found = read.rows(current_sql("d.deleted = 0 ORDER BY d.domain"), &[], read_rules).await?;
            read.done().await;
            Ok(found)
        })
        .await
    }

    /// Returns one version of a domain's rules.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such version, or the database fails.
    pub async fn rules_version(&self, domain: &str, version: u64) -> Result<Rules> {
        name::check("domain", domain)?;
        self.within(async {
            let mut read = self.read().await?;
            let found = of_version(&mut read, domain, version).await?;
            read.done().await;
            found.ok_or_else(|| no_version(domain, version))
        })
        .await
    }

    /// Lists the stored versions of a domain's rules, the newest first, at most 100 on a page. `cursor` is
    /// the [`next`](Page::next) of the previous page, or `None` for the first one.
    ///
    /// # Errors
    ///
    /// Returns an error if the cursor is invalid, or the database fails.
    pub async fn rule_versions(
        &self,
        domain: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Rules>> {
        name::check("domain", domain)?;
        let size = page::size(limit).min(MAX_VERSIONS);
        let before = match page::key(cursor)? {
            Some(key) => key.parse::<i64>().map_err(|_| page::invalid_cursor())?,
            None => i64::MAX,
        };
        let args = [domain.into(), before.into(), page::fetch_size(size).into()];
        self.within(async {
            let mut read = self.read().await?;
            let found = read.rows(versions_sql(), &args, read_rules).await?;
            read.done().await;
            Ok(Page::of(found, size, |rules| rules.version.to_string()))
        })
        .await
    }
}

pub(crate) fn versions_sql() -> String {
    format!("SELECT {RULES} FROM rule_sets WHERE domain = $1 AND version < $2 ORDER BY version DESC LIMIT $3")
}

/// Returns the statement that selects the current version of each domain for which the condition holds.
pub(crate) fn current_sql(condition: &str) -> String {
    let columns: Vec<String> = RULES.split(", ").map(|column| format!("r.{column}")).collect();
    format!(
        "SELECT {} FROM domains d JOIN rule_sets r ON r.domain = d.domain AND r.version = d.version WHERE {condition}",
        columns.join(", ")
    )
}

async fn current(connection: &mut Connection, domain: &str) -> Result<Option<Rules>> {
    connection.row(current_sql("d.domain = $1"), &[domain.into()], read_rules).await
}

async fn of_version(connection: &mut Connection, domain: &str, version: u64) -> Result<Option<Rules>> {
    let sql = format!("SELECT {RULES} FROM rule_sets WHERE domain = $1 AND version = $2");
    connection.row(sql, &[domain.into(), version.into()], read_rules).await
}

fn no_version(domain: &str, version: u64) -> Error {
    Error::not_found("version", &format!("{version} of {domain}"))
}

/// Adds a version, unless its text equals that of the current one.
async fn put(
    mut write: Write,
    action: &str,
    domain: &str,
    text: Option<&str>,
    comment: &str,
    restored_from: Option<u64>,
    precondition: Precondition,
) -> Result<Prepared<Rules>> {
    let last = current(&mut write, domain).await?;
    let before = last.as_ref().filter(|rules| rules.text.is_some());
    precondition.check(before.map(|rules| rules.version))?;
    match (before, text) {
        (None, None) => return Err(Error::not_found("rule set", domain)),
        (Some(before), Some(text)) if before.text.as_deref() == Some(text) => {
            return write.unchanged(before.clone()).await;
        }
        _ => {}
    }
    let after = Rules {
        domain: domain.to_owned(),
        version: last.as_ref().map_or(0, |rules| rules.version) + 1,
        text: text.map(str::to_owned),
        author: write.by.actor.clone(),
        comment: comment.to_owned(),
        restored_from,
        created_at: write.by.at,
        revision: write.revision,
    };
    store(&mut write, &[&after]).await?;
    let states = [before, Some(&after).filter(|rules| rules.text.is_some())].map(|rules| rules.map(audited));
    write.prepared(action, "rules", domain, states, after).await
}

/// Adds versions and makes them the current ones. No domain may appear twice.
pub(crate) async fn store(connection: &mut Connection, rules: &[&Rules]) -> Result<()> {
    let rows: Vec<Vec<Arg>> = rules.iter().map(|rules| rules_args(rules)).collect();
    batch::insert(connection, &format!("rule_sets ({RULES})"), &rows, "").await?;
    let rows: Vec<Vec<Arg>> = rules.iter().map(|rules| domain_args(rules)).collect();
    let conflict = " ON CONFLICT (domain) DO UPDATE SET version = excluded.version, \
         deleted = excluded.deleted, revision = excluded.revision";
    batch::insert(connection, "domains (domain, version, deleted, revision)", &rows, conflict).await
}

fn rules_args(rules: &Rules) -> Vec<Arg> {
    vec![
        (&rules.domain).into(),
        rules.version.into(),
        rules.text.as_deref().into(),
        (&rules.author).into(),
        (&rules.comment).into(),
        rules.restored_from.into(),
        rules.created_at.into(),
        rules.revision.into(),
    ]
}

fn domain_args(rules: &Rules) -> Vec<Arg> {
    let deleted = rules.text.is_none();
    vec![(&rules.domain).into(), rules.version.into(), deleted.into(), rules.revision.into()]
}

pub(crate) fn read_rules(row: &Row<'_>) -> Result<Rules> {
    Ok(Rules {
        domain: row.text(0)?,
        version: row.number(1)?,
        text: row.maybe_text(2)?,
        author: row.text(3)?,
        comment: row.text(4)?,
        restored_from: row.maybe_number(5)?,
        created_at: row.time(6)?,
        revision: row.number(7)?,
    })
}

/// Returns a version as the audit trail records it: without the text, which is stored with the version.
fn audited(rules: &Rules) -> serde_json::Value {
    serde_json::json!({
        "version": rules.version,
        "comment": rules.comment,
        "restored_from": rules.restored_from,
    })
}
