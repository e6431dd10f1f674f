"""`lore service`: one file, started and removed; with a stand-in for the service manager."""

from __future__ import annotations

import configparser
import os
import plistlib
import sys
from pathlib import Path

import pytest

from fleetlore.cli.service import make_agent, make_unit
from tests.cli.running import Lore


@pytest.fixture
def calls(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `systemctl` that writes down how it was called."""
    folder = lore.folder.parent / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder / "calls"


@pytest.mark.skipif(sys.platform != "linux", reason="systemd")
def test_it_is_installed_started_and_removed(lore: Lore, calls: Path) -> None:
    said = lore("service", "install", code=0).out
    path = lore.folder.parent / "home" / ".config" / "systemd" / "user" / "fleetlore.service"
    assert str(path) in said
    assert "lore service uninstall" in said
    assert "--user enable --now fleetlore.service" in calls.read_text()
    assert lore("service", "--json", code=0).json == {"file": str(path), "installed": True, "running": True}
    lore("service", "uninstall", code=0)
    assert not path.exists()
    assert "--user disable --now fleetlore.service" in calls.read_text()
    assert "Nothing to do" in lore("service", "uninstall", code=0).out


def test_without_a_service_manager_it_says_what_else_works(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(lore.folder))
    if sys.platform == "linux":
        assert "run `lore up` instead" in lore("service", "install", code=2).err


def test_odd_paths_stay_one_argument() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(make_unit('/home/ada l/100%/"x"/fleetlore'))
    assert unit["Service"]["ExecStart"] == '"/home/ada l/100%%/\\"x\\"/fleetlore" up'
    agent = plistlib.loads(make_agent("/Users/a & b/fleetlore").encode())
    assert agent["ProgramArguments"] == ["/Users/a & b/fleetlore", "up"]
    assert agent["Umask"] == 0o077
