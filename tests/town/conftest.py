"""Towns on every log that several processes can share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.conftest import SHARED, address
from tests.town.townspeople import Hall, hall_on


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
async def hall(url: str) -> AsyncIterator[Hall]:
    """A town on each backend in turn; nobody is there yet."""
    async with hall_on(url) as hall:
        yield hall


@pytest.fixture
async def small_hall(tmp_path: Path) -> AsyncIterator[Hall]:
    """A town in a file, where the backend makes no difference."""
    async with hall_on(f"sqlite:{tmp_path / 'town.db'}") as hall:
        yield hall
