//! Iterates over the hops in a forwarding header, from the last to the first.

use std::net::IpAddr;

use http::HeaderMap;

use super::ForwardingHeader;
use super::address::{parse_address, parse_unquoted};

/// The most hops that are examined. No honest chain is longer, and a hostile one costs no more than this.
const MOST_HOPS: usize = 32;

/// The longest quoted value with escapes, in bytes, that can still be an address with a zone.
const LONGEST_ESCAPED: usize = 128;

/// Calls `next` with each hop, or with `None` for a hop that is not an address, until it returns false. Empty hops
/// are skipped. Several header lines form one list.
pub(super) fn each(
    header: ForwardingHeader,
    headers: &HeaderMap,
    mut next: impl FnMut(Option<IpAddr>) -> bool,
) {
    let mut left = MOST_HOPS;
    for line in headers.get_all(header.name()).iter().rev() {
        let done = match header {
            ForwardingHeader::XForwardedFor => each_listed(line.as_bytes(), &mut left, &mut next),
            ForwardingHeader::Forwarded => each_element(line.as_bytes(), &mut left, &mut next),
        };
        if done {
            return;
        }
    }
}

/// Calls `next` with the hops of one `X-Forwarded-For` line. Returns true if no more hops are wanted.
fn each_listed(line: &[u8], left: &mut usize, next: &mut impl FnMut(Option<IpAddr>) -> bool) -> bool {
    for hop in line.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|hop| !hop.is_empty()) {
        if *left == 0 {
            return true;
        }
        *left -= 1;
        if !next(std::str::from_utf8(hop).ok().and_then(parse_address)) {
            return true;
        }
    }
    false
}

/// Calls `next` with the hops of one `Forwarded` line. Because of quotes the line must be parsed from the front, so
/// the last elements are kept while parsing.
fn each_element(line: &[u8], left: &mut usize, next: &mut impl FnMut(Option<IpAddr>) -> bool) -> bool {
    let mut last = [&line[..0]; MOST_HOPS];
    let mut count = 0;
    for element in (Parts { rest: Some(line), separator: b',' }) {
        if !element.is_empty() {
            last[count % MOST_HOPS] = element;
            count += 1;
        }
    }
    for number in (count.saturating_sub(MOST_HOPS)..count).rev() {
        if *left == 0 {
            return true;
        }
        *left -= 1;
        if !next(address_of(last[number % MOST_HOPS])) {
            return true;
        }
    }
    false
}

/// Returns the address in the `for` parameter of an element, if it has exactly one.
fn address_of(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in (Parts { rest: Some(element), separator: b';' }) {
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    let value = found?;
    let Some(quoted) = value.strip_prefix(b"\"") else {
        return parse_unquoted(std::str::from_utf8(value).ok()?);
    };
    let quoted = quoted.strip_suffix(b"\"")?;
    if !quoted.contains(&b'\\') {
        return parse_unquoted(std::str::from_utf8(quoted).ok()?);
    }
    let mut plain = [0; LONGEST_ESCAPED];
    let length = unescape(quoted, &mut plain)?;
    parse_unquoted(std::str::from_utf8(&plain[..length]).ok()?)
}

/// Copies `quoted` to `plain` without its escaping backslashes, and returns the length.
fn unescape(quoted: &[u8], plain: &mut [u8]) -> Option<usize> {
    let (mut length, mut bytes) = (0, quoted.iter());
    while let Some(byte) = bytes.next() {
        let byte = if *byte == b'\\' { bytes.next()? } else { byte };
        *plain.get_mut(length)? = *byte;
        length += 1;
    }
    Some(length)
}

/// Iterates over the trimmed parts between separators that are not in quotes.
struct Parts<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (mut quoted, mut escaped) = (false, false);
        for (index, byte) in rest.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                byte if *byte == self.separator && !quoted => {
                    self.rest = Some(&rest[index + 1..]);
                    return Some(rest[..index].trim_ascii());
                }
                _ => {}
            }
        }
        self.rest = None;
        Some(rest.trim_ascii())
    }
}
