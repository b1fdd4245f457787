//! Reserving what a request may cost at most, and settling what it did cost.
//!
//! The estimate is charged at once, so that those who ask meanwhile find it taken; settling gives the rest
//! back to where it came from, or charges what is missing, although that may not fit.
//!
//! - `id`: the names of reservations
//! - `record`: what one stands for
//! - `book`: those that are kept in this process
//! - `share`: how many one holder may have there
//! - `shared`: those of the store that nodes share

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

/// How many reservations are kept in one process, unless told otherwise.
pub(crate) const DEFAULT_MAX_RESERVATIONS: usize = 1_000_000;

/// What became of a reservation that was asked for.
#[derive(Debug)]
pub enum Reserved {
    /// The estimate was charged.
    Reservation(Reservation),
    /// It was not: a limit has no room for it.
    Denied(Decision),
}

/// An estimate that was charged, to be settled.
#[derive(Debug)]
pub struct Reservation {
    /// Its name, for [`Limiter::settle`].
    pub id: ReservationId,
    /// Until when it can be settled; from then on the estimate is what was used.
    pub expires_at: Micros,
    /// What each limit said to the estimate.
    pub decision: Decision,
}

/// A reservation that was settled.
#[derive(Debug)]
pub struct Settled {
    /// What was charged when it was made.
    pub estimate: u64,
    /// What is charged now.
    pub cost: u64,
    /// How each limit stands after it.
    pub decision: Decision,
}

/// Why nothing could be reserved. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReserveError {
    /// Too many reservations wait to be settled.
    #[error("{most} reservations wait to be settled already; settle them sooner, or let them expire sooner")]
    Full {
        /// How many there may be.
        most: usize,
    },
    /// Too many reservations of the same descriptors wait to be settled.
    #[error(
        "{count} reservations of these descriptors wait to be settled, which is their share; settle them sooner, or let them expire sooner"
    )]
    FullOfHolder {
        /// How many there are.
        count: usize,
    },
    /// Too many reservations of the domain wait to be settled.
    #[error(
        "{count} reservations of this domain wait to be settled, which is its share; settle them sooner, or let them expire sooner"
    )]
    FullOfDomain {
        /// How many there are.
        count: usize,
    },
    /// Those that wait to be settled have too much text together.
    #[error(
        "reservations that wait to be settled take {most} bytes already; settle them sooner, or let them expire sooner"
    )]
    FullOfBytes {
        /// Bytes that they may take.
        most: usize,
    },
    /// The request itself has too much text to be kept.
    #[error(
        "the descriptors of a reservation are kept until it is settled and may take {most} bytes, got {bytes}; send fewer or shorter ones, such as hashes of long values"
    )]
    TooLarge {
        /// Bytes that they would take.
        bytes: usize,
        /// Bytes that they may take.
        most: usize,
    },
    /// The system has no random bytes to name one.
    #[error("the system has no random bytes to name a reservation: {0}")]
    NoName(getrandom::Error),
}

/// Why a reservation was not settled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettleError {
    /// The store that nodes share failed. The reservation may still be there, and can then be settled later.
    #[error("the reservation was not settled: {0}; try again")]
    Store(#[from] StoreError),
}

impl Limiter {
    /// Charges a request whose cost is an estimate, to be settled by [`Limiter::settle`] once it is known.
    /// All of its limits are charged, or none if one of them denies it. After `lifetime` the estimate stays.
    ///
    /// Descriptors with a cost of their own are charged that, and settling leaves them alone.
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
    /// If too many wait to be settled; then nothing was charged.
    pub async fn reserve(&self, request: &Request<'_>, lifetime: Duration) -> Result<Reserved, ReserveError> {
        match self.inner.backend.shared() {
            Some(shared) => self.inner.reserve_shared(shared, request, lifetime).await,
            None => self.reserve_now(request, lifetime),
        }
    }

    /// As [`Limiter::reserve`], without an await.
    ///
    /// # Errors
    /// As there.
    pub fn reserve_now(&self, request: &Request<'_>, lifetime: Duration) -> Result<Reserved, ReserveError> {
        self.inner.reserve_here(request, lifetime)
    }

    /// Replaces the estimate of a reservation by what was used: less gives the rest back, more charges
    /// what is missing, into debt if it does not fit. `None` if there is no such reservation: it was settled
    /// already, it expired, or it never was.
    ///
    /// # Errors
    /// If the store that nodes share fails.
    pub async fn settle(&self, id: &str, cost: u64) -> Result<Option<Settled>, SettleError> {
        if self.is_shared() {
            return shared::settle_to_the_end(&self.inner, id, cost).await;
        }
        Ok(self.settle_now(id, cost))
    }

    /// As [`Limiter::settle`] for reservations of this process, without an await.
    pub fn settle_now(&self, id: &str, cost: u64) -> Option<Settled> {
        let id = ReservationId::parse(id)?;
        if let Some(unkept) = id.as_unkept() {
            return self.inner.settle_unkept(unkept, cost);
        }
        let kept = self.inner.reservations.take(id, self.now())?;
        Some(self.inner.settle_here(&kept.record, cost))
    }

    /// How many reservations this process keeps.
    pub fn reservations(&self) -> usize {
        self.inner.reservations.len()
    }

    /// Bytes of the texts in the reservations that this process keeps, about.
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

    /// Settles a reservation that no limit was charged for, unless its time is over: nothing changes.
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

    /// Limits that a request brought along when it was charged. They need not be in use any more.
    fn bring_again(&self, domain: &str, specs: &[LimitSpec]) -> Option<InlineLimits> {
        InlineLimits::apart(domain, specs, &self.defaults, self.backend.memory.seed()).ok()
    }
}

/// A reservation of a request that no limit applies to: all of it is in its name.
fn unkept(charged: Charged, request: &Request<'_>, expires_at: Micros) -> Reserved {
    let id = ReservationId::unkept(request.common_cost(), expires_at);
    Reserved::Reservation(Reservation { id, expires_at, decision: charged.into() })
}

/// Who holds the reservation of a request: whoever has its descriptors.
fn holder(rules: &RuleSet, request: &Request<'_>) -> Holder {
    Holder { domain: rules.seed.text(request.domain()).mark, whole: share::holder_key(rules, request).mark }
}

/// Bytes that the record of a request takes, unless they are too many.
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

/// Which of a record's counters each charge of its request was taken of, by the rules of now, as an index. None
/// for limits that were not charged then, and for descriptors with a cost of their own.
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

/// What is to be done to each charge of a request, whose [`counters`] these are. Limits that were not charged are
/// only looked at.
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

/// Returns the decision on a reservation that was settled: its limits as they are now. The request has passed
/// already.
fn settled(mut charged: Charged) -> Decision {
    charged.summary.allowed = true;
    charged.into()
}

fn micros(lifetime: Duration) -> u64 {
    u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX)
}
