//! The runs of `vectors/pacing.json`: how fast a client gets through a limit, and how often it is denied.
#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "a model of a server, in seconds")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use http::{Request, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use tidegate_middleware::PacingLayer;
use tokio::time::{Instant, sleep};
use tower::{Layer as _, ServiceExt as _, service_fn};

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    server: Limited,
    requests: usize,
    concurrent: usize,
    round_trip_ms: u64,
    expect: Bounds,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds {
    most_s: f64,
    most_denials: usize,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limited {
    kind: String,
    requests: u32,
    window_s: f64,
    phase_s: f64,
    headers: String,
}

fn runs() -> Vec<Run> {
    #[derive(Deserialize)]
    struct File {
        runs: Vec<Run>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/pacing.json");
    let File { runs } = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(runs.len() > 20);
    runs
}

/// Rounding of floating point is no reason for a decision.
const EPSILON: f64 = 1e-9;

/// A server that decides as the README of the vectors says.
struct LimitedServer {
    of: Limited,
    denials: usize,
    stamps: Vec<f64>,
    /// Counts by number of the window.
    counts: HashMap<i64, f64>,
    tokens: f64,
    tokens_at: f64,
}

struct Decided {
    allowed: bool,
    left: f64,
    after_s: f64,
}

impl LimitedServer {
    fn new(of: &Limited) -> Self {
        let tokens = f64::from(of.requests);
        let (stamps, counts) = (Vec::new(), HashMap::new());
        Self { of: of.clone(), denials: 0, stamps, counts, tokens, tokens_at: 0.0 }
    }

    /// Decides a request that arrives so many seconds after the client started.
    fn answer(&mut self, at_s: f64) -> Response<()> {
        let Decided { allowed, left, after_s } = match self.of.kind.as_str() {
            "sliding_log" => self.sliding_log(at_s),
            "fixed_window" => self.fixed_window(at_s + self.of.phase_s),
            "sliding_window" => self.sliding_window(at_s + self.of.phase_s),
            "token_bucket" => self.token_bucket(at_s),
            other => panic!("no server of kind {other}"),
        };
        self.denials += usize::from(!allowed);
        let (t, q, w) = ((after_s - EPSILON).ceil().max(0.0), self.of.requests, self.of.window_s);
        let mut response = Response::builder().status(if allowed { 200 } else { 429 });
        if !allowed {
            response = response.header("retry-after", t.max(1.0).to_string());
        }
        let left = left.to_string();
        response = match self.of.headers.as_str() {
            "structured" => response
                .header("ratelimit-policy", format!(r#""a";q={q};w={w}"#))
                .header("ratelimit", format!(r#""a";r={left};t={t}"#)),
            "x-ratelimit" => response
                .header("x-ratelimit-limit", q.to_string())
                .header("x-ratelimit-remaining", left)
                .header("x-ratelimit-reset", t.to_string()),
            _ => response,
        };
        response.body(()).unwrap()
    }

    fn sliding_log(&mut self, now: f64) -> Decided {
        let window = self.of.window_s;
        self.stamps.retain(|stamp| now - stamp < window - EPSILON);
        if self.stamps.len() >= self.of.requests as usize {
            return Decided { allowed: false, left: 0.0, after_s: window - (now - self.stamps[0]) };
        }
        self.stamps.push(now);
        let left = f64::from(self.of.requests) - self.stamps.len() as f64;
        Decided { allowed: true, left, after_s: window }
    }

    fn fixed_window(&mut self, now: f64) -> Decided {
        let (requests, window) = (f64::from(self.of.requests), self.of.window_s);
        let index = (now / window + EPSILON).floor();
        let count = self.counts.entry(index as i64).or_default();
        let after_s = (index + 1.0) * window - now;
        if *count >= requests {
            return Decided { allowed: false, left: 0.0, after_s };
        }
        *count += 1.0;
        Decided { allowed: true, left: requests - *count, after_s }
    }

    fn sliding_window(&mut self, now: f64) -> Decided {
        let (requests, window) = (f64::from(self.of.requests), self.of.window_s);
        let index = (now / window + EPSILON).floor();
        let of = |number: f64| self.counts.get(&(number as i64)).copied().unwrap_or_default();
        let (before, count) = (of(index - 1.0), of(index));
        let gone = (now - index * window).max(0.0);
        let used = count + before * (window - gone) / window;
        if used + 1.0 <= requests + EPSILON {
            self.counts.insert(index as i64, count + 1.0);
            let left = (requests - used - 1.0 + EPSILON).floor();
            return Decided { allowed: true, left, after_s: window };
        }
        // In this window as the one before fades, else in the next as this one does.
        let room = requests - 1.0;
        let after_s = if count <= room {
            window - gone - (room - count) * window / before
        } else {
            2.0 * window - gone - room * window / count
        };
        Decided { allowed: false, left: 0.0, after_s: after_s.max(0.0) }
    }

    fn token_bucket(&mut self, now: f64) -> Decided {
        let requests = f64::from(self.of.requests);
        let per_token = self.of.window_s / requests;
        let tokens = requests.min(self.tokens + (now - self.tokens_at) / per_token);
        self.tokens_at = now;
        if tokens < 1.0 - EPSILON {
            self.tokens = tokens;
            return Decided { allowed: false, left: 0.0, after_s: (1.0 - tokens) * per_token };
        }
        self.tokens = tokens - 1.0;
        let left = (self.tokens + EPSILON).floor();
        Decided { allowed: true, left, after_s: (requests - self.tokens) * per_token }
    }
}

/// When the last request passed, and how many were denied. With jitter, responses overtake each other.
async fn take(run: &Run, jitter: f64) -> (f64, usize) {
    let server = Arc::new(Mutex::new(LimitedServer::new(&run.server)));
    let began = Instant::now();
    let half = Duration::from_millis(run.round_trip_ms) / 2;
    let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(1)));
    let asked = Arc::clone(&server);
    let service = service_fn(move |_: Request<()>| {
        let (asked, random) = (Arc::clone(&asked), Arc::clone(&random));
        let part = move || half.mul_f64(1.0 + jitter * random.lock().f64());
        async move {
            sleep(part()).await;
            let response = asked.lock().answer(began.elapsed().as_secs_f64());
            sleep(part()).await;
            Ok::<_, Infallible>(response)
        }
    });
    let paced = PacingLayer::new().deadline(Duration::from_mins(1)).random(|| 0.5).layer(service);
    let left = Arc::new(AtomicUsize::new(run.requests));
    let worker = || {
        let (paced, left) = (paced.clone(), Arc::clone(&left));
        tokio::spawn(async move {
            while left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                let request = Request::get("http://api.example/").body(()).unwrap();
                assert_eq!(paced.clone().oneshot(request).await.unwrap().status(), 200);
            }
        })
    };
    let workers: Vec<_> = (0..run.concurrent).map(|_| worker()).collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let denials = server.lock().denials;
    (began.elapsed().as_secs_f64(), denials)
}

#[tokio::test(start_paused = true)]
async fn a_client_gets_through_a_limit_nearly_as_fast_as_it_allows() {
    for run in runs() {
        let (took_s, denials) = take(&run, 0.0).await;
        assert!(took_s <= run.expect.most_s, "{}: {took_s} s", run.name);
        assert!(denials <= run.expect.most_denials, "{}: {denials} denials", run.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_is_not_misled_by_responses_that_overtake_each_other() {
    for run in runs().into_iter().filter(|run| run.concurrent > 1) {
        let (took_s, denials) = take(&run, 0.4).await;
        assert!(took_s <= run.expect.most_s, "{}: {took_s} s", run.name);
        assert!(denials <= run.expect.most_denials, "{}: {denials} denials", run.name);
    }
}
