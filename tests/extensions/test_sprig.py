"""A package adds a coding agent: it is recorded, driven and offered like the built-in ones, and no file of ours is changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extensions.packages import put
from tests.extensions.test_installed import EXAMPLES, Place

SPRIG = EXAMPLES / "fleetlore-sprig"
SESSION = "5c1e0a7b-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built and installed by uv, offline."""
    folder = tmp_path_factory.mktemp("site")
    uv = Path(sys.prefix) / "bin" / "uv"
    options = ["--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", sys.executable, "--target", str(folder)]
    subprocess.run([uv, "pip", "install", *options, SPRIG], check=True)
    return folder


@pytest.fixture
def lore(site: Path, tmp_path: Path) -> Place:
    """A home with one session of Sprig, and `sprig` on the path."""
    place = Place(tmp_path, site)
    place.environ["PATH"] = os.pathsep.join((str(SPRIG / "tests"), place.environ["PATH"]))
    place.environ["COLUMNS"] = "300"
    for name in ("SPRIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        place.environ.pop(name, None)
    sessions = place.home / ".sprig" / "sessions"
    sessions.mkdir(parents=True)
    shutil.copy(SPRIG / "tests" / "session.jsonl", sessions / f"{SESSION}.jsonl")
    return place


def kinds(lore: Place) -> list[str]:
    return [json.loads(line)["kind"] for line in lore("events", "--json", "--all").out.splitlines()]


def test_the_package_passes_its_own_tests(site: Path, tmp_path: Path) -> None:
    place = Place(tmp_path, site)
    place.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "-c", str(SPRIG / "pyproject.toml")]
    ran = place.run([*pytest_, str(SPRIG / "tests")])
    assert ran.code == 0, ran.out
    assert "4 passed" in ran.out


def test_its_sessions_are_imported_and_folded_like_others(lore: Place) -> None:
    assert lore("import", "sprig").err == "imported 10 · already there 0 · rejected 0\n"
    assert lore("import", "sprig").err == "imported 0 · already there 10 · rejected 0\n"
    outcome = json.loads(lore("sessions", "--all", "--json").out)
    assert (outcome["session"], outcome["program"], outcome["agent"]) == (SESSION, "sprig", f"sprig/{SESSION[:8]}")
    shown = lore("show", SESSION[:8]).out
    assert "file       cart.py +2 -0" in shown, "its `save` is an edit"
    assert "tests      pass (12 passed, before: fail)" in shown, "its `sh` is a command"
    assert "shop" in lore("status").out, "its agents are called by their folder, as those of other programs are"


def test_it_is_watched(lore: Place) -> None:
    ran = lore("watch", "sprig", "--once", "--since", "2000-01-01", "--quiet")
    assert (ran.code, "recorded 10" in ran.err) == (0, True), ran.err


def test_a_goal_is_pursued_with_it_and_nothing_is_stored_twice(lore: Place) -> None:
    (lore.home / "goal.toml").write_text((SPRIG / "goal.toml").read_text())
    assert "1 criterion" in lore("goal", "check", "goal.toml").out
    ran = lore("goal", "run", "goal.toml")
    assert ran.code == 0, ran.err
    assert "I wrote hello.txt, and the tests pass." in ran.out
    before = kinds(lore)
    assert before.count("tool.called") == 2
    lore("import", "sprig")
    assert kinds(lore).count("tool.called") == 2 + 3, "the transcript of the turn is known; the other session is new"


def test_setup_offers_it(lore: Place) -> None:
    ran = lore("setup", "--yes", "--no-hooks")
    assert ran.code == 0, ran.err
    assert "Sprig        1 session, " in ran.out
    assert "Imported 1 file: 10 records new to your log." in ran.out
    assert "Not found: Claude Code" in ran.out or shutil.which("claude")


def test_commands_list_it(lore: Place) -> None:
    assert "openhands, sprig" in " ".join(lore("watch", "--help").out.split())  # wherever the line breaks
    assert "acp, sprig, forge" in " ".join(lore("import", "--help").out.split())
    assert "Sprig (~/.sprig/sessions)" in " ".join(lore("setup", "--help").out.split())
    assert "sprig has no hooks" in lore("install", "sprig").err
    assert "sprig can only be read, not written" in lore("export", "sprig").err
    listed = json.loads(lore("doctor", "--json").out)["extensions"]
    assert [(each["group"], each["name"], each["usable"]) for each in listed] == [("fleetlore.programs", "sprig", True)]


def test_a_program_that_cannot_be_used_is_left_out(lore: Place, site: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    points = {"wilted": "wilted:PROGRAM", "codex": "wilted:PROGRAM", "mind": "wilted:PROGRAM", "gone": "no_such_module:PROGRAM"}
    put(bad, "wilted", {"fleetlore.programs": points}, wilted="from fleetlore.programs.base import Program\nPROGRAM = Program()\n")
    lore.environ["PYTHONPATH"] = os.pathsep.join((str(bad), str(site)))
    doctor = lore("doctor")
    assert doctor.code == 1
    for reason in (
        "it has no name and no title",
        "the name 'codex' is taken by Fleetlore",
        "the name 'mind' is taken by Fleetlore",
        "no_such_module",
    ):
        assert reason in doctor.err
    assert lore("import", "sprig").code == 0
    asked = lore("import", "wilted")
    assert (asked.code, asked.out) == (1, "")
    assert "the extension 'wilted' of wilted 1.0 is left out" in asked.err


HALF = """
from fleetlore.programs.base import Program
from fleetlore_sprig.transcript import RECORDING

class Half(Program):
    name, title, command, home = "half", "Half", "half", "~/.half"
    def load_hooks(self): import no_such_module
    hook_file = load_harness = load_telemetry = load_tool_calls = lambda self, project=None: self.load_hooks()

PROGRAM = Half()
"""


def test_a_part_that_cannot_be_loaded_disturbs_nothing_else(lore: Place, site: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    put(bad, "half", {"fleetlore.programs": {"half": "half_program:PROGRAM"}}, half_program=HALF)
    lore.environ["PYTHONPATH"] = os.pathsep.join((str(bad), str(site)))
    assert lore("import", "sprig").code == 0
    shown = lore("show", SESSION[:8])
    assert "file       cart.py +2 -0" in shown.out
    assert shown.err.count("'half'") == 1, "said once"
    for argv in (["install"], ["setup", "--yes"], ["import", "otlp", os.devnull]):
        assert lore(*argv).code == 0, argv
    assert "load_recording: NotImplementedError" in lore("doctor").err
