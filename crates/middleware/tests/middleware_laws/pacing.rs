//! Clients that pace themselves: `vectors/pacing.json`, and what is done with what they learn.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tidegate_middleware::PacingLayer;
use tidegate_middleware::pacing::{Learned, Policy, learn};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};

use crate::support::vectors;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    status: u16,
    now_s: u64,
    headers: Vec<(String, String)>,
    expect: Told,
    delays: Vec<Delay>,
    denied: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_s: Option<Value>,
    retry_after_s: Option<Value>,
    policies: Vec<ToldPolicy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToldPolicy {
    name: String,
    limit: Option<u64>,
    window_s: Option<Value>,
    remaining: Option<u64>,
    reset_after_s: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delay {
    elapsed_ms: u64,
    delay_ms: u64,
}

fn seconds(value: Option<Value>) -> Option<Duration> {
    value.map(|value| Duration::from_secs_f64(value.as_f64().unwrap()))
}

#[test]
fn every_vector_is_learnt_and_waited_for_as_in_the_file() {
    let cases: Vec<Case> = vectors("pacing.json");
    assert!(cases.len() > 50);
    for case in cases {
        let mut headers = HeaderMap::new();
        for (name, value) in &case.headers {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let now = UNIX_EPOCH + Duration::from_secs(case.now_s);
        let status = StatusCode::from_u16(case.status).unwrap();
        let learned = learn(status, &headers, now);
        assert_eq!(learned.is_denial(status), case.denied, "{}", case.name);
        let Told { limit, remaining, reset_after_s, retry_after_s, policies } = case.expect;
        let policy = |told: ToldPolicy| Policy {
            name: told.name,
            limit: told.limit,
            window: seconds(told.window_s),
            remaining: told.remaining,
            reset_after: seconds(told.reset_after_s),
        };
        let expected = Learned {
            limit,
            remaining,
            reset_after: seconds(reset_after_s),
            retry_after: seconds(retry_after_s),
            policies: policies.into_iter().map(policy).collect(),
        };
        assert_eq!(learned, expected, "{}", case.name);
        for Delay { elapsed_ms, delay_ms } in case.delays {
            let delay = learned.delay(Duration::from_millis(elapsed_ms));
            // In whole milliseconds, rounded up.
            let rounded_ms = u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap();
            assert_eq!(rounded_ms, delay_ms, "{} after {elapsed_ms} ms", case.name);
        }
    }
}

/// A server that answers from a list, and notes when it was asked.
#[derive(Clone)]
struct Server {
    answers: Arc<Mutex<Vec<Answer>>>,
    asked: Arc<Mutex<Vec<(Instant, String)>>>,
}

type Answer = Result<(u16, Vec<(&'static str, &'static str)>), &'static str>;

impl Server {
    /// The last answer is repeated.
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Self { answers: Arc::new(Mutex::new(answers)), asked: Arc::default() }
    }

    /// When it was asked, from the first time on.
    fn times(&self) -> Vec<Duration> {
        let asked = self.asked.lock();
        asked.iter().map(|(at, _)| at.duration_since(asked[0].0)).collect()
    }
}

impl Service<Request<String>> for Server {
    type Response = Response<()>;
    type Error = &'static str;
    type Future = Ready<Result<Response<()>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        self.asked.lock().push((Instant::now(), request.into_body()));
        let mut answers = self.answers.lock();
        let answer = if answers.len() > 1 { answers.pop().unwrap() } else { answers[0].clone() };
        ready(answer.map(|(status, headers)| {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(()).unwrap()
        }))
    }
}

fn ask(method: &str) -> Request<String> {
    Request::builder().method(method).uri("http://api.example/x").body("body".to_owned()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_tried_again_after_retry_after_and_a_little() {
    let server = Server::new([Ok((429, vec![("retry-after", "7")])), Ok((200, vec![]))]);
    let pacing = PacingLayer::new();
    let response = pacing.layer(server.clone()).oneshot(ask("POST")).await.unwrap();
    assert_eq!(response.status(), 200);
    let times = server.times();
    assert!(times.len() == 2 && times[1] >= Duration::from_secs(7), "{times:?}");
    assert!(times[1] <= Duration::from_millis(7_710), "a tenth more at most: {times:?}");
    assert_eq!(server.asked.lock()[1].1, "body", "the body is sent again");
    assert_eq!(pacing.learned("api.example").unwrap().retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let server = Server::new([Ok((429, vec![("retry-after", "60")]))]);
    let paced = PacingLayer::new().deadline(Duration::from_secs(30)).layer(server.clone());
    let before = Instant::now();
    assert_eq!(paced.clone().oneshot(ask("GET")).await.unwrap().status(), 429);
    assert_eq!(paced.oneshot(ask("GET")).await.unwrap().status(), 429);
    assert_eq!((before.elapsed(), server.times().len()), (Duration::ZERO, 2));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_more_often_than_told() {
    for (retries, asked) in [(0, 1), (3, 4)] {
        let server = Server::new([Ok((429, vec![("retry-after", "1")]))]);
        let paced = PacingLayer::new().max_retries(retries).layer(server.clone());
        assert_eq!(paced.oneshot(ask("GET")).await.unwrap().status(), 429);
        assert_eq!(server.times().len(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_safe_is_tried_again_after_a_failure() {
    let cases = [
        ("GET", false, Err("reset"), 2),
        ("POST", false, Err("reset"), 1),
        ("POST", true, Err("reset"), 2),
        ("PUT", false, Ok((502, vec![])), 2),
        ("POST", false, Ok((502, vec![])), 1),
        ("PATCH", false, Ok((503, vec![])), 1),
        ("DELETE", false, Ok((504, vec![])), 2),
        ("GET", false, Ok((500, vec![])), 1),
        // Whoever names a time has done nothing.
        ("POST", false, Ok((503, vec![("retry-after", "1")])), 2),
        ("POST", false, Ok((429, vec![])), 2),
    ];
    for (method, key, failure, asked) in cases {
        let server = Server::new([failure.clone(), Ok((200, vec![]))]);
        let mut request = ask(method);
        if key {
            request.headers_mut().insert("idempotency-key", "1".parse().unwrap());
        }
        let result = PacingLayer::new().layer(server.clone()).oneshot(request).await;
        assert_eq!(server.times().len(), asked, "{method} {failure:?}");
        assert_eq!(result.is_ok_and(|response| response.status() == 200), asked == 2);
    }
}

/// A body that can be sent once only.
struct Once;

impl tidegate_middleware::pacing::Replay for Once {
    fn replay(&self) -> Option<Self> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_can_be_sent_once_is_sent_once() {
    let asked = Arc::new(Mutex::new(0));
    let noted = Arc::clone(&asked);
    let server = tower::service_fn(move |_: Request<Once>| {
        *noted.lock() += 1;
        let response = Response::builder().status(429).header("retry-after", "1").body(()).unwrap();
        ready(Ok::<_, Infallible>(response))
    });
    let request = Request::get("http://api.example/").body(Once).unwrap();
    assert_eq!(PacingLayer::new().layer(server).oneshot(request).await.unwrap().status(), 429);
    assert_eq!(*asked.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_together_are_spread_and_keep_their_order() {
    let little = vec![("ratelimit", r#""a";r=5;t=50"#), ("ratelimit-policy", r#""a";q=100;w=60"#)];
    let server = Server::new([Ok((200, little)), Ok((200, vec![]))]);
    let paced = PacingLayer::new().layer(server.clone());
    paced.clone().oneshot(ask("GET")).await.unwrap();
    let mut waiting = Vec::new();
    for number in 0..4 {
        let mut request = ask("GET");
        *request.body_mut() = number.to_string();
        let paced = paced.clone();
        waiting.push(tokio::spawn(async move { paced.oneshot(request).await }));
        tokio::task::yield_now().await;
    }
    for task in waiting {
        task.await.unwrap().unwrap();
    }
    assert_eq!(server.times(), [0, 5, 10, 15, 20].map(Duration::from_secs));
    let order: Vec<_> = server.asked.lock()[1..].iter().map(|(_, body)| body.clone()).collect();
    assert_eq!(order, ["0", "1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn one_host_does_not_hold_up_another() {
    let server = Server::new([Ok((200, vec![("ratelimit", r#""a";r=0;t=20"#)])), Ok((200, vec![]))]);
    let paced = PacingLayer::new().layer(server.clone());
    paced.clone().oneshot(ask("GET")).await.unwrap();
    let other = Request::get("http://other.example/").body(String::new()).unwrap();
    paced.clone().oneshot(other).await.unwrap();
    paced.oneshot(ask("GET")).await.unwrap();
    assert_eq!(server.times(), [0, 0, 20].map(Duration::from_secs));
}

#[tokio::test(start_paused = true)]
async fn no_answer_shortens_the_wait_that_another_asked_for() {
    let plenty =
        vec![("x-ratelimit-limit", "100"), ("x-ratelimit-remaining", "99"), ("x-ratelimit-reset", "60")];
    let nothing = vec![("content-type", "text/plain")];
    let told = [(429, vec![("retry-after", "20")]), (200, plenty), (200, nothing), (200, vec![])];
    let server = Server::new(told.map(Ok));
    let pacing = PacingLayer::new().max_retries(0);
    // They do not wait: their answers come as those of requests that were sent before.
    let at_once = pacing.clone().deadline(Duration::from_secs(1)).layer(server.clone());
    for _ in 0..3 {
        at_once.clone().oneshot(ask("GET")).await.unwrap();
    }
    assert_eq!(pacing.learned("api.example").unwrap().remaining, Some(99), "it is known all the same");
    pacing.layer(server.clone()).oneshot(ask("GET")).await.unwrap();
    let times = server.times();
    assert_eq!(times[..3], [Duration::ZERO; 3]);
    assert!(times[3] >= Duration::from_secs(20), "{times:?}");
}
