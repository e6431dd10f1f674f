"""Cursors, leases, tokens and seal: one suite for every backend, as in `tests/contract/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

import pytest

from fleetlore.log.coordination import Coordination, open_shared
from tests.contract.conftest import BACKENDS, address, shared_url
from tests.patience import PATIENCE

__all__ = ["shared_url"]  # a fixture of the contract suite


class Opening(Protocol):
    def __call__(self, *, town: str | None = None) -> Coordination: ...


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fails if it does not within the patience of tests."""
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline, "the condition does not hold"
        sleep(0.005)


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
def shared(url: str) -> Iterator[Coordination]:
    with open_shared(url) as opened:
        yield opened


@pytest.fixture
def another(shared_url: str) -> Iterator[Opening]:
    """One more handle on the same log each time, closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda *, town=None: stack.enter_context(open_shared(shared_url, town=town))
