//! Renders decisions as HTTP responses.

use std::sync::Arc;

use http::{HeaderName, StatusCode};
use tidegate::{Decision, LimitStatus, Micros, Request};

use crate::body;
use crate::denial_body::DenialBody;
use crate::names;
use crate::policy::{rendered_limits, write_left, write_name, write_partition, write_quota};
use crate::retry::{ceil_s, more_after_us, retry_after_s};

/// The header families to write. `Retry-After` is not among them: every denial has it, unless the request can never
/// pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each family is a switch of its own")]
pub struct Headers {
    /// `RateLimit-Policy` and `RateLimit` for every limit, as in draft-ietf-httpapi-ratelimit-headers-11.
    pub ratelimit: bool,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` (seconds from now) for the deciding limit, as
    /// in draft 06.
    pub draft06: bool,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (seconds since the Unix epoch) for the
    /// deciding limit.
    pub x_ratelimit: bool,
    /// The parameter `pk` in `RateLimit-Policy` and `RateLimit`: a hash of the domain, the rule and the descriptor.
    /// Off by default, because a client can use it to confirm guesses of these values.
    pub partition_key: bool,
}

/// Enables `ratelimit` and `x_ratelimit`.
impl Default for Headers {
    fn default() -> Self {
        Self { ratelimit: true, draft06: false, x_ratelimit: true, partition_key: false }
    }
}

impl Headers {
    /// No header family. Denials still have `Retry-After`.
    pub const NONE: Self =
        Self { ratelimit: false, draft06: false, x_ratelimit: false, partition_key: false };
}

/// Renders decisions as HTTP. Equal decisions give equal bytes on every node.
#[derive(Clone, Debug)]
pub struct Renderer {
    headers: Headers,
    deny_status: StatusCode,
    /// The custom body of denials, in place of the problem document.
    denial_body: Option<Arc<DenialBody>>,
}

/// Renders the default headers, and status 429 for denials.
impl Default for Renderer {
    fn default() -> Self {
        Self::new(Headers::default())
    }
}

/// The approximate size of an item in `RateLimit-Policy` and `RateLimit`.
const ITEM_BYTES: usize = 64;

impl Renderer {
    /// Creates a renderer that writes these header families.
    pub fn new(headers: Headers) -> Self {
        Self { headers, deny_status: StatusCode::TOO_MANY_REQUESTS, denial_body: None }
    }

    /// Sets the status of denials in place of 429, for proxies that pass on only some statuses: NGINX passes on 401
    /// and 403.
    #[must_use]
    pub fn deny_status(mut self, status: StatusCode) -> Self {
        self.deny_status = status;
        self
    }

    /// Sets a custom body for denials; `None` restores the problem document.
    #[must_use]
    pub fn denial_body(mut self, body: Option<Arc<DenialBody>>) -> Self {
        self.denial_body = body;
        self
    }

    /// Returns whether denials have a custom body.
    pub fn has_denial_body(&self) -> bool {
        self.denial_body.is_some()
    }

    /// Returns 200, or for a denial 429 or the status set by [`deny_status`](Self::deny_status).
    pub fn status(&self, decision: &Decision) -> StatusCode {
        if decision.allowed() { StatusCode::OK } else { self.deny_status }
    }

    /// Returns the content type of the body: JSON, or for a denial `application/problem+json` or the type of the
    /// custom body.
    pub fn content_type(&self, decision: &Decision) -> &str {
        match &self.denial_body {
            _ if decision.allowed() => "application/json",
            None => "application/problem+json",
            Some(body) => body.content_type(),
        }
    }

    /// Calls `emit` with the name and value of each header, in a fixed order. Values are printable ASCII. There are
    /// no headers if no limit applies, or only limits in shadow.
    ///
    /// `now` is the time of the decision, from which `X-RateLimit-Reset` is computed.
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

    /// Returns `Retry-After` in seconds; `None` if the request is allowed, or can never pass.
    pub fn retry_after_s(&self, request: &Request<'_>, decision: &Decision) -> Option<u64> {
        retry_after_s(request, decision)
    }

    /// Calls `name` with the name of each policy that denies, as in `violated-policies`.
    pub fn violated_policies(&self, decision: &Decision, mut name: impl FnMut(&str)) {
        let Some(deciding) = decision.decided_by().filter(|_| !decision.allowed()) else { return };
        let mut text = String::with_capacity(ITEM_BYTES);
        for (nth, status) in rendered_limits(decision, &deciding).filter(|(_, status)| !status.allowed) {
            text.clear();
            write_name(&status, nth, &mut text);
            name(&text);
        }
    }

    /// Appends the body of the response: the custom body for denials if there is one, else [`Renderer::json`].
    pub fn body(&self, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
        match &self.denial_body {
            Some(body) if !decision.allowed() => body.write(request, decision, out),
            _ => self.json(request, decision, out),
        }
    }

    /// Appends the JSON of the response: the status of each limit, preceded for a denial by the members of a problem
    /// document (RFC 9457).
    pub fn json(&self, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
        body::write(self, request, decision, out);
    }

    /// Appends only the value of the member `limits`: the status of each limit.
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
