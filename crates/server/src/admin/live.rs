//! `/admin/v1/live`: what happens right now, as server-sent events.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::{Admin, ApiResult};
use crate::problem::Problem;
use crate::recorder::{LiveEvent, MAX_CLIENTS};

/// Sends an event `tick` every second, `change` when rules, switches or quotas change, and `denial` for some denials. At
/// most 64 clients watch at once, and one that does not read is dropped.
#[utoipa::path(
    get, path = "/live", tag = "history",
    responses(
        (status = 200, description = "Events without end", body = String, content_type = "text/event-stream"),
        (status = 503, description = "Too many clients watch", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn live(State(admin): State<Admin>) -> ApiResult<Response> {
    let Some(watcher) = admin.recorder.watch() else {
        if !admin.recorder.is_enabled() {
            let detail = "nothing is recorded on this node (metrics.recorder)";
            return Err(Problem::busy(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        let detail = format!("{MAX_CLIENTS} clients watch already; close one of them");
        return Err(Problem::busy(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    // So that the client knows at once that it is connected.
    let hello = Bytes::from_static(b": connected\n\n");
    let events = stream::unfold((Some(hello), watcher), async |(hello, mut watcher)| {
        let bytes = match hello {
            Some(hello) => hello,
            None => encoded(&watcher.next().await?),
        };
        Some((Ok::<_, Infallible>(bytes), (None, watcher)))
    });
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response())
}

/// JSON has no line breaks in it, which would end the data.
fn encoded(event: &LiveEvent) -> Bytes {
    format!("event: {}\ndata: {}\n\n", event.name, event.data).into()
}
