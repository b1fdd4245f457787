"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.service import API, APPS, Service, needs_inline_limits, needs_reservations
from tidegate import scope, warnings


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_was_warned_of() -> None:
    warnings.reset()
    scope.reset()


@pytest.fixture(autouse=True)
def _no_settings_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEGATE_URL", "TIDEGATE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests that do not stop it; each uses client names of its own."""
    service = Service(tmp_path_factory.mktemp("service"), {"apps": APPS, "api": API})
    yield service
    service.kill()


@pytest.fixture
def service(shared_service: Service) -> Service:
    return needs_inline_limits(shared_service)


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Service]:
    """A service that a test may pause and kill."""
    service = Service(tmp_path, {"apps": APPS, "api": API})
    try:
        yield needs_inline_limits(service)
    finally:
        service.resume()
        service.kill()


@pytest.fixture
def reserving_service(service: Service) -> Service:
    return needs_reservations(service)


@pytest.fixture
def client_name(request: pytest.FixtureRequest) -> str:
    """A client name that no other test uses."""
    return str(request.node.nodeid)
