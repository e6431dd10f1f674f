"""Answers wait for what was stored before them, however busy the machine is."""

from __future__ import annotations

import pytest

from fleetlore.server import view_cache
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def patient_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the product it waits for a second: a page is better late than never."""
    monkeypatch.setattr(view_cache, "CATCH_UP_SECONDS", PATIENCE)
