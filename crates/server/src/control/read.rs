//! Reads for administrators, from the catalog or from this node's copy while the catalog is unreachable.

use tidegate_catalog::{AuditEntry, AuditFilter, Catalog, Error, Page, Rules, Tenant, TenantFilter, Token};

use super::Control;
use crate::admin::PageQuery;

impl Control {
    async fn read<'a, T, F: Future<Output = Result<T, Error>>>(
        &'a self,
        ask: impl Fn(&'a Catalog) -> F,
    ) -> Result<T, Error> {
        match ask(&self.0.catalog).await {
            Err(Error::Unavailable(_) | Error::Disturbed(_)) if self.0.is_copy => ask(&self.0.local).await,
            answer => answer,
        }
    }

    pub(crate) async fn tenant(&self, name: &str) -> Result<Tenant, Error> {
        self.read(|catalog| catalog.tenant(name)).await
    }

    pub(crate) async fn tenants_page(
        &self,
        filter: &TenantFilter,
        page: &PageQuery,
    ) -> Result<Page<Tenant>, Error> {
        self.read(|catalog| catalog.tenants(filter, page.cursor.as_deref(), page.limit)).await
    }

    /// Returns the rules of a domain, if the catalog has any.
    pub(crate) async fn rules(&self, domain: &str) -> Result<Option<Rules>, Error> {
        present(self.read(|catalog| catalog.rules(domain)).await)
    }

    pub(crate) async fn rules_version(&self, domain: &str, version: u64) -> Result<Option<Rules>, Error> {
        // The copy has no history.
        present(self.0.catalog.rules_version(domain, version).await)
    }

    pub(crate) async fn rule_versions(&self, domain: &str, page: &PageQuery) -> Result<Page<Rules>, Error> {
        self.0.catalog.rule_versions(domain, page.cursor.as_deref(), page.limit).await
    }

    /// Returns the revision of a switch, if it was ever set.
    pub(crate) async fn switch_revision(&self, rule: &str) -> Result<Option<u64>, Error> {
        Ok(present(self.read(|catalog| catalog.switch(rule)).await)?.map(|switch| switch.revision))
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<Token>, Error> {
        self.read(Catalog::tokens).await
    }

    pub(crate) async fn audit(
        &self,
        filter: &AuditFilter,
        page: &PageQuery,
    ) -> Result<Page<AuditEntry>, Error> {
        self.0.catalog.audit(filter, page.cursor.as_deref(), page.limit).await
    }
}

fn present<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
