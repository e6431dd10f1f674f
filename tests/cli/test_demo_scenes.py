"""`lore demo` as people see it: goals, a play and a town that really run beside the scripted fleet, and nothing of it left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from select import select
from time import monotonic
from typing import Any

import pytest

from fleetlore import Event, connect, settings
from fleetlore.cli.demo.environment import DemoEnvironment, SceneReporter
from fleetlore.goal.model_harness import MODEL_TOOLS
from fleetlore.models.base import ChatMessage, ModelRequest, ModelToolCall
from fleetlore.models.open import open_model
from fleetlore.process.tree import list_processes
from tests.cli.running import Lore
from tests.cli.test_up import running
from tests.patience import PATIENCE

MARK = f"test-{os.getpid()}"


@pytest.fixture(autouse=True)
def _marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the demo starts, and whatever that starts, carries the mark."""
    monkeypatch.setenv("LORE_TURN", MARK)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def left() -> set[int]:
    """Processes that carry the mark."""
    return list_processes(MARK)[1]


def log_of(lore: Lore) -> str:
    [path] = (lore.folder.parent / "data" / "fleetlore").glob("demo-*.db")
    return f"sqlite:{path}"


def wait_for(address: str, *conditions: Callable[[list[Event]], Any]) -> list[Event]:
    """Until all of them hold; the log is read again whenever it has moved on, or a second has passed."""
    deadline, events = monotonic() + PATIENCE, list[Event]()
    with connect(address).blocking() as log, closing(log.follow_pages(after=log.head())) as pages:
        while True:
            events += log.read(after=events[-1].position if events else None)
            if all(condition(events) for condition in conditions):
                return events
            assert monotonic() < deadline, [event.kind for event in events[-20:]]
            next(pages)


def of(events: list[Event], kind: str, **fields: str) -> list[Event]:
    return [event for event in events if event.kind == kind and all(getattr(event, name) == value for name, value in fields.items())]


def ends(events: list[Event], agent: str) -> list[str]:
    return [event.data["outcome"]["outcome"]["kind"] for event in of(events, "driver.goal_completed", agent=agent)]


@pytest.mark.timeout(240)
def test_everything_is_alive_someone_needs_you_and_ctrl_c_leaves_the_log_alone(lore: Lore) -> None:
    with running(lore, "demo", "--speed", "12") as demo:
        address = log_of(lore)
        wait_for(address, lambda events: of(events, "approval.requested", agent="kaya"))
        [kaya] = [agent for agent in demo.get("api/fleet")["agents"] if agent["name"] == "kaya"]
        assert (kaya["standing"], kaya["doing"]) == ("needs you", "may it use shell: cp notes.md website.md?")
        [question] = lore("decide", "--json", "--log", address, code=0).ndjson
        lore("decide", question["id"], "allow", "--log", address, code=0)
        events = wait_for(
            address,
            lambda events: ends(events, "kaya") == ["done"],
            lambda events: ends(events, "jory") == ["done"],
            lambda events: of(events, "run.finished"),
            lambda events: of(events, "town.mission_state_changed", mission="rate-limits", new_state="completed"),
        )
        missions = {mission["id"]: mission["state"] for mission in demo.get("api/town")["missions"]}
        assert missions["rate-limits"] == "completed"
        code, out, err = demo.end(signal.SIGINT)
    assert (code, err) == (0, b"")
    assert left() == set()
    said = (demo.said + out).decode()
    assert all(f"{demo.url}{page} " in said for page in ("now", "goals", "stage", "town", "chat"))
    assert "this scene ends here" not in said
    # jory's first turn failed the check. Its driver was killed in the second: the next one may check again before it goes on.
    goal = of(events, "driver.goal_started", agent="jory")[0].goal or ""
    verdicts = [event.data["verdict"]["met"] for event in of(events, "driver.acceptance", goal=goal)]
    assert verdicts in ([False, True], [False, False, True])
    assert len({event.text for event in of(events, "work.lease_taken", goal=goal)}) == 2
    # So was what a worker of the town was at; and what was sent back came to a good end, too.
    assert of(events, "work.lease_lost", mission="rate-limits")
    assert of(events, "work.review_rejected", mission="rate-limits")
    assert "no problems" in lore("verify", "--log", address, code=0).out
    assert "No agents yet" in lore("status", code=0).out


def test_what_the_demo_started_does_not_outlive_it_however_it_dies(lore: Lore) -> None:
    with running(lore, "demo", "--scenes", "goal", "--log", "sqlite:own.db", "--town", "harbour") as demo:
        asked = wait_for(
            "sqlite:own.db?town=harbour", lambda events: of(events, "approval.requested"), lambda events: of(events, "process.started")
        )
        assert not of(asked, "fleet.dispatch")  # which nobody wanted to see
        assert len(left()) > 2
        demo.process.kill()
        demo.process.wait()
        while pids := left():
            for pid in pids:
                wait_for_end_of(pid)


def test_a_town_that_an_earlier_demo_has_left_is_gone_on_with(lore: Lore) -> None:
    lore("town", "spawn", "finn", "gret", "--role", "builder", "--log", "sqlite:own.db", code=0)
    with running(lore, "demo", "--scenes", "town", "--into", "--log", "sqlite:own.db", "--speed", "12"):
        wait_for("sqlite:own.db", lambda events: of(events, "town.mission_state_changed", mission="rate-limits"))


def wait_for_end_of(pid: int) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            assert select([handle], [], [], PATIENCE)[0], f"{pid} lives on"
        finally:
            os.close(handle)


def test_a_demo_in_a_hook_of_git_commits_nothing_to_that_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path / "mine"], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "mine" / ".git"))
    (tmp_path / "ground").mkdir()
    environment = DemoEnvironment(
        tmp_path / "ground", settings.load_settings(log="sqlite:demo.db", environ={}), speed=1.0, reporter=SceneReporter(json=False)
    )
    environment.create_workspace("retry")
    assert (tmp_path / "ground" / "retry" / ".git").is_dir()
    assert not list((tmp_path / "mine" / ".git" / "refs" / "heads").iterdir())


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--scenes", "opera"], "unknown scene 'opera'; choose from fleet, goal, stage, town"),
        (["--scenes", ","], "choose from fleet, goal, stage, town"),
        (["--scenes", "goal", "--no-serve"], "omit --no-serve"),
        (["--scenes", "town", "--log", "memory:"], "omit --log"),
    ],
)
def test_scenes_that_cannot_be_shown_are_refused(lore: Lore, argv: list[str], reason: str) -> None:
    assert reason in lore("demo", *argv, code=2).err
    assert not Path(lore.folder.parent / "data").exists()


async def test_the_publisher_asks_before_it_acts_and_accepts_a_denial() -> None:
    async def ask(*results: str) -> ModelToolCall:
        calls = tuple(ModelToolCall(id=str(number), name="read", arguments={}) for number in range(len(results)))
        said = [ChatMessage(role="assistant", calls=calls), *(ChatMessage(role="tool", call=str(n), text=t) for n, t in enumerate(results))]
        messages = (ChatMessage(role="user", text="Publish the notes."), *(said if results else ()))
        async with open_model("scripted:publisher") as mind:
            return (await mind.reply(ModelRequest(prompt="", messages=messages, tools=MODEL_TOOLS))).calls[0]

    read, asked = await ask(), await ask("Version 1.4")
    assert (read.name, asked.name, asked.arguments) == ("read", "shell", {"command": "cp notes.md website.md"})
    denied = await ask("Version 1.4", "You may not do that: not today")
    assert denied.name == "done"
    assert "not allowed" in denied.arguments["text"]
