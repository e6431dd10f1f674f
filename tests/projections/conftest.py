"""One suite for every keeper, as in `tests/contract/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic, sleep
from typing import Protocol

import pytest

from fleetlore.log.coordination import Coordination, open_shared
from tests.contract.conftest import shared_url, url
from tests.patience import PATIENCE

__all__ = ["shared_url", "url"]  # fixtures of the other suite, for this one


class Opening(Protocol):
    def __call__(self, *, town: str | None = None) -> Coordination: ...


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so; it has to become so soon."""
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline, "it does not come about"
        sleep(0.005)


@pytest.fixture
def shared(url: str) -> Iterator[Coordination]:
    with open_shared(url) as opened:
        yield opened


@pytest.fixture
def another(shared_url: str) -> Iterator[Opening]:
    """One more handle on the same log each time, closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda *, town=None: stack.enter_context(open_shared(shared_url, town=town))
