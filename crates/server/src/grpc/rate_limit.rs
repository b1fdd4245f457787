//! `ShouldRateLimit`: envoyproxy/ratelimit's semantics on our engine.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate::{Decision, InlineError, InlineLimits, LimitSpec, LimitStatus, Limiter, Request};
use tidegate_middleware::Renderer;
use tonic::Status;

use super::canonical::Canonical;
use super::read::{Asked, AskedDescriptor, ReadError};
use super::write::{self, Code, CurrentLimit};
use crate::bounds::Bounds;
use crate::denials::Denials;
use crate::metrics::{Durations, Metrics};
use crate::trace;

/// Answers `ShouldRateLimit`. Cheap to clone.
#[derive(Clone)]
pub struct RateLimit {
    /// Decides.
    pub limiter: Limiter,
    /// What a client may send.
    pub bounds: Bounds,
    /// Headers for Envoy to put on responses, if wanted.
    pub headers: Option<Renderer>,
    /// The body of denials for Envoy to send, if it is one of one's own.
    pub body: Option<Renderer>,
    /// Counts calls.
    pub metrics: Metrics,
    /// Writes down denials.
    pub denials: Denials,
    /// Whether requests have spans to note decisions in.
    pub traced: bool,
}

impl RateLimit {
    /// Decides the `RateLimitRequest` of `message` and adds the `RateLimitResponse` to `out`: at once, by
    /// memory.
    ///
    /// # Errors
    /// What the client did wrong, or that no rules are loaded. Nothing is charged then.
    pub fn answer_now(&self, message: &[u8], out: &mut Vec<u8>) -> Result<Code, Status> {
        let timer = self.metrics.grpc_check.start();
        let mut room = None;
        let result = self.read(message, &mut room).and_then(|asked| {
            let wanted = self.wanted(&asked)?;
            if let Some(refund) = &wanted.refund {
                self.limiter.refund_now(refund);
            }
            let decision = self.limiter.check_now(&wanted.request);
            Ok(self.write(&decision, &wanted.request, &asked, out))
        });
        let result = result.or_else(|status| self.deny_instead(status, out));
        match &result {
            Ok(_) => timer.stop(),
            Err(_) => self.metrics.refused.add(1),
        }
        result
    }

    /// The same by whichever store there is.
    ///
    /// # Errors
    /// See [`RateLimit::answer_now`].
    pub async fn answer(&self, message: &[u8], out: &mut Vec<u8>) -> Result<Code, Status> {
        let answered = self.answer_to(message, &self.metrics.grpc_check, out).await;
        if answered.is_err() {
            self.metrics.refused.add(1);
        }
        answered
    }

    /// The same for another protocol, which counts refusals itself: what it takes is added to `durations`.
    ///
    /// # Errors
    /// See [`RateLimit::answer_now`].
    pub async fn answer_to(
        &self,
        message: &[u8],
        durations: &Durations,
        out: &mut Vec<u8>,
    ) -> Result<Code, Status> {
        let timer = durations.start();
        let mut room = None;
        let asked = self.read(message, &mut room)?;
        let wanted = match self.wanted(&asked) {
            Ok(wanted) => wanted,
            Err(status) => return self.deny_instead(status, out),
        };
        if let Some(refund) = &wanted.refund {
            self.limiter.refund(refund).await;
        }
        let decision = self.limiter.check(&wanted.request).await;
        let code = self.write(&decision, &wanted.request, &asked, out);
        timer.stop();
        Ok(code)
    }

    /// Denies a request that brings one limit too many along, unless refusals are wanted. Its numbers may come from
    /// a client, which an error would let pass at Envoy.
    fn deny_instead(&self, status: Status, out: &mut Vec<u8>) -> Result<Code, Status> {
        if status.code() != tonic::Code::ResourceExhausted || !self.bounds.counts_odd_values() {
            return Err(status);
        }
        self.metrics.canonicalized.add(1);
        write::overall(out, Code::OverLimit);
        Ok(Code::OverLimit)
    }

    /// The answer to a message that is longer than `bounds.message_bytes`: it is denied, because an error would
    /// let the request pass at Envoy, and no request that somebody meant is that long.
    ///
    /// # Errors
    /// With `bounds.odd_values: refuse`.
    pub fn answer_too_long(&self, out: &mut Vec<u8>) -> Result<Code, Status> {
        let most = self.bounds.message_bytes;
        let text = || format!("a request must be at most {most} bytes (bounds.message_bytes)");
        self.deny_unread(out, || Status::invalid_argument(text()))
    }

    /// Denies a message that there is no memory to hold, so that Envoy does not let the request pass.
    ///
    /// # Errors
    /// With `bounds.odd_values: refuse`.
    pub fn answer_no_room(&self, out: &mut Vec<u8>) -> Result<Code, Status> {
        let text = "there is no memory for this request now (memory.max_bytes)";
        self.deny_unread(out, || Status::resource_exhausted(text))
    }

    fn deny_unread(&self, out: &mut Vec<u8>, refused: impl FnOnce() -> Status) -> Result<Code, Status> {
        if self.bounds.counts_odd_values() {
            self.metrics.canonicalized.add(1);
            write::overall(out, Code::OverLimit);
            return Ok(Code::OverLimit);
        }
        self.metrics.refused.add(1);
        Err(refused())
    }

    /// Reads a message; `room` holds the canonical form of one that is not within bounds.
    fn read<'m>(&self, message: &'m [u8], room: &'m mut Option<Canonical>) -> Result<Asked<'m>, Status> {
        let asked = match Asked::read(message, &self.bounds) {
            Ok(asked) => asked,
            Err(ReadError::Refused(_)) if self.bounds.counts_odd_values() => {
                self.read_canonical(message, room).map_err(|error| status_of(&error))?
            }
            Err(error) => return Err(status_of(&error)),
        };
        self.check_asked(&asked)?;
        Ok(asked)
    }

    #[cold]
    fn read_canonical<'m>(
        &self,
        message: &[u8],
        room: &'m mut Option<Canonical>,
    ) -> Result<Asked<'m>, ReadError> {
        let canonical = Canonical::of(message, &self.bounds)?;
        self.metrics.canonicalized.add(1);
        room.insert(canonical).read()
    }

    /// What is asked as requests of ours.
    fn wanted<'m>(&self, asked: &Asked<'m>) -> Result<Wanted<'m>, Status> {
        let simple = |asked: &AskedDescriptor| asked.limit.is_none() && !asked.is_negative_hits;
        if asked.descriptors.iter().all(simple) {
            return Ok(Wanted { refund: None, request: request_of(asked, |_| true, &Brought::new()) });
        }
        self.wanted_special(asked)
    }

    fn check_asked(&self, asked: &Asked<'_>) -> Result<(), Status> {
        if asked.domain.is_empty() {
            return Err(Status::invalid_argument("rate limit domain must not be empty"));
        }
        if asked.descriptors.is_empty() {
            return Err(Status::invalid_argument("rate limit descriptor list must not be empty"));
        }
        if !self.limiter.has_rules() {
            return Err(Status::failed_precondition("no rate limit configuration loaded"));
        }
        Ok(())
    }

    /// Counts a decision and writes it down.
    fn write(
        &self,
        decision: &Decision,
        request: &Request<'_>,
        asked: &Asked<'_>,
        out: &mut Vec<u8>,
    ) -> Code {
        decision.count(request);
        self.denials.note(&self.limiter, request, decision);
        if self.traced {
            trace::decided(request, decision);
        }
        let overall = if decision.allowed() { Code::Ok } else { Code::OverLimit };
        write::overall(out, overall);
        let mut limits = decision.limits().peekable();
        for index in 0..asked.descriptors.len() {
            let mut tightest = Tightest::default();
            while let Some(limit) = limits.next_if(|limit| limit.descriptor == index) {
                tightest.look_at(limit);
            }
            tightest.write(decision, request, index, out);
        }
        for _ in 0..asked.left_out {
            write::status(out, &write::Status { code: Code::Ok, limit: None, remaining: 0 });
        }
        self.write_rest(decision, request, out);
        overall
    }

    /// A request in which some descriptors give back, or bring limits of their own.
    #[cold]
    fn wanted_special<'m>(&self, asked: &Asked<'m>) -> Result<Wanted<'m>, Status> {
        let brought = self.brought(asked)?;
        let giving = |index: usize| asked.descriptors[index].is_negative_hits;
        let gives = asked.descriptors.iter().any(|descriptor| descriptor.is_negative_hits);
        let refund = gives.then(|| request_of(asked, giving, &brought));
        // Those that gave back say what they have now: a cost of 0 peeks.
        let cost = |index, cost| if giving(index) { 0 } else { cost };
        Ok(Wanted { refund, request: request_with(asked, |_| true, &brought, cost) })
    }

    /// The limits that descriptors bring along.
    fn brought(&self, asked: &Asked<'_>) -> Result<Brought, Status> {
        let one = |descriptor: &AskedDescriptor| {
            let Some((requests, unit)) = descriptor.limit else { return Ok(None) };
            let window = write::window_of(unit).ok_or_else(|| {
                let message =
                    format!("limit.unit must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR, got {unit}");
                Status::invalid_argument(message)
            })?;
            let spec = LimitSpec::new(u64::from(requests), window);
            let scope = asked.entries[descriptor.start..descriptor.end].first().copied().unwrap_or_default();
            self.limiter.limit_override(asked.domain, spec, scope).map_err(|error| match error {
                InlineError::TooMany { .. } => Status::resource_exhausted(error.to_string()),
                _ => Status::invalid_argument(error.to_string()),
            })
        };
        asked.descriptors.iter().map(one).collect()
    }

    fn write_rest(&self, decision: &Decision, request: &Request<'_>, out: &mut Vec<u8>) {
        if let Some(renderer) = &self.headers {
            renderer.headers(request, decision, self.limiter.now(), |name, value| {
                write::response_header(out, name.as_str(), value);
            });
        }
        if let Some(renderer) = self.body.as_ref().filter(|_| !decision.allowed()) {
            let mut body = Vec::new();
            renderer.body(request, decision, &mut body);
            write::response_header(out, "content-type", renderer.content_type(decision));
            write::raw_body(out, &body);
        }
        if let Some(by) = decision.decided_by() {
            let named = [("rule", by.rule), ("limit", by.name), ("source", decision.source().name())];
            write::metadata(out, &named, decision.metadata());
        }
    }
}

/// What a call asks for: first to give back, then to decide.
struct Wanted<'m> {
    refund: Option<Request<'m>>,
    request: Request<'m>,
}

type Brought = SmallVec<[Option<InlineLimits>; 2]>;

fn status_of(error: &ReadError) -> Status {
    Status::invalid_argument(error.to_string())
}

fn request_of<'a>(asked: &Asked<'a>, wanted: impl Fn(usize) -> bool, brought: &Brought) -> Request<'a> {
    request_with(asked, wanted, brought, |_, cost| cost)
}

/// The descriptors wanted, as a request of ours.
#[inline]
fn request_with<'a>(
    asked: &Asked<'a>,
    wanted: impl Fn(usize) -> bool,
    brought: &Brought,
    cost_of: impl Fn(usize, u64) -> u64,
) -> Request<'a> {
    let usual = u64::from(asked.hits_addend.max(1));
    let mut request: Option<Request<'a>> = None;
    for (index, descriptor) in asked.descriptors.iter().enumerate().filter(|(index, _)| wanted(*index)) {
        let entries = &asked.entries[descriptor.start..descriptor.end];
        let mut with = match request {
            None => Request::new(asked.domain, entries),
            Some(request) => request.and(entries),
        };
        with = with.descriptor_cost(cost_of(index, descriptor.hits_addend.unwrap_or(usual)));
        if let Some(Some(limits)) = brought.get(index) {
            with = with.limits(limits);
        }
        request = Some(with);
    }
    request.unwrap_or_else(|| Request::new(asked.domain, []))
}

/// The most restrictive limit of a descriptor: one that denies and takes longest to free, else the
/// one with least left. Limits in shadow count only where there are no others.
#[derive(Default)]
struct Tightest<'a>(Option<LimitStatus<'a>>);

impl<'a> Tightest<'a> {
    fn look_at(&mut self, limit: LimitStatus<'a>) {
        let tighter = self.0.as_ref().is_none_or(|known| rank(&limit) > rank(known));
        if tighter {
            self.0 = Some(limit);
        }
    }

    fn write(&self, decision: &Decision, request: &Request<'_>, descriptor: usize, out: &mut Vec<u8>) {
        let Some(limit) = &self.0 else {
            let remaining = if decision.unlimited(request, descriptor) { u32::MAX } else { 0 };
            return write::status(out, &write::Status { code: Code::Ok, limit: None, remaining });
        };
        let over = !limit.allowed && !limit.shadow;
        // Envoy tells a denied client to come back then: when the whole request could pass. A request that never
        // can has no such time.
        let until_pass = decision.retry_after().filter(|retry| over && *retry < Duration::MAX);
        let current = CurrentLimit {
            requests_per_unit: saturated(limit.limit.requests()),
            unit: write::unit_of(limit.limit.window()),
            name: limit.given_name.unwrap_or_default(),
            duration_until_reset: until_pass.unwrap_or(limit.reset_after),
        };
        let status = write::Status {
            code: if over { Code::OverLimit } else { Code::Ok },
            limit: Some(current),
            remaining: saturated(limit.remaining),
        };
        write::status(out, &status);
    }
}

fn rank<'a>(limit: &LimitStatus<'a>) -> impl Ord + use<'a> {
    let denies = !limit.allowed && !limit.shadow;
    (!limit.shadow, denies, limit.retry_after.filter(|_| denies), std::cmp::Reverse(limit.remaining))
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
