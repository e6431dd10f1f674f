"""On a sealed log an agent that has a shell, knows the log and calls every `lore` command changes neither verdict, nor budget, nor gate.

The agent is `cheat.py`: it does its work, and all of `mischief.py` beside it. What the key has signed must tell the same story as where it
only works.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from fleetlore import connect
from fleetlore.cli.main import BEHIND, COMMANDS
from fleetlore.events.catalog import known_kinds
from fleetlore.events.envelope import Event
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState
from tests.cli.conftest import lore as lore
from tests.cli.person import at_terminal, seated
from tests.cli.running import Lore
from tests.faults.mischief import MAY_NOT
from tests.patience import PATIENCE

WORDS = "correct horse battery"
CHEAT = Path(__file__).with_name("cheat.py")
CRITERIA = """
[[acceptance]]
command = "sh check.sh"
[[acceptance]]
path = "answer.txt"
regex = "^4"
[[acceptance]]
kind = "custom"
name = "no_paths_touched"
args = {prefixes = ["docs/"]}
"""


class Recorded(NamedTuple):
    """What is to be the same, whatever the agent does."""

    outcome: tuple[str | None, str]
    turns: list[tuple[Any, ...]]
    verdict: list[tuple[Any, ...]]
    limits: Any
    spent: tuple[Any, ...]
    decisions: list[tuple[str, str, str]]
    asked: tuple[Any, ...]


class Pursued:
    """A goal on a sealed log of its own."""

    def __init__(self, lore: Lore, name: str) -> None:
        self.lore, self.name, self.goal = lore, name, str(uuid4())
        self.log = f"sqlite:{lore.folder}/{name}.db"
        self.spare = lore.folder / f"spare-{name}"
        self.spare.mkdir()
        seal, self.key = make_seal(WORDS, cost=2)
        with open_shared(self.log) as shared:
            shared.set_seal(seal, None)

    def write(self, answers: Sequence[int], *, server: tuple[str, str] = ("http://127.0.0.1:9/", ""), more: str, **given: Any) -> str:
        """The goal's file, and what its agent is told beside it."""
        place = self.lore.folder / f"place-{self.name}"
        (place / "docs").mkdir(parents=True)
        (place / "docs" / "a.md").write_text("kept\n")
        (place / "check.sh").write_text("grep -qx 42 answer.txt\n")
        for argv in (["init", "-q"], ["add", "-A"], ["-c", "user.name=g", "-c", "user.email=g@h", "commit", "-qm", "first"]):
            subprocess.run(["git", *argv], cwd=place, check=True)
        home = self.lore.folder.parent / "data" / "fleetlore"
        site = {"log": self.log, "goal": self.goal, "spare": str(self.spare), "home": str(home), "server": server[0], "token": server[1]}
        recorded = self.lore.write(f"{self.name}.json", json.dumps(site | {"answers": answers, "cheats": []} | given))
        head = f"id = '{self.goal}'\ndescription = 'Find the answer'\nagent = 'solver'\nworkspace = '{place}'\n"
        command = f"command = {json.dumps([sys.executable, str(CHEAT), recorded])}\n"
        return self.lore.write(f"{self.name}.toml", head + command + more + CRITERIA)

    def run(self, path: str, *, code: int) -> None:
        self._typed("run", path, code=code)

    def steer(self, verb: str, *argv: str) -> None:
        self._typed(verb, self.goal, *argv, code=0)

    def _typed(self, *argv: str, code: int) -> None:
        seen = at_terminal(self.lore, "--log", self.log, "goal", *argv, answers=[WORDS])
        assert seen.code == code, seen

    def events(self) -> list[Event]:
        with connect(self.log).blocking() as log:
            return list(log.read(f"goal:{self.goal}"))

    def recorded(self) -> Recorded:
        """By what the key has signed, each fact once."""
        state, seen = GoalState(id=self.goal), set[str | None]()
        for event in self.events():
            if event.id not in seen and self.key.has_signed(event):
                goals.apply_to_goal(state, event)
            seen.add(event.id)
        spent, verdict = state.spent, state.verdict
        return Recorded(
            outcome=(state.outcome, state.why),
            turns=[(each.number, each.outcome, each.counts, each.complaint, each.tokens, each.usd, each.failing) for each in state.turns],
            verdict=[(verdict and verdict.met,), *((each.label, each.met, each.message) for each in state.criteria)],
            limits=state.limits,
            spent=(spent.turns, spent.tokens, spent.usd, spent.denies, spent.errors, spent.overflows),
            decisions=[(each.tool, each.choice, each.why) for each in state.decisions],
            asked=(state.is_paused, state.cancel, state.messages),
        )


@contextmanager
def serving(pursued: Pursued) -> Iterator[tuple[str, str]]:
    """`lore up` by the person, with the passphrase; its address, and the token in its file, which the agent can read."""
    with seated(pursued.lore, "--log", pursued.log, "up", "--port", "0") as (process, person):
        person.answer(WORDS)
        deadline = monotonic() + PATIENCE
        while (found := re.search(rb"(http://\S+/)#token=", person.look(0.1))) is None:
            assert monotonic() < deadline, person.seen
        [file] = (pursued.lore.folder.parent / "data" / "fleetlore").glob("up-*.token")
        yield found[1].decode(), file.read_text().strip()
        process.terminate()
        process.wait(PATIENCE)


BUDGET = "harness = 'command'\n[budget]\nmax_turns = 2\nmax_tokens = 5000\nmax_usd = 5.0\n"


def test_an_agent_that_calls_every_command_and_appends_every_fact_changes_nothing(lore: Lore) -> None:
    quiet, cheating = Pursued(lore, "quiet"), Pursued(lore, "cheating")
    quiet.run(quiet.write((41, 43, 42), more=BUDGET), code=1)
    with serving(cheating) as server:
        cheating.run(cheating.write((41, 43, 42), more=BUDGET, server=server, cheats=["everything"]), code=1)
    assert cheating.recorded() == quiet.recorded()
    assert (quiet.recorded().outcome, quiet.recorded().spent[:3]) == (("budget_exhausted", "turns"), (2, 200, 0.5))
    done = json.loads((cheating.spare / "done.json").read_text())
    assert set(done["called"]) == COMMANDS.keys() | BEHIND.keys()
    assert [case for case in MAY_NOT if done["codes"].get(case, 0) == 0] == []
    assert done["http"] == {"events": 200, "raise": 403, "cancel": 403, "pause": 403, "say": 403, "decide": 403}
    forged = [event for event in cheating.events() if not cheating.key.has_signed(event)]
    assert {kind for kind in known_kinds() if kind.startswith(("driver.", "control.", "goal."))} <= {event.kind for event in forged}
    shown = lore("--log", cheating.log, "goal", "show", cheating.goal, "--json").json
    assert shown["unsigned"] == sum(event.kind == "control.requested" and event.mac is None for event in forged) > 5
    cheating.steer("raise", "--turns", "3")  # nothing of it stands in a person's way
    cheating.steer("resume")
    recorded = cheating.recorded()
    assert (recorded.outcome, recorded.limits.turns, recorded.spent) == (("done", ""), 3, (3, 300, 0.75, 0, 0, 0))


@pytest.mark.parametrize("way", ["files", "flood"])
def test_neither_files_of_the_goal_nor_a_flood_of_facts_change_anything(lore: Lore, way: str) -> None:
    cheating = Pursued(lore, "cheating")
    try:
        cheating.run(cheating.write((41, 42), more=BUDGET, cheats=[way]), code=0)
    finally:
        (cheating.spare / "stop").touch()
    recorded = cheating.recorded()
    assert (recorded.outcome, recorded.limits.turns, recorded.spent) == (("done", ""), 2, (2, 200, 0.5, 0, 0, 0))
    assert [(number, outcome, failing) for number, outcome, *_, failing in recorded.turns] == [(1, "needs_retry", 1), (2, "done", 0)]


def test_a_goal_whose_driver_the_agent_killed_goes_on_by_what_is_signed(lore: Lore) -> None:
    cheating = Pursued(lore, "cheating")
    cheating.run(cheating.write((0, 41, 42), more=BUDGET, cheats=["facts", "kill"]), code=-9)
    cheating.steer("resume")
    recorded = cheating.recorded()
    assert (recorded.outcome, recorded.spent[:3]) == (("done", ""), (2, 200, 0.5))
    assert [(number, outcome, counts) for number, outcome, counts, *_ in recorded.turns] == [
        (1, "continue", False),
        (1, "needs_retry", True),
        (2, "done", True),
    ]


# --- the gate


PERMISSIONS = """harness = 'claude-code'
[budget]
max_turns = 1
[permissions]
allow = ["Bash(git status*)"]
deny = ["Bash(git push*)"]
patience = "PATIENCE"
"""
ASKS = [["Bash", {"command": "git status"}], ["Bash", {"command": "git push"}], ["Bash", {"command": "make all"}]]


def test_an_agent_cannot_answer_its_own_question(lore: Lore) -> None:
    cheating, more = Pursued(lore, "cheating"), PERMISSIONS.replace("PATIENCE", "3s")
    with serving(cheating) as server:
        cheating.run(cheating.write([42], more=more, asks=ASKS, server=server, cheats=["gate"]), code=0)
    assert (cheating.recorded().outcome, cheating.recorded().spent[3]) == (("done", ""), 2)
    assert [(choice, why[:22]) for _, choice, why in cheating.recorded().decisions] == [
        ("allow", "the rule `Bash(git sta"),
        ("deny", "the rule `Bash(git pus"),
        ("deny", "nobody answered within"),
    ]
    recorded = [event for event in cheating.events() if event.data.get("action") == "decide" or cheating.key.has_signed(event)]
    [decided] = [index for index, event in enumerate(recorded) if event.kind == "driver.decision" and "nobody" in str(event.text)]
    assert "allow" in [event.data["value"]["choice"] for event in recorded[:decided] if event.data.get("action") == "decide"]


def test_an_agent_cannot_keep_a_person_from_answering(lore: Lore) -> None:
    cheating = Pursued(lore, "cheating")
    path = cheating.write([42], more=PERMISSIONS.replace("PATIENCE", "60s"), asks=ASKS[2:], cheats=["gate"])
    with seated(lore, "--log", cheating.log, "goal", "run", path) as (process, person):
        person.answer(WORDS)
        deadline = monotonic() + PATIENCE
        while not (cheating.spare / "ready").exists():
            assert monotonic() < deadline, process.poll()
            sleep(0.05)
        [question] = [event for event in cheating.events() if event.kind == "goal.permission_asked" and cheating.key.has_signed(event)]
        answered = at_terminal(lore, "--log", cheating.log, "decide", str(question.id), "allow", answers=[WORDS])
        assert answered.code == 0, answered
        assert process.wait(PATIENCE) == 0
    assert cheating.recorded().decisions == [("Bash", "allow", "a person decided so")]
