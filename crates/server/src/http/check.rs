//! `POST /v1/check`: decides one request, or a list of them.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use tidegate::{Decision, Request};
use tidegate_middleware::Renderer;

use super::batch::{elements, is_list, write_list, write_status};
use super::check_body::CheckBody;
use super::{Body, HttpApi, response};
use crate::problem::Problem;
use crate::request_id::RequestId;

/// Initial capacity of a response's header map.
const HEADERS: usize = 8;

impl HttpApi {
    pub(super) async fn check(&self, message: &[u8], id: RequestId<'_>) -> Result<Response<Body>, Problem> {
        let timer = self.decider.start();
        let response = if is_list(message) {
            self.check_batch(message, id).await?
        } else {
            let parsed = CheckBody::read(message, &self.bounds)?;
            let request = parsed.request(self.decider.limiter())?;
            self.render(&request, &self.decider.decide(&request, id).await)
        };
        timer.stop();
        Ok(response)
    }

    /// Renders a decision with the default renderer.
    pub(super) fn render(&self, request: &Request<'_>, decision: &Decision) -> Response<Body> {
        self.render_by(&self.renderer, request, decision)
    }

    /// Renders a decision with the given renderer.
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

    /// Renders a decision with the given renderer and body.
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
        renderer.headers(request, decision, self.decider.limiter().now(), |name, value| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        });
        let mut response = Response::new(Body::new(Bytes::from(body)));
        *response.status_mut() = renderer.status(decision);
        *response.headers_mut() = headers;
        response
    }

    /// Decides the elements of a batch one by one, in order. A rejected element does not affect the others.
    async fn check_batch(&self, message: &[u8], id: RequestId<'_>) -> Result<Response<Body>, Problem> {
        let elements = elements(message)?;
        self.bounds.batch(elements.len())?;
        let parsed: Vec<_> = elements.iter().map(|element| CheckBody::read(element, &self.bounds)).collect();
        let limiter = self.decider.limiter();
        let requests = parsed.iter().map(|parsed| parsed.as_ref().map_err(Problem::clone)?.request(limiter));
        let decided = self.decider.decide_batch(requests, id).await;
        let out = write_list(decided, |(request, decision), out| {
            self.write_element(&request, &decision, out);
        });
        Ok(response(StatusCode::OK, "application/json", out))
    }

    fn write_element(&self, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
        write_status(self.renderer.status(decision), out);
        let mut first = true;
        self.renderer.headers(request, decision, self.decider.limiter().now(), |name, value| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_text(name.as_str(), out);
            out.push(b':');
            write_text(value, out);
        });
        out.extend_from_slice(b"},\"body\":");
        // Only programs send batches, so their elements are always JSON.
        self.renderer.json(request, decision, out);
        out.push(b'}');
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    let written = serde_json::to_writer(out, text);
    debug_assert!(written.is_ok(), "a text is always JSON");
}
