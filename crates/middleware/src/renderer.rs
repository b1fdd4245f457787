//! Renders decisions as HTTP responses.

use std::sync::Arc;

use http::{HeaderName, StatusCode};
use tidegate::{Decision, LimitStatus, Micros, Request};

use crate::body;
use crate::denial_body::DenialBody;
use crate::names;
use crate::policy::{rendered_limits, write_left, write_name, write_partition, write_quota};
use crate::retry::{ceil_s, more_after_us, retry_after_s};

/// Which families of headers to write. `Retry-After` is not among them: every denial has one, unless
/// the request never passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each family is a switch of its own")]
pub struct Headers {
    /// `RateLimit-Policy` and `RateLimit`, of every limit, as draft-ietf-httpapi-ratelimit-headers-11
    /// has them.
    pub ratelimit: bool,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` (seconds from now), of the
    /// deciding limit, as draft 06 had them.
    pub draft06: bool,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (seconds since the Unix
    /// epoch), of the deciding limit.
    pub x_ratelimit: bool,
    /// The parameter `pk` in `RateLimit-Policy` and `RateLimit`: a hash of the domain, the rule and the
    /// descriptor. Whoever can guess these can tell them by it, hence off by default.
    pub partition_key: bool,
}

/// The draft's headers and those of the installed base.
impl Default for Headers {
    fn default() -> Self {
        Self { ratelimit: true, draft06: false, x_ratelimit: true, partition_key: false }
    }
}

impl Headers {
    /// No family at all; denials still have `Retry-After`.
    pub const NONE: Self =
        Self { ratelimit: false, draft06: false, x_ratelimit: false, partition_key: false };
}

/// Renders decisions. Equal decisions render equal bytes, on every node.
#[derive(Clone, Debug)]
pub struct Renderer {
    headers: Headers,
    deny_status: StatusCode,
    /// The body of denials in place of the problem.
    denial_body: Option<Arc<DenialBody>>,
}

/// The default headers, and 429.
impl Default for Renderer {
    fn default() -> Self {
        Self::new(Headers::default())
    }
}

/// Bytes of an item of the longer headers, about.
const ITEM_BYTES: usize = 64;

impl Renderer {
    /// Returns a renderer of these families of headers.
    pub fn new(headers: Headers) -> Self {
        Self { headers, deny_status: StatusCode::TOO_MANY_REQUESTS, denial_body: None }
    }

    /// Gives denials another status than 429, for proxies that pass on only some: NGINX passes on 401 and 403.
    #[must_use]
    pub fn deny_status(mut self, status: StatusCode) -> Self {
        self.deny_status = status;
        self
    }

    /// Gives denials a body of the operator's own, or with `None` the problem.
    #[must_use]
    pub fn denial_body(mut self, body: Option<Arc<DenialBody>>) -> Self {
        self.denial_body = body;
        self
    }

    /// Returns whether denials have a body of the operator's own.
    pub fn has_denial_body(&self) -> bool {
        self.denial_body.is_some()
    }

    /// Returns 200, or for a denial 429 or the status that was set instead.
    pub fn status(&self, decision: &Decision) -> StatusCode {
        if decision.allowed() { StatusCode::OK } else { self.deny_status }
    }

    /// Returns the type of the body: JSON, or for a denial a problem unless it has a body of the operator's own.
    pub fn content_type(&self, decision: &Decision) -> &str {
        match &self.denial_body {
            _ if decision.allowed() => "application/json",
            None => "application/problem+json",
            Some(body) => body.content_type(),
        }
    }

    /// Calls `emit` with each header and its value, which is printable ASCII, in a fixed order. There
    /// are none where no limit applies, or only limits in shadow.
    ///
    /// `now` is the time of the decision; `X-RateLimit-Reset` is counted from it.
    pub fn headers(
        &self,
        request: &Request<'_>,
        decision: &Decision,
        now: Micros,
        mut emit: impl FnMut(&'static HeaderName, &str),
    ) {
        let Some(deciding) = decision.decided_by() else { return };
        if self.headers.ratelimit {
            self.every_limit(request, decision, &deciding, &mut emit);
        }
        let mut number = |name, value| emit(name, itoa::Buffer::new().format(value));
        let more_us = more_after_us(&deciding);
        if self.headers.draft06 {
            number(&names::RATELIMIT_LIMIT, deciding.limit.requests());
            number(&names::RATELIMIT_REMAINING, deciding.remaining);
            number(&names::RATELIMIT_RESET, ceil_s(more_us));
        }
        if self.headers.x_ratelimit {
            number(&names::X_RATELIMIT_LIMIT, deciding.limit.requests());
            number(&names::X_RATELIMIT_REMAINING, deciding.remaining);
            number(&names::X_RATELIMIT_RESET, ceil_s(now.plus(more_us).0));
        }
        if let Some(seconds) = retry_after_s(request, decision) {
            number(&names::RETRY_AFTER, seconds);
        }
    }

    /// Returns the seconds to wait before trying again, as `Retry-After` has them; `None` if the request passes, or
    /// never will.
    pub fn retry_after_s(&self, request: &Request<'_>, decision: &Decision) -> Option<u64> {
        retry_after_s(request, decision)
    }

    /// Calls `name` with the names of the policies that deny, as `violated-policies` has them.
    pub fn violated_policies(&self, decision: &Decision, mut name: impl FnMut(&str)) {
        let Some(deciding) = decision.decided_by().filter(|_| !decision.allowed()) else { return };
        let mut text = String::with_capacity(ITEM_BYTES);
        for (nth, status) in rendered_limits(decision, &deciding).filter(|(_, status)| !status.allowed) {
            text.clear();
            write_name(&status, nth, &mut text);
            name(&text);
        }
    }

    /// Appends the body of the response: the operator's own for denials if there is one, else [`Renderer::json`].
    pub fn body(&self, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
        match &self.denial_body {
            Some(body) if !decision.allowed() => body.write(request, decision, out),
            _ => self.json(request, decision, out),
        }
    }

    /// Appends the JSON of the response: what each limit said, and for a denial the members of a problem
    /// (RFC 9457) before it.
    pub fn json(&self, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
        body::write(self, request, decision, out);
    }

    /// Appends the member `limits` of the JSON alone: what each limit said.
    pub fn limits(&self, decision: &Decision, out: &mut Vec<u8>) {
        body::limits(decision, out);
    }

    fn every_limit(
        &self,
        request: &Request<'_>,
        decision: &Decision,
        deciding: &LimitStatus<'_>,
        emit: &mut impl FnMut(&'static HeaderName, &str),
    ) {
        let mut policy = String::with_capacity(2 * ITEM_BYTES);
        let mut left = String::with_capacity(2 * ITEM_BYTES);
        for (nth, status) in rendered_limits(decision, deciding) {
            if !policy.is_empty() {
                policy.push_str(", ");
                left.push_str(", ");
            }
            let start = policy.len();
            policy.push('"');
            write_name(&status, nth, &mut policy);
            policy.push('"');
            left.push_str(&policy[start..]);
            write_quota(status.limit, &mut policy);
            write_left(&status, &mut left);
            if self.headers.partition_key {
                let start = policy.len();
                write_partition(request, &status, &mut policy);
                left.push_str(&policy[start..]);
            }
        }
        emit(&names::RATELIMIT_POLICY, &policy);
        emit(&names::RATELIMIT, &left);
    }
}
