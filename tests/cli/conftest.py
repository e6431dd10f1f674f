"""Every command line of these tests runs in a folder, a home and an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import towns
from tests.cli.running import Lore


@pytest.fixture
def lore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lore:
    for name in ("FLEETLORE_LOG", "FLEETLORE_TOWN", "FLEETLORE_SHIP_TO", "FLEETLORE_DEBUG", "NO_COLOR", "XDG_CONFIG_HOME", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOGNAME", "grace")
    monkeypatch.setenv("TZ", "UTC")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Lore(folder)


@pytest.fixture
def town(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> Lore:
    """A town that can be steered."""
    towns.settle(lore, monkeypatch)
    return lore


@pytest.fixture
def mission(town: Lore) -> Lore:
    """The same with a mission under way."""
    town("town", "mission", "start", town.write("plan.toml", towns.PLAN), code=0)
    return town
