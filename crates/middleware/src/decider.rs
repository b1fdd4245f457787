//! Who decides the requests of a layer: a limiter in this process, or a service that a client asks.

use std::error::Error;
use std::time::Duration;

use tidegate::unnamed::UnnamedScope;
use tidegate::{Acquired, Decision, InlineError, InlineLimits, LimitSpec, Limiter, Micros, Request};
use tidegate::{ReservationId, ReserveError, Reserved};
#[cfg(feature = "client")]
use tidegate_client::Client;

/// Who decides the requests of a layer. Both kinds convert into it:
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
    /// A limiter in this process, on whichever store it has.
    Limiter(Limiter),
    /// A service that a client asks.
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

/// Slots that a decider gave out. Dropping it returns them.
pub(crate) enum Permit {
    /// Boxed, because it is much larger than the other.
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

    /// Returns the slots of the request's concurrency limits, or the denial.
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

    /// Settles a reservation, and returns whether there was one. An error means that it can be tried again.
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

    /// The scope of another layer with these limits that has neither a name nor a route.
    pub(crate) fn unnamed_scope(&self, domain: &str, limits: &InlineLimits) -> UnnamedScope {
        match self {
            Self::Limiter(limiter) => limiter.unnamed_scope(domain, limits),
            #[cfg(feature = "client")]
            Self::Client(client) => client.unnamed_scope(domain, limits),
        }
    }

    /// The time by the clock of this process.
    pub(crate) fn now(&self) -> Micros {
        match self {
            Self::Limiter(limiter) => limiter.now(),
            #[cfg(feature = "client")]
            Self::Client(client) => client.local().now(),
        }
    }
}

impl Permit {
    /// How long the slots are held without renewal; `None` if no concurrency limit applied.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Limiter(permit) => permit.timeout(),
            #[cfg(feature = "client")]
            Self::Client(permit) => permit.timeout(),
        }
    }

    /// Starts the time-out anew. False if a slot has returned already.
    pub(crate) async fn renew(&self) -> bool {
        match self {
            Self::Limiter(permit) => permit.renew().await,
            #[cfg(feature = "client")]
            Self::Client(permit) => permit.renew().await,
        }
    }
}
