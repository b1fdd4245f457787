//! How long the history is kept: audit entries, old versions of rules, and rows of deleted objects.
//!
//! The [feed](crate::Changes) reports deletions from the rows of deleted objects. A reader at an older
//! version would miss a deletion whose row was purged. So the purge raises the base of the catalog in the
//! same transaction: a reader below the base gets the full contents.

use std::num::NonZeroU32;
use std::ops::AddAssign;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::catalog::Catalog;
use crate::error::Result;
use crate::sql::connection::Connection;
use crate::sql::{Arg, Session, batch};

/// The most rows of each kind that one purge removes, so that other writers do not wait long.
pub const PURGE_ROWS: u64 = 200;
/// The most versions of rules that one purge removes. There are fewer than of other rows because they may be
/// long.
pub const PURGE_VERSIONS: u64 = 20;

/// How much of the history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How many versions of each domain's rules are kept, the newest ones, including the current one.
    pub versions: NonZeroU32,
    /// How long audit entries, deleted tenants and rules, and revoked or expired tokens are kept; `None` for
    /// ever.
    pub history: Option<Duration>,
}

/// The number of rows that a purge has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Deleted tenants.
    pub tenants: u64,
    /// Domains whose rules were deleted.
    pub domains: u64,
    /// Revoked or expired tokens.
    pub tokens: u64,
    /// Versions of rules.
    pub versions: u64,
    /// Audit entries.
    pub changes: u64,
}

impl Purged {
    /// Returns whether there was nothing to remove.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Purged {
    fn add_assign(&mut self, more: Self) {
        self.tenants += more.tenants;
        self.domains += more.domains;
        self.tokens += more.tokens;
        self.versions += more.versions;
        self.changes += more.changes;
    }
}

/// Selects deleted tenants. `$1` is the time before which they were deleted, `$2` the most rows.
const TENANTS: &str =
    "SELECT name FROM tenants WHERE deleted = 1 AND updated_at < $1 ORDER BY updated_at LIMIT $2";
/// Selects tokens that were revoked or expired before `$1`, at most `$2`.
const TOKENS: &str = "SELECT id FROM tokens WHERE coalesce(revoked_at, expires_at) < $1 \
     ORDER BY coalesce(revoked_at, expires_at) LIMIT $2";
/// Selects domains whose rules were deleted before `$1`, at most `$2`.
const DOMAINS: &str = "SELECT d.domain FROM domains d CROSS JOIN rule_sets r \
     WHERE r.domain = d.domain AND r.version = d.version AND d.deleted = 1 AND r.created_at < $1 LIMIT $2";
/// Selects audit entries from before `$1`, at most `$2`.
const CHANGES: &str = "SELECT id FROM audit WHERE at < $1 ORDER BY at, id LIMIT $2";
/// Selects all versions but the current one of domains whose rules were deleted before `$1`, at most `$2`.
const VERSIONS_OF_DOMAINS: &str = "SELECT o.domain, o.version FROM domains d CROSS JOIN rule_sets r \
     CROSS JOIN rule_sets o WHERE r.domain = d.domain AND r.version = d.version AND d.deleted = 1 \
     AND r.created_at < $1 AND o.domain = d.domain AND o.version < d.version LIMIT $2";
/// The statements that select rows by time.
pub(crate) const BEFORE: [&str; 5] = [TENANTS, TOKENS, DOMAINS, CHANGES, VERSIONS_OF_DOMAINS];
/// Selects versions of rules that have at least `$1` newer ones, at most `$2`. Versions have no gaps.
pub(crate) const OLD_VERSIONS: &str = "SELECT r.domain, r.version FROM domains d CROSS JOIN rule_sets r \
     WHERE d.version > $1 AND r.domain = d.domain AND r.version <= d.version - $1 LIMIT $2";

impl Catalog {
    /// Removes history that need not be kept any longer, at most [`PURGE_ROWS`] rows of each kind and
    /// [`PURGE_VERSIONS`] versions of rules. Call it until the result is empty. If there is nothing to
    /// remove, it does not lock out writers. Many nodes may do this at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. Then nothing was removed.
    pub async fn purge(&self, retention: &Retention, now: Timestamp) -> Result<Purged> {
        let before = retention.history.and_then(|history| start(now, history));
        let keep = i64::from(retention.versions.get());
        self.within(async {
            if !self.has_old(before, keep).await? {
                return Ok(Purged::default());
            }
            let mut write = Session::write(&self.pool).await?;
            // Locks out other writers, so that nothing that is selected below is put again in the meantime.
            write.execute("UPDATE catalog SET base = base", &[]).await?;
            let mut purged = Purged {
                versions: remove_versions(&mut write, OLD_VERSIONS, keep).await?,
                ..Purged::default()
            };
            if let Some(before) = before {
                purge_before(&mut write, before, &mut purged).await?;
            }
            write.commit().await?;
            Ok(purged)
        })
        .await
    }

    /// Returns whether there is anything to remove.
    async fn has_old(&self, before: Option<Timestamp>, keep: i64) -> Result<bool> {
        let mut queries = vec![(OLD_VERSIONS, Arg::from(keep))];
        if let Some(before) = before {
            queries.extend([TENANTS, TOKENS, DOMAINS, CHANGES].map(|sql| (sql, before.into())));
        }
        let mut read = self.read().await?;
        let mut found = false;
        for (sql, arg) in queries {
            found = found || !read.rows(sql, &[arg, 1_i64.into()], |_| Ok(())).await?.is_empty();
        }
        read.done().await;
        Ok(found)
    }
}

/// Returns the time before which history is removed, or `None` if that is before the earliest timestamp.
fn start(now: Timestamp, history: Duration) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::try_from(history).ok()?).ok()
}

async fn purge_before(write: &mut Connection, before: Timestamp, purged: &mut Purged) -> Result<()> {
    let tenants = remove(write, "tenants", "name", TENANTS, before).await?;
    let tokens = remove(write, "tokens", "id", TOKENS, before).await?;
    let versions = remove_versions(write, VERSIONS_OF_DOMAINS, before).await?;
    // Only domains of which nothing but the last version is left.
    let domains = if versions < PURGE_VERSIONS {
        remove(write, "domains", "domain", DOMAINS, before).await?
    } else {
        vec![]
    };
    let names: Vec<Arg> = domains.iter().map(|(name, _)| name.into()).collect();
    batch::delete(write, "rule_sets", "domain", &names).await?;
    let revisions = [&tenants, &tokens, &domains].into_iter().flatten().map(|(_, revision)| *revision);
    if let Some(newest) = revisions.max() {
        write.execute("UPDATE catalog SET base = $1 WHERE base < $1", &[newest.into()]).await?;
    }
    let sql = format!("DELETE FROM audit WHERE id IN ({CHANGES})");
    purged.changes = write.execute(sql, &[before.into(), PURGE_ROWS.into()]).await?;
    purged.versions += versions;
    purged.tenants = tenants.len() as u64;
    purged.tokens = tokens.len() as u64;
    purged.domains = domains.len() as u64;
    Ok(())
}

/// Removes the rows of `table` whose `name` column is selected by `found`. Returns their names and revisions.
async fn remove(
    write: &mut Connection,
    table: &str,
    name: &str,
    found: &str,
    before: Timestamp,
) -> Result<Vec<(String, u64)>> {
    let sql = format!("DELETE FROM {table} WHERE {name} IN ({found}) RETURNING {name}, revision");
    let args = [before.into(), PURGE_ROWS.into()];
    write.rows(sql, &args, |row| Ok((row.text(0)?, row.number(1)?))).await
}

async fn remove_versions(write: &mut Connection, found: &str, arg: impl Into<Arg>) -> Result<u64> {
    let sql = format!("DELETE FROM rule_sets WHERE (domain, version) IN ({found})");
    write.execute(sql, &[arg.into(), PURGE_VERSIONS.into()]).await
}
