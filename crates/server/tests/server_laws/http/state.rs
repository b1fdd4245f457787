//! `GET /healthcheck` and `GET /readyz`.

use http::Request;
use http_body_util::Full;
use serde_json::json;

use super::support::{RULES, Service};
use crate::support::service::{get, until};

#[tokio::test]
async fn a_service_that_is_ready_says_so() {
    let mut service = Service::start().await;
    let answer = service.get("/healthcheck").await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"OK"[..]));
    let answer = service.get("/readyz").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/json")));
    let detail = answer.json();
    assert_eq!((&detail["ready"], &detail["draining"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&detail["store"], &detail["rules"]["domains"]),
        (&json!({ "kind": "memory", "degradation": 0 }), &json!(["api"]))
    );

    let head = Request::head("/healthcheck").header("host", "tidegate").body(Full::default()).unwrap();
    let answer = service.send(head).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
}

#[tokio::test]
async fn a_service_on_its_way_out_is_not_ready_and_goes_on_answering() {
    let mut service = Service::with(RULES, &[("drain.delay", "30s")]).await;
    service.process.signal("TERM");
    until("it is not ready", || get(service.process.http, "/readyz").status == 503);
    assert_eq!(service.get("/healthcheck").await.status, 500);
    let answer = service.get("/readyz").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["draining"]), (503, &json!(true)));
    let checked = service.check(r#"{"domain":"api","descriptor":{"user":"ann"}}"#).await;
    assert_eq!(checked.status, 200);
}
