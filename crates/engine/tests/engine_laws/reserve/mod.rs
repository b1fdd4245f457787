//! Estimates that are charged now and put right later.

mod budget;
mod memory;
#[cfg(feature = "redis")]
mod nodes;
#[cfg(feature = "redis")]
mod recovery;
mod windows;

use std::time::Duration;

use tidegate::{Limiter, Request, Reservation, Reserved, Settled};

pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// Reserves in memory what must be there.
#[track_caller]
pub(crate) fn reserve(limiter: &Limiter, request: &Request<'_>) -> Reservation {
    match limiter.reserve_now(request, MINUTE).expect("there is room to keep it") {
        Reserved::Reservation(reservation) => reservation,
        Reserved::Denied(decision) => panic!("{decision}"),
    }
}

/// Settles in memory what must be there.
#[track_caller]
pub(crate) fn settle(limiter: &Limiter, reservation: &Reservation, cost: u64) -> Settled {
    limiter.settle_now(&reservation.id.to_string(), cost).expect("it was not settled yet")
}

/// What is left of each limit after a settlement.
pub(crate) fn remaining(settled: &Settled) -> Vec<u64> {
    settled.decision.limits().map(|limit| limit.remaining).collect()
}
