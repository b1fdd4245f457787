//! How tenants are stored.

use jiff::Timestamp;

use super::draft::{Checked, TenantDraft};
use super::{Allowance, Numbers, Override, Tenant, Unit, Window};
use crate::catalog::{Catalog, Write};
use crate::error::{Error, Result};
use crate::page::{self, Page};
use crate::sql::connection::{Connection, unexpected};
use crate::sql::{Arg, Listing, Row, batch};
use crate::{By, Precondition, name};

pub(crate) const TENANT: &str = "name, tier, deleted, updated_at, revision";
pub(crate) const OVERRIDE: &str = "tenant, domain, descriptor, limit_name, unlimited, requests, unit, \
     duration_us, burst, algorithm, effective_at, expires_at, created_at";

/// Which tenants to list. All conditions that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantFilter {
    /// Only tenants of this tier.
    pub tier: Option<String>,
    /// Only tenants whose name begins with this text.
    pub prefix: Option<String>,
}

/// A row of the table `tenants`. The overrides of the tenant are not filled in yet.
pub(crate) struct TenantRow {
    pub(crate) tenant: Tenant,
    pub(crate) deleted: bool,
}

impl Catalog {
    /// Creates a tenant or replaces it as a whole, and returns it.
    ///
    /// # Errors
    ///
    /// Returns an error if the draft is invalid, the precondition does not hold, or the database fails.
    pub async fn put_tenant(
        &self,
        name: &str,
        draft: &TenantDraft,
        precondition: Precondition,
        by: &By,
    ) -> Result<Tenant> {
        name::check("tenant", name)?;
        let checked = draft.checked()?;
        self.change(|| async {
            let mut write = self.begin(by).await?;
            let before = find(&mut write, name).await?;
            let after = dated(name, checked.clone(), before.as_ref(), &write);
            // An invalid draft is reported whether or not the precondition holds.
            check_ends(&after, before.as_ref(), write.by.at)?;
            precondition.check(before.as_ref().map(|tenant| tenant.revision))?;
            if let Some(before) = before.as_ref().filter(|before| has_equal_content(before, &after)) {
                return write.unchanged(before.clone()).await;
            }
            store(&mut write, &[&after]).await?;
            let states = [audited(before.as_ref()), audited(Some(&after))];
            write.prepared("put_tenant", "tenant", name, states, after).await
        })
        .await
    }

    /// Deletes a tenant and all its overrides, and returns the revision of the deletion.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such tenant, the precondition does not hold, or the database fails.
    pub async fn delete_tenant(&self, name: &str, precondition: Precondition, by: &By) -> Result<u64> {
        name::check("tenant", name)?;
        self.change(|| async {
            let mut write = self.begin(by).await?;
            let before = find(&mut write, name).await?;
            precondition.check(before.as_ref().map(|tenant| tenant.revision))?;
            let before = before.ok_or_else(|| Error::not_found("tenant", name))?;
            let revision = write.revision;
            let args: [Arg; 3] = [name.into(), revision.into(), write.by.at.into()];
            write.execute("DELETE FROM overrides WHERE tenant = $1", &args[..1]).await?;
            let sql =
                "UPDATE tenants SET deleted = 1, tier = NULL, revision = $2, updated_at = $3 WHERE name = $1";
            write.execute(sql, &args).await?;
            let states = [audited(Some(&before)), None];
            write.prepared("delete_tenant", "tenant", name, states, revision).await
        })
        .await
    }

    /// Returns a tenant.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such tenant, or the database fails.
    pub async fn tenant(&self, name: &str) -> Result<Tenant> {
        name::check("tenant", name)?;
        let found = self.within(async {
            loop {
                let mut read = self.snapshot().await?;
                let found = find(&mut read, name).await?;
                if read.done().await? {
                    return Ok(found);
                }
            }
        });
        found.await?.ok_or_else(|| Error::not_found("tenant", name))
    }

    /// Lists tenants, sorted by the bytes of their names. `cursor` is the [`next`](Page::next) of the
    /// previous page, or `None` for the first one.
    ///
    /// # Errors
    ///
    /// Returns an error if the cursor is invalid, or the database fails.
    pub async fn tenants(
        &self,
        filter: &TenantFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Tenant>> {
        let size = page::size(limit);
        let (sql, args) = listing(filter, page::key(cursor)?.as_deref(), size)?;
        self.within(async {
            loop {
                let mut read = self.snapshot().await?;
                let rows = read.rows(sql.clone(), &args, read_tenant).await?;
                let mut page = Page::of(rows, size, |row| row.tenant.name.clone());
                let tenants = with_overrides(&mut read, std::mem::take(&mut page.items)).await?;
                if read.done().await? {
                    return Ok(Page { items: tenants, next: page.next });
                }
            }
        })
        .await
    }

    /// Returns the names of the tenants that have an override which begins or ends after `from` and not after
    /// `to`.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn tenants_turned(&self, from: Timestamp, to: Timestamp) -> Result<Vec<String>> {
        self.within(async {
            let mut read = self.read().await?;
            let names = read.rows(TURNED, &[from.into(), to.into()], |row| row.text(0)).await?;
            read.done().await;
            Ok(names)
        })
        .await
    }

    /// Returns the next time after `after` at which an override begins or ends, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub async fn next_turn(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.within(async {
            let mut read = self.read().await?;
            let next = read.row(NEXT_TURN, &[after.into()], |row| row.maybe_time(0)).await?;
            read.done().await;
            Ok(next.flatten())
        })
        .await
    }
}

pub(crate) const TURNED: &str = "SELECT tenant FROM overrides \
     WHERE effective_at IS NOT NULL AND effective_at > $1 AND effective_at <= $2 \
     UNION SELECT tenant FROM overrides \
     WHERE expires_at IS NOT NULL AND expires_at > $1 AND expires_at <= $2 ORDER BY 1";
pub(crate) const NEXT_TURN: &str = "SELECT min(turn) FROM (\
     SELECT min(effective_at) AS turn FROM overrides WHERE effective_at IS NOT NULL AND effective_at > $1 \
     UNION ALL SELECT min(expires_at) FROM overrides WHERE expires_at IS NOT NULL AND expires_at > $1) AS turns";

/// Returns the query for a page of tenants. Prefixes are bounds instead of patterns, so that the database
/// reads a range of an index whatever the filter.
pub(crate) fn listing(filter: &TenantFilter, after: Option<&str>, size: usize) -> Result<(String, Vec<Arg>)> {
    let mut listing = Listing::new(format!("SELECT {TENANT} FROM tenants WHERE deleted = 0"));
    if let Some(tier) = filter.tier.as_deref() {
        name::check("tier", tier)?;
        listing.and("tier =", tier);
    }
    let prefix = filter.prefix.as_deref().filter(|prefix| !prefix.is_empty());
    if let Some(prefix) = prefix {
        name::check("prefix", prefix)?;
        if let Some(end) = after_all_with(prefix) {
            listing.and("name <", end.as_str());
        }
    }
    match (after, prefix) {
        (Some(after), prefix) if prefix.is_none_or(|prefix| after >= prefix) => listing.and("name >", after),
        (_, Some(prefix)) => listing.and("name >=", prefix),
        _ => {}
    }
    listing.push("ORDER BY name LIMIT");
    listing.arg(page::fetch_size(size));
    Ok(listing.done())
}

/// Returns the smallest name that is greater than all names with this prefix, or `None` if there is none.
fn after_all_with(prefix: &str) -> Option<String> {
    let mut letters: Vec<char> = prefix.chars().collect();
    while let Some(last) = letters.pop() {
        // A range of `char` skips the surrogates, which are not characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
}

pub(crate) async fn find(connection: &mut Connection, name: &str) -> Result<Option<Tenant>> {
    let sql = format!("SELECT {TENANT} FROM tenants WHERE name = $1");
    let row = connection.row(sql, &[name.into()], read_tenant).await?;
    let Some(TenantRow { mut tenant, deleted: false }) = row else { return Ok(None) };
    let sql = format!("SELECT {OVERRIDE} FROM overrides WHERE tenant = $1 ORDER BY position");
    let overrides = connection.rows(sql, &[name.into()], read_override).await?;
    tenant.overrides = overrides.into_iter().map(|(_, each)| each).collect();
    Ok(Some(tenant))
}

async fn with_overrides(connection: &mut Connection, rows: Vec<TenantRow>) -> Result<Vec<Tenant>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<Arg> = rows.iter().map(|row| (&row.tenant.name).into()).collect();
    let marks = batch::marks(1, names.len());
    let sql = format!("SELECT {OVERRIDE} FROM overrides WHERE tenant IN ({marks}) ORDER BY tenant, position");
    let overrides = connection.rows(sql, &names, read_override).await?;
    Ok(join(rows.into_iter().map(|row| row.tenant).collect(), overrides))
}

/// Adds the overrides to their tenants. Both must be sorted by the names of the tenants. Every override has its
/// tenant, except in a state that is [read again](Catalog::snapshot) anyway.
pub(crate) fn join(mut tenants: Vec<Tenant>, overrides: Vec<(String, Override)>) -> Vec<Tenant> {
    let mut rest = overrides.into_iter().peekable();
    for tenant in &mut tenants {
        while let Some((_, each)) = rest.next_if(|(name, _)| *name == tenant.name) {
            tenant.overrides.push(each);
        }
    }
    tenants
}

/// Replaces what is stored of these tenants. No tenant may appear twice.
pub(crate) async fn store(connection: &mut Connection, tenants: &[&Tenant]) -> Result<()> {
    let rows: Vec<Vec<Arg>> = tenants.iter().map(|tenant| tenant_args(tenant)).collect();
    let conflict = " ON CONFLICT (name) DO UPDATE SET tier = excluded.tier, deleted = excluded.deleted, \
         updated_at = excluded.updated_at, revision = excluded.revision";
    batch::insert(connection, &format!("tenants ({TENANT})"), &rows, conflict).await?;
    let names: Vec<Arg> = tenants.iter().map(|tenant| (&tenant.name).into()).collect();
    batch::delete(connection, "overrides", "tenant", &names).await?;
    let rows: Vec<Vec<Arg>> = tenants.iter().flat_map(|tenant| all_override_args(tenant)).collect();
    batch::insert(connection, &format!("overrides ({OVERRIDE}, position)"), &rows, "").await
}

fn tenant_args(tenant: &Tenant) -> Vec<Arg> {
    let tier = tenant.tier.as_deref().into();
    vec![(&tenant.name).into(), tier, false.into(), tenant.updated_at.into(), tenant.revision.into()]
}

fn all_override_args(tenant: &Tenant) -> impl Iterator<Item = Vec<Arg>> {
    (0_i64..).zip(&tenant.overrides).map(|(position, each)| override_args(&tenant.name, position, each))
}

fn override_args(tenant: &str, position: i64, each: &Override) -> Vec<Arg> {
    let numbers = match &each.allowance {
        Allowance::Unlimited => None,
        Allowance::Limited(numbers) => Some(numbers),
    };
    let (unit, duration_us) = match numbers.and_then(|numbers| numbers.window) {
        None => (None, None),
        Some(Window::Unit(unit)) => (Some(unit.name()), None),
        Some(Window::DurationUs(us)) => (None, Some(us)),
    };
    vec![
        tenant.into(),
        each.domain.as_deref().into(),
        each.descriptor.to_string().as_str().into(),
        each.limit.as_deref().into(),
        numbers.is_none().into(),
        numbers.map(|numbers| numbers.requests).into(),
        unit.into(),
        duration_us.into(),
        numbers.and_then(|numbers| numbers.burst).into(),
        numbers.and_then(|numbers| numbers.algorithm.as_deref()).into(),
        each.effective_at.into(),
        each.expires_at.into(),
        each.created_at.into(),
        position.into(),
    ]
}

pub(crate) fn read_tenant(row: &Row<'_>) -> Result<TenantRow> {
    let tenant = Tenant {
        name: row.text(0)?,
        tier: row.maybe_text(1)?,
        overrides: Vec::new(),
        updated_at: row.time(3)?,
        revision: row.number(4)?,
    };
    Ok(TenantRow { tenant, deleted: row.flag(2)? })
}

pub(crate) fn read_override(row: &Row<'_>) -> Result<(String, Override)> {
    let descriptor = row.text(2)?;
    let window = match (row.maybe_text(6)?, row.maybe_number(7)?) {
        (Some(unit), _) => Some(Window::Unit(Unit::named(&unit).ok_or_else(|| unexpected(6, &unit))?)),
        (None, us) => us.map(Window::DurationUs),
    };
    let allowance = if row.flag(4)? {
        Allowance::Unlimited
    } else {
        let requests = row.number(5)?;
        let numbers =
            Numbers { requests, window, burst: row.maybe_number(8)?, algorithm: row.maybe_text(9)? };
        Allowance::Limited(numbers)
    };
    let each = Override {
        domain: row.maybe_text(1)?,
        descriptor: descriptor.parse().map_err(|_| unexpected(2, &descriptor))?,
        limit: row.maybe_text(3)?,
        allowance,
        effective_at: row.maybe_time(10)?,
        expires_at: row.maybe_time(11)?,
        created_at: row.time(12)?,
    };
    Ok((row.text(0)?, each))
}

/// Returns the new state of a tenant. Overrides that existed before keep their `created_at`.
fn dated(name: &str, checked: Checked, before: Option<&Tenant>, write: &Write) -> Tenant {
    let known = before.map_or(&[][..], |before| &before.overrides);
    let mut overrides = checked.overrides;
    for each in &mut overrides {
        let same = known.iter().find(|known| known.equals_undated(each));
        each.created_at = same.map_or(write.by.at, |same| same.created_at);
    }
    Tenant {
        name: name.to_owned(),
        tier: checked.tier,
        overrides,
        revision: write.revision,
        updated_at: write.by.at,
    }
}

/// Rejects a new override that has ended already: it would never apply, so it must be a mistake. Overrides
/// that existed before are accepted.
fn check_ends(after: &Tenant, before: Option<&Tenant>, now: Timestamp) -> Result<()> {
    let known = before.map_or(&[][..], |before| &before.overrides);
    let is_new = |each: &Override| !known.iter().any(|known| known.equals_undated(each));
    let ended = |each: &Override| each.expires_at.filter(|end| *end <= now);
    let mut drafts = after.overrides.iter().enumerate().filter(|(_, each)| is_new(each));
    match drafts.find_map(|(index, each)| Some((index, ended(each)?))) {
        None => Ok(()),
        Some((index, end)) => {
            let reason = format!("must be in the future, got {end}: such an override would never apply");
            Err(Error::invalid(format!("overrides[{index}].expires_at"), reason))
        }
    }
}

fn has_equal_content(one: &Tenant, other: &Tenant) -> bool {
    one.tier == other.tier && one.overrides == other.overrides
}

/// Returns the state of a tenant as the audit trail records it.
fn audited(tenant: Option<&Tenant>) -> Option<serde_json::Value> {
    let tenant = tenant?;
    Some(serde_json::json!({ "tier": tenant.tier, "overrides": tenant.overrides }))
}
