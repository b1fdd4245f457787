//! Reservations: charge the estimated cost of a request, and settle the real cost later.
//!
//! The estimate is charged at once, so that other requests find it taken. Settling gives the rest back to the
//! counters it was taken from, or charges the difference, even if that does not fit.
//!
//! - `id`: the IDs of reservations
//! - `record`: the stored data of a reservation
//! - `book`: the reservations of this process
//! - `share`: how many reservations one holder may have in the shared store
//! - `shared`: the reservations in the shared store

mod book;
mod id;
mod record;
mod share;
mod shared;

use std::cmp::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;
use tidegate_core::{Key, Micros, Taken};
use tidegate_stores::{Charge, Correction, Intent, StoreError};

pub(crate) use self::book::Book;
use self::book::Holder;
pub use self::id::ReservationId;
use self::record::{Home, MOST_BYTES, Record, bytes_of};
use crate::decision::{Charged, Decision, Item, Source};
use crate::inline::InlineLimits;
use crate::limiter::{Inner, Limiter};
use crate::plan::{Plan, Scope};
use crate::request::Request;
use crate::rules::limit_spec::LimitSpec;
use crate::rules::tree::RuleSet;

/// The default maximum number of reservations in one process.
pub(crate) const DEFAULT_MAX_RESERVATIONS: usize = 1_000_000;

/// The result of a reservation.
#[derive(Debug)]
pub enum Reserved {
    /// The estimate was charged.
    Reservation(Reservation),
    /// The request was denied: a limit has no room for the estimate. Nothing was charged.
    Denied(Decision),
}

/// A charged estimate that is to be settled.
#[derive(Debug)]
pub struct Reservation {
    /// The ID of the reservation, for [`Limiter::settle`].
    pub id: ReservationId,
    /// When the reservation expires. From then on it cannot be settled, and the estimate stays charged.
    pub expires_at: Micros,
    /// The decision on the estimate.
    pub decision: Decision,
}

/// The result of settling a reservation.
#[derive(Debug)]
pub struct Settled {
    /// The units that were charged when the reservation was made.
    pub estimate: u64,
    /// The units that are charged now.
    pub cost: u64,
    /// The limits after settling.
    pub decision: Decision,
}

/// Reasons why nothing could be reserved. Nothing was charged then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// Too many reservations are not settled yet.
    #[error("{most} reservations wait to be settled already; settle them sooner, or let them expire sooner")]
    Full {
        /// The maximum number of reservations.
        most: usize,
    },
    /// Too many reservations with the same descriptors are not settled yet.
    #[error(
        "{count} reservations of these descriptors wait to be settled, which is their share; settle them sooner, or let them expire sooner"
    )]
    FullOfHolder {
        /// The number of reservations with these descriptors.
        count: usize,
    },
    /// Too many reservations of the domain are not settled yet.
    #[error(
        "{count} reservations of this domain wait to be settled, which is its share; settle them sooner, or let them expire sooner"
    )]
    FullOfDomain {
        /// The number of reservations of the domain.
        count: usize,
    },
    /// The texts of all reservations that are not settled yet take too many bytes.
    #[error(
        "reservations that wait to be settled take {most} bytes already; settle them sooner, or let them expire sooner"
    )]
    FullOfBytes {
        /// The maximum number of bytes.
        most: usize,
    },
    /// The texts of the request are too long to be stored.
    #[error(
        "the descriptors of a reservation are kept until it is settled and may take {most} bytes, got {bytes}; send fewer or shorter ones, such as hashes of long values"
    )]
    TooLarge {
        /// The number of bytes that they would take.
        bytes: usize,
        /// The maximum number of bytes.
        most: usize,
    },
    /// The system has no random bytes for an ID.
    #[error("the system has no random bytes to name a reservation: {0}")]
    NoName(getrandom::Error),
}

/// Reasons why a reservation was not settled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettleError {
    /// The shared store failed. The reservation may still exist, and can be settled later if it does.
    #[error("the reservation was not settled: {0}; try again")]
    Store(#[from] StoreError),
}

impl Limiter {
    /// Charges the estimated cost of a request, to be settled with [`Limiter::settle`] when the real cost is known.
    /// All of its limits are charged, or none of them if one denies. After `lifetime` the estimate stays charged.
    ///
    /// Descriptors with a cost of their own are charged that cost. Settling does not change them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Domain, Limiter, Request, Reserved, Rule, per_minute};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tokens = Domain::new("llm").rule(Rule::by("team").limit(per_minute(10_000)));
    /// let limiter = Limiter::builder().domain(tokens).build()?;
    ///
    /// let estimate = Request::new("llm", [("team", "search")]).cost(4_000);
    /// if let Reserved::Reservation(held) = limiter.reserve(&estimate, Duration::from_secs(60)).await? {
    ///     let settled = limiter.settle(&held.id.to_string(), 2_500).await?.expect("it was not settled yet");
    ///     assert_eq!(settled.decision.remaining(), Some(7_500));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if too many reservations are not settled yet. Then nothing was charged.
    pub async fn reserve(&self, request: &Request<'_>, lifetime: Duration) -> Result<Reserved, ReserveError> {
        match self.inner.backend.shared() {
            Some(shared) => self.inner.reserve_shared(shared, request, lifetime).await,
            None => self.reserve_now(request, lifetime),
        }
    }

    /// Reserves as [`Limiter::reserve`] does, without an await and in this process alone.
    ///
    /// # Errors
    /// Returns an error if too many reservations are not settled yet. Then nothing was charged.
    pub fn reserve_now(&self, request: &Request<'_>, lifetime: Duration) -> Result<Reserved, ReserveError> {
        self.inner.reserve_here(request, lifetime)
    }

    /// Replaces the estimate of a reservation by the real cost in units: gives the rest back, or charges the
    /// difference, into debt if it does not fit. Returns `None` if there is no such reservation: it was settled
    /// already, has expired, or never existed.
    ///
    /// # Errors
    /// Returns an error if the shared store fails.
    pub async fn settle(&self, id: &str, cost: u64) -> Result<Option<Settled>, SettleError> {
        if self.is_shared() {
            return shared::settle_to_the_end(&self.inner, id, cost).await;
        }
        Ok(self.settle_now(id, cost))
    }

    /// Settles a reservation of this process as [`Limiter::settle`] does, without an await.
    pub fn settle_now(&self, id: &str, cost: u64) -> Option<Settled> {
        let id = ReservationId::parse(id)?;
        if let Some(unkept) = id.as_unkept() {
            return self.inner.settle_unkept(unkept, cost);
        }
        let kept = self.inner.reservations.take(id, self.now())?;
        Some(self.inner.settle_here(&kept.record, cost))
    }

    /// Returns the number of reservations stored in this process.
    pub fn reservations(&self) -> usize {
        self.inner.reservations.len()
    }

    /// Returns the approximate number of bytes of the texts in the reservations stored in this process.
    pub fn reservation_bytes(&self) -> usize {
        self.inner.reservations.bytes()
    }
}

impl Inner {
    pub(crate) fn reserve_here(
        &self,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<Reserved, ReserveError> {
        let memory = &self.backend.memory;
        let mut charged = Charged::new(self.rules.load());
        let mut plan = Plan::new(&mut charged, request, Scope::RATES);
        if plan.items.is_empty() {
            drop(plan);
            return Ok(unkept(charged, request, memory.now().plus(micros(lifetime))));
        }
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let holder = holder(plan.rules, request);
        let promise = self.reservations.promise(holder, bytes_to_keep(request)?, memory.now())?;
        let at = plan.settle_in(memory, Intent::Take);
        let taken = estimated(request, &plan, |_| at);
        drop(plan);
        let decision = Decision::from(charged);
        if !decision.allowed() {
            return Ok(Reserved::Denied(decision));
        }
        let expires_at = memory.now().plus(micros(lifetime));
        let record = Record::new(request, &taken, expires_at, Home::Memory);
        promise.fill(id, expires_at, Box::new(record));
        Ok(Reserved::Reservation(Reservation { id, expires_at, decision }))
    }

    /// Settles a reservation for which no limit was charged, unless it has expired. This changes nothing.
    pub(crate) fn settle_unkept(&self, (estimate, until): (u64, Micros), cost: u64) -> Option<Settled> {
        (self.backend.memory.now() < until).then(|| {
            let decision = Charged::new(self.rules.load()).into();
            Settled { estimate, cost, decision }
        })
    }

    fn settle_here(&self, record: &Record, cost: u64) -> Settled {
        let request = record.request(|domain, specs| self.bring_again(domain, specs));
        let mut charged = Charged::new(self.rules.load());
        let mut plan = Plan::new(&mut charged, &request, Scope::RATES);
        let corrections = corrections(record, &counters(record, &request, &plan), &plan, cost);
        let verdicts = self.backend.memory.correct_now(&corrections);
        plan.conclude(&verdicts, Source::Memory);
        drop((plan, corrections));
        Settled { estimate: record.estimate, cost, decision: settled(charged) }
    }

    /// Prepares the inline limits that a request had when it was charged. They need not be in use any more.
    fn bring_again(&self, domain: &str, specs: &[LimitSpec]) -> Option<InlineLimits> {
        InlineLimits::apart(domain, specs, &self.defaults, self.backend.memory.seed()).ok()
    }
}

/// Returns the reservation of a request to which no limit applies. It is not stored.
fn unkept(charged: Charged, request: &Request<'_>, expires_at: Micros) -> Reserved {
    let id = ReservationId::unkept(request.common_cost(), expires_at);
    Reserved::Reservation(Reservation { id, expires_at, decision: charged.into() })
}

/// Returns the holder of a request's reservation, which is identified by its domain and descriptors.
fn holder(rules: &RuleSet, request: &Request<'_>) -> Holder {
    Holder { domain: rules.seed.text(request.domain()).mark, whole: share::holder_key(rules, request).mark }
}

/// Returns the bytes that the record of a request takes, or an error if there are too many.
fn bytes_to_keep(request: &Request<'_>) -> Result<usize, ReserveError> {
    match bytes_of(request) {
        bytes if bytes > MOST_BYTES => Err(ReserveError::TooLarge { bytes, most: MOST_BYTES }),
        bytes => Ok(bytes),
    }
}

/// Returns the counters that the estimate of a settled request was taken from, and when. `at` returns when the charge
/// at an index was settled.
fn estimated(
    request: &Request<'_>,
    plan: &Plan<'_>,
    at: impl Fn(usize) -> Micros,
) -> SmallVec<[(Key, Taken); 4]> {
    let mut taken = SmallVec::new();
    for (index, (charge, item)) in plan.charges.iter().zip(&*plan.items).enumerate() {
        let own_cost = request.own_cost(usize::from(item.descriptor)).is_some();
        if !own_cost && (item.verdict.allowed() || charge.count_denied) {
            let at = at(index);
            taken.push((charge.key, Taken { at, clear_at: at.plus(item.verdict.reset_after_us) }));
        }
    }
    taken
}

/// Returns for each charge of the request under the current rules the index of the record's counter that it was taken
/// from. `None` for limits that were not charged then, and for descriptors with a cost of their own.
fn counters(record: &Record, request: &Request<'_>, plan: &Plan<'_>) -> SmallVec<[Option<usize>; 4]> {
    let mut free: SmallVec<[Option<Key>; 4]> = record.counters().map(|counter| Some(counter.key)).collect();
    let find = |(charge, item): (&Charge<'_>, &Item)| {
        if request.own_cost(usize::from(item.descriptor)).is_some() {
            return None;
        }
        let found = free.iter().position(|key| *key == Some(charge.key))?;
        free[found] = None;
        Some(found)
    };
    plan.charges.iter().zip(&*plan.items).map(find).collect()
}

/// Returns the correction of each charge of a request, whose [`counters`] these are. Limits that were not
/// charged are only peeked at.
fn corrections<'r>(
    record: &Record,
    counters: &[Option<usize>],
    plan: &Plan<'r>,
    cost: u64,
) -> SmallVec<[(Charge<'r>, Correction); 4]> {
    let known: SmallVec<[record::Counter; 4]> = record.counters().collect();
    let correct = |(charge, counter): (&Charge<'r>, &Option<usize>)| {
        let Some(counter) = counter.and_then(|index| known.get(index)) else {
            return (Charge { cost: 0, ..*charge }, Correction::Look);
        };
        let correction = match cost.cmp(&counter.charged) {
            Ordering::Less => Correction::GiveBack(counter.taken),
            Ordering::Greater => Correction::Overdraw,
            Ordering::Equal => Correction::Look,
        };
        (Charge { cost: cost.abs_diff(counter.charged), ..*charge }, correction)
    };
    plan.charges.iter().zip(counters).map(correct).collect()
}

/// Returns the decision on a settled reservation: its limits as they are now. The request was already allowed.
fn settled(mut charged: Charged) -> Decision {
    charged.summary.allowed = true;
    charged.into()
}

fn micros(lifetime: Duration) -> u64 {
    u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX)
}
