//! Permits are held for as long as a response takes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tidegate::{Acquired, Limiter, Request as Asked};
use tidegate_middleware::RateLimitLayer;
use tokio::sync::{mpsc, oneshot};
use tower::{Layer, Service, ServiceExt};

use super::limiter;

/// A body whose parts come when the test sends them.
struct Parts(mpsc::UnboundedReceiver<&'static str>);

impl Body for Parts {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.0.poll_recv(context).map(|part| match part? {
            "fail" => Some(Err("failed")),
            part => Some(Ok(Frame::data(part.into()))),
        })
    }
}

fn is_held(limiter: &Limiter) -> bool {
    matches!(limiter.acquire_now(&Asked::new("shop", [("export", "ann")])), Acquired::Denied(_))
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limiter.clone()).hold_permits().descriptors("shop", |_| [("export", "ann")].into())
}

fn ask() -> Request<()> {
    Request::new(())
}

/// A service that answers with the body of the test.
fn answering(
    body: Parts,
) -> impl Service<Request<()>, Response = Response<Parts>, Error = &'static str> + Clone {
    let body = std::sync::Arc::new(parking_lot::Mutex::new(Some(body)));
    tower::service_fn(move |_: Request<()>| {
        let body = body.lock().take().unwrap();
        async move { Ok(Response::new(body)) }
    })
}

#[tokio::test]
async fn a_permit_is_held_until_the_body_has_ended() {
    for how in ["end", "fail", "drop"] {
        let limiter = limiter();
        let (parts, body) = mpsc::unbounded_channel();
        let service = layer(&limiter).layer(answering(Parts(body)));
        let mut response = service.oneshot(ask()).await.unwrap();
        assert!(is_held(&limiter));
        parts.send("part").unwrap();
        assert!(response.frame().await.unwrap().is_ok());
        assert!(is_held(&limiter), "there is more to come");
        match how {
            "end" => {
                drop(parts);
                assert!(response.frame().await.is_none());
            }
            "fail" => {
                parts.send("fail").unwrap();
                assert!(response.frame().await.unwrap().is_err());
            }
            _ => drop(response),
        }
        assert!(!is_held(&limiter), "{how}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_gives_its_permit_back() {
    let limiter = limiter();
    let (started, has_started) = oneshot::channel();
    let started = std::sync::Arc::new(parking_lot::Mutex::new(Some(started)));
    let never = tower::service_fn(move |_: Request<()>| {
        started.lock().take().unwrap().send(()).unwrap();
        std::future::pending::<Result<Response<String>, &'static str>>()
    });
    let asking = tokio::spawn(layer(&limiter).layer(never).oneshot(ask()));
    has_started.await.unwrap();
    assert!(is_held(&limiter));
    asking.abort();
    assert!(asking.await.is_err());
    assert!(!is_held(&limiter));
}

#[tokio::test]
async fn the_second_at_once_is_denied() {
    let limiter = limiter();
    let (_parts, body) = mpsc::unbounded_channel();
    let service = layer(&limiter).layer(answering(Parts(body)));
    let _first = service.clone().oneshot(ask()).await.unwrap();
    let second = service.oneshot(ask()).await.unwrap();
    assert_eq!(second.status(), 429);
    let body = second.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8(body.to_vec()).unwrap().contains("at once"));
}
