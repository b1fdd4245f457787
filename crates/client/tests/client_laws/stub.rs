//! A service that can be slow, unwell, garbled, killed and restarted. When it is well, it decides and renders
//! as the real one does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidegate::{
    Acquired, Decision, Domain, LimitSpec, Limiter, Permit, Request, Reserved, Rule, Settled, VirtualClock,
    Window, per_minute,
};
use tidegate_middleware::Renderer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How it behaves.
#[derive(Clone)]
pub(crate) enum Mode {
    Well,
    /// Answers each request only when let.
    Gated(Arc<Semaphore>),
    /// Takes requests and never answers.
    Hanging,
    /// Answers this status to everything.
    Saying(u16),
    Garbled,
    /// Is well, but tells these policies.
    Policies(&'static str),
}

pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    tasks: JoinSet<()>,
}

struct State {
    limiter: Limiter,
    mode: Mutex<Mode>,
    /// Paths and bodies, as they came.
    asked: Mutex<Vec<(String, Value)>>,
    answered: Mutex<Vec<String>>,
    tokens: Mutex<Vec<String>>,
    connections: AtomicUsize,
    permits: Mutex<BTreeMap<String, Permit>>,
}

impl Stub {
    pub(crate) async fn start() -> Self {
        let domain = Domain::new("shop")
            .rule(Rule::by("user").limit(per_minute(3)))
            .rule(Rule::by("export").concurrency(1, Duration::from_mins(10)));
        let limiter = Limiter::builder()
            .domain(Domain::new("apps").inline_limits(100))
            .domain(domain)
            .clock(VirtualClock::new())
            .build()
            .unwrap();
        let state = State {
            limiter,
            mode: Mutex::new(Mode::Well),
            asked: Mutex::default(),
            answered: Mutex::default(),
            tokens: Mutex::default(),
            connections: AtomicUsize::new(0),
            permits: Mutex::default(),
        };
        let mut stub =
            Self { address: ([127, 0, 0, 1], 0).into(), state: Arc::new(state), tasks: JoinSet::new() };
        stub.restart().await;
        stub
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn mode(&self, mode: Mode) {
        *self.state.mode.lock() = mode;
    }

    /// All paths and bodies so far.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.state.asked.lock().clone()
    }

    /// All bodies answered so far.
    pub(crate) fn answered(&self) -> Vec<String> {
        self.state.answered.lock().clone()
    }

    pub(crate) fn tokens(&self) -> Vec<String> {
        self.state.tokens.lock().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(SeqCst)
    }

    pub(crate) fn held(&self) -> usize {
        self.state.permits.lock().len()
    }

    /// Drops the listener and every connection.
    pub(crate) async fn kill(&mut self) {
        self.tasks.shutdown().await;
    }

    pub(crate) async fn restart(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let state = Arc::clone(&self.state);
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                state.connections.fetch_add(1, SeqCst);
                let state = Arc::clone(&state);
                let service = service_fn(move |request| {
                    let state = Arc::clone(&state);
                    async move { Ok::<_, Infallible>(state.answer(request).await) }
                });
                connections.spawn(async move {
                    // Clients may go away.
                    _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
    }
}

impl State {
    async fn answer(&self, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        if let Some(token) = request.headers().get("authorization") {
            self.tokens.lock().push(token.to_str().unwrap().to_owned());
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let asked: Value = serde_json::from_slice(&body).unwrap();
        self.asked.lock().push((path.clone(), asked.clone()));
        let mode = self.mode.lock().clone();
        match mode.clone() {
            Mode::Well | Mode::Policies(_) => {}
            Mode::Gated(gate) => gate.acquire().await.unwrap().forget(),
            Mode::Hanging => std::future::pending().await,
            Mode::Saying(status) => return problem(status, "so it was told"),
            Mode::Garbled => return Response::new(Full::from("<html>")),
        }
        let response = match path.as_str() {
            "/v1/check" if asked.is_array() => self.batch(&asked),
            "/v1/check" => self.check(&asked),
            "/v1/refund" => self.refund(&asked),
            "/v1/acquire" => self.acquire(&asked),
            "/v1/renew" if self.permits.lock().contains_key(text(&asked, "permit")) => {
                reply(200, json!({"permit": asked["permit"], "expires_at": null}).to_string())
            }
            "/v1/release" => {
                self.permits.lock().remove(text(&asked, "permit"));
                reply(204, String::new())
            }
            "/v1/reserve" => self.reserve(&asked),
            "/v1/settle" => self.settle(&asked),
            _ => problem_text(404, "there is none"),
        };
        let (mut head, body) = response.into_parts();
        if let Mode::Policies(policies) = mode {
            head.headers.insert("ratelimit-policy", policies.parse().unwrap());
        }
        self.answered.lock().push(body.clone());
        Response::from_parts(head, Full::from(body))
    }

    fn check(&self, asked: &Value) -> Response<String> {
        match self.with_request(asked, |request| self.limiter.check_now(request)) {
            Ok((decision, response)) => {
                drop(decision);
                response
            }
            Err(reason) => problem_text(403, &reason),
        }
    }

    fn refund(&self, asked: &Value) -> Response<String> {
        let refunded = self.with_request(asked, |request| {
            self.limiter.refund_now(request);
            self.limiter.peek_now(&request.clone().cost(0))
        });
        match refunded {
            Ok((left, _)) => {
                let mut limits = Vec::new();
                Renderer::default().limits(&left, &mut limits);
                reply(200, format!(r#"{{"limits":{}}}"#, String::from_utf8(limits).unwrap()))
            }
            Err(reason) => problem_text(403, &reason),
        }
    }

    fn batch(&self, asked: &Value) -> Response<String> {
        let mut elements = Vec::new();
        for asked in asked.as_array().unwrap() {
            let (head, body) = self.check(asked).into_parts();
            let headers: serde_json::Map<String, Value> = head
                .headers
                .iter()
                .filter(|(name, _)| *name != "content-type")
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
                .collect();
            // By hand: the body keeps its bytes.
            elements.push(format!(
                r#"{{"status":{},"headers":{},"body":{body}}}"#,
                head.status.as_u16(),
                Value::from(headers)
            ));
        }
        reply(200, format!("[{}]", elements.join(",")))
    }

    fn acquire(&self, asked: &Value) -> Response<String> {
        let mut permit = None;
        let decided = self.with_request(asked, |request| match self.limiter.acquire_now(request) {
            Acquired::Permit(found) => {
                permit = Some(found);
                self.limiter.peek_now(request)
            }
            Acquired::Denied(decision) => decision,
        });
        let Some(permit) = permit else { return decided.unwrap().1 };
        let name = format!("permit-{}", self.permits.lock().len());
        self.permits.lock().insert(name.clone(), permit);
        // Its clock is not the clients'.
        let mut response =
            reply(200, json!({"permit": name, "expires_at": "1994-11-06T08:59:37Z"}).to_string());
        response.headers_mut().insert("date", "Sun, 06 Nov 1994 08:49:37 GMT".parse().unwrap());
        response
    }

    fn reserve(&self, asked: &Value) -> Response<String> {
        let lifetime = Duration::from_millis(asked["ttl_ms"].as_u64().unwrap());
        let mut held = None;
        let decided =
            self.with_request(asked, |request| match self.limiter.reserve_now(request, lifetime).unwrap() {
                Reserved::Reservation(reservation) => {
                    held = Some(reservation.id);
                    reservation.decision
                }
                Reserved::Denied(decision) => decision,
            });
        let (_, response) = decided.unwrap();
        match held {
            Some(id) => response.map(|body| {
                body.replacen('{', &format!(r#"{{"id":"{id}","expires_at":"2999-01-01T00:00:00Z","#), 1)
            }),
            None => response,
        }
    }

    fn settle(&self, asked: &Value) -> Response<String> {
        match self.limiter.settle_now(text(asked, "id"), asked["cost"].as_u64().unwrap()) {
            Some(Settled { estimate, cost, decision }) => {
                let mut limits = Vec::new();
                Renderer::default().limits(&decision, &mut limits);
                let limits = String::from_utf8(limits).unwrap();
                reply(200, format!(r#"{{"estimate":{estimate},"cost":{cost},"limits":{limits}}}"#))
            }
            None => problem_text(410, "it is settled"),
        }
    }

    /// Decides what is asked, and renders the decision.
    fn with_request(
        &self,
        asked: &Value,
        decide: impl FnOnce(&Request<'_>) -> Decision,
    ) -> Result<(Decision, Response<String>), String> {
        let mut request: Option<Request<'_>> = None;
        for descriptor in asked["descriptors"].as_array().unwrap() {
            let entries = descriptor["entries"].as_array().unwrap();
            let entries: Vec<_> =
                entries.iter().map(|entry| (text(entry, "key"), text(entry, "value"))).collect();
            let odd = |value: &str| {
                value.len() > 256 || value.contains(|c: char| c.is_ascii_control() && c != '\t')
            };
            if entries.iter().any(|(_, value)| odd(value)) {
                return Err("an odd value".to_owned());
            }
            if [&asked["cost"], &descriptor["cost"]].iter().any(|cost| cost.as_u64() > Some(1 << 53)) {
                return Err("too high a cost".to_owned());
            }
            let mut next = match request {
                None => Request::new(text(asked, "domain"), entries),
                Some(request) => request.and(entries),
            };
            if let Some(cost) = descriptor["cost"].as_u64() {
                next = next.descriptor_cost(cost);
            }
            if let Some(limits) = descriptor["limits"].as_array() {
                let limits: Vec<_> = limits.iter().map(spec).collect();
                let limits = self.limiter.inline_limits(text(asked, "domain"), &limits);
                next = next.limits(&limits.map_err(|error| error.to_string())?);
            }
            request = Some(next);
        }
        let request = request.unwrap().cost(asked["cost"].as_u64().unwrap_or(1));
        let decision = decide(&request);
        let renderer = Renderer::default();
        let mut body = Vec::new();
        renderer.body(&request, &decision, &mut body);
        let mut response = Response::builder().status(renderer.status(&decision));
        response = response.header("content-type", renderer.content_type(&decision));
        renderer.headers(&request, &decision, self.limiter.now(), |name, value| {
            response.headers_mut().unwrap().insert(name, value.parse().unwrap());
        });
        Ok((decision, response.body(String::from_utf8(body).unwrap()).unwrap()))
    }
}

fn spec(sent: &Value) -> LimitSpec {
    let mut spec =
        LimitSpec::new(sent["requests"].as_u64().unwrap(), Window::named(text(sent, "per")).unwrap());
    if let Some(name) = sent["name"].as_str() {
        spec = spec.named(name);
    }
    match sent["burst"].as_u64() {
        Some(burst) => spec.burst(burst),
        None => spec,
    }
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or_default()
}

fn reply(status: u16, body: String) -> Response<String> {
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

fn problem_text(status: u16, detail: &str) -> Response<String> {
    let title = StatusCode::from_u16(status).unwrap().to_string();
    reply(
        status,
        json!({"type": "about:blank", "title": title, "status": status, "detail": detail}).to_string(),
    )
}

fn problem(status: u16, detail: &str) -> Response<Full<Bytes>> {
    problem_text(status, detail).map(Full::from)
}
