"""The tricks of `judge_tricks.py` through `lore goal run`, on a log as it is and on a sealed one: no goal is done, and the log says why."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from tests.cli.conftest import lore as lore
from tests.cli.person import at_terminal
from tests.cli.running import Lore
from tests.goal.judge_tricks import TRICKS, Trick, write_files
from tests.goal.working import repository

WORDS = "correct horse battery"
AGENT = "import json, pathlib, sys\nfor name, text in json.load(open(sys.argv[1])).items():\n" + (
    "    path = pathlib.Path(name)\n    path.parent.mkdir(parents=True, exist_ok=True)\n    path.write_text(text)\n"
    "    path.chmod(0o755 if text.startswith('#!') else 0o644)\nprint('All done.')\n"
)
RUN = {name: trick for name, trick in TRICKS.items() if shutil.which(trick.command.split()[0]) or "=" in trick.command}


def _write_goal(lore: Lore, number: int, trick: Trick) -> str:
    place = Path(lore.folder) / f"place{number}"
    repository(place, trick.files)
    write_files(place, trick.ignored)
    agent, recorded = lore.write("agent.py", AGENT), lore.write(f"told{number}.json", json.dumps(trick.writes))
    isolation = "none" if trick.is_in_place else "worktree"
    matches = f"stdout_must_match = '{trick.matches}'\n" if trick.matches else ""
    return lore.write(
        f"goal{number}.toml",
        f"description = 'Work'\nagent = 'trickster'\nharness = 'command'\nworkspace = '{place}'\nisolation = '{isolation}'\n"
        f"command = {json.dumps([sys.executable, agent, recorded])}\nprotect = {json.dumps(trick.protect)}\n[budget]\nmax_turns = 1\n"
        f"[[acceptance]]\ncommand = {json.dumps(trick.command)}\n{matches}",
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_sealed", [False, True], ids=["as it is", "sealed"])
def test_no_trick_ends_a_goal_as_done(lore: Lore, is_sealed: bool) -> None:
    log = f"sqlite:{lore.folder}/log.db"
    paths = [_write_goal(lore, number, trick) for number, trick in enumerate(RUN.values())]
    command = ("--log", log, "goal", "run", *paths, "--parallel", "3")
    seal, key = make_seal(WORDS, cost=2)
    if is_sealed:
        with open_shared(log) as shared:
            shared.set_seal(seal, None)
        assert at_terminal(lore, *command, answers=[WORDS]).code == 1
    else:
        assert lore(*command).code == 1
    with connect(log).blocking() as opened:
        events = list(opened.read("town"))
    ends = [event for event in events if event.kind == "driver.goal_completed"]
    assert [event.data["outcome"]["outcome"]["kind"] for event in ends] == ["budget_exhausted"] * len(RUN)
    checks = [event for event in events if event.kind == "driver.acceptance"]
    assert len(checks) == len(RUN)
    named = {trick.names for trick in RUN.values() if trick.names}
    recorded = "\n".join(f"{event.text}\n{event.data.get('fleetlore.touched')}" for event in checks)
    assert [name for name in named if name not in recorded] == []
    assert not is_sealed or all(key.has_signed(event) for event in checks)
