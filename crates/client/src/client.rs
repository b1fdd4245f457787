//! The client that an application uses.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tidegate::line::Lines;
use tidegate::unnamed::{ScopeNumbers, UnnamedScope};
use tidegate::{Decision, InlineError, InlineLimits, LimitSpec, Limiter, Request, Source, Statement};
use tokio::time::{Instant, sleep, timeout_at};

use crate::batch::PendingChecks;
use crate::breaker::Breaker;
use crate::builder::{Builder, Fallback};
use crate::error::ClientError;
use crate::health::{Counts, Health};
use crate::local::{LocalLimiter, unseen};
use crate::permit::DetachedPermit;
use crate::request_body;
use crate::response;
use crate::transport::Transport;

/// The longest wait in `until_ready`, because timers cannot represent every `Duration`.
const LONGEST_WAIT: Duration = Duration::from_hours(365 * 24);

/// A client of a Tidegate service. Cheap to clone: clones share all state.
///
/// It has the calls of [`tidegate::Limiter`], and needs a tokio runtime. While the service does not respond, the
/// [`Fallback`] decides, and [`Decision::source`] says so.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) transport: Transport,
    pub(crate) deadline: Duration,
    pub(crate) fallback: Fallback,
    pub(crate) local: LocalLimiter,
    pub(crate) breaker: Mutex<Breaker>,
    /// Checks that wait to be sent.
    pub(crate) pending: Mutex<PendingChecks>,
    pub(crate) counts: Counts,
    /// Detached permits by ID.
    pub(crate) detached: Mutex<HashMap<u64, DetachedPermit>>,
    /// The number of permits detached so far.
    pub(crate) detachments: AtomicU64,
    lines: Lines<Vec<u8>>,
    scopes: Arc<ScopeNumbers>,
}

impl Inner {
    pub(crate) fn new(
        transport: Transport,
        deadline: Duration,
        fallback: Fallback,
        local: LocalLimiter,
        scopes: Arc<ScopeNumbers>,
    ) -> Self {
        Self {
            transport,
            deadline,
            fallback,
            local,
            breaker: Mutex::default(),
            pending: Mutex::default(),
            counts: Counts::default(),
            detached: Mutex::default(),
            detachments: AtomicU64::new(0),
            lines: Lines::default(),
            scopes,
        }
    }

    /// Returns what a check would decide, from what is left of each limit. A response does not state which descriptor
    /// a limit belongs to, so descriptors with different costs are sent one by one.
    async fn peek(self: &Arc<Self>, request: &Request<'_>) -> Result<Statement, ClientError> {
        let costs: Vec<u64> = request.descriptors().map(|(_, cost)| cost).collect();
        let [first, rest @ ..] = costs.as_slice() else {
            return Err(ClientError::InvalidResponse("the request has no descriptors".to_owned()));
        };
        let alone = rest.iter().any(|cost| cost != first);
        let mut peeked = self.check(request_body::peek(request, alone.then_some(0))).await?;
        response::weigh(&mut peeked, *first);
        for (index, cost) in rest.iter().enumerate().filter(|_| alone) {
            let mut other = self.check(request_body::peek(request, Some(index + 1))).await?;
            response::weigh(&mut other, *cost);
            response::join(&mut peeked, other);
        }
        Ok(peeked)
    }

    async fn refund(&self, request: &Request<'_>) -> Result<(), ClientError> {
        let response = self.send("/v1/refund", request_body::charge(request)).await?;
        match response.status {
            StatusCode::OK => Ok(()),
            _ => Err(response.rejection()),
        }
    }
}

impl Client {
    /// Returns a builder of clients for the service at this address, such as `http://localhost:8080` or
    /// `https://limits.example.org`.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }

    /// Decides a request and charges it: all of its limits, or none of them if one denies.
    pub async fn check(&self, request: &Request<'_>) -> Decision {
        match self.0.check(request_body::charge(request)).await {
            Ok(decision) => Decision::stated(decision),
            Err(_) => self.fall_back(|local| local.check(request)),
        }
    }

    /// Returns the decision that [`Client::check`] would make, without charging anything. The service reports what is
    /// left of each limit, so `retry_after` is the time until the limit is full again.
    pub async fn peek(&self, request: &Request<'_>) -> Decision {
        match self.0.peek(request).await {
            Ok(decision) => Decision::stated(decision),
            Err(_) => self.fall_back(|local| local.peek(request)),
        }
    }

    /// Gives the cost of a request back to its limits, never above full: for work that was charged but not done. If
    /// the service cannot be reached, the local fallback counters get it back. A refund that the service may have
    /// received is not sent again.
    pub async fn refund(&self, request: &Request<'_>) {
        let Err(error) = self.0.refund(request).await else { return };
        self.0.counts.count_failure(&error);
        let not_received = matches!(error, ClientError::Away | ClientError::Unreachable(_));
        if not_received && self.0.fallback == Fallback::Local {
            self.0.local.refund(request);
        }
    }

    /// Waits until the request is allowed, for at most `patience`. Returns a denial if it cannot be allowed in that
    /// time, without waiting if that is already known. Calls that wait for the same descriptors are allowed in order
    /// of arrival.
    pub async fn until_ready(&self, request: &Request<'_>, patience: Duration) -> Decision {
        let now = Instant::now();
        let deadline = now.checked_add(patience).unwrap_or(now + LONGEST_WAIT);
        let line = self.0.lines.turn(request_body::acquire(request));
        let Ok(_turn) = timeout_at(deadline, line).await else { return self.check(request).await };
        loop {
            let decision = self.check(request).await;
            if decision.allowed() {
                return decision;
            }
            let retry = decision.retry_after().unwrap_or(Duration::MAX);
            match Instant::now().checked_add(retry) {
                Some(at) if at <= deadline => sleep(retry).await,
                _ => return decision,
            }
        }
    }

    /// Prepares inline limits of a domain, for [`tidegate::Request::limits`]. Whether the rules of the service allow
    /// them is known only when a request is sent.
    ///
    /// # Errors
    /// Returns an error if a limit is invalid, or cannot be expressed in the HTTP API.
    pub fn inline_limits(&self, domain: &str, limits: &[LimitSpec]) -> Result<InlineLimits, InlineError> {
        request_body::can_be_sent(limits)?;
        self.0.local.inline_limits(domain, limits)
    }

    /// Returns the state of the service and the counts of requests.
    pub fn health(&self) -> Health {
        let available = self.0.breaker.lock().is_closed();
        self.0.counts.health(available)
    }

    /// Returns the limiter in this process that decides while the service does not respond.
    pub fn local(&self) -> &Limiter {
        &self.0.local.limiter
    }

    /// Returns a new scope for an unnamed limiter of the application with these limits.
    #[doc(hidden)]
    pub fn unnamed_scope(&self, domain: &str, limits: &InlineLimits) -> UnnamedScope {
        self.0.scopes.scope(domain, limits)
    }

    /// Decides without the service.
    fn fall_back(&self, locally: impl FnOnce(&LocalLimiter) -> Decision) -> Decision {
        match self.0.fallback {
            Fallback::Allow => unseen(Source::Allow),
            Fallback::Deny => unseen(Source::Deny),
            Fallback::Local => locally(&self.0.local),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("health", &self.health()).finish_non_exhaustive()
    }
}
