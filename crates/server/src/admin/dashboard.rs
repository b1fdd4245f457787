//! `/` and `/assets`: the dashboard, whose files are part of the program.

use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use http::HeaderMap;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY,
};

use super::INDEX;
use crate::problem::Problem;

/// Every file of `dashboard/dist` with its path; empty if it was not there when the program was built.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// Shown if there are no files.
const MISSING: &str = "<!doctype html><meta charset=utf-8><title>Tidegate</title>\
    <h1>This build has no dashboard</h1>\
    <p>Run <code>npm ci &amp;&amp; npm run build</code> in <code>dashboard/</code>, which writes \
    <code>dashboard/dist</code>, and build the program again. The <a href=\"docs/\">admin API</a> and \
    <a href=\"metrics\">the metrics</a> are there.";

/// Names of files in `assets/` have a hash of their content in them.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const CHECKED: HeaderValue = HeaderValue::from_static("no-cache");

/// Returns the dashboard to browsers, and the list of pages to everybody else.
pub(super) async fn index(headers: HeaderMap) -> Response {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if !accepts.into_iter().any(|value| value.contains("text/html")) {
        return ([(VARY, "accept")], INDEX).into_response();
    }
    let page = match file("index.html", &headers) {
        Some(page) => ([(CACHE_CONTROL, CHECKED)], page).into_response(),
        None => Html(MISSING).into_response(),
    };
    ([(VARY, "accept, accept-encoding")], page).into_response()
}

/// Returns a file of the dashboard.
pub(super) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let found = file(&format!("assets/{path}"), &headers);
    let found = found.ok_or_else(|| Problem::not_found("the dashboard has no such file"))?;
    Ok(([(CACHE_CONTROL, FOREVER), (VARY, HeaderValue::from_static("accept-encoding"))], found)
        .into_response())
}

/// Returns a file, compressed if there is such a version beside it that the client accepts.
fn file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let find = |path: &str| FILES.iter().find(|(name, _)| *name == path).map(|(_, content)| *content);
    let plain = find(path)?;
    let kind = [(CONTENT_TYPE, HeaderValue::from_static(content_type(path)))];
    for (coding, extension) in [("br", "br"), ("gzip", "gz")] {
        if accepts_coding(headers, coding)
            && let Some(compressed) = find(&format!("{path}.{extension}"))
        {
            return Some((kind, [(CONTENT_ENCODING, coding)], compressed).into_response());
        }
    }
    Some((kind, plain).into_response())
}

fn accepts_coding(headers: &HeaderMap, coding: &str) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(','));
    codings.any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        name.trim() == coding && weight.replace(' ', "").trim_end_matches(['0', '.']) != "q="
    })
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "map" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    }
}
