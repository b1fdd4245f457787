//! Local decisions while the service does not respond.

use std::time::Duration;

use tidegate::{
    Acquired, Decision, Domain, InlineError, InlineLimits, LimitSpec, Limiter, Request, Reservation,
    ReserveError, Reserved, Settled, Source, Statement,
};

use crate::builder::BuildError;

/// The domain in which the local limiter counts requests of domains without local rules.
const OTHER_DOMAINS: &str = "domains-without-local-rules";

/// The key of the first entry of each descriptor in that domain. Its value is the domain of the request.
const DOMAIN: &str = "domain";

/// The largest number of different inline limits.
const MAX_INLINE_LIMITS: u64 = 10_000;

/// The limiter in this process.
pub(crate) struct LocalLimiter {
    pub(crate) limiter: Limiter,
    /// Limits for descriptors without limits of their own, in domains without local rules.
    default_limits: Option<InlineLimits>,
}

impl LocalLimiter {
    pub(crate) fn build(builder: tidegate::Builder, limits: &[LimitSpec]) -> Result<Self, BuildError> {
        let limiter = builder.domain(Domain::new(OTHER_DOMAINS).inline_limits(MAX_INLINE_LIMITS)).build()?;
        let default_limits = match limits {
            [] => None,
            limits => Some(limiter.inline_limits(OTHER_DOMAINS, limits).map_err(BuildError::LocalLimits)?),
        };
        Ok(Self { limiter, default_limits })
    }

    /// Prepares inline limits of a domain.
    pub(crate) fn inline_limits(
        &self,
        domain: &str,
        limits: &[LimitSpec],
    ) -> Result<InlineLimits, InlineError> {
        self.limiter.inline_limits(OTHER_DOMAINS, limits).map_err(|error| match error {
            InlineError::TooMany { scope, most, .. } => {
                InlineError::TooMany { domain: domain.to_owned(), scope, most }
            }
            other => other,
        })
    }

    /// Returns whether there are local rules for this domain.
    pub(crate) fn has_rules(&self, domain: &str) -> bool {
        self.limiter.has_domain(domain)
    }

    pub(crate) fn check(&self, request: &Request<'_>) -> Decision {
        let decision = self.limiter.check_now(&self.local_request(request));
        self.with_source(request, decision)
    }

    pub(crate) fn peek(&self, request: &Request<'_>) -> Decision {
        let decision = self.limiter.peek_now(&self.local_request(request));
        self.with_source(request, decision)
    }

    pub(crate) fn refund(&self, request: &Request<'_>) {
        self.limiter.refund_now(&self.local_request(request));
    }

    pub(crate) fn acquire(&self, request: &Request<'_>) -> Acquired {
        match self.limiter.acquire_now(request) {
            Acquired::Denied(decision) => Acquired::Denied(decision.with_source(Source::Local)),
            permit @ Acquired::Permit(_) => permit,
        }
    }

    pub(crate) fn reserve(
        &self,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<Reserved, ReserveError> {
        Ok(match self.limiter.reserve_now(&self.local_request(request), lifetime)? {
            Reserved::Reservation(reservation) => {
                let decision = self.with_source(request, reservation.decision);
                Reserved::Reservation(Reservation { decision, ..reservation })
            }
            Reserved::Denied(decision) => Reserved::Denied(self.with_source(request, decision)),
        })
    }

    /// Reserves without charging anything, for [`Fallback::Allow`](crate::Fallback::Allow). The estimate is part of
    /// the ID.
    pub(crate) fn reserve_unseen(
        &self,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<Reserved, ReserveError> {
        let nothing = Request::new(OTHER_DOMAINS, [(DOMAIN, request.domain())]).cost(request.common_cost());
        Ok(match self.limiter.reserve_now(&nothing, lifetime)? {
            Reserved::Reservation(reservation) => {
                Reserved::Reservation(Reservation { decision: unseen(Source::Allow), ..reservation })
            }
            Reserved::Denied(_) => Reserved::Denied(unseen(Source::Deny)),
        })
    }

    /// Settles a reservation that was made in this process; `None` if it was not made here, or has ended.
    pub(crate) fn settle(&self, id: &str, cost: u64) -> Option<Settled> {
        let settled = self.limiter.settle_now(id, cost)?;
        let source = if settled.decision.limits().next().is_some() { Source::Local } else { Source::Allow };
        Some(Settled { decision: settled.decision.with_source(source), ..settled })
    }

    /// Converts a request for the local limiter: it uses the local rules of its domain, or else its inline limits or
    /// the default limits. In the latter case the domain is added as an entry, so that each domain has its own
    /// counters.
    fn local_request<'a>(&self, request: &Request<'a>) -> Request<'a> {
        if self.has_rules(request.domain()) {
            return request.clone();
        }
        let mut local: Option<Request<'a>> = None;
        for (index, (entries, _)) in request.descriptors().enumerate() {
            let mut all = vec![(DOMAIN, request.domain())];
            all.extend_from_slice(entries);
            let mut next = match local {
                None => Request::new(OTHER_DOMAINS, all),
                Some(before) => before.and(all),
            };
            if let Some(limits) = request.limits_of(index).or(self.default_limits.as_ref()) {
                next = next.limits(limits);
            }
            if let Some(cost) = request.own_cost(index) {
                next = next.descriptor_cost(cost);
            }
            local = Some(next);
        }
        local.unwrap_or_else(|| Request::new(OTHER_DOMAINS, [])).cost(request.common_cost())
    }

    /// Sets the source of a decision: `Local`, or `Allow` if neither local rules nor limits apply to the request.
    fn with_source(&self, request: &Request<'_>, decision: Decision) -> Decision {
        let seen = self.has_rules(request.domain()) || decision.limits().next().is_some();
        decision.with_source(if seen { Source::Local } else { Source::Allow })
    }
}

/// Returns a decision that was made without evaluating any limit.
pub(crate) fn unseen(source: Source) -> Decision {
    let allowed = source != Source::Deny;
    Decision::stated(Statement { allowed, source, limits: Vec::new(), deciding: None, rendered: None })
}
