//! What makes the decisions of a layer: a limiter in this process, or a client of a service.

use std::error::Error;
use std::time::Duration;

use tidegate::unnamed::UnnamedScope;
use tidegate::{Acquired, Decision, InlineError, InlineLimits, LimitSpec, Limiter, Micros, Request};
use tidegate::{ReservationId, ReserveError, Reserved};
#[cfg(feature = "client")]
use tidegate_client::Client;

/// What makes the decisions of a layer. A [`Limiter`] and a client of a service both convert into it:
///
/// ```
/// use tidegate::Limiter;
/// use tidegate_middleware::RateLimitLayer;
///
/// let here = RateLimitLayer::new(Limiter::builder().build()?);
/// # #[cfg(feature = "client")]
/// let service = RateLimitLayer::new(tidegate_client::Client::builder("http://localhost:8080").build()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub enum Decider {
    /// A limiter in this process, with any store.
    Limiter(Limiter),
    /// A client of a service.
    #[cfg(feature = "client")]
    Client(Client),
}

impl From<Limiter> for Decider {
    fn from(limiter: Limiter) -> Self {
        Self::Limiter(limiter)
    }
}

#[cfg(feature = "client")]
impl From<Client> for Decider {
    fn from(client: Client) -> Self {
        Self::Client(client)
    }
}

/// Slots that were acquired. Dropping the permit returns them.
pub(crate) enum Permit {
    /// Boxed, because it is much larger than the other variant.
    Limiter(Box<tidegate::Permit>),
    #[cfg(feature = "client")]
    Client(tidegate_client::Permit),
}

impl Decider {
    pub(crate) async fn check(&self, request: &Request<'_>) -> Decision {
        match self {
            Self::Limiter(limiter) => limiter.check(request).await,
            #[cfg(feature = "client")]
            Self::Client(client) => client.check(request).await,
        }
    }

    /// Acquires a slot of each concurrency limit of the request. Returns the denial if one of them is full.
    pub(crate) async fn acquire(&self, request: &Request<'_>) -> Result<Permit, Decision> {
        match self {
            Self::Limiter(limiter) => match limiter.acquire(request).await {
                Acquired::Permit(permit) => Ok(Permit::Limiter(Box::new(permit))),
                Acquired::Denied(decision) => Err(decision),
            },
            #[cfg(feature = "client")]
            Self::Client(client) => match client.acquire(request).await {
                tidegate_client::Acquired::Permit(permit) => Ok(Permit::Client(permit)),
                tidegate_client::Acquired::Denied(decision) => Err(decision),
            },
        }
    }

    pub(crate) async fn reserve(
        &self,
        request: &Request<'_>,
        lifetime: Duration,
    ) -> Result<Reserved, ReserveError> {
        match self {
            Self::Limiter(limiter) => limiter.reserve(request, lifetime).await,
            #[cfg(feature = "client")]
            Self::Client(client) => client.reserve(request, lifetime).await,
        }
    }

    /// Settles a reservation. Returns false if it does not exist. After an error the call can be repeated.
    pub(crate) async fn settle(
        &self,
        id: ReservationId,
        cost: u64,
    ) -> Result<bool, Box<dyn Error + Send + Sync>> {
        let id = id.to_string();
        Ok(match self {
            Self::Limiter(limiter) => limiter.settle(&id, cost).await?.is_some(),
            #[cfg(feature = "client")]
            Self::Client(client) => client.settle(&id, cost).await?.is_some(),
        })
    }

    pub(crate) fn inline_limits(
        &self,
        domain: &str,
        limits: &[LimitSpec],
    ) -> Result<InlineLimits, InlineError> {
        match self {
            Self::Limiter(limiter) => limiter.inline_limits(domain, limits),
            #[cfg(feature = "client")]
            Self::Client(client) => client.inline_limits(domain, limits),
        }
    }

    /// Returns a new scope for a layer with these limits that has neither a name nor a route.
    pub(crate) fn unnamed_scope(&self, domain: &str, limits: &InlineLimits) -> UnnamedScope {
        match self {
            Self::Limiter(limiter) => limiter.unnamed_scope(domain, limits),
            #[cfg(feature = "client")]
            Self::Client(client) => client.unnamed_scope(domain, limits),
        }
    }

    /// Returns the current time by the clock of this process.
    pub(crate) fn now(&self) -> Micros {
        match self {
            Self::Limiter(limiter) => limiter.now(),
            #[cfg(feature = "client")]
            Self::Client(client) => client.local().now(),
        }
    }
}

impl Permit {
    /// Returns how long the slots are held without renewal; `None` if no concurrency limit applied.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Limiter(permit) => permit.timeout(),
            #[cfg(feature = "client")]
            Self::Client(permit) => permit.timeout(),
        }
    }

    /// Restarts the timeout. Returns false if a slot has already been returned.
    pub(crate) async fn renew(&self) -> bool {
        match self {
            Self::Limiter(permit) => permit.renew().await,
            #[cfg(feature = "client")]
            Self::Client(permit) => permit.renew().await,
        }
    }
}
