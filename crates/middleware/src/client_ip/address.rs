//! Parses IP addresses as people and proxies write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses an address that may have quotes around it, a port, brackets (IPv6 only) and a zone, all of which are
/// ignored: `203.0.113.7`, `203.0.113.7:4711`, `[2001:db8::1]:443`, `fe80::1%eth0`.
///
/// An IPv4 address mapped into IPv6 becomes the IPv4 address. Networks, names, and numbers that only some parsers
/// accept as addresses (`010.1.2.3`, `0x7f000001`) are rejected.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    let inner = match text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => text,
    };
    parse_unquoted(inner)
}

pub(super) fn parse_unquoted(text: &str) -> Option<IpAddr> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inner, after) = rest.split_once(']')?;
        let port_or_nothing = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return port_or_nothing.then(|| parse_v6(inner)).flatten();
    }
    if let Some((host, port)) = text.split_once(':')
        && !port.contains(':')
    {
        return is_port(port).then(|| parse_v4(host)).flatten();
    }
    parse_v4(text).or_else(|| parse_v6(text))
}

/// Parses four decimal numbers without leading zeros, which is all that the standard library accepts.
fn parse_v4(text: &str) -> Option<IpAddr> {
    text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

fn parse_v6(text: &str) -> Option<IpAddr> {
    let address = match text.split_once('%') {
        Some((address, zone)) => (!zone.is_empty()).then_some(address)?,
        None => text,
    };
    address.parse::<Ipv6Addr>().ok().map(|ip| IpAddr::V6(ip).to_canonical())
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}
