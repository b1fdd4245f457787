//! Keys: what requests of a client are counted under.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::HeaderName;

use crate::request_head::{AsyncHeadFn, HeadFn, RequestHead, is_spoofable};
use crate::warnings;

/// Finds the key of a client in a request. Keys can be combined:
///
/// ```
/// use tidegate_middleware::key::{by_fn, by_header, by_ip, by_route};
///
/// let customer = by_header("x-api-key").or(by_ip());
/// let customer_and_page = customer.and(by_route());
/// let by_query = by_fn(|head| head.parts().uri.query().map(str::to_owned));
/// ```
#[derive(Clone)]
pub struct Key(Kind);

#[derive(Clone)]
enum Kind {
    Header(HeaderName),
    Ip,
    Route,
    Now(HeadFn<Option<String>>),
    Later(AsyncHeadFn<Option<String>>),
    Or(Arc<(Key, Key)>),
    And(Arc<(Key, Key)>),
}

/// A key, or a future that resolves to one.
enum Found<'a> {
    Now(Option<String>),
    Later(BoxFuture<'a, Option<String>>),
}

/// Uses the value of a header, such as an API key. A header that any client can write does not identify a client. For
/// addresses behind proxies use [`by_ip`].
///
/// # Panics
/// Panics if `name` is not a valid header name.
pub fn by_header(name: &str) -> Key {
    let name = HeaderName::from_bytes(name.as_bytes());
    let name = name.unwrap_or_else(|_| panic!("by_header needs the name of a header, such as \"x-api-key\""));
    if is_spoofable(&name) {
        warnings::SPOOFABLE_KEY.log_about(name.as_str());
    }
    Key(Kind::Header(name))
}

/// Uses the client's IPv4 address, or the network of its IPv6 address; see [`crate::ClientIp`].
pub fn by_ip() -> Key {
    Key(Kind::Ip)
}

/// Uses the method and template of the route, such as `GET /users/{id}`, or `GET *` if the framework does not provide
/// the template. The path itself is never used: a client that makes up paths would never be limited.
pub fn by_route() -> Key {
    Key(Kind::Route)
}

/// Uses the key that a function of the request head returns.
pub fn by_fn(find: impl Fn(&RequestHead<'_>) -> Option<String> + Send + Sync + 'static) -> Key {
    Key(Kind::Now(Arc::new(find)))
}

/// Uses the key that an async function returns, such as one that looks up a session in a database. The function must
/// copy what it needs from the request head.
///
/// ```
/// # async fn user_of(cookie: String) -> Option<String> { Some(cookie) }
/// use tidegate_middleware::key::{by_async, by_ip};
///
/// let by_user = by_async(|head| {
///     let cookie = head.header("cookie").unwrap_or_default().into_owned();
///     async move { user_of(cookie).await }
/// });
/// let key = by_user.or(by_ip());
/// ```
pub fn by_async<F>(find: impl Fn(&RequestHead<'_>) -> F + Send + Sync + 'static) -> Key
where
    F: Future<Output = Option<String>> + Send + 'static,
{
    Key(Kind::Later(Arc::new(move |head| find(head).boxed())))
}

impl Key {
    /// Returns a key that falls back to `other` if this key is not found.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(Kind::Or(Arc::new((self, other))))
    }

    /// Returns a key that combines both keys. It is not found if one of the two is not found.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Kind::And(Arc::new((self, other))))
    }

    /// Returns the key of a request, or `None` if it has none.
    pub(crate) async fn find(&self, head: RequestHead<'_>) -> Option<String> {
        self.look(head).wait().await
    }

    fn look<'a>(&'a self, head: RequestHead<'a>) -> Found<'a> {
        match &self.0 {
            Kind::Header(name) => Found::Now(head.header(name).map(Cow::into_owned)),
            Kind::Ip => Found::Now(head.client().map(|client| client.key)),
            Kind::Route => Found::Now(Some(head.route())),
            Kind::Now(find) => Found::Now(find(&head)),
            Kind::Later(find) => Found::Later(find(&head)),
            Kind::Or(both) => match both.0.look(head) {
                Found::Now(None) => both.1.look(head),
                Found::Now(found) => Found::Now(found),
                Found::Later(first) => Found::Later(
                    async move {
                        match first.await {
                            None => both.1.look(head).wait().await,
                            found => found,
                        }
                    }
                    .boxed(),
                ),
            },
            Kind::And(both) => match (both.0.look(head), both.1.look(head)) {
                (Found::Now(one), Found::Now(other)) => Found::Now(joined(one, other)),
                (one, other) => {
                    Found::Later(async move { joined(one.wait().await, other.wait().await) }.boxed())
                }
            },
        }
    }
}

impl Found<'_> {
    async fn wait(self) -> Option<String> {
        match self {
            Self::Now(found) => found,
            Self::Later(found) => found.await,
        }
    }
}

/// Joins two keys so that no two different pairs give the same text.
fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    let escaped = |text: String| {
        if text.contains(['%', '|']) { text.replace('%', "%25").replace('|', "%7C") } else { text }
    };
    Some(format!("{}|{}", escaped(one?), escaped(other?)))
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Header(name) => write!(f, "by_header({name:?})"),
            Kind::Ip => f.write_str("by_ip()"),
            Kind::Route => f.write_str("by_route()"),
            Kind::Now(_) => f.write_str("by_fn(..)"),
            Kind::Later(_) => f.write_str("by_async(..)"),
            Kind::Or(both) => write!(f, "{:?}.or({:?})", both.0, both.1),
            Kind::And(both) => write!(f, "{:?}.and({:?})", both.0, both.1),
        }
    }
}
