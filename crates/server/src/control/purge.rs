//! Now and then, what the catalog need not keep any longer goes.
//!
//! Every node does it: that is harmless where many share a catalog, and needs none of them to be chosen.

use std::time::Duration;

use jiff::Timestamp;
use tidegate_catalog::{Catalog, Error, Purged};
use tokio::time::sleep;

use super::Control;

/// How often there is a look.
const EVERY: Duration = Duration::from_hours(1);
/// How soon after one that failed there is another.
const AGAIN: Duration = Duration::from_mins(5);
/// Between two steps, for those who wait to write.
const PAUSE: Duration = Duration::from_millis(50);

impl Control {
    pub(super) async fn keep_tidy(self) {
        loop {
            let purged = self.purge(self.now()).await;
            if let Err(error) = &purged {
                tracing::warn!(%error, "the catalog's history was not purged; it is tried again");
            }
            sleep(if purged.is_ok() { EVERY } else { AGAIN }).await;
        }
    }

    async fn purge(&self, now: Timestamp) -> Result<(), Error> {
        self.purge_all(&self.0.catalog, now).await?;
        // A copy has tokens that ended, and nothing else that is old.
        if self.0.is_copy {
            self.purge_all(&self.0.local, now).await?;
        }
        Ok(())
    }

    /// Step by step: each keeps writers waiting for a moment only.
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
