//! How much of what was before is kept: changes, old versions of rules, and marks of what was deleted.
//!
//! Those marks are how the [feed](crate::Changes) tells of deletions. Whoever is at a version from before
//! one that was purged could miss it, so the catalog's base rises with the purge, in the same transaction:
//! below its base a reader gets everything.

use std::num::NonZeroU32;
use std::ops::AddAssign;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::catalog::Catalog;
use crate::error::Result;
use crate::sql::connection::Connection;
use crate::sql::{Arg, Session, batch};

/// How many rows of each kind a purge removes at once: writers wait for no more than that.
pub const PURGE_ROWS: u64 = 200;
/// The same of versions of rules, which may be long.
pub const PURGE_VERSIONS: u64 = 20;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// So many versions of each domain's rules, the newest; the current one is among them.
    pub versions: NonZeroU32,
    /// For how long changes, deleted tenants and rules, and tokens that have ended; none is for ever.
    pub history: Option<Duration>,
}

/// What a purge has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Marks of tenants that were deleted.
    pub tenants: u64,
    /// Domains whose rules were deleted.
    pub domains: u64,
    /// Tokens that were revoked or had expired.
    pub tokens: u64,
    /// Versions of rules.
    pub versions: u64,
    /// Entries of who changed what.
    pub changes: u64,
}

impl Purged {
    /// Whether there was nothing to remove.
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

/// Deleted tenants; like the next three with the time before which it must have been, and how many at most.
const TENANTS: &str =
    "SELECT name FROM tenants WHERE deleted = 1 AND updated_at < $1 ORDER BY updated_at LIMIT $2";
const TOKENS: &str = "SELECT id FROM tokens WHERE coalesce(revoked_at, expires_at) < $1 \
     ORDER BY coalesce(revoked_at, expires_at) LIMIT $2";
/// Domains whose current version is a deletion.
const DOMAINS: &str = "SELECT d.domain FROM domains d CROSS JOIN rule_sets r \
     WHERE r.domain = d.domain AND r.version = d.version AND d.deleted = 1 AND r.created_at < $1 LIMIT $2";
const CHANGES: &str = "SELECT id FROM audit WHERE at < $1 ORDER BY at, id LIMIT $2";
/// All versions of such domains but the current one.
const VERSIONS_OF_DOMAINS: &str = "SELECT o.domain, o.version FROM domains d CROSS JOIN rule_sets r \
     CROSS JOIN rule_sets o WHERE r.domain = d.domain AND r.version = d.version AND d.deleted = 1 \
     AND r.created_at < $1 AND o.domain = d.domain AND o.version < d.version LIMIT $2";
/// What is found by a time.
pub(crate) const BEFORE: [&str; 5] = [TENANTS, TOKENS, DOMAINS, CHANGES, VERSIONS_OF_DOMAINS];
/// Versions with so many newer ones, of which there are no gaps; and how many at most.
pub(crate) const OLD_VERSIONS: &str = "SELECT r.domain, r.version FROM domains d CROSS JOIN rule_sets r \
     WHERE d.version > $1 AND r.domain = d.domain AND r.version <= d.version - $1 LIMIT $2";

impl Catalog {
    /// Removes some of what need not be kept any longer, at most [`PURGE_ROWS`] of each kind and
    /// [`PURGE_VERSIONS`] of rules: call it until it finds nothing. Where there is nothing it waits for no writer, and no writer for it. Many nodes may
    /// do it at once.
    ///
    /// # Errors
    ///
    /// If the database fails; then nothing was removed.
    pub async fn purge(&self, retention: &Retention, now: Timestamp) -> Result<Purged> {
        let before = retention.history.and_then(|history| start(now, history));
        let keep = i64::from(retention.versions.get());
        self.within(async {
            if !self.has_old(before, keep).await? {
                return Ok(Purged::default());
            }
            let mut write = Session::write(&self.pool).await?;
            // As every writer does: so nothing that is found below comes back to life meanwhile.
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

    /// Whether there is anything to remove.
    async fn has_old(&self, before: Option<Timestamp>, keep: i64) -> Result<bool> {
        let mut questions = vec![(OLD_VERSIONS, Arg::from(keep))];
        if let Some(before) = before {
            questions.extend([TENANTS, TOKENS, DOMAINS, CHANGES].map(|sql| (sql, before.into())));
        }
        let mut read = self.read().await?;
        let mut found = false;
        for (sql, arg) in questions {
            found = found || !read.rows(sql, &[arg, 1_i64.into()], |_| Ok(())).await?.is_empty();
        }
        read.done().await;
        Ok(found)
    }
}

/// The first moment of which something is kept; none if that is before all time.
fn start(now: Timestamp, history: Duration) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::try_from(history).ok()?).ok()
}

async fn purge_before(write: &mut Connection, before: Timestamp, purged: &mut Purged) -> Result<()> {
    let tenants = remove(write, "tenants", "name", TENANTS, before).await?;
    let tokens = remove(write, "tokens", "id", TOKENS, before).await?;
    let versions = remove_versions(write, VERSIONS_OF_DOMAINS, before).await?;
    // Only those of which the last version is all that is left.
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

/// Removes the rows of a table that are found by their names; gives those names and revisions.
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
