"""The README's pictures are made by docs/pictures/make.py."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.conftest import CHROMIUM

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PICTURES = ("brief", "session", "now")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("browser")
def test_the_script_makes_the_pictures_that_the_readme_shows(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docs" / "pictures" / "make.py"), "--folder", str(tmp_path), *PICTURES]
    done = subprocess.run(command, env=os.environ | {"FLEETLORE_CHROMIUM": CHROMIUM}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in PICTURES:
        picture = (tmp_path / f"{name}.png").read_bytes()
        assert struct.unpack(">II", picture[16:24]) == (1280, 800), name
        assert len(picture) > 20_000, f"{name} shows hardly anything"
        assert f"docs/pictures/{name}.png" in readme
