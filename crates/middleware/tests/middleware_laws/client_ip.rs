//! `vectors/client_ip.json`: who asked.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde::Deserialize;
use tidegate_middleware::client_ip::parse_address;
use tidegate_middleware::{ClientIp, ForwardingHeader};

use crate::support::vectors;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    peer: String,
    trusted_proxies: Vec<String>,
    header: String,
    ipv6_prefix: u8,
    headers: Vec<(String, String)>,
    expect: Expect,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Expect {
    ip: String,
    key: String,
}

#[test]
fn every_vector_is_answered_as_in_the_file() {
    let cases: Vec<Case> = vectors("client_ip.json");
    assert!(cases.len() > 70);
    for case in &cases {
        let client_ip = ClientIp::new()
            .trusted_proxies(&case.trusted_proxies)
            .unwrap()
            .header(ForwardingHeader::parse(&case.header).unwrap())
            .ipv6_prefix(case.ipv6_prefix);
        let mut headers = HeaderMap::new();
        for (name, value) in &case.headers {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let found = client_ip.resolve(parse_address(&case.peer).unwrap(), &headers);
        let found = Expect { ip: found.ip.to_string(), key: found.key };
        assert_eq!(found, case.expect, "{}", case.name);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HopsCase {
    name: String,
    peer: String,
    trusted_hops: u8,
    header: String,
    ipv6_prefix: u8,
    headers: Vec<(String, String)>,
    expect: Expect,
}

#[test]
fn every_vector_of_counted_proxies_is_answered_as_in_the_file() {
    let cases: Vec<HopsCase> = vectors("client_ip_hops.json");
    assert!(cases.len() > 10);
    for case in &cases {
        let client_ip = ClientIp::new()
            .trusted_hops(case.trusted_hops)
            .header(ForwardingHeader::parse(&case.header).unwrap())
            .ipv6_prefix(case.ipv6_prefix);
        let mut headers = HeaderMap::new();
        for (name, value) in &case.headers {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let found = client_ip.resolve(parse_address(&case.peer).unwrap(), &headers);
        let found = Expect { ip: found.ip.to_string(), key: found.key };
        assert_eq!(found, case.expect, "{}", case.name);
    }
}

#[test]
fn a_network_of_proxies_that_is_none_is_refused_by_name() {
    for wrong in ["10.0.0.0/33", "proxy.example", "", "10.0.0.0/8/9", "::ffff:10.0.0.0/129"] {
        let error = ClientIp::new().trusted_proxies([wrong]).unwrap_err();
        assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
    }
}

#[test]
fn what_no_text_is_ends_the_search() {
    let client_ip = ClientIp::new().trusted_proxies(["10.0.0.0/8"]).unwrap();
    for (header, line) in
        [("x-forwarded-for", &b"1.2.3.4, \xff"[..]), ("forwarded", b"for=1.2.3.4, for=\xff")]
    {
        let mut headers = HeaderMap::new();
        headers.insert(header, HeaderValue::from_bytes(line).unwrap());
        let client_ip = client_ip.clone().header(ForwardingHeader::parse(header).unwrap());
        assert_eq!(client_ip.resolve("10.0.0.1".parse().unwrap(), &headers).key, "10.0.0.1");
    }
}

proptest! {
    #![proptest_config(tidegate_testkit::cases(256))]

    #[test]
    fn whoever_is_no_proxy_is_the_client_whatever_it_says(
        line in prop::collection::vec(prop_oneof![any::<u8>(), Just(b','), Just(b'"'), Just(b'1'), Just(b'.')], 0..60),
        peer in any::<[u8; 4]>(),
        forwarded: bool,
    ) {
        let header = if forwarded { ForwardingHeader::Forwarded } else { ForwardingHeader::XForwardedFor };
        let line: Vec<u8> = line.into_iter().filter(|byte| *byte >= 32 && *byte != 127).collect();
        let mut headers = HeaderMap::new();
        headers.insert(header.name(), HeaderValue::from_bytes(&line).unwrap());
        let trusting = ClientIp::new().trusted_proxies(["10.0.0.0/8"]).unwrap().header(header);
        let peer = std::net::IpAddr::from(peer);
        let found = trusting.resolve(peer, &headers);
        prop_assert!(peer.to_string().starts_with("10.") || found.ip == peer);
        // A proxy never ends up as nobody, and a line of its own is always the last.
        headers.append(header.name(), HeaderValue::from_static(if forwarded { "for=198.51.100.9" } else { "198.51.100.9" }));
        prop_assert_eq!(trusting.resolve("10.0.0.1".parse().unwrap(), &headers).key, "198.51.100.9");
    }
}

#[test]
fn behind_counted_proxies_the_client_is_the_hop_of_that_number_from_the_end() {
    let peer = "10.9.9.9".parse().unwrap();
    for (hops, forwarded, expected) in [
        (0, "1.1.1.1, 2.2.2.2", "10.9.9.9"),
        (1, "1.1.1.1, 2.2.2.2", "2.2.2.2"),
        (2, "1.1.1.1, 2.2.2.2", "1.1.1.1"),
        (3, "1.1.1.1, 2.2.2.2", "1.1.1.1"),
        (2, "", "10.9.9.9"),
        (1, "1.1.1.1, nonsense", "10.9.9.9"),
        (2, "nonsense, 2.2.2.2", "2.2.2.2"),
        (2, "1.1.1.1, , 2.2.2.2", "1.1.1.1"),
    ] {
        let client_ip = ClientIp::new().trusted_hops(hops);
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", forwarded.parse().unwrap());
        assert_eq!(client_ip.resolve(peer, &headers).key, expected, "{hops} of {forwarded}");
        // On a Unix socket there is no peer to fall back to.
        let told = client_ip.resolve_without_peer(&headers).map(|client| client.key);
        assert_eq!(told.as_deref(), Some(expected).filter(|key| *key != "10.9.9.9"), "{hops} of {forwarded}");
    }
    let trusting = ClientIp::new().trusted_proxies(["0.0.0.0/0"]).unwrap();
    assert_eq!(trusting.resolve_without_peer(&HeaderMap::new()), None);
}
