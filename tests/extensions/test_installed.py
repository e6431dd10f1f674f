"""The two example packages, really installed, used by the real `lore`; and a package of which nothing works beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.running import command
from tests.extensions.packages import put

EXAMPLES = Path(__file__).parents[2] / "examples"
KANBAN, ECHO = EXAMPLES / "fleetlore-kanban", EXAMPLES / "fleetlore-echo"
BOARD = KANBAN / "tests" / "board.jsonl"
BAD = {
    "fleetlore.dialects": {"crooked": "crooked:NOTHING", "nexus": "crooked:DIALECT"},
    "fleetlore.kinds": {"crooked": "crooked:KINDS"},
    "fleetlore.chronicle": {"crooked": "crooked:KINDS"},
    "fleetlore.nodes": {"crooked": "crooked_nodes"},
    "fleetlore.harnesses": {"crooked": "no_such_module:Harness"},
    "fleetlore.verifiers": {"crooked": "crooked:KINDS"},
    "fleetlore.pictures": {"crooked": "crooked:KINDS"},
}


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


class Place:
    """A folder for packages, and a home of its own with `lore` in it."""

    def __init__(self, root: Path, *packages: Path) -> None:
        self.home = root / "home"
        self.home.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLEETLORE_", "XDG_", "LORE_"))}
        self.environ = kept | {"HOME": str(self.home), "PYTHONPATH": os.pathsep.join(map(str, packages))}

    def __call__(self, *argv: str, stdin: str = "") -> Ran:
        return self.run(command(argv), stdin=stdin)

    def run(self, argv: list[str], *, stdin: str = "") -> Ran:
        done = subprocess.run(argv, cwd=self.home, env=self.environ, input=stdin, capture_output=True, text=True, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both packages, built and installed by uv, offline."""
    folder = tmp_path_factory.mktemp("site")
    uv = Path(sys.prefix) / "bin" / "uv"
    options = ["--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", sys.executable, "--target", str(folder)]
    subprocess.run([uv, "pip", "install", *options, KANBAN, ECHO], check=True)
    return folder


@pytest.fixture(scope="module")
def lore(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With a board imported."""
    place = Place(tmp_path_factory.mktemp("lore"), site)
    imported = place("import", "kanban", str(BOARD))
    assert (imported.code, imported.err) == (0, "imported 7 · already there 0 · rejected 0\n")
    return place


def test_the_packages_pass_their_own_tests(site: Path, tmp_path: Path) -> None:
    place = Place(tmp_path, site)
    place.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "-c", str(KANBAN / "pyproject.toml")]
    ran = place.run([*pytest_, str(KANBAN / "tests"), str(ECHO / "tests")])
    assert ran.code == 0, ran.out
    assert "7 passed" in ran.out


def test_doctor_lists_them_with_their_versions(lore: Place) -> None:
    ran = lore("doctor", "--json")
    listed = [
        (each["group"], each["name"], each["package"], each["version"]) for each in json.loads(ran.out)["extensions"] if each["usable"]
    ]
    assert listed == [
        ("fleetlore.dialects", "kanban", "fleetlore-kanban", "0.1.0"),
        ("fleetlore.kinds", "kanban", "fleetlore-kanban", "0.1.0"),
        ("fleetlore.chronicle", "kanban", "fleetlore-kanban", "0.1.0"),
        ("fleetlore.nodes", "echo", "fleetlore-echo", "0.1.0"),
        ("fleetlore.harnesses", "echo", "fleetlore-echo", "0.1.0"),
    ]
    assert (ran.code, ran.err) == (0, "")


def test_a_dialect_takes_records_in_and_gives_them_back_byte_for_byte(lore: Place) -> None:
    assert lore("export", "kanban").out == BOARD.read_text()
    assert "choose from nexus, tinytown, nexo, stage, cloudevents, beads, git, kanban" in lore("export", "klingon").err


def test_a_line_that_the_dialect_cannot_read_is_kept_as_rejected(site: Path, tmp_path: Path) -> None:
    ran = Place(tmp_path, site)("import", "kanban", "-", stdin='{"when": "2026-03-02T09:00:00Z", "who": 5}\n\xff\n')
    assert ran.code == 3
    assert "rejected 2" in ran.err


def test_the_story_has_the_words_and_the_arc_of_the_package(lore: Place) -> None:
    recorded = lore("story", "--detail", "full").out
    assert "The card K-12 of ada was stopped: no access to the printer." in recorded
    assert "bo moved the card K-13 to “review”" in recorded
    assert [json.loads(line)["kind"] for line in lore("arcs", "--kind", "stop_and_go", "--json").out.splitlines()] == ["stop_and_go"]


def test_a_graph_uses_the_node(lore: Place) -> None:
    assert "echo_v1         Says back what the user said" in lore("graph", "nodes").out
    assert lore("graph", "chat", "--graph", str(ECHO / "graph.toml"), stdin="hello\n").out == "hello … hello … hello\n"


def test_a_goal_is_pursued_by_the_harness_that_it_names(lore: Place) -> None:
    (lore.home / "goal.toml").write_text((ECHO / "goal.toml").read_text())
    ran = lore("goal", "run", "goal.toml")
    assert ran.code == 0, ran.err
    assert "wrote turn 1 down" in ran.out
    assert "Write the order down" in (lore.home / "echo.txt").read_text()


def test_a_package_of_which_nothing_works_stands_in_nobodys_way(site: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    put(bad, "crooked", BAD, crooked="KINDS = {'fleet.commit': 'rest'}", crooked_nodes="1 / 0")
    lore = Place(tmp_path, bad, site)
    doctor = lore("doctor")
    assert doctor.code == 1
    problems = [line for line in doctor.err.splitlines() if "of crooked 1.0 is left out: " in line]
    assert len(problems) == sum(map(len, BAD.values()))
    for reason in (
        "no attribute 'NOTHING'",
        "the name 'nexus' is taken by Fleetlore",
        "Fleetlore's own",
        "ZeroDivisionError",
        "no extension point",
    ):
        assert reason in doctor.err
    assert lore("import", "kanban", str(BOARD)).code == 0
    asked = lore("import", "crooked", str(BOARD))
    assert (asked.code, asked.out) == (1, "")
    assert "lore: the extension 'crooked' of crooked 1.0 is left out: AttributeError" in asked.err
    recorded = lore("tell")
    assert "bo moved the card K-13 to “review”" in recorded.out
    assert [line.count("crooked 1.0") for line in recorded.err.splitlines()] == [1, 1], "its kinds and its words, each said once"


def test_a_recorder_of_single_events_never_looks_for_extensions(site: Path, tmp_path: Path) -> None:
    place = Place(tmp_path, site)
    code = "import sys; from fleetlore.cli.main import main; main(sys.argv[1:]); print(sorted(set(sys.modules) & {'fleetlore.plugins'}))"
    for argv in (["emit", "kanban.card_moved", "--agent", "ada", "--task", "K-1"], ["hook", "claude-code"]):
        assert place.run([sys.executable, "-c", code, *argv], stdin="{}").out.splitlines()[-1] == "[]"
