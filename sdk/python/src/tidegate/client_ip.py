"""Finds the address of the client, also behind proxies.

The peer is the client, unless it is a trusted proxy. Then the hops in the forwarding header are searched from
the last to the first, and the first that is not a trusted proxy is the client. A hop that is not an address
ends the search at the proxy that wrote it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

from .warnings import warn_once

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
ForwardingHeader: TypeAlias = Literal["x-forwarded-for", "forwarded"]

MAX_HOPS = 32

UNKNOWN = "unknown"
"""The key of connections without an address."""

_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_BRACKETS = re.compile(r"\[([^\[\]]*)\](?::[0-9]{1,5})?", re.ASCII)
_PORT = re.compile(r"([^:]*):[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClientAddress:
    """The address of a client, and the key that it is limited by."""

    ip: str
    """The address, or ``unknown`` if the connection has none."""
    key: str
    """The address of IPv4, or the network of IPv6, such as ``2001:db8:1:200::/56``."""


class ClientIp:
    """Finds the address of the client of a request.

    >>> ClientIp(trusted_proxies=["10.0.0.0/8"]).resolve("10.0.0.1", [("x-forwarded-for", "198.51.100.1")])
    ClientAddress(ip='198.51.100.1', key='198.51.100.1')

    ``trusted_proxies`` is a list of the networks of your own proxies, or their number where their addresses
    are not known: with 1, the client is the last hop in the header. Without it, the peer is the client and
    the header is ignored. ``header`` is the header that your proxies write. IPv6 addresses are grouped by
    networks of ``ipv6_prefix`` bits.
    """

    def __init__(
        self,
        trusted_proxies: Iterable[str] | int = (),
        header: ForwardingHeader = "x-forwarded-for",
        ipv6_prefix: int = 56,
    ) -> None:
        if isinstance(trusted_proxies, (str, bool)):
            raise TypeError(
                f"trusted_proxies must be a list of networks or a number of proxies, got {trusted_proxies!r}"
            )
        if header not in ("x-forwarded-for", "forwarded"):
            raise ValueError(f"header must be x-forwarded-for or forwarded, got {header!r}")
        if not 0 <= ipv6_prefix <= 128:
            raise ValueError(f"ipv6_prefix must be 0 to 128, got {ipv6_prefix}")
        self._hops = trusted_proxies if isinstance(trusted_proxies, int) else None
        if self._hops is not None and not 0 <= self._hops <= MAX_HOPS:
            raise ValueError(f"trusted_proxies must be 0 to {MAX_HOPS} proxies, got {self._hops}")
        self._networks = (
            [] if isinstance(trusted_proxies, int) else [_network(text) for text in trusted_proxies]
        )
        self._header = header
        self._prefix = ipv6_prefix
        if any(network.prefixlen == 0 for network in self._networks):
            warn_once("TIDEGATE_TRUST_ALL")
        if ipv6_prefix > 64:
            warn_once("TIDEGATE_IPV6_UNGROUPED", ipv6_prefix)

    def resolve(self, peer: str | None, headers: Iterable[tuple[str, str]]) -> ClientAddress:
        """Returns the client of a connection from ``peer``; names of ``headers`` are in lower case."""
        address = parse_address(peer or "")
        if self._hops:
            # The peer is one of the proxies, even without an address, as on a Unix socket.
            address = self._nth_hop(address, headers)
        elif address is not None and self._networks and self._trusts(address):
            address = self._first_untrusted(address, headers)
        if address is None:
            # A Unix socket, or the transport of a test.
            return ClientAddress(peer or UNKNOWN, peer or UNKNOWN)
        return ClientAddress(str(address), self._key(address))

    def _first_untrusted(self, peer: Address, headers: Iterable[tuple[str, str]]) -> Address:
        client = peer
        for address in self._hops_from_last(headers):
            if address is None:
                break
            client = address
            if not self._trusts(address):
                break
        return client

    def _nth_hop(self, peer: Address | None, headers: Iterable[tuple[str, str]]) -> Address | None:
        """Returns the last hop if there is one proxy, the one before it if there are two, and so on."""
        client = peer
        for address in islice(self._hops_from_last(headers), self._hops):
            if address is None:
                break
            client = address
        return client

    def _hops_from_last(self, headers: Iterable[tuple[str, str]]) -> Iterator[Address | None]:
        """Yields the hops, the last one first; ``None`` for a hop that is not an address."""
        split = _split_forwarded if self._header == "forwarded" else _split_list
        lines = [value for name, value in headers if name == self._header]
        hops = [hop for line in lines for hop in split(line) if hop]
        for hop in reversed(hops[-MAX_HOPS:]):
            yield parse_address(_forwarded_for(hop) if self._header == "forwarded" else hop)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _key(self, address: Address) -> str:
        if isinstance(address, ipaddress.IPv4Address) or self._prefix == 128:
            return str(address)
        return str(
            ipaddress.IPv6Network((int(address) >> 128 - self._prefix << 128 - self._prefix, self._prefix))
        )


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """Returns the address in a text, without quotes, brackets, port and zone; ``None`` if there is none."""
    text = text.strip(" \t")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if len(text) > 128:
        return None
    if text.startswith("["):
        found = _BRACKETS.fullmatch(text)
        return _version_6(found[1]) if found else None
    if text.count(":") == 1:
        found = _PORT.fullmatch(text)
        return _version_4(found[1]) if found else None
    return _version_6(text) if ":" in text else _version_4(text)


def _version_4(text: str) -> Address | None:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return None


def _version_6(text: str) -> Address | None:
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise ValueError(
            f"trusted_proxies must be networks such as 10.0.0.0/8, got {text!r}: {error}"
        ) from error
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        return ipaddress.IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))
    return network


def _split_list(line: str) -> Iterator[str]:
    return (hop.strip(" \t") for hop in line.split(","))


def _split_forwarded(line: str) -> Iterator[str]:
    return (element.strip(" \t") for element in _split_outside_quotes(line, ","))


def _forwarded_for(element: str) -> str:
    """Returns the ``for`` of an element of ``Forwarded``; empty unless there is exactly one."""
    values = []
    for parameter in _split_outside_quotes(element, ";"):
        name, _, value = parameter.partition("=")
        if name.strip(" \t").lower() == "for":
            values.append(_unquoted(value.strip(" \t")))
    return values[0] if len(values) == 1 else ""


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value


def _split_outside_quotes(text: str, separator: str) -> Iterator[str]:
    start = 0
    quoted = escaped = False
    for at, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == separator and not quoted:
            yield text[start:at]
            start = at + 1
    yield text[start:]
