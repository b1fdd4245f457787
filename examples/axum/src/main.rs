//! An Axum app whose routes are limited by a Tidegate service.
//!
//! ```sh
//! tidegate serve --rules examples/quickstart &
//! TIDEGATE_URL=http://localhost:8080 PORT=3000 cargo run -p tidegate-example-axum
//! curl -i 'http://localhost:3000/search?q=tide'
//! ```

use std::env;
use std::error::Error;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_client::{Client, Fallback};
use tidegate_middleware::key::{by_header, by_ip};
use tidegate_middleware::{ClientIp, Denied, Limited, RateLimitLayer, RequestHead};
use tokio::net::TcpListener;

type Failure = Box<dyn Error + Send + Sync>;

/// How long a completion may take before its estimate stays charged.
const COMPLETION: Duration = Duration::from_mins(1);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let app = app(client()?)?;

    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned()).parse()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    // Provides the addresses of clients, which the limits use as keys.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// Returns a client of the service. `TIDEGATE_FALLBACK` sets how it decides while the service does not respond.
fn client() -> Result<Client, Failure> {
    let url = env::var("TIDEGATE_URL").unwrap_or_else(|_| "http://localhost:8080".to_owned());
    let fallback = match env::var("TIDEGATE_FALLBACK").as_deref() {
        Ok("allow") => Fallback::Allow,
        Ok("deny") => Fallback::Deny,
        Ok("local") | Err(_) => Fallback::Local,
        Ok(other) => return Err(format!("TIDEGATE_FALLBACK is allow, deny or local, not {other:?}").into()),
    };
    Ok(Client::builder(url).fallback(fallback).build()?)
}

fn app(client: Client) -> Result<Router, Failure> {
    let layer = RateLimitLayer::new(client).client_ip(ClientIp::new().trusted_proxies(["127.0.0.1/32"])?);
    let by_customer = || by_header("x-api-key").or(by_ip());

    // Limits in code, by address.
    let search = layer.clone().name("search").limits("5/minute;100/hour")?;
    // The rules of the service.
    let orders = layer.clone().descriptors("api_platform", |head| {
        // An empty header counts as missing.
        let api_key = head.header("x-api-key").unwrap_or("anonymous".into());
        [("api_key", api_key), ("endpoint", "POST /v1/orders".into())].into()
    });
    // Limits in code, by customer. A report costs one unit per page.
    let reports = layer.clone().name("reports").key(by_customer()).cost_by(pages).limits("10/minute")?;
    // The handler checks, because only it knows the cost, and even that only afterwards.
    let complete = layer.name("complete").key(by_customer()).deferred().limits("1000/minute")?;

    Ok(Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/health", get(|| async { "ok" }))
        .route("/search", get(|| async { Json(json!({ "results": [] })) }).layer(search))
        .route("/orders", post(order).layer(orders))
        .route("/reports", post(|| async { Json(json!({ "report": "done" })) }).layer(reports))
        .route("/complete", post(complete_prompt).layer(complete)))
}

async fn order() -> impl IntoResponse {
    (StatusCode::CREATED, Json(json!({ "order": "accepted" })))
}

fn pages(head: &RequestHead<'_>) -> u64 {
    let query = head.parts().uri.query().unwrap_or_default();
    let pages = query.split('&').find_map(|pair| pair.strip_prefix("pages="));
    pages.and_then(|pages| pages.parse().ok()).unwrap_or(1).max(1)
}

#[derive(Deserialize)]
struct CompletionBody {
    #[expect(dead_code, reason = "a real app would complete it")]
    prompt: String,
    max_tokens: u64,
    used: u64,
}

#[derive(Serialize)]
struct Completion {
    used: u64,
}

/// Reserves the maximum cost of a completion, and settles the real cost.
async fn complete_prompt(limited: Limited, Json(body): Json<CompletionBody>) -> Result<Json<Value>, Denied> {
    let estimate = limited.reserve(body.max_tokens, COMPLETION).await?;
    let completion = Completion { used: body.used };
    estimate.settle(completion.used).await;
    Ok(Json(json!(completion)))
}
