"""Small hand-written logs for the prompts in the golden files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from fleetlore import Event, connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.testing import FrozenClock, counting_ids

START = datetime(2026, 11, 15, 4, 0, tzinfo=UTC)


class RunWriter:
    """Writes a run to a log, with half a minute between events."""

    def __init__(self, log: BlockingRecorder, run: str | None = None) -> None:
        self.log, self.run, self.clock = log, run, FrozenClock(START)
        self.turn = 0

    def write(self, kind: str, who: str, text: str | None = None, **fields: Any) -> Event:
        """One event; in a run, with the turn in its data."""
        data = fields.pop("data", {})
        if self.run is not None:
            data = {"turn": self.turn} | data
        event = Event(kind=kind, actor=who, text=text, run=fields.pop("run", self.run), at=self.clock(), data=data, **fields)
        self.clock.advance(30)
        self.log.append([event])
        return event

    def says(self, who: str, text: str, **data: Any) -> Event:
        """A line for all, in the next turn."""
        self.turn += 1
        return self.write("agent.spoke", who, text, agent=who, data=data)

    def thinks(self, who: str, text: str) -> Event:
        return self.write("agent.thought", who, text, agent=who, visibility="private")


@contextmanager
def new_log() -> Iterator[BlockingRecorder]:
    with connect("memory:", new_id=counting_ids()).blocking() as log:
        yield log


BAKERS = {
    "mara": {"role": "worker", "persona": "You are Mara. You have run this bakery for thirty years and trust nobody before six."},
    "tomas": {
        "role": "worker",
        "persona": "You are Tomas, the apprentice.\nYou took the jar home to save it from the cold, and dare not say so.",
    },
    "edda": {"role": "judge", "persona": "You are Edda, who keeps the peace in the village."},
}


def bakery(log: BlockingRecorder, lines: int = 6) -> RunWriter:
    """Somebody took the sourdough."""
    writer = RunWriter(log, "bakery")
    goal = "Find out where the sourdough starter went, and get it back before the shop opens."
    writer.write("run.started", "conductor", "The missing starter", data={"goal": goal, "seed": "apprentice", "cast": BAKERS})
    writer.write("world.observed", "world", "Four in the morning. The shelf by the oven is empty, and the back door stands ajar.")
    script = (
        ("mara", "The jar was on this shelf at midnight. I fed it myself.", "Nobody but the three of us has a key."),
        (
            "tomas",
            "Perhaps the cold got at it. The window has been loose for weeks.",
            "If I say it now she will never let me near the oven again.",
        ),
        ("mara", "A jar does not walk out of a loose window.", "He is too quick with the weather."),
        ("tomas", "There is flour on the step, outside. Somebody went out after you.", ""),
        ("mara", "Then that somebody has flour on his shoes. Show me yours.", ""),
        ("tomas", "We all have flour on our shoes. This is a bakery.", "My satchel is still warm from the jar."),
    )
    for number in range(lines):
        who, text, thought = script[number % len(script)]
        again = number // len(script)
        writer.says(who, text if not again else f"Once more, in round {again + 1}: {text}", **({"thought": thought} if thought else {}))
    return writer


DEBATERS = {
    "north": {"role": "worker", "team": "for", "persona": "You are North. You speak for a bridge, with figures."},
    "south": {"role": "worker", "team": "against", "persona": "You are South. You speak for the ferry, with stories."},
    "chair": {"role": "judge", "persona": "You chair the debate, and favour neither side."},
}


def debate(log: BlockingRecorder, lines: int = 4) -> RunWriter:
    """A bridge, or the ferry."""
    writer = RunWriter(log, "debate")
    writer.write("run.started", "conductor", "The bridge", data={"goal": "Decide whether the island gets a bridge.", "cast": DEBATERS})
    writer.write("world.observed", "world", "The hall is full. Rain on the roof; the last ferry has gone.")
    for number in range(1, lines + 1):
        side = "north" if number % 2 else "south"
        text = (
            f"A bridge carries {number * 120} people an hour, in any weather."
            if number % 2
            else f"My father missed {number} ferries, and met my mother on the quay."
        )
        writer.says(side, text)
    return writer


def session(log: BlockingRecorder) -> RunWriter:
    """A coding agent fixes a parser."""
    writer = RunWriter(log)
    agent, scope = "claude-code/7f7a50ca", {"run": "7f7a50ca", "task": "t7"}
    writer.write("session.started", agent, agent=agent, data={"project": "almanac", "branch": "tide-tables"}, **scope)
    prompt = "The tide tables are an hour off in summer. Find out why and mend it.\nKeep the public API as it is."
    writer.write("prompt.submitted", "person", prompt.partition("\n")[0], agent=agent, data={"prompt": prompt}, **scope)
    writer.write("agent.thought", agent, "Summer time, I should think.", agent=agent, visibility="private", **scope)
    for number, name in enumerate(("tides.py", "clock.py"), 1):
        call = {"tool": "Read", "call_id": f"c{number}", "input": {"file_path": f"src/{name}"}}
        writer.write("tool.called", agent, agent=agent, data=call, **scope)
        writer.write("tool.returned", agent, agent=agent, data={"tool": "Read", "call_id": f"c{number}", "paths": [f"src/{name}"]}, **scope)
    edit = {"tool": "Edit", "call_id": "c3"}
    writer.write("tool.called", agent, agent=agent, data=edit | {"input": {"file_path": "src/clock.py"}}, **scope)
    writer.write("tool.returned", agent, agent=agent, data=edit | {"paths": ["src/clock.py"]}, **scope)
    run = {"tool": "Bash", "call_id": "c4"}
    writer.write("tool.called", agent, agent=agent, data=run | {"input": {"command": "pytest -q"}}, **scope)
    writer.write("tool.failed", agent, agent=agent, data=run | {"error": "2 failed: test_october, test_march", "exit_code": 1}, **scope)
    writer.write("prompt.submitted", "person", "No, leave the time zone database alone.", agent=agent, data={"correction": True}, **scope)
    writer.write("fleet.commit", agent, "local time is taken from the port, not from the server", agent=agent, **scope)
    return writer


def town(log: BlockingRecorder) -> RunWriter:
    """A task in a town: claimed, worked on, reviewed by another agent."""
    writer = RunWriter(log)
    scope = {"task": "issue-12", "mission": "harbour"}
    writer.write("fleet.dispatch", "ada", "issue #12: the crane's log is cut off at midnight", agent="ada", **scope)
    writer.write("fleet.commit", "ada", "rotate the crane's log after the shift, not at midnight", agent="ada", **scope)
    writer.write("fleet.error", "ada", "the night shift's test crane has no clock", agent="ada", **scope)
    writer.write("fleet.recovery", "ada", "a clock is handed in from outside", agent="ada", **scope)
    writer.write("fleet.pr_open", "ada", "PR #30: whole shifts in one file", agent="ada", **scope)
    writer.write("town.reviewer_handoff", "ada", "ready for a look", agent="ada", child="brin", **scope)
    writer.write(
        "work.message_sent",
        "brin",
        "What happens in the night when the clocks go back?",
        agent="brin",
        data={"message_id": "m1", "to": ["ada"]},
        **scope,
    )
    writer.write("fleet.heartbeat", "ada", agent="ada", **scope)
    return writer
