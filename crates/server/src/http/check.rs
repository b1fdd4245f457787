//! `POST /v1/check`: one request, or a list of them.

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use tidegate::{Decision, Request};
use tidegate_middleware::Renderer;

use super::asked::Asked;
use super::batch::{elements, is_list, write_list, write_status};
use super::problem::Problem;
use super::{Body, HttpApi, response};
use crate::trace;

/// Members that a response has besides those of the renderer, about.
const HEADERS: usize = 8;

impl HttpApi {
    pub(super) async fn check(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let timer = self.metrics.http_check.start();
        if !self.limiter.has_rules() {
            return Err(Problem::no_rules());
        }
        let response = if is_list(message) {
            self.check_batch(message).await?
        } else {
            let asked = Asked::read(message, &self.bounds)?;
            let request = asked.request(&self.limiter)?;
            self.render(&request, &self.decide(&request).await)
        };
        timer.stop();
        Ok(response)
    }

    /// Decides the request that the call is about.
    pub(super) async fn decide(&self, request: &Request<'_>) -> Decision {
        let decision = self.decide_one(request).await;
        if self.rate_limit.traced {
            trace::decided(request, &decision);
        }
        decision
    }

    /// Decides one request and counts the decision: the one place that does.
    async fn decide_one(&self, request: &Request<'_>) -> Decision {
        let decision = self.limiter.check(request).await;
        decision.count(request);
        self.rate_limit.denials.note(&self.limiter, request, &decision);
        decision
    }

    async fn decide_some<'r>(
        &self,
        request: Result<Request<'r>, Problem>,
    ) -> Result<(Decision, Request<'r>), Problem> {
        let request = request?;
        Ok((self.decide_one(&request).await, request))
    }

    /// The answer to one request.
    pub(super) fn render(&self, request: &Request<'_>, decision: &Decision) -> Response<Body> {
        self.render_by(&self.renderer, request, decision)
    }

    /// The same by another renderer.
    pub(super) fn render_by(
        &self,
        renderer: &Renderer,
        request: &Request<'_>,
        decision: &Decision,
    ) -> Response<Body> {
        let mut body = Vec::new();
        renderer.body(request, decision, &mut body);
        self.render_with(renderer, request, decision, body)
    }

    /// The same with another body.
    pub(super) fn render_with(
        &self,
        renderer: &Renderer,
        request: &Request<'_>,
        decision: &Decision,
        body: Vec<u8>,
    ) -> Response<Body> {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        if let Ok(content_type) = HeaderValue::from_str(renderer.content_type(decision)) {
            headers.insert(CONTENT_TYPE, content_type);
        }
        renderer.headers(request, decision, self.limiter.now(), |name, value| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        });
        let mut response = Response::new(Body::new(Bytes::from(body)));
        *response.status_mut() = renderer.status(decision);
        *response.headers_mut() = headers;
        response
    }

    /// Each is decided alone, in order; one that is refused does not keep the others from it. They are
    /// asked for together, so that a store across a network is asked once.
    async fn check_batch(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let elements = elements(message)?;
        self.bounds.batch(elements.len())?;
        let asked: Vec<_> = elements.iter().map(|element| Asked::read(element, &self.bounds)).collect();
        let requests =
            asked.iter().map(|asked| asked.as_ref().map_err(Problem::clone)?.request(&self.limiter));
        let decisions = join_all(requests.map(|request| self.decide_some(request))).await;
        let refused = decisions.iter().filter(|decided| decided.is_err()).count();
        self.metrics.refused.add(refused as u64);
        let denied = decisions.iter().flatten().filter(|(decision, _)| !decision.allowed()).count();
        trace::decided_batch(decisions.len(), denied);
        let out = write_list(decisions, |(decision, request), out| {
            self.write_element(&request, &decision, out);
        });
        Ok(response(StatusCode::OK, "application/json", out))
    }

    fn write_element(&self, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
        write_status(self.renderer.status(decision), out);
        let mut first = true;
        self.renderer.headers(request, decision, self.limiter.now(), |name, value| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_text(name.as_str(), out);
            out.push(b':');
            write_text(value, out);
        });
        out.extend_from_slice(b"},\"body\":");
        // A list is for programs, and JSON all through.
        self.renderer.json(request, decision, out);
        out.push(b'}');
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    let written = serde_json::to_writer(out, text);
    debug_assert!(written.is_ok(), "a text is always JSON");
}
