//! A permit that is held until a response has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::decider::Permit;

/// How many times a permit is renewed within its timeout.
const RENEWALS: u32 = 3;

const LEAST_WAIT: Duration = Duration::from_millis(10);

/// A permit that is renewed until it is dropped.
pub(crate) struct RenewedPermit {
    /// The only strong reference that is kept: dropping it returns the slots.
    _permit: Arc<Permit>,
    renewing: Option<AbortHandle>,
}

impl RenewedPermit {
    pub(crate) fn new(permit: Permit) -> Self {
        let timeout = permit.timeout();
        let permit = Arc::new(permit);
        let renewing = timeout.map(|timeout| {
            let weak = Arc::downgrade(&permit);
            let renew = async move {
                loop {
                    tokio::time::sleep((timeout / RENEWALS).max(LEAST_WAIT)).await;
                    let Some(permit) = weak.upgrade() else { return };
                    if !permit.renew().await {
                        tracing::warn!("a permit was lost before its response had ended");
                        return;
                    }
                }
            };
            tokio::spawn(renew).abort_handle()
        });
        Self { _permit: permit, renewing }
    }
}

impl Drop for RenewedPermit {
    fn drop(&mut self) {
        if let Some(renewing) = &self.renewing {
            renewing.abort();
        }
    }
}
