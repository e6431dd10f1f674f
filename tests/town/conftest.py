"""Fixtures: a town on every log backend that several processes can share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.conftest import SHARED, address
from tests.town.townspeople import LiveTown, open_live_town


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
async def live_town(url: str) -> AsyncIterator[LiveTown]:
    """An empty town on each backend in turn."""
    async with open_live_town(url) as live_town:
        yield live_town


@pytest.fixture
async def sqlite_town(tmp_path: Path) -> AsyncIterator[LiveTown]:
    """An empty town in a file, for tests that do not depend on the backend."""
    async with open_live_town(f"sqlite:{tmp_path / 'town.db'}") as live_town:
        yield live_town
