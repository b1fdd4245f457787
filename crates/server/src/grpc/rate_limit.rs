//! Implements `ShouldRateLimit`, with the semantics of envoyproxy/ratelimit.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate::{Decision, InlineError, InlineLimits, LimitSpec, LimitStatus, Request};
use tidegate_middleware::Renderer;
use tonic::Status;

use super::canonical::Canonical;
use super::rls_request::{ReadError, RlsDescriptor, RlsRequest};
use super::rls_response::{self, Code, CurrentLimit};
use crate::bounds::Bounds;
use crate::decider::{Decider, NO_RULES};
use crate::request_id::RequestId;

/// Handles `ShouldRateLimit` calls. Cheap to clone.
#[derive(Clone)]
pub struct RateLimit {
    /// Makes and records decisions.
    pub decider: Decider,
    /// The bounds on what a client may send.
    pub bounds: Bounds,
    /// Renders the headers that Envoy adds to responses, if the settings have any.
    pub headers: Option<Renderer>,
    /// Renders the body that Envoy sends with denials, if the settings have one.
    pub body: Option<Renderer>,
}

/// The result for a request that is not decided by its limits.
enum Undecided {
    /// The request is rejected with an error.
    Refused(Status),
    /// The request is denied. Envoy would let it pass if it were rejected, and its content may come from a client of
    /// Envoy.
    Denied,
}

impl From<Status> for Undecided {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl From<ReadError> for Undecided {
    fn from(error: ReadError) -> Self {
        Self::Refused(Status::invalid_argument(error.to_string()))
    }
}

impl RateLimit {
    /// Decides the `RateLimitRequest` in `message` without awaiting, and appends the `RateLimitResponse` to `out`.
    /// Only for limiters whose store is not shared.
    ///
    /// # Errors
    /// Returns an error if the request is invalid or no rules are loaded. Nothing is charged then.
    pub fn answer_now(&self, message: &[u8], id: RequestId<'_>, out: &mut Vec<u8>) -> Result<Code, Status> {
        let timer = self.decider.start();
        let mut room = None;
        let answered = self.read(message, &mut room).and_then(|rls| {
            let planned = self.planned(&rls)?;
            if let Some(refund) = &planned.refund {
                self.decider.limiter().refund_now(refund);
            }
            let decision = self.decider.decide_now(&planned.request, id);
            Ok(self.write(&decision, &planned.request, &rls, out))
        });
        let answered = answered.or_else(|undecided| self.answer_undecided(undecided, out));
        if answered.is_ok() {
            timer.stop();
        }
        answered
    }

    /// Decides the `RateLimitRequest` in `message` with any store, and appends the `RateLimitResponse` to `out`.
    ///
    /// # Errors
    /// Returns an error if the request is invalid or no rules are loaded. Nothing is charged then.
    pub async fn answer(&self, message: &[u8], id: RequestId<'_>, out: &mut Vec<u8>) -> Result<Code, Status> {
        let timer = self.decider.start();
        let answered = match self.try_answer(message, id, out).await {
            Ok(code) => code,
            Err(undecided) => self.answer_undecided(undecided, out)?,
        };
        timer.stop();
        Ok(answered)
    }

    async fn try_answer(
        &self,
        message: &[u8],
        id: RequestId<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Code, Undecided> {
        let mut room = None;
        let rls = self.read(message, &mut room)?;
        let planned = self.planned(&rls)?;
        if let Some(refund) = &planned.refund {
            self.decider.refund(refund).await;
        }
        let decision = self.decider.decide(&planned.request, id).await;
        Ok(self.write(&decision, &planned.request, &rls, out))
    }

    /// Responds to a message that is longer than `bounds.message_bytes`. No legitimate request is that long.
    ///
    /// # Errors
    /// Returns an error with `bounds.odd_values: refuse`.
    pub fn answer_too_long(&self, out: &mut Vec<u8>) -> Result<Code, Status> {
        let undecided = self.unless_counted(|| self.bounds.message_too_long().into());
        self.answer_undecided(undecided, out)
    }

    /// Responds to a message for which there is no memory.
    ///
    /// # Errors
    /// Returns an error with `bounds.odd_values: refuse`.
    pub fn answer_no_room(&self, out: &mut Vec<u8>) -> Result<Code, Status> {
        let text = "there is no memory for this request now (memory.max_bytes)";
        let undecided = self.unless_counted(|| Status::resource_exhausted(text));
        self.answer_undecided(undecided, out)
    }

    /// Rejects a request with this status, or denies it if `bounds.odd_values` is `count`.
    fn unless_counted(&self, status: impl FnOnce() -> Status) -> Undecided {
        if self.bounds.counts_odd_values() { Undecided::Denied } else { Undecided::Refused(status()) }
    }

    fn answer_undecided(&self, undecided: Undecided, out: &mut Vec<u8>) -> Result<Code, Status> {
        match undecided {
            Undecided::Refused(status) => Err(status),
            Undecided::Denied => {
                self.decider.count_canonicalized();
                rls_response::overall(out, Code::OverLimit);
                Ok(Code::OverLimit)
            }
        }
    }

    /// Parses a message. `room` holds the canonical form of a message that exceeds the bounds.
    fn read<'m>(
        &self,
        message: &'m [u8],
        room: &'m mut Option<Canonical>,
    ) -> Result<RlsRequest<'m>, Undecided> {
        let rls = match RlsRequest::read(message, &self.bounds) {
            Err(ReadError::Refused(_)) if self.bounds.counts_odd_values() => {
                self.read_canonical(message, room)?
            }
            read => read?,
        };
        self.check_rls(&rls)?;
        Ok(rls)
    }

    #[cold]
    fn read_canonical<'m>(
        &self,
        message: &[u8],
        room: &'m mut Option<Canonical>,
    ) -> Result<RlsRequest<'m>, ReadError> {
        let canonical = Canonical::of(message, &self.bounds)?;
        self.decider.count_canonicalized();
        room.insert(canonical).read()
    }

    /// Builds the requests that the engine decides.
    fn planned<'m>(&self, rls: &RlsRequest<'m>) -> Result<PlannedRls<'m>, Undecided> {
        let simple = |rls: &RlsDescriptor| rls.limit.is_none() && !rls.is_negative_hits;
        if rls.descriptors.iter().all(simple) {
            return Ok(PlannedRls {
                refund: None,
                request: request_of(rls, |_| true, &DescriptorLimits::new()),
            });
        }
        self.planned_special(rls)
    }

    fn check_rls(&self, rls: &RlsRequest<'_>) -> Result<(), Status> {
        if rls.domain.is_empty() {
            return Err(Status::invalid_argument("rate limit domain must not be empty"));
        }
        if rls.descriptors.is_empty() {
            return Err(Status::invalid_argument("rate limit descriptor list must not be empty"));
        }
        if !self.decider.limiter().has_rules() {
            return Err(Status::failed_precondition(NO_RULES));
        }
        Ok(())
    }

    /// Appends the response for a decided request, and returns its overall code.
    fn write(
        &self,
        decision: &Decision,
        request: &Request<'_>,
        rls: &RlsRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Code {
        let overall = if decision.allowed() { Code::Ok } else { Code::OverLimit };
        rls_response::overall(out, overall);
        let mut limits = decision.limits().peekable();
        for index in 0..rls.descriptors.len() {
            let mut tightest = Tightest::default();
            while let Some(limit) = limits.next_if(|limit| limit.descriptor == Some(index)) {
                tightest.consider(limit);
            }
            tightest.write(decision, request, index, out);
        }
        for _ in 0..rls.left_out {
            rls_response::status(out, &rls_response::Status { code: Code::Ok, limit: None, remaining: 0 });
        }
        self.write_rest(decision, request, out);
        overall
    }

    /// Builds the requests for a message in which some descriptors are refunds or have their own limits.
    #[cold]
    fn planned_special<'m>(&self, rls: &RlsRequest<'m>) -> Result<PlannedRls<'m>, Undecided> {
        let limits = self.descriptor_limits(rls)?;
        let is_refund = |index: usize| rls.descriptors[index].is_negative_hits;
        let has_refund = rls.descriptors.iter().any(|descriptor| descriptor.is_negative_hits);
        let refund = has_refund.then(|| request_of(rls, is_refund, &limits));
        // A refunded descriptor reports what is left after the refund: a cost of 0 peeks.
        let cost = |index, cost| if is_refund(index) { 0 } else { cost };
        Ok(PlannedRls { refund, request: request_with(rls, |_| true, &limits, cost) })
    }

    /// Returns the limits that the message itself gives its descriptors.
    fn descriptor_limits(&self, rls: &RlsRequest<'_>) -> Result<DescriptorLimits, Undecided> {
        let one = |descriptor: &RlsDescriptor| {
            let Some((requests, unit)) = descriptor.limit else { return Ok(None) };
            let window = rls_response::window_of(unit).ok_or_else(|| {
                let message =
                    format!("limit.unit must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR, got {unit}");
                Status::invalid_argument(message)
            })?;
            let spec = LimitSpec::new(u64::from(requests), window);
            let scope = rls.entries[descriptor.start..descriptor.end].first().copied().unwrap_or_default();
            let limits = self.decider.limiter().limit_override(rls.domain, spec, scope);
            limits.map_err(|error| match error {
                InlineError::TooMany { .. } => {
                    self.unless_counted(|| Status::resource_exhausted(error.to_string()))
                }
                _ => Status::invalid_argument(error.to_string()).into(),
            })
        };
        rls.descriptors.iter().map(one).collect()
    }

    fn write_rest(&self, decision: &Decision, request: &Request<'_>, out: &mut Vec<u8>) {
        if let Some(renderer) = &self.headers {
            renderer.headers(request, decision, self.decider.limiter().now(), |name, value| {
                rls_response::response_header(out, name.as_str(), value);
            });
        }
        if let Some(renderer) = self.body.as_ref().filter(|_| !decision.allowed()) {
            let mut body = Vec::new();
            renderer.body(request, decision, &mut body);
            rls_response::response_header(out, "content-type", renderer.content_type(decision));
            rls_response::raw_body(out, &body);
        }
        if let Some(by) = decision.decided_by() {
            let named = [("rule", by.rule), ("limit", by.name), ("source", decision.source().name())];
            rls_response::metadata(out, &named, decision.metadata());
        }
    }
}

/// The requests of a call: a refund if there is one, then a decision.
struct PlannedRls<'m> {
    refund: Option<Request<'m>>,
    request: Request<'m>,
}

/// The limits given in a message, by the index of their descriptor.
type DescriptorLimits = SmallVec<[Option<InlineLimits>; 2]>;

fn request_of<'a>(
    rls: &RlsRequest<'a>,
    included: impl Fn(usize) -> bool,
    limits: &DescriptorLimits,
) -> Request<'a> {
    request_with(rls, included, limits, |_, cost| cost)
}

/// Builds a request from the descriptors whose index is included.
#[inline]
fn request_with<'a>(
    rls: &RlsRequest<'a>,
    included: impl Fn(usize) -> bool,
    limits: &DescriptorLimits,
    cost_of: impl Fn(usize, u64) -> u64,
) -> Request<'a> {
    let default_cost = u64::from(rls.hits_addend.max(1));
    let mut request: Option<Request<'a>> = None;
    for (index, descriptor) in rls.descriptors.iter().enumerate().filter(|(index, _)| included(*index)) {
        let entries = &rls.entries[descriptor.start..descriptor.end];
        let mut with = match request {
            None => Request::new(rls.domain, entries),
            Some(request) => request.and(entries),
        };
        with = with.descriptor_cost(cost_of(index, descriptor.hits_addend.unwrap_or(default_cost)));
        if let Some(Some(own)) = limits.get(index) {
            with = with.limits(own);
        }
        request = Some(with);
    }
    request.unwrap_or_else(|| Request::new(rls.domain, []))
}

/// The most restrictive limit of a descriptor: among those that deny, the one with the longest wait, else the one with
/// the least left. Limits in shadow mode are considered only if there are no others.
#[derive(Default)]
struct Tightest<'a>(Option<LimitStatus<'a>>);

impl<'a> Tightest<'a> {
    fn consider(&mut self, limit: LimitStatus<'a>) {
        let tighter = self.0.as_ref().is_none_or(|known| rank(&limit) > rank(known));
        if tighter {
            self.0 = Some(limit);
        }
    }

    fn write(&self, decision: &Decision, request: &Request<'_>, descriptor: usize, out: &mut Vec<u8>) {
        let Some(limit) = &self.0 else {
            let remaining = if decision.unlimited(request, descriptor) { u32::MAX } else { 0 };
            return rls_response::status(
                out,
                &rls_response::Status { code: Code::Ok, limit: None, remaining },
            );
        };
        let over = !limit.allowed && !limit.shadow;
        // Envoy sends this to a denied client as Retry-After, so it is when the whole request could pass. A request
        // that can never pass has no such time.
        let until_pass = decision.retry_after().filter(|retry| over && *retry < Duration::MAX);
        let current = CurrentLimit {
            requests_per_unit: saturated(limit.limit.requests()),
            unit: rls_response::unit_of(limit.limit.window()),
            name: limit.given_name.unwrap_or_default(),
            duration_until_reset: until_pass.unwrap_or(limit.reset_after),
        };
        let status = rls_response::Status {
            code: if over { Code::OverLimit } else { Code::Ok },
            limit: Some(current),
            remaining: saturated(limit.remaining),
        };
        rls_response::status(out, &status);
    }
}

fn rank<'a>(limit: &LimitStatus<'a>) -> impl Ord + use<'a> {
    let denies = !limit.allowed && !limit.shadow;
    (!limit.shadow, denies, limit.retry_after.filter(|_| denies), std::cmp::Reverse(limit.remaining))
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
