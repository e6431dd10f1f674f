"""What acts outside, on record and with its card: a database is asked, a program is run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import msgspec

from fleetlore.errors import FleetloreError
from fleetlore.graph.controls import table
from fleetlore.graph.step import Step
from fleetlore.models.base import Call
from fleetlore.process.identity import Process
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import Control

ROWS_TOLD = 20
"""Of a table, to the model; the user sees all of it. Of which tables there are, the model is told all."""
LONGEST_COLUMNS = 1000


class ToolTrouble(Exception):
    """A tool could not do what was wanted; the message is for the model."""


class Card:
    """What the user is shown of something that runs."""

    def __init__(self) -> None:
        self.detail = ""


@asynccontextmanager
async def carded(step: Step, call: Call) -> AsyncIterator[Card]:
    """A card from its beginning to its end, whatever that is."""
    card, began, ok = Card(), perf_counter(), False
    step.hud("process_started", call_id=call.id, tool=call.name)
    try:
        yield card
        ok = True
    finally:
        took = round((perf_counter() - began) * 1000, 3)
        step.hud("process_finished", call_id=call.id, tool=call.name, ok=ok, detail=card.detail, duration_ms=took)


async def ask_database(step: Step, call: Call) -> tuple[Control, str]:
    """The table, and what the model is told of it."""
    from fleetlore.graph.tools.database import open_database
    from fleetlore.graph.tools.query_db import outline, query

    name = str(call.arguments.get("database"))
    if name not in step.host.tools.databases:
        raise ToolTrouble(f"no database is called {name!r}; there are {', '.join(step.host.tools.databases)}")
    async with carded(step, call) as card:
        try:
            database, sql = open_database(name, step.host.tools.databases[name]), str(call.arguments.get("query", "")).strip()
            found = await (query(database, sql) if sql else outline(database))
        except FleetloreError as error:
            card.detail = "refused, or failed"
            raise ToolTrouble(str(error)) from error
        card.detail = f"{len(found.rows)} rows"
    shown = table(found.columns, found.rows)
    if found.cut is not None:
        shown["cut"] = True
    return shown, _told(found.columns, found.rows, found.cut, ROWS_TOLD if sql else len(found.rows))


def _told(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], cut: str | None, most: int) -> str:
    count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}" + (f", cut {cut}" if cut else "")
    lines = [msgspec.json.encode(row).decode() for row in (columns, *rows[:most])]
    more = [f"… and {len(rows) - most} more"] if len(rows) > most else []
    return "\n".join([f"{count}, shown as a table of {text_safety.line(', '.join(columns), LONGEST_COLUMNS)}.", *lines, *more])


async def run_program(step: Step, call: Call) -> str:
    """What a program printed. Its start is durable before any of it is heard; its end is told however it came."""
    from fleetlore.graph.tools.run_python import run

    if not step.host.tools.runs_python:
        raise ToolTrouble("no programs can be run here")
    told = _Told(step, call)
    async with carded(step, call) as card:
        try:
            ran = await run(str(call.arguments.get("code")), on_start=told.started)
        except FleetloreError as error:
            card.detail = "not started"
            told.finished({})
            raise ToolTrouble(str(error)) from error
        except BaseException:
            told.finished({"signal": "cancelled"})
            raise
        took = round(ran.seconds * 1000)
        told.finished({"exit_code": ran.code, "timed_out": ran.why == "too long" or None, "duration_ms": took})
        card.detail = "ended well" if ran.is_well else ran.why
        if not ran.is_well:
            raise ToolTrouble(ran.told())
        return ran.told()


class _Told:
    """Tells of one process."""

    def __init__(self, step: Step, call: Call) -> None:
        self._step, self._call, self._pid, self._cause = step, call, 0, ""

    async def started(self, process: Process) -> bool:
        """It is there, and has heard nothing yet."""
        self._pid = process.pid
        known = {"pid": process.pid, "group": process.group, "born": process.born, "call_id": self._call.id}
        self._cause = self._step.note("process.started", {"command": "python", **known})
        await self._step.host.durable()
        return True

    def finished(self, how: Mapping[str, Any]) -> None:
        """It is gone."""
        if self._pid:
            known = {"pid": self._pid, "call_id": self._call.id, **{key: value for key, value in how.items() if value is not None}}
            self._step.note("process.finished", known, cause=self._cause)
