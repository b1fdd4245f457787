//! What an application adds to its service.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use thiserror::Error;
use tidegate::unnamed::UnnamedScope;
use tidegate::{InlineError, LimitSpec, Limiter};
use tower_layer::Layer;

use crate::asking::Asking;
use crate::client_ip::ClientIp;
use crate::key::{Key, by_ip};
use crate::limits::{self, LimitTextError};
use crate::question::{APPS, About, Cost, Descriptors};
use crate::reject::Rejection;
use crate::renderer::{Headers, Renderer};
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

/// Why limits in an application are none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayerError {
    /// The text is none.
    #[error("{0}")]
    Text(#[from] LimitTextError),
    /// The limiter does not take them.
    #[error("{0}")]
    Inline(#[from] InlineError),
}

impl RateLimitLayer {
    /// Asks about the route (or the limiter's name) and the client's address, by the rules of domain `apps`, unless told otherwise.
    pub fn new(limiter: Limiter) -> Self {
        Self { settings: Arc::new(Settings::new(limiter)) }
    }

    /// What clients are counted under; their address unless told otherwise.
    pub fn key(self, key: Key) -> Self {
        self.with(|settings| settings.key = key)
    }

    /// Limits of the application's own, such as `10/minute;200/hour`, in place of those in the rules. The
    /// domain is `apps`, whose rules must allow it: `inline_limits: {max: 1000}`.
    ///
    /// # Errors
    /// If the text is no limit, or a limiter that decides here has no such domain.
    pub fn limits(self, text: &str) -> Result<Self, LayerError> {
        self.limits_in(APPS, &limits::parse(text)?)
    }

    /// The same in another domain, and with all that limits can say: `&[per_minute(10).burst(20)]`.
    ///
    /// # Errors
    /// If the numbers make no limit, or the domain does not take any from applications.
    pub fn limits_in(self, domain: &str, limits: &[LimitSpec]) -> Result<Self, LayerError> {
        let limits = self.settings.limiter.inline_limits(domain, limits)?;
        Ok(self.with(|settings| {
            let name = settings.name();
            // The number that the limits before had is free again.
            settings.about = About::default();
            let itself = match &name {
                Some(_) => None,
                // One that is made while a request is handled is made for each: they are one limiter.
                None if is_handling() => Some(UnnamedScope::first()),
                None => Some(settings.limiter.unnamed_scope(domain, &limits)),
            };
            settings.about = About::Route { domain: domain.to_owned(), name, limits: Some(limits), itself };
        }))
    }

    /// What the limiter is called. Limiters of one name share the counters of their limits. Without a name
    /// each route counts for itself, by its method and template (`GET /users/{id}`); where the framework
    /// knows none, the limiter counts for all it is around, whatever the path.
    pub fn name(self, name: impl Into<String>) -> Self {
        let called = name.into();
        self.with(|settings| {
            if let About::Route { name, itself, .. } = &mut settings.about {
                (*name, *itself) = (Some(called), None);
            }
        })
    }

    /// Descriptors of the application's own, held against the rules of a domain.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().domain(tidegate::Domain::new("shop")).build().unwrap();
    /// use tidegate_middleware::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::new(limiter).descriptors("shop", |asking| {
    ///     let api_key = asking.header("x-api-key").unwrap_or("anonymous".into());
    ///     [("api_key", api_key), ("endpoint", asking.route().into())].into()
    /// });
    /// ```
    pub fn descriptors(
        self,
        domain: impl Into<String>,
        find: impl Fn(&Asking<'_>) -> Descriptors + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| {
            settings.about = About::Descriptors { domain: domain.into(), find: Arc::new(find) };
        })
    }

    /// How many units each request takes; 1 unless told otherwise.
    pub fn cost(self, cost: u64) -> Self {
        self.with(|settings| settings.cost = Cost::Fixed(cost))
    }

    /// The same by a function of the request.
    pub fn cost_by(self, find: impl Fn(&Asking<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Cost::Now(Arc::new(find)))
    }

    /// The same by a function that has to wait.
    pub fn cost_by_async<F>(self, find: impl Fn(&Asking<'_>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = u64> + Send + 'static,
    {
        self.with(|settings| settings.cost = Cost::later(find))
    }

    /// Requests that are not limited, such as health checks.
    pub fn skip(self, skip: impl Fn(&Asking<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.skip = Some(Arc::new(skip)))
    }

    /// Which proxies are believed about who asked, and how addresses are grouped.
    pub fn client_ip(self, client_ip: ClientIp) -> Self {
        client_ip.warn();
        self.with(|settings| settings.client_ip = client_ip)
    }

    /// Which families of headers decisions of this process have. Those of a service come as it renders them.
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|settings| settings.renderer = Renderer::new(headers))
    }

    /// Answers denied requests in the application's own way, from what would have been answered.
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
        answer: impl Fn(Rejection<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        let answer: OnReject = Arc::new(answer);
        self.with(|settings| settings.on_reject = Some(answer))
    }

    /// What becomes of a request while the store or the service behind the limiter does not answer. Unless
    /// told otherwise, what the limiter then decides: by `on_store_error` of its rules, or by
    /// [`tidegate::RemoteFallback`](https://docs.rs/tidegate).
    pub fn on_store_error(self, what: WhenStoreFails) -> Self {
        self.with(|settings| settings.when_store_fails = what)
    }

    /// Also takes a slot of each concurrency limit that the descriptors fall under, and holds it until the
    /// body of the response has ended or the client has gone away.
    pub fn hold_permits(self) -> Self {
        self.with(|settings| settings.hold_permits = true)
    }

    /// Leaves checking to the handler, which takes [`crate::Limited`] and knows the cost.
    pub fn deferred(self) -> Self {
        self.with(|settings| settings.deferred = true)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl Settings {
    fn new(limiter: Limiter) -> Self {
        Self {
            limiter,
            about: About::default(),
            key: by_ip(),
            cost: Cost::Fixed(1),
            client_ip: ClientIp::default(),
            renderer: Renderer::default(),
            skip: None,
            on_reject: None,
            when_store_fails: WhenStoreFails::default(),
            hold_permits: false,
            deferred: false,
            _alive: crate::settings::Alive::default(),
        }
    }

    fn name(&self) -> Option<String> {
        match &self.about {
            About::Route { name, .. } => name.clone(),
            About::Descriptors { .. } => None,
        }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { inner, settings: Arc::clone(&self.settings) }
    }
}
