//! The JSON body of a response. It is written member by member, because every request needs one.

use tidegate::{Decision, LimitStatus, Request};

use crate::policy::window_s;
use crate::renderer::Renderer;
use crate::retry::{ceil_ms, finite_us, micros, retry_after_s};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The approximate size of a body with one limit.
const BODY_BYTES: usize = 256;

pub(crate) fn write(renderer: &Renderer, request: &Request<'_>, decision: &Decision, out: &mut Vec<u8>) {
    out.reserve(BODY_BYTES);
    let deciding = decision.decided_by();
    out.push(b'{');
    if let Some(by) = deciding.filter(|_| !decision.allowed()) {
        problem(renderer, request, decision, &by, out);
    }
    out.extend_from_slice(if decision.allowed() { b"\"allowed\":true" } else { b"\"allowed\":false" });
    out.extend_from_slice(b",\"decided_by\":");
    match deciding {
        Some(by) => {
            out.push(b'{');
            names(&by, out);
            out.push(b'}');
        }
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"source\":");
    text(decision.source().name(), out);
    out.extend_from_slice(b",\"limits\":");
    limits(decision, out);
    out.push(b'}');
}

/// Appends the status of each limit, as a JSON array.
pub(crate) fn limits(decision: &Decision, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, status) in decision.limits().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        limit(&status, out);
    }
    out.push(b']');
}

/// Appends the members of a problem document (RFC 9457), each followed by a comma.
fn problem(
    renderer: &Renderer,
    request: &Request<'_>,
    decision: &Decision,
    by: &LimitStatus<'_>,
    out: &mut Vec<u8>,
) {
    let retry_s = retry_after_s(request, decision);
    out.extend_from_slice(b"\"type\":\"");
    out.extend_from_slice(QUOTA_EXCEEDED.as_bytes());
    out.extend_from_slice(b"\",\"title\":\"Quota Exceeded\",\"status\":");
    out.extend_from_slice(renderer.status(decision).as_str().as_bytes());
    out.extend_from_slice(b",\"detail\":");
    text(&detail(by, retry_s), out);
    out.extend_from_slice(b",\"violated-policies\":[");
    let mut first = true;
    renderer.violated_policies(decision, |name| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        text(name, out);
    });
    out.extend_from_slice(b"],\"retry_after\":");
    optional(retry_s, out);
    out.extend_from_slice(b",\"limit\":");
    number(by.limit.requests(), out);
    out.extend_from_slice(b",\"window\":");
    optional(window_s(by.limit), out);
    out.extend_from_slice(b",\"scope\":");
    text(by.rule, out);
    out.push(b',');
}

/// Returns a sentence for people: which limit was exceeded, and when to retry.
fn detail(by: &LimitStatus<'_>, retry_s: Option<u64>) -> String {
    let (rule, name, most) = (by.rule, by.name, by.limit.requests());
    let mut detail = match window_s(by.limit) {
        Some(_) => format!("limit {name} of rule {rule} allows {most} per {}", by.limit.window()),
        None => format!("limit {name} of rule {rule} allows {most} at once"),
    };
    match retry_s {
        Some(1) => detail.push_str("; retry in 1 second"),
        Some(seconds) => {
            detail.push_str("; retry in ");
            crate::policy::write_number(seconds, &mut detail);
            detail.push_str(" seconds");
        }
        None if most == 0 => detail.push_str("; nothing passes"),
        None => detail.push_str("; a request of this cost never passes, lower its cost"),
    }
    detail
}

fn limit(status: &LimitStatus<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    names(status, out);
    out.extend_from_slice(b",\"limit\":");
    number(status.limit.requests(), out);
    out.extend_from_slice(b",\"remaining\":");
    number(status.remaining, out);
    out.extend_from_slice(b",\"reset_after_ms\":");
    number(ceil_ms(micros(status.reset_after)), out);
    out.extend_from_slice(b",\"retry_after_ms\":");
    optional(status.retry_after.and_then(finite_us).map(ceil_ms), out);
    out.extend_from_slice(if status.shadow { b",\"shadow\":true}" } else { b",\"shadow\":false}" });
}

fn names(status: &LimitStatus<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"rule\":");
    text(status.rule, out);
    out.extend_from_slice(b",\"name\":");
    text(status.name, out);
}

/// Appends `text` as a JSON string. Writing to a vector cannot fail.
fn text(text: &str, out: &mut Vec<u8>) {
    let written = serde_json::to_writer(&mut *out, text);
    debug_assert!(written.is_ok(), "a text is always JSON");
}

fn number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn optional(value: Option<u64>, out: &mut Vec<u8>) {
    match value {
        Some(value) => number(value, out),
        None => out.extend_from_slice(b"null"),
    }
}
