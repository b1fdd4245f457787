//! Removes history from the catalog that need not be kept any longer.
//!
//! Every node does it: that is harmless where many share a catalog, and no leader is needed.

use std::time::Duration;

use jiff::Timestamp;
use tidegate_catalog::{Catalog, Error, Purged};
use tokio::time::sleep;

use super::Control;

/// How often history is purged.
const INTERVAL: Duration = Duration::from_hours(1);
/// How soon a purge that failed is retried.
const RETRY: Duration = Duration::from_mins(5);
/// The pause between two steps, for writers that wait.
const PAUSE: Duration = Duration::from_millis(50);

impl Control {
    pub(super) async fn run_purges(self) {
        loop {
            let purged = self.purge(self.now()).await;
            if let Err(error) = &purged {
                tracing::warn!(%error, "the catalog's history was not purged; it will be retried");
            }
            sleep(if purged.is_ok() { INTERVAL } else { RETRY }).await;
        }
    }

    async fn purge(&self, now: Timestamp) -> Result<(), Error> {
        self.purge_all(&self.0.catalog, now).await?;
        // The only old items in a copy are tokens that ended.
        if self.0.is_copy {
            self.purge_all(&self.0.local, now).await?;
        }
        Ok(())
    }

    /// Purges in small steps, each of which delays writers for a moment only.
    async fn purge_all(&self, catalog: &Catalog, now: Timestamp) -> Result<(), Error> {
        let mut all = Purged::default();
        loop {
            let purged = catalog.purge(&self.0.retention, now).await?;
            if purged.is_empty() {
                break;
            }
            all += purged;
            sleep(PAUSE).await;
        }
        if !all.is_empty() {
            let Purged { tenants, domains, tokens, versions, changes } = all;
            tracing::info!(tenants, domains, tokens, versions, changes, "the catalog's history was purged");
        }
        Ok(())
    }
}
