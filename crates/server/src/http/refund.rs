//! `POST /v1/refund`: gives back what a request took, for work that was charged and then not done.

use futures_util::future::join_all;
use http::{Response, StatusCode};
use tidegate::Decision;

use super::asked::Asked;
use super::batch::{elements, is_list, write_list, write_status};
use super::problem::Problem;
use super::{Body, HttpApi, response};

impl HttpApi {
    /// One request, or a list of them as in a check; the answer has what is left of each limit.
    pub(super) async fn refund(&self, message: &[u8]) -> Result<Response<Body>, Problem> {
        if !self.limiter.has_rules() {
            return Err(Problem::no_rules());
        }
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

    /// Gives back, and looks at what is there afterwards.
    async fn refund_one(&self, message: &[u8]) -> Result<Decision, Problem> {
        let asked = Asked::read(message, &self.bounds)?;
        self.limiter.refund(&asked.request(&self.limiter)?).await;
        Ok(self.limiter.peek(&asked.looking().request(&self.limiter)?).await)
    }

    fn write_left(&self, left: &Decision, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"limits\":");
        self.renderer.limits(left, out);
        out.push(b'}');
    }
}
