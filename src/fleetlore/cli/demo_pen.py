"""What the demo's story is written with: a pen for the whole, and one thread for each task of it."""

from __future__ import annotations

import random
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

MISSION = "reliable-webhooks"
PERSON = "mira"
MODEL = "sonnet"

_JITTER = 4.0
"""Seconds; less than half of what lies between two events of one thread."""


class Pen:
    """Collects events in any order and gives them back in the order of their time. The same seed writes the same events."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._seed = seed
        self._told: list[tuple[float, Event]] = []

    def id_of(self, label: str) -> str:
        """The id of the event with this label, told already or not."""
        return derive_id("demo", f"{self._seed}/{label}".encode())

    def write(
        self, minute: float, kind: str, text: str | None, *, label: str | None = None, because: str | None = None, **fields: Any
    ) -> str:
        """Tell one event, as having happened so many minutes into the story; answers its label."""
        label = label or f"#{len(self._told)}"
        seconds = round(minute * 60 + self.chance.uniform(0, _JITTER), 3)
        cause = None if because is None else self.id_of(because)
        fields.setdefault("actor", fields.get("agent") or PERSON)
        self._told.append((seconds, Event(id=self.id_of(label), kind=kind, text=text, cause=cause, **fields)))
        return label

    def pages(self) -> list[tuple[float, Event]]:
        """Everything told, oldest first, the first at zero."""
        told = sorted(self._told, key=lambda page: page[0])
        first = told[0][0]
        return [(round(seconds - first, 3), event) for seconds, event in told]


class Thread:
    """One task of the mission. Each event is caused by the one before it on the thread, unless another is named."""

    def __init__(self, pen: Pen, task: str) -> None:
        self.pen, self.task, self._last = pen, task, None

    _last: str | None

    def tell(
        self,
        minute: float,
        who: str,
        kind: str,
        text: str | None,
        *,
        label: str | None = None,
        because: str | None = None,
        by: str | None = None,
        child: str | None = None,
        **data: Any,
    ) -> None:
        """One deed of an agent; `by` is who did it, where that is not the agent."""
        scopes = {"agent": who, "run": None if by else session(who), "child": child, "task": self.task, "mission": MISSION}
        cause = because or self._last
        self._last = self.pen.write(minute, kind, text, label=label, because=cause, actor=by or who, data=data, **scopes)

    def create(self, minute: float, title: str, *, because: str | None = None, role: str, depends_on: tuple[str, ...] = ()) -> None:
        """The task is written down."""
        data = {"title": title, "role": role} | ({"depends_on": list(depends_on)} if depends_on else {})
        scopes = {"task": self.task, "mission": MISSION}
        self._last = self.pen.write(minute, "work.task_created", title, label=f"{self.task} created", because=because, data=data, **scopes)

    def give(self, minute: float, who: str, text: str, *, because: str | None = None) -> None:
        """The task is given to an agent, which begins."""
        self.tell(minute, who, "fleet.dispatch", text, because=because, by=PERSON)

    def commit(self, minute: float, who: str, text: str) -> None:
        """A change is committed."""
        self.tell(minute, who, "fleet.commit", text, sha=f"{self.pen.chance.getrandbits(28):07x}")

    def tool(self, minute: float, who: str, command: str, result: str, *, minutes: float = 0.3, exit_code: int = 0) -> None:
        """A command is run, and ends well or not."""
        call = f"call-{self.pen.chance.getrandbits(24):06x}"
        self.tell(minute, who, "tool.called", command, tool="Bash", call_id=call, input={"command": command})
        outcome: dict[str, Any] = {"tool": "Bash", "call_id": call, "exit_code": exit_code, "duration_ms": round(minutes * 60_000)}
        if exit_code:
            self.tell(minute + minutes, who, "tool.failed", result, error=result, **outcome)
        else:
            self.tell(minute + minutes, who, "tool.returned", result, **outcome)


def session(who: str) -> str:
    """The run of an agent's session."""
    return f"{who}-1"
