//! A store that is shared by reference.

use std::sync::Arc;

use crate::charge::{Charge, Corrected, Correction, Grant, Intent, Timed, Verdicts};
use crate::{Store, StoreError};

impl<S: Store> Store for Arc<S> {
    async fn settle(&self, charges: &[Charge<'_>], intent: Intent) -> Result<Verdicts, StoreError> {
        (**self).settle(charges, intent).await
    }

    async fn settle_timed(&self, charges: &[Charge<'_>]) -> Result<Timed, StoreError> {
        (**self).settle_timed(charges).await
    }

    async fn take_up_to(&self, charge: &Charge<'_>) -> Result<Grant, StoreError> {
        (**self).take_up_to(charge).await
    }

    async fn correct(&self, corrections: &[(Charge<'_>, Correction)]) -> Corrected {
        (**self).correct(corrections).await
    }

    async fn give_back(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        (**self).give_back(charges).await
    }

    async fn renew(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        (**self).renew(slot).await
    }

    async fn release(&self, slot: &Charge<'_>) -> Result<bool, StoreError> {
        (**self).release(slot).await
    }
}
