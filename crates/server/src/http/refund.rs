//! `POST /v1/refund`: refunds a cost, for work that was charged but not done.

use futures_util::future::join_all;
use http::{Response, StatusCode};
use tidegate::Decision;

use super::batch::{elements, is_list, write_list, write_status};
use super::check_body::CheckBody;
use super::{Body, HttpApi, response};
use crate::problem::Problem;

impl HttpApi {
    /// Refunds one request, or a list of them. The response reports what is left of each limit.
    pub(super) async fn refund(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        let body = if is_list(message) {
            let elements = elements(message)?;
            self.bounds.batch(elements.len())?;
            let refunds = elements.iter().map(|element| self.refund_one(element));
            write_list(join_all(refunds).await, |left, out| {
                write_status(StatusCode::OK, out);
                out.extend_from_slice(b"},\"body\":");
                self.write_left(&left, out);
                out.push(b'}');
            })
        } else {
            let mut body = Vec::new();
            self.write_left(&self.refund_one(message).await?, &mut body);
            body
        };
        Ok(response(StatusCode::OK, "application/json", body))
    }

    /// Refunds a request, and returns the decision of a peek afterwards.
    async fn refund_one(&self, message: &[u8]) -> Result<Decision, Problem> {
        let (parsed, limiter) = (CheckBody::read(message, &self.bounds)?, self.decider.limiter());
        self.decider.refund(&parsed.request(limiter)?).await;
        Ok(limiter.peek(&parsed.without_cost().request(limiter)?).await)
    }

    fn write_left(&self, left: &Decision, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"limits\":");
        self.renderer.limits(left, out);
        out.push(b'}');
    }
}
