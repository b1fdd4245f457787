//! Finds the address of the client behind proxies.
//!
//! The peer is the client unless it is a trusted proxy. Behind trusted proxies the client is the last hop that is not
//! one of them. If only the number of proxies is known, the client is the hop at that position from the end.
//! `vectors/client_ip.json` and `vectors/client_ip_hops.json` define the results; `vectors/README.md` has the full
//! rules.
//!
//! ```
//! use http::HeaderMap;
//! use tidegate_middleware::ClientIp;
//!
//! let client_ip = ClientIp::new().trusted_proxies(["10.0.0.0/8"])?;
//! let mut headers = HeaderMap::new();
//! headers.insert("x-forwarded-for", "1.2.3.4, 2001:db8:1:2ff::9".parse()?);
//!
//! let behind_proxy = client_ip.resolve("10.0.0.1".parse()?, &headers);
//! assert_eq!(behind_proxy.key, "2001:db8:1:200::/56"); // not what the client claimed before it
//! let direct = client_ip.resolve("203.0.113.7".parse()?, &headers);
//! assert_eq!(direct.key, "203.0.113.7"); // anybody can write a header
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod hops;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use thiserror::Error;

pub use address::parse_address;

use crate::warnings;

/// The default number of leading bits of an IPv6 address that identify one client: the smallest network that a
/// provider usually assigns to a household or site.
const USUAL_IPV6_PREFIX: u8 = 56;

/// With a longer prefix than this, one client can use as many keys as it likes.
const LONGEST_GROUPING_PREFIX: u8 = 64;

/// The number of leading bits that mark an IPv4 address mapped into IPv6.
const MAPPED_BITS: u8 = 96;

/// Finds the address of the client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIp {
    trusted: Trusted,
    header: ForwardingHeader,
    ipv6_prefix: u8,
}

/// Which proxies are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trusted {
    /// The proxies in these networks.
    Networks(Vec<IpNet>),
    /// This many proxies in a row, including the peer, whatever their addresses are.
    Hops(u8),
}

/// The header in which proxies state the client's address. Only one header is read, because clients can write the
/// other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardingHeader {
    /// `X-Forwarded-For: 198.51.100.1, 10.0.0.2`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=198.51.100.1, for="[2001:db8::1]:4711"`, as in RFC 7239.
    Forwarded,
}

impl ForwardingHeader {
    /// Returns the name of the header.
    pub const fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => http::header::FORWARDED,
        }
    }

    /// Returns the header with this name, in upper or lower case; `None` if it is not a forwarding header.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::XForwardedFor, Self::Forwarded]
            .into_iter()
            .find(|header| header.name().as_str().eq_ignore_ascii_case(name))
    }
}

/// The address of a client, and the key to count it under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The address. An IPv4 address is never mapped into IPv6.
    pub ip: IpAddr,
    /// The key to count the client under: its IPv4 address, or the network of its IPv6 address.
    pub key: String,
}

/// The error for a text that is neither an address nor a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "trusted proxy {0:?} is neither an address nor a network; write one such as 10.0.0.0/8, 192.0.2.7 or fd00::/8"
)]
pub struct NetworkError(pub String);

impl Default for ClientIp {
    fn default() -> Self {
        Self {
            trusted: Trusted::Networks(Vec::new()),
            header: ForwardingHeader::default(),
            ipv6_prefix: USUAL_IPV6_PREFIX,
        }
    }
}

impl ClientIp {
    /// Creates a resolver that trusts no proxy: the peer is the client.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the networks of the trusted proxies, such as `10.0.0.0/8`, `192.0.2.7` or `fd00::/8`. Replaces those set
    /// before.
    ///
    /// # Errors
    /// Returns an error with the first text that is neither an address nor a network.
    pub fn trusted_proxies<N: AsRef<str>>(
        mut self,
        networks: impl IntoIterator<Item = N>,
    ) -> Result<Self, NetworkError> {
        let parsed = networks.into_iter().map(|network| parse_network(network.as_ref()));
        self.trusted = Trusted::Networks(parsed.collect::<Result<_, _>>()?);
        Ok(self)
    }

    /// Sets how many proxies every request passes, instead of their networks: for proxies whose addresses are not
    /// known, such as the router of a hosting platform. The client is the address that the first of these proxies
    /// wrote, which is entry number `hops` from the end of the header. 0 trusts no proxy. At most 32 hops of a header
    /// are examined.
    ///
    /// A client that can reach the server without these proxies can claim any address.
    ///
    /// ```
    /// # use tidegate_middleware::ClientIp;
    /// let mut headers = http::HeaderMap::new();
    /// headers.insert("x-forwarded-for", "1.2.3.4, 198.51.100.1".parse().unwrap());
    /// let client = ClientIp::new().trusted_hops(1).resolve("10.7.7.7".parse().unwrap(), &headers);
    /// assert_eq!(client.key, "198.51.100.1"); // what the proxy saw, and not what the client wrote before it
    /// ```
    #[must_use]
    pub fn trusted_hops(mut self, hops: u8) -> Self {
        self.trusted = Trusted::Hops(hops);
        self
    }

    /// Sets the header in which proxies state the client's address.
    #[must_use]
    pub fn header(mut self, header: ForwardingHeader) -> Self {
        self.header = header;
        self
    }

    /// Sets how many leading bits of an IPv6 address identify one client: 56 by default, at most 128. With 128, every
    /// address is a client of its own.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits.min(128);
        self
    }

    /// Returns the address of the client, from the address of the peer and the request headers.
    pub fn resolve(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        let peer = peer.to_canonical();
        let ip = match self.trusted {
            Trusted::Hops(hops) => self.hops_away(hops, headers).unwrap_or(peer),
            Trusted::Networks(_) if self.trusts(peer) => self.behind(peer, headers),
            Trusted::Networks(_) => peer,
        };
        self.address(ip)
    }

    /// Returns the address of the client if the peer has no IP address, as on a Unix socket. Uses the header alone,
    /// and only with [`trusted_hops`](Self::trusted_hops); otherwise returns `None`, as it does if the header has no
    /// valid address.
    pub fn resolve_without_peer(&self, headers: &HeaderMap) -> Option<ClientAddress> {
        let Trusted::Hops(hops) = self.trusted else { return None };
        self.hops_away(hops, headers).map(|ip| self.address(ip))
    }

    /// Returns whether the peer is a trusted proxy.
    pub fn believes(&self, peer: IpAddr) -> bool {
        match self.trusted {
            Trusted::Hops(hops) => hops > 0,
            Trusted::Networks(_) => self.trusts(peer.to_canonical()),
        }
    }

    /// Returns the header in which proxies state the client's address.
    pub fn forwarding_header(&self) -> ForwardingHeader {
        self.header
    }

    fn address(&self, ip: IpAddr) -> ClientAddress {
        ClientAddress { ip, key: self.key(ip) }
    }

    /// Returns the key to count an address under.
    pub fn key(&self, ip: IpAddr) -> String {
        match ip.to_canonical() {
            IpAddr::V6(ip) if self.ipv6_prefix < 128 => {
                let bits = u32::from(self.ipv6_prefix);
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                format!("{}/{bits}", Ipv6Addr::from_bits(ip.to_bits() & mask))
            }
            ip => ip.to_string(),
        }
    }

    /// Logs settings that are probably mistakes, once per process.
    pub fn warn(&self) {
        let all = |networks: &Vec<IpNet>| networks.iter().any(|network| network.prefix_len() == 0);
        if matches!(&self.trusted, Trusted::Networks(networks) if all(networks)) {
            warnings::TRUST_ALL.log();
        }
        if self.ipv6_prefix > LONGEST_GROUPING_PREFIX {
            warnings::IPV6_UNGROUPED.log();
        }
    }

    fn trusts(&self, ip: IpAddr) -> bool {
        let Trusted::Networks(networks) = &self.trusted else { return false };
        networks.iter().any(|network| network.contains(&ip))
    }

    /// Returns the hop at this position from the end, or the first hop of a shorter list. A hop that is not an
    /// address ends the search: then the client is the hop that wrote it.
    fn hops_away(&self, mut hops: u8, headers: &HeaderMap) -> Option<IpAddr> {
        let mut client = None;
        if hops > 0 {
            hops::each(self.header, headers, |hop| {
                hops -= 1;
                client = hop.or(client);
                hop.is_some() && hops > 0
            });
        }
        client
    }

    /// Returns the first hop from the end that is not a trusted proxy. A hop that is not an address ends the search:
    /// then the client is the hop that wrote it.
    fn behind(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = proxy;
        hops::each(self.header, headers, |hop| {
            let Some(ip) = hop else { return false };
            client = ip;
            self.trusts(ip)
        });
        client
    }
}

/// Parses a network or a single address. An IPv4 address mapped into IPv6 becomes the IPv4 address.
fn parse_network(text: &str) -> Result<IpNet, NetworkError> {
    let text = text.trim();
    let network = match text.parse::<IpAddr>() {
        Ok(ip) => Some(IpNet::from(ip)),
        Err(_) => text.parse::<IpNet>().ok(),
    };
    let network = network.ok_or_else(|| NetworkError(text.to_owned()))?;
    Ok(unmapped(network).unwrap_or(network))
}

fn unmapped(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(wide) = network else { return None };
    let mapped = Ipv6Net::new(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(), MAPPED_BITS).ok()?;
    let inner = wide.addr().to_ipv4_mapped().filter(|_| mapped.contains(&wide))?;
    Ipv4Net::new(inner, wide.prefix_len() - MAPPED_BITS).ok().map(IpNet::V4)
}
