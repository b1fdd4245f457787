//! `GET /healthcheck` and `GET /readyz`.

use http::{Response, StatusCode};

use super::{Body, HttpApi, response};

impl HttpApi {
    /// As envoyproxy/ratelimit has it: 200 `OK`, or 500.
    pub(super) fn healthcheck(&self) -> Response<Body> {
        let (status, text) = if self.health.is_ready() {
            (StatusCode::OK, "OK")
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "not ready; GET /readyz says why")
        };
        response(status, "text/plain", text)
    }

    pub(super) fn readyz(&self) -> Response<Body> {
        let ready = self.health.is_ready();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        response(status, "application/json", self.health.detail().to_string())
    }
}
