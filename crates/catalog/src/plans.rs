//! The query plans of statements that may concern many rows, for tests.

use jiff::Timestamp;

use crate::catalog::Catalog;
use crate::error::Result;
use crate::sql::Arg;
use crate::tenant::table::{self as tenants, TenantFilter};
use crate::{AuditFilter, audit, feed, retention, rules};

impl Catalog {
    /// Returns each statement with the lines of its query plan.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    #[doc(hidden)]
    pub async fn plans(&self, since: u64, at: Timestamp) -> Result<Vec<(String, Vec<String>)>> {
        let mut plans = Vec::new();
        let mut read = self.read().await?;
        let (word, column) = if read.is_postgres() { ("EXPLAIN", 0) } else { ("EXPLAIN QUERY PLAN", 3) };
        for (sql, args) in statements(since, at)? {
            let lines = read.rows(format!("{word} {sql}"), &args, |row| row.text(column)).await?;
            plans.push((sql, lines));
        }
        read.done().await;
        Ok(plans)
    }
}

fn statements(since: u64, at: Timestamp) -> Result<Vec<(String, Vec<Arg>)>> {
    let mut found = Vec::new();
    let some = |text: &str| Some(text.to_owned());
    for (tier, prefix, after) in [
        (None, None, None),
        (None, None, Some("tenant-5")),
        (None, some("tenant-77"), None),
        (some("pro"), None, None),
        (some("pro"), some("tenant-77"), Some("tenant-771")),
    ] {
        found.push(tenants::listing(&TenantFilter { tier, prefix }, after, 50)?);
    }
    found.push((tenants::TURNED.to_owned(), vec![at.into(), at.into()]));
    found.push((tenants::NEXT_TURN.to_owned(), vec![at.into()]));
    found.extend(feed::statements(false).map(|sql| (sql, vec![since.into()])));
    found.push((rules::versions_sql(), vec!["domain".into(), i64::MAX.into(), 50_i64.into()]));
    for sql in retention::BEFORE {
        found.push((sql.to_owned(), vec![at.into(), 50_i64.into()]));
    }
    found.push((retention::OLD_VERSIONS.to_owned(), vec![50_i64.into(), 50_i64.into()]));
    let filter = AuditFilter::default;
    for filter in [
        filter(),
        AuditFilter { actor: some("actor-7"), ..filter() },
        AuditFilter { action: some("put_rules"), ..filter() },
        AuditFilter { object_kind: some("tenant"), object: some("tenant-77"), ..filter() },
        AuditFilter { from: Some(at), to: Some(at), ..filter() },
    ] {
        let key = format!("{} 1", at.as_microsecond());
        for after in [None, Some(key.as_str())] {
            found.push(audit::listing(&filter, after, 50)?);
        }
    }
    Ok(found)
}
