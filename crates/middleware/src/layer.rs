//! The Tower layer that an application adds to its service.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use thiserror::Error;
use tidegate::unnamed::UnnamedScope;
use tidegate::{InlineError, LimitSpec};
use tower_layer::Layer;

use crate::client_ip::ClientIp;
use crate::decider::Decider;
use crate::key::{Key, by_ip};
use crate::limits::{self, LimitTextError};
use crate::owned_request::{APPS, Cost, Descriptors, Subject};
use crate::reject::Rejection;
use crate::renderer::{Headers, Renderer};
use crate::request_head::RequestHead;
use crate::service::RateLimit;
use crate::settings::{OnReject, Settings, WhenStoreFails, is_handling};

/// Limits the requests to a service. Cheap to clone, and of itself it never fails: the error of the service
/// inside is the only one.
///
/// ```
/// use tidegate::{Domain, Limiter};
/// use tidegate_middleware::RateLimitLayer;
/// use tidegate_middleware::key::{by_header, by_ip};
///
/// let limiter = Limiter::builder().domain(Domain::new("apps").inline_limits(1_000)).build()?;
/// let layer = RateLimitLayer::new(limiter).key(by_header("x-api-key").or(by_ip())).limits("10/minute;200/hour")?;
/// let app: axum::Router = axum::Router::new().route("/", axum::routing::get(|| async { "hello" })).layer(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "add it to a service"]
pub struct RateLimitLayer {
    settings: Arc<Settings>,
}

/// Reasons the limits of an application can be rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayerError {
    /// The text does not describe limits.
    #[error("{0}")]
    Text(#[from] LimitTextError),
    /// The limiter does not accept them.
    #[error("{0}")]
    Inline(#[from] InlineError),
}

impl RateLimitLayer {
    /// A layer by a [`tidegate::Limiter`], or by a client of a service. By default it counts the route (or the layer's
    /// name) and the client's address, by the rules of domain `apps`.
    pub fn new(decider: impl Into<Decider>) -> Self {
        Self { settings: Arc::new(Settings::new(decider.into())) }
    }

    /// Sets what clients are counted under; their address by default.
    pub fn key(self, key: Key) -> Self {
        self.with(|settings| settings.key = key)
    }

    /// Limits of the application's own, such as `10/minute;200/hour`, in place of those in the rules. The
    /// domain is `apps`, whose rules must allow it: `inline_limits: {max: 1000}`.
    ///
    /// # Errors
    /// If the text does not describe limits, or a limiter in this process has no such domain.
    pub fn limits(self, text: &str) -> Result<Self, LayerError> {
        self.limits_in(APPS, &limits::parse(text)?)
    }

    /// Limits of the application's own in any domain, with all that limits can say: `&[per_minute(10).burst(20)]`.
    ///
    /// # Errors
    /// If the numbers do not make a limit, or the domain does not accept limits from applications.
    pub fn limits_in(self, domain: &str, limits: &[LimitSpec]) -> Result<Self, LayerError> {
        let limits = self.settings.decider.inline_limits(domain, limits)?;
        Ok(self.with(|settings| {
            let name = settings.name();
            // The number that the limits before had is free again.
            settings.subject = Subject::default();
            let unnamed = match &name {
                Some(_) => None,
                // One that is made while a request is handled is made for each: they are one limiter.
                None if is_handling() => Some(UnnamedScope::first()),
                None => Some(settings.decider.unnamed_scope(domain, &limits)),
            };
            settings.subject =
                Subject::Route { domain: domain.to_owned(), name, limits: Some(limits), unnamed };
        }))
    }

    /// Names the layer. Layers of one name share the counters of their limits. Without a name each route counts
    /// for itself, by its method and template (`GET /users/{id}`); where the framework
    /// knows none, the layer counts for all it is around, whatever the path.
    pub fn name(self, name: impl Into<String>) -> Self {
        let called = name.into();
        self.with(|settings| {
            if let Subject::Route { name, unnamed, .. } = &mut settings.subject {
                (*name, *unnamed) = (Some(called), None);
            }
        })
    }

    /// Descriptors of the application's own, held against the rules of a domain.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().domain(tidegate::Domain::new("shop")).build().unwrap();
    /// use tidegate_middleware::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::new(limiter).descriptors("shop", |head| {
    ///     let api_key = head.header("x-api-key").unwrap_or("anonymous".into());
    ///     [("api_key", api_key), ("endpoint", head.route().into())].into()
    /// });
    /// ```
    pub fn descriptors(
        self,
        domain: impl Into<String>,
        find: impl Fn(&RequestHead<'_>) -> Descriptors + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| {
            settings.subject = Subject::Descriptors { domain: domain.into(), find: Arc::new(find) };
        })
    }

    /// Sets how many units each request takes; 1 by default.
    pub fn cost(self, cost: u64) -> Self {
        self.with(|settings| settings.cost = Cost::Fixed(cost))
    }

    /// Sets how many units a request takes, by a function of its head.
    pub fn cost_by(self, find: impl Fn(&RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Cost::Now(Arc::new(find)))
    }

    /// Sets how many units a request takes, by a function of its head that has to wait.
    pub fn cost_by_async<F>(self, find: impl Fn(&RequestHead<'_>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u64> + Send + 'static,
    {
        self.with(|settings| settings.cost = Cost::later(find))
    }

    /// Sets which requests are not limited, such as health checks.
    pub fn skip(self, skip: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.skip = Some(Arc::new(skip)))
    }

    /// Sets which proxies are believed about the address of clients, and how addresses are grouped.
    pub fn client_ip(self, client_ip: ClientIp) -> Self {
        client_ip.warn();
        self.with(|settings| settings.client_ip = client_ip)
    }

    /// Sets which families of headers decisions of this process have. Those of a service come as it renders them.
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|settings| settings.renderer = Renderer::new(headers))
    }

    /// Responds to denied requests in the application's own way, from the response they would have got.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().domain(tidegate::Domain::new("apps")).build().unwrap();
    /// use tidegate_middleware::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::new(limiter).on_reject(|rejection| {
    ///     let mut response = rejection.response;
    ///     *response.body_mut() = "slow down".into();
    ///     response
    /// });
    /// ```
    pub fn on_reject(
        self,
        respond: impl Fn(Rejection<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        let respond: OnReject = Arc::new(respond);
        self.with(|settings| settings.on_reject = Some(respond))
    }

    /// Sets what becomes of a request while the store or the service behind the layer does not respond. By default it
    /// is what the limiter then decides by `on_store_error` of its rules, or the client by its fallback.
    pub fn on_store_error(self, what: WhenStoreFails) -> Self {
        self.with(|settings| settings.when_store_fails = what)
    }

    /// Also takes a slot of each concurrency limit that the descriptors fall under, and holds it until the
    /// body of the response has ended or the client has gone away.
    pub fn hold_permits(self) -> Self {
        self.with(|settings| settings.hold_permits = true)
    }

    /// Leaves the check to the handler, which takes [`crate::Limited`] and knows the cost.
    pub fn deferred(self) -> Self {
        self.with(|settings| settings.deferred = true)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl Settings {
    fn new(decider: Decider) -> Self {
        Self {
            decider,
            subject: Subject::default(),
            key: by_ip(),
            cost: Cost::Fixed(1),
            client_ip: ClientIp::default(),
            renderer: Renderer::default(),
            skip: None,
            on_reject: None,
            when_store_fails: WhenStoreFails::default(),
            hold_permits: false,
            deferred: false,
            _count: crate::settings::LayerCount::default(),
        }
    }

    fn name(&self) -> Option<String> {
        match &self.subject {
            Subject::Route { name, .. } => name.clone(),
            Subject::Descriptors { .. } => None,
        }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { inner, settings: Arc::clone(&self.settings) }
    }
}
