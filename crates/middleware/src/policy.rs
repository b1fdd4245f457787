//! Renders a limit as items of `RateLimit-Policy` and `RateLimit`, which are structured fields (RFC 9651).
//!
//! # Names
//!
//! A policy is named `rule:limit`, such as `api_key:steady` or `user/endpoint=POST /orders:minute`: the ID of the
//! rule and the name of the limit, which are the same in every response. Bytes that a string in a structured field
//! cannot contain, and those that confuse naive parsers (`"`, `\`, `,`, `;`, `%`), are percent-encoded. So are `:`
//! and `#` in the name of the limit, so that no two policies get the same name. If several descriptors of one request
//! have the same limit, the second is `rule:limit#2`, and so on. The end of a name over 200 bytes is replaced by `~`
//! and a hash of the whole name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate::{Decision, LimitStatus, Request, Window};
use tidegate_core::{Algorithm, Calendar, CalendarUnit, Limit};
use xxhash_rust::xxh3::xxh3_64;

use crate::retry::{ceil_s, more_after_us, partition};

/// The most items of one header, besides the deciding limit. Clients and proxies reject headers that are too long.
const MAX_ITEMS: usize = 32;

/// The longest name of a policy in bytes, before `#2`.
const MAX_NAME: usize = 200;

/// The length in hexadecimal digits of the hash that ends a shortened name.
const HASH_DIGITS: usize = 16;

/// The largest integer in a structured field. Counts may be larger.
const MAX_INTEGER: u64 = 999_999_999_999_999;

const DAY_S: u64 = 86_400;

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Returns the limits of a decision that are rendered in headers: not those in shadow, and at most [`MAX_ITEMS`].
/// Each comes with its number, from 1, among those with the same name.
pub(crate) fn rendered_limits<'d>(
    decision: &'d Decision,
    deciding: &LimitStatus<'d>,
) -> impl Iterator<Item = (usize, LimitStatus<'d>)> {
    let enforced = || decision.limits().filter(|status| !status.shadow);
    let deciding = *deciding;
    enforced()
        .enumerate()
        .filter(move |(index, status)| {
            *index < MAX_ITEMS || (status.descriptor == deciding.descriptor && same(status, &deciding))
        })
        .map(move |(index, status)| {
            (1 + enforced().take(index).filter(|other| same(other, &status)).count(), status)
        })
}

/// Returns whether two limits of a decision are the same limit of the rules.
fn same(one: &LimitStatus<'_>, other: &LimitStatus<'_>) -> bool {
    one.rule == other.rule && one.name == other.name
}

/// Appends the name of a policy, without quotes. It contains nothing that JSON would escape.
pub(crate) fn write_name(status: &LimitStatus<'_>, nth: usize, out: &mut String) {
    let start = out.len();
    encode(status.rule, |byte| matches!(byte, b'"' | b'\\' | b',' | b';' | b'%'), out);
    out.push(':');
    encode(status.name, |byte| matches!(byte, b'"' | b'\\' | b',' | b';' | b'%' | b':' | b'#'), out);
    if out.len() - start > MAX_NAME {
        let hash = xxh3_64(&out.as_bytes()[start..]);
        out.truncate(start + MAX_NAME - HASH_DIGITS - 1);
        out.push('~');
        for digit in (0..HASH_DIGITS).rev() {
            out.push(char::from(DIGITS[(hash >> (4 * digit)) as usize & 15]));
        }
    }
    if nth > 1 {
        out.push('#');
        write_number(nth as u64, out);
    }
}

/// Appends the parameters of an item of `RateLimit-Policy`: `;q=100;w=60`.
pub(crate) fn write_quota(limit: &Limit, out: &mut String) {
    out.push_str(";q=");
    write_number(limit.requests().min(MAX_INTEGER), out);
    match window_s(limit) {
        Some(seconds) => {
            out.push_str(";w=");
            write_number(seconds, out);
        }
        None => out.push_str(";qu=\"concurrent-requests\""),
    }
}

/// Appends the parameters of an item of `RateLimit`: `;r=50;t=30`.
pub(crate) fn write_left(status: &LimitStatus<'_>, out: &mut String) {
    out.push_str(";r=");
    write_number(status.remaining.min(MAX_INTEGER), out);
    out.push_str(";t=");
    write_number(ceil_s(more_after_us(status)), out);
}

/// Appends the partition key: `;pk=:jsTvUm1mSAg=:`.
pub(crate) fn write_partition(request: &Request<'_>, status: &LimitStatus<'_>, out: &mut String) {
    out.push_str(";pk=:");
    STANDARD.encode_string(partition(request, status).to_be_bytes(), out);
    out.push(':');
}

/// Returns the window in whole seconds, rounded up, so that the stated rate is never too high. For calendar windows
/// this is the nominal length. A concurrency limit has no window.
pub(crate) fn window_s(limit: &Limit) -> Option<u64> {
    if limit.algorithm() == Algorithm::Concurrency {
        return None;
    }
    Some(match limit.window() {
        Window::Period { us } => ceil_s(*us),
        Window::Calendar(calendar) => nominal_s(calendar),
    })
}

/// Returns the nominal length of a calendar window in seconds. As in Envoy, a month has 30 days and a year 365.
fn nominal_s(calendar: &Calendar) -> u64 {
    DAY_S
        * match calendar.unit() {
            CalendarUnit::Day => 1,
            CalendarUnit::Week => 7,
            CalendarUnit::Month => 30,
            CalendarUnit::Year => 365,
        }
}

pub(crate) fn write_number(number: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Percent-encodes everything that is not printable ASCII, and the bytes for which `also` returns true.
fn encode(text: &str, also: impl Fn(u8) -> bool, out: &mut String) {
    let encoded = |byte: u8| !(b' '..=b'~').contains(&byte) || also(byte);
    if !text.bytes().any(&encoded) {
        out.push_str(text);
        return;
    }
    for byte in text.bytes() {
        if encoded(byte) {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        } else {
            out.push(char::from(byte));
        }
    }
}
