//! The Tower layer that limits the requests to a service.

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

/// Limits the requests to a service. Cheap to clone. The layer never fails by itself: the only errors are those of
/// the inner service.
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

/// Reasons the limits of a layer can be rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayerError {
    /// The text cannot be parsed as limits.
    #[error("{0}")]
    Text(#[from] LimitTextError),
    /// The limiter does not accept the limits.
    #[error("{0}")]
    Inline(#[from] InlineError),
}

impl RateLimitLayer {
    /// Creates a layer that decides with a [`tidegate::Limiter`], or with a client of a service. By default it counts
    /// requests by route (or by the name of the layer) and by the client's address, with the rules of the domain
    /// `apps`.
    pub fn new(decider: impl Into<Decider>) -> Self {
        Self { settings: Arc::new(Settings::new(decider.into())) }
    }

    /// Sets the key that clients are counted under. The default is the client's address.
    pub fn key(self, key: Key) -> Self {
        self.with(|settings| settings.key = key)
    }

    /// Sets limits in code, such as `10/minute;200/hour`, in place of those in the rules. The domain is `apps`, whose
    /// rules must allow this with `inline_limits: {max: 1000}`.
    ///
    /// # Errors
    /// Returns an error if the text cannot be parsed, or if a limiter in this process does not have that domain.
    pub fn limits(self, text: &str) -> Result<Self, LayerError> {
        self.limits_in(APPS, &limits::parse(text)?)
    }

    /// Sets limits in code for any domain, with all options of a limit, such as `&[per_minute(10).burst(20)]`.
    ///
    /// # Errors
    /// Returns an error if a limit is invalid, or if the domain does not allow limits in code.
    pub fn limits_in(self, domain: &str, limits: &[LimitSpec]) -> Result<Self, LayerError> {
        let limits = self.settings.decider.inline_limits(domain, limits)?;
        Ok(self.with(|settings| {
            let name = settings.name();
            // Drops the scope number of the previous limits, so that it can be reused.
            settings.subject = Subject::default();
            let unnamed = match &name {
                Some(_) => None,
                // A layer created while a request is handled is created for each request: they must all share one
                // scope.
                None if is_handling() => Some(UnnamedScope::first()),
                None => Some(settings.decider.unnamed_scope(domain, &limits)),
            };
            settings.subject =
                Subject::Route { domain: domain.to_owned(), name, limits: Some(limits), unnamed };
        }))
    }

    /// Names the layer. Layers with the same name share the counters of their limits. Without a name, each route has
    /// its own counters, by its method and template (`GET /users/{id}`). If the framework does not provide the
    /// template, all requests to the layer share its counters, whatever the path.
    pub fn name(self, name: impl Into<String>) -> Self {
        let called = name.into();
        self.with(|settings| {
            if let Subject::Route { name, unnamed, .. } = &mut settings.subject {
                (*name, *unnamed) = (Some(called), None);
            }
        })
    }

    /// Sets the domain and the descriptors of requests, to be matched against the rules of that domain.
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

    /// Sets the cost of each request in units. The default is 1.
    pub fn cost(self, cost: u64) -> Self {
        self.with(|settings| settings.cost = Cost::Fixed(cost))
    }

    /// Sets the cost of a request in units by a function of its head.
    pub fn cost_by(self, find: impl Fn(&RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Cost::Now(Arc::new(find)))
    }

    /// Sets the cost of a request in units by an async function of its head.
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

    /// Sets which proxies are trusted to state the client's address, and how addresses are grouped.
    pub fn client_ip(self, client_ip: ClientIp) -> Self {
        client_ip.warn();
        self.with(|settings| settings.client_ip = client_ip)
    }

    /// Sets which header families are written for decisions made in this process. The headers of a service are passed
    /// on as it rendered them.
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|settings| settings.renderer = Renderer::new(headers))
    }

    /// Sets a function that builds the response to a denied request, starting from the default response.
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

    /// Sets how requests are decided while the store or the service behind the layer does not respond. By default the
    /// limiter decides by `on_store_error` of its rules, and a client by its fallback.
    pub fn on_store_error(self, what: WhenStoreFails) -> Self {
        self.with(|settings| settings.when_store_fails = what)
    }

    /// Also takes a slot of each concurrency limit that matches the descriptors, and holds it until the body of the
    /// response has ended or the client has disconnected.
    pub fn hold_permits(self) -> Self {
        self.with(|settings| settings.hold_permits = true)
    }

    /// Leaves the check to the handler, which knows the cost and checks through the extractor [`crate::Limited`].
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
