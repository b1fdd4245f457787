"""The vectors that every language is held to. Rendering has a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from support.vectors import cases
from tidegate import ClientAddress, ClientIp, InvalidLimit, parse_limits
from tidegate.pacing import Learned, Policy, delay_ms, is_denial, learn
from tidegate.value import sanitize_value


@pytest.mark.parametrize("case", cases("client_ip"), ids=lambda case: case["name"])
def test_finds_the_client(case: dict[str, Any]) -> None:
    resolver = ClientIp(case["trusted_proxies"], case["header"], case["ipv6_prefix"])
    found = resolver.resolve(case["peer"], [(name, value) for name, value in case["headers"]])
    assert found == ClientAddress(**case["expect"])


@pytest.mark.parametrize("case", cases("client_ip_hops"), ids=lambda case: case["name"])
def test_finds_the_client_behind_so_many_proxies(case: dict[str, Any]) -> None:
    resolver = ClientIp(case["trusted_hops"], case["header"], case["ipv6_prefix"])
    found = resolver.resolve(case["peer"], [(name, value) for name, value in case["headers"]])
    assert found == ClientAddress(**case["expect"])


@pytest.mark.parametrize("case", cases("keys"), ids=lambda case: case["name"])
def test_sends_what_clients_write(case: dict[str, Any]) -> None:
    assert sanitize_value(case["text"]) == case["expect"]
    assert sanitize_value(case["expect"]) == case["expect"]


@pytest.mark.parametrize(
    ("text", "sent"),
    [("a\ud800b", "a\ufffdb"), ("\udc00\ud800", "\ufffd\ufffd"), ("\ud83d\ude00", "\U0001f600")],
)
def test_half_a_character_is_sent_as_one_that_is_unknown(text: str, sent: str) -> None:
    assert sanitize_value(text) == sent


@pytest.mark.parametrize("case", cases("limits"), ids=lambda case: repr(case["text"]))
def test_reads_limits(case: dict[str, Any]) -> None:
    if case["expect"] is None:
        with pytest.raises(InvalidLimit) as refused:
            parse_limits(case["text"])
        assert repr(case["text"]) in str(refused.value)
        assert "10/minute" in str(refused.value)
    else:
        assert [limit.to_json() for limit in parse_limits(case["text"])] == case["expect"]


@pytest.mark.parametrize("case", cases("pacing"), ids=lambda case: case["name"])
def test_learns_and_waits(case: dict[str, Any]) -> None:
    headers = [(name, value) for name, value in case["headers"]]
    learned = learn(case["status"], headers, case["now_s"])
    expect = case["expect"]
    policies = tuple(Policy(**policy) for policy in expect["policies"])
    assert learned == Learned(**{**expect, "policies": policies})
    assert is_denial(case["status"], learned) == case["denied"]
    for delay in case["delays"]:
        assert delay_ms(learned, delay["elapsed_ms"]) == delay["delay_ms"]
