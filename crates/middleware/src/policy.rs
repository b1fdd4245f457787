//! A limit as items of `RateLimit-Policy` and `RateLimit`, structured fields as in RFC 9651.
//!
//! # Names
//!
//! A policy is named `rule:limit`, such as `api_key:steady` or `user/endpoint=POST /orders:minute`: the
//! rule's id and the limit's name, which do not change from one response to the next. Bytes that a
//! structured field's string cannot hold, and those that trip naive parsers (`"`, `\`, `,`, `;`, `%`),
//! are percent-encoded; so are `:` and `#` in the limit's name, so that no two names run together. If
//! several descriptors of one request fall under one limit, the second is `rule:limit#2`, and so on. Of
//! a name over 200 bytes the end is replaced by `~` and a hash of all of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate::{Decision, LimitStatus, Request, Window};
use tidegate_core::{Algorithm, Calendar, CalendarUnit, Limit};
use xxhash_rust::xxh3::xxh3_64;

use crate::retry::{ceil_s, more_after_us, partition};

/// Items of one header at most, besides the limit that decided: a header has to fit into what
/// clients and proxies take.
const MAX_ITEMS: usize = 32;

/// Bytes of a policy's name at most, before `#2`.
const MAX_NAME: usize = 200;

/// Bytes of the hash that ends a longer name, as hexadecimal digits.
const HASH_DIGITS: usize = 16;

/// The largest integer of a structured field; counts may be larger.
const MAX_INTEGER: u64 = 999_999_999_999_999;

const DAY_S: u64 = 86_400;

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// The limits of a decision that headers have: none in shadow, and not too many. Each comes with its number, from 1,
/// among those of the same name.
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

/// Whether two limits of a decision are one limit of the rules.
fn same(one: &LimitStatus<'_>, other: &LimitStatus<'_>) -> bool {
    one.rule == other.rule && one.name == other.name
}

/// Writes the policy's name, without quotes. It holds nothing that JSON would escape.
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

/// Writes an item of `RateLimit-Policy` after its name: `;q=100;w=60`.
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

/// Writes an item of `RateLimit` after its name: `;r=50;t=30`.
pub(crate) fn write_left(status: &LimitStatus<'_>, out: &mut String) {
    out.push_str(";r=");
    write_number(status.remaining.min(MAX_INTEGER), out);
    out.push_str(";t=");
    write_number(ceil_s(more_after_us(status)), out);
}

/// Writes the partition key: `;pk=:jsTvUm1mSAg=:`.
pub(crate) fn write_partition(request: &Request<'_>, status: &LimitStatus<'_>, out: &mut String) {
    out.push_str(";pk=:");
    STANDARD.encode_string(partition(request, status).to_be_bytes(), out);
    out.push(':');
}

/// The window in whole seconds, rounded up, so that the rate is never stated too high; of calendar windows the
/// nominal length. A concurrency limit has none.
pub(crate) fn window_s(limit: &Limit) -> Option<u64> {
    if limit.algorithm() == Algorithm::Concurrency {
        return None;
    }
    Some(match limit.window() {
        Window::Period { us } => ceil_s(*us),
        Window::Calendar(calendar) => nominal_s(calendar),
    })
}

/// As Envoy counts: a month has 30 days, a year 365.
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

/// Percent-encodes what is not printable ASCII, and what `also` names.
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
