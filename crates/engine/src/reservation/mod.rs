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

use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;
use tidegate_core::{Key, Micros, Taken};
use tidegate_stores::{Charge, Correction, Intent, StoreError, Timed, Verdicts};

pub(crate) use self::book::Book;
use self::book::Holder;
pub use self::id::ReservationId;
use self::record::{Home, MOST_BYTES, Record, bytes_of};
use crate::backend::Settlement;
use crate::decision::{Decision, Item, Items, Source};
use crate::inline::InlineLimits;
use crate::limiter::{Inner, Limiter};
use crate::plan::{Concluded, Plan, Scope};
use crate::request::Request;
use crate::rules::current::Rules;
use crate::rules::limit_spec::LimitSpec;
use crate::rules::tree::RuleSet;

/// How many reservations are kept in one process, unless told otherwise.
pub(crate) const USUAL_MOST: usize = 1_000_000;

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
        let rules = self.rules.load();
        let plan = Plan::new(&rules, request, Scope::RATES);
        if plan.items.is_empty() {
            let domain = plan.domain;
            drop(plan);
            return Ok(unkept(rules, domain, request, memory.now().plus(micros(lifetime))));
        }
        let id = ReservationId::new().map_err(ReserveError::NoName)?;
        let holder = holder(&rules, request);
        let place = self.reservations.promise(holder, bytes_to_keep(request)?, memory.now())?;
        let timed = memory.settle_timed_now(&plan.charges, Intent::Take);
        let taken = estimated(request, &plan, &timed);
        let concluded = plan.conclude(Settlement { verdicts: timed.verdicts, source: Source::Memory });
        let decision = Decision::concluded(rules, concluded, request);
        if !decision.allowed() {
            return Ok(Reserved::Denied(decision));
        }
        let expires_at = memory.now().plus(micros(lifetime));
        let record = Record::new(request, &taken, expires_at, Home::Memory);
        place.fill(id, expires_at, Box::new(record));
        Ok(Reserved::Reservation(Reservation { id, expires_at, decision }))
    }

    /// Settles a reservation that no limit was charged for, unless its time is over: nothing changes.
    pub(crate) fn settle_unkept(&self, (estimate, until): (u64, Micros), cost: u64) -> Option<Settled> {
        (self.backend.memory.now() < until).then(|| {
            let decision = Decision::new(self.rules.load(), 0, true, Items::new());
            Settled { estimate, cost, decision }
        })
    }

    fn settle_here(&self, record: &Record, cost: u64) -> Settled {
        let request = record.request(|domain, specs| self.bring_again(domain, specs));
        let rules = self.rules.load();
        let plan = Plan::new(&rules, &request, Scope::RATES);
        let verdicts = self.backend.memory.correct_now(&corrections(record, &request, &plan, cost));
        Settled {
            estimate: record.estimate,
            cost,
            decision: settled(rules.clone(), plan, verdicts, Source::Memory, &request),
        }
    }

    /// Limits that a request brought along when it was charged. They need not be in use any more.
    fn bring_again(&self, domain: &str, specs: &[LimitSpec]) -> Option<InlineLimits> {
        InlineLimits::apart(domain, specs, &self.defaults, self.backend.memory.seed()).ok()
    }
}

/// A reservation of a request that no limit applies to: all of it is in its name.
fn unkept(rules: Rules, domain: u32, request: &Request<'_>, expires_at: Micros) -> Reserved {
    let id = ReservationId::unkept(request.common_cost(), expires_at);
    let concluded = Concluded { domain, allowed: true, source: Source::Memory, items: Items::new() };
    let decision = Decision::concluded(rules, concluded, request);
    Reserved::Reservation(Reservation { id, expires_at, decision })
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

/// The counters that the estimate of an allowed request was taken of, and when.
fn estimated(request: &Request<'_>, plan: &Plan<'_>, timed: &Timed) -> SmallVec<[(Key, Taken); 4]> {
    let mut taken = SmallVec::new();
    let settled = plan.charges.iter().zip(&plan.items).zip(timed.verdicts.iter().zip(&timed.at));
    for ((charge, item), (verdict, at)) in settled {
        let own_cost = request.own_cost(usize::from(item.descriptor)).is_some();
        if !own_cost && (verdict.allowed() || charge.count_denied) {
            taken.push((charge.key, Taken { at: *at, clear_at: at.plus(verdict.reset_after_us) }));
        }
    }
    taken
}

/// What is to be done to each of a request's charges, by the rules of now. Limits that were not charged then
/// are only looked at.
fn corrections<'r>(
    record: &Record,
    request: &Request<'_>,
    plan: &Plan<'r>,
    cost: u64,
) -> SmallVec<[(Charge<'r>, Correction); 4]> {
    let mut taken = record.taken();
    let by = cost.abs_diff(record.estimate);
    let correct = |(charge, item): (&Charge<'r>, &Item)| {
        let own_cost = request.own_cost(usize::from(item.descriptor)).is_some();
        let found = taken.iter().position(|(key, _)| !own_cost && *key == charge.key);
        let correction = match found.map(|index| taken.swap_remove(index)) {
            Some((_, taken)) if cost < record.estimate => Correction::GiveBack(taken),
            Some(_) if cost > record.estimate => Correction::Overdraw,
            _ => Correction::Look,
        };
        (Charge { cost: by, ..*charge }, correction)
    };
    plan.charges.iter().zip(&plan.items).map(correct).collect()
}

/// How the limits of a request stand after its reservation was settled.
fn settled(
    rules: Rules,
    plan: Plan<'_>,
    verdicts: Verdicts,
    source: Source,
    request: &Request<'_>,
) -> Decision {
    let concluded = plan.conclude(Settlement { verdicts, source });
    Decision::concluded(rules, Concluded { allowed: true, ..concluded }, request)
}

fn micros(lifetime: Duration) -> u64 {
    u64::try_from(lifetime.as_micros()).unwrap_or(u64::MAX)
}
