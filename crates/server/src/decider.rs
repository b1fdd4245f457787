//! Decides the requests of every front end, and records each decision.
//!
//! A front end parses a request, hands it to its [`Decider`] and renders the decision. Everything that follows from
//! a decision happens in [`Decider::record`]: the counters of the rules, the recorder, the sampled record of a denial, the
//! span. A further consumer of decisions is added there, and sees those of every front end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{
    Acquired, Decision, Limiter, Micros, Request, Reservation, ReserveError, Reserved, SettleError, Settled,
};

use crate::denials::Denials;
use crate::metrics::{FrontEnd, Metrics, Timer};
use crate::permit_token::{self, PermitToken};
use crate::recorder::Recorder;
use crate::request_id::RequestId;
use crate::trace;

/// The reason to refuse a request while no rules are loaded, as envoyproxy/ratelimit words it.
pub const NO_RULES: &str = "no rate limit configuration loaded";

/// The reason to refuse to settle a reservation that is not held.
pub const NO_RESERVATION: &str = "there is no such reservation any more: it was settled already, or it expired and the estimate stays charged; reserve anew";

/// Decides the requests of one front end. Cheap to clone.
#[derive(Clone)]
pub struct Decider {
    limiter: Limiter,
    metrics: Metrics,
    denials: Denials,
    recorder: Recorder,
    /// Whether requests have spans to record decisions in.
    traced: bool,
    front_end: Arc<FrontEnd>,
}

/// The outcome of an acquisition.
pub enum SlotOutcome {
    /// The slots are held.
    Held(HeldSlots),
    /// A limit denied the request.
    Denied(Decision),
}

/// Slots that a client holds.
pub struct HeldSlots {
    /// The token to renew or release them with.
    pub token: String,
    /// When they return if they are not renewed; `None` if no concurrency limit applied.
    pub expires_at: Option<Micros>,
}

impl Decider {
    /// Returns a decider for the front end of this name, which writes no denials down and traces nothing.
    pub fn new(front_end: &'static str, limiter: Limiter, metrics: Metrics) -> Self {
        let front_end = metrics.front_end(front_end);
        Self {
            limiter,
            metrics,
            denials: Denials::default(),
            recorder: Recorder::default(),
            traced: false,
            front_end,
        }
    }

    /// Samples denials into the audit trail.
    #[must_use]
    pub fn with_denials(self, denials: Denials) -> Self {
        Self { denials, ..self }
    }

    /// Records decisions for the dashboard.
    #[must_use]
    pub fn with_recorder(self, recorder: Recorder) -> Self {
        Self { recorder, ..self }
    }

    /// Sets whether decisions are recorded in the span of the request.
    #[must_use]
    pub fn with_traces(self, traced: bool) -> Self {
        Self { traced, ..self }
    }

    /// Returns the decider of another front end, which records in the same places.
    #[must_use]
    pub fn for_front_end(&self, name: &'static str) -> Self {
        Self { front_end: self.metrics.front_end(name), ..self.clone() }
    }

    /// Returns the limiter, for what is not a decision: the clock, the rules, peeks.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Returns whether requests have spans.
    pub fn is_traced(&self) -> bool {
        self.traced
    }

    /// Starts to time a check, which ends when its response is rendered.
    #[inline]
    pub fn start(&self) -> Timer<'_> {
        self.front_end.durations.start()
    }

    /// Decides a request without an await. Only for limiters that are not [shared](Limiter::is_shared).
    #[inline]
    pub fn decide_now(&self, request: &Request<'_>, id: RequestId<'_>) -> Decision {
        let decision = self.limiter.check_now(request);
        self.record(request, &decision, id);
        decision
    }

    /// Decides a request with whichever store there is.
    pub async fn decide(&self, request: &Request<'_>, id: RequestId<'_>) -> Decision {
        let decision = self.limiter.check(request).await;
        self.record(request, &decision, id);
        decision
    }

    /// Decides each request of a batch by itself, in order, and counts those that are refused instead. All are
    /// asked for together, so that a shared store is asked once. The ID is that of the whole batch.
    pub async fn decide_batch<'r, E>(
        &self,
        requests: impl Iterator<Item = Result<Request<'r>, E>>,
        id: RequestId<'_>,
    ) -> Vec<Result<(Request<'r>, Decision), E>> {
        // One span cannot have many decisions; it has their numbers instead.
        let each = self.clone().with_traces(false);
        let decided = join_all(requests.map(|request| each.decide_element(request, id))).await;
        self.count_refused(decided.iter().filter(|element| element.is_err()).count());
        if self.traced {
            let denied = decided.iter().flatten().filter(|(_, decision)| !decision.allowed()).count();
            trace::decided_batch(decided.len(), denied);
        }
        decided
    }

    async fn decide_element<'r, E>(
        &self,
        request: Result<Request<'r>, E>,
        id: RequestId<'_>,
    ) -> Result<(Request<'r>, Decision), E> {
        let request = request?;
        let decision = self.decide(&request, id).await;
        Ok((request, decision))
    }

    /// Takes a slot of each concurrency limit that the request falls under, or none.
    pub async fn acquire(&self, request: &Request<'_>, id: RequestId<'_>) -> SlotOutcome {
        // Read before the slots are taken: they are held at least until the expiry that the client receives.
        let now = self.limiter.now();
        let acquired = self.limiter.acquire(request).await;
        if let Acquired::Permit(_) = acquired {
            self.limiter.count_acquired(request, &acquired);
        }
        match acquired {
            Acquired::Denied(decision) => {
                self.record(request, &decision, id);
                SlotOutcome::Denied(decision)
            }
            Acquired::Permit(permit) => {
                if self.traced {
                    trace::acquired(request);
                }
                let timeout = permit.timeout();
                let token = permit_token::encode(request, permit.detach(), timeout);
                SlotOutcome::Held(HeldSlots { token, expires_at: timeout.map(|timeout| after(now, timeout)) })
            }
        }
    }

    /// Restarts the timeout of slots. Returns them with their new expiry, or `None` if they are no longer held.
    pub async fn renew(&self, token: String, permit: &PermitToken) -> Option<HeldSlots> {
        // A permit that holds nothing has nothing to lose.
        if permit.timeout.is_none() {
            return Some(HeldSlots { token, expires_at: None });
        }
        let (now, request) = (self.limiter.now(), permit.request());
        if !self.limiter.renew(&request, permit.slot).await {
            return None;
        }
        // The rules may have changed since the slots were acquired.
        let expires_at = self.limiter.permit_timeout(&request).map(|timeout| after(now, timeout));
        Some(HeldSlots { token, expires_at })
    }

    /// Returns slots. It is no error if they have been returned already.
    pub async fn release(&self, permit: &PermitToken) {
        self.limiter.release(&permit.request(), permit.slot).await;
    }

    /// Charges an estimate that is to be settled later.
    ///
    /// # Errors
    /// If the estimate is too large, too many reservations are held, or the shared store fails.
    pub async fn reserve(
        &self,
        request: &Request<'_>,
        lifetime: Duration,
        id: RequestId<'_>,
    ) -> Result<Reserved, ReserveError> {
        let reserved = self.limiter.reserve(request, lifetime).await;
        let counts = &self.metrics.reservations;
        match &reserved {
            Ok(Reserved::Reservation(Reservation { decision, .. })) => {
                counts.reserved.add(1);
                self.record(request, decision, id);
            }
            Ok(Reserved::Denied(decision)) => {
                counts.denied.add(1);
                self.record(request, decision, id);
            }
            Err(_) => counts.failed.add(1),
        }
        reserved
    }

    /// Replaces the estimate of a reservation by its actual cost. Returns `None` if the reservation was settled
    /// already, or has expired.
    ///
    /// # Errors
    /// If the shared store fails.
    pub async fn settle(&self, id: &str, cost: u64) -> Result<Option<Settled>, SettleError> {
        let settled = self.limiter.settle(id, cost).await;
        let counts = &self.metrics.reservations;
        let count = match &settled {
            Ok(Some(_)) => &counts.settled,
            Ok(None) => &counts.gone,
            Err(_) => &counts.failed,
        };
        count.add(1);
        settled
    }

    /// Gives back what a request took.
    pub async fn refund(&self, request: &Request<'_>) {
        self.limiter.refund(request).await;
    }

    /// Counts requests that asked for a decision and were refused before they got one.
    pub fn count_refused(&self, requests: usize) {
        self.metrics.refused.add(requests as u64);
    }

    /// Counts a request that was not within bounds and is decided in its canonical form, or denied unread.
    pub fn count_canonicalized(&self) {
        self.metrics.canonicalized.add(1);
    }

    /// Records a decision. Every decision of every front end passes here once.
    #[inline]
    fn record(&self, request: &Request<'_>, decision: &Decision, id: RequestId<'_>) {
        let crossed = decision.count(request);
        self.recorder.note((self.front_end.name, id), request, decision, crossed);
        self.denials.note(&self.limiter, request, decision);
        if self.traced {
            trace::decided(request, decision);
        }
    }
}

fn after(now: Micros, timeout: Duration) -> Micros {
    now.plus(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX))
}
