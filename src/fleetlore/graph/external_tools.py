"""What acts outside, on record and with its card: a database is asked, a program is run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import msgspec

from fleetlore.errors import FleetloreError
from fleetlore.graph.controls import build_table
from fleetlore.graph.step import Step
from fleetlore.models.base import ModelToolCall
from fleetlore.process.identity import Process
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import UiControl

MAX_ROWS_FOR_MODEL = 20
"""Of a table, to the model; the user sees all of it. Of which tables there are, the model is told all."""
MAX_COLUMNS_LENGTH = 1000


class ToolFailure(Exception):
    """A tool could not do what was wanted; the message is for the model."""


class ToolCard:
    """What the user is shown of something that runs."""

    def __init__(self) -> None:
        self.detail = ""


@asynccontextmanager
async def show_tool_card(step: Step, call: ModelToolCall) -> AsyncIterator[ToolCard]:
    """A card from its beginning to its end, whatever that is."""
    card, began, ok = ToolCard(), perf_counter(), False
    step.send_hud_event("process_started", call_id=call.id, tool=call.name)
    try:
        yield card
        ok = True
    finally:
        took = round((perf_counter() - began) * 1000, 3)
        step.send_hud_event("process_finished", call_id=call.id, tool=call.name, ok=ok, detail=card.detail, duration_ms=took)


async def query_database(step: Step, call: ModelToolCall) -> tuple[UiControl, str]:
    """The table, and what the model is told of it."""
    from fleetlore.graph.tools.database import parse_database_address
    from fleetlore.graph.tools.query_db import outline, query

    name = str(call.arguments.get("database"))
    if name not in step.host.tools.databases:
        raise ToolFailure(f"no database is called {name!r}; there are {', '.join(step.host.tools.databases)}")
    async with show_tool_card(step, call) as card:
        try:
            database, sql = parse_database_address(name, step.host.tools.databases[name]), str(call.arguments.get("query", "")).strip()
            found = await (query(database, sql) if sql else outline(database))
        except FleetloreError as error:
            card.detail = "refused, or failed"
            raise ToolFailure(str(error)) from error
        card.detail = f"{len(found.rows)} rows"
    shown = build_table(found.columns, found.rows)
    if found.cut is not None:
        shown["cut"] = True
    return shown, _describe_table(found.columns, found.rows, found.cut, MAX_ROWS_FOR_MODEL if sql else len(found.rows))


def _describe_table(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], cut: str | None, most: int) -> str:
    count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}" + (f", cut {cut}" if cut else "")
    lines = [msgspec.json.encode(row).decode() for row in (columns, *rows[:most])]
    more = [f"… and {len(rows) - most} more"] if len(rows) > most else []
    return "\n".join([f"{count}, shown as a table of {text_safety.sanitize_line(', '.join(columns), MAX_COLUMNS_LENGTH)}.", *lines, *more])


async def run_python_program(step: Step, call: ModelToolCall) -> str:
    """What a program printed. Its start is durable before any of it is heard; its end is told however it came."""
    from fleetlore.graph.tools.run_python import run_python_code

    if not step.host.tools.can_run_python:
        raise ToolFailure("no programs can be run here")
    told = _ProcessEvents(step, call)
    async with show_tool_card(step, call) as card:
        try:
            ran = await run_python_code(str(call.arguments.get("code")), on_start=told.note_start)
        except FleetloreError as error:
            card.detail = "not started"
            told.note_end({})
            raise ToolFailure(str(error)) from error
        except BaseException:
            told.note_end({"signal": "cancelled"})
            raise
        took = round(ran.seconds * 1000)
        told.note_end({"exit_code": ran.code, "timed_out": ran.why == "too long" or None, "duration_ms": took})
        card.detail = "ended well" if ran.is_success else ran.why
        if not ran.is_success:
            raise ToolFailure(ran.format_for_model())
        return ran.format_for_model()


class _ProcessEvents:
    """Tells of one process."""

    def __init__(self, step: Step, call: ModelToolCall) -> None:
        self._step, self._call, self._pid, self._cause = step, call, 0, ""

    async def note_start(self, process: Process) -> bool:
        """It is there, and has heard nothing yet."""
        self._pid = process.pid
        known = {"pid": process.pid, "group": process.group, "born": process.born, "call_id": self._call.id}
        self._cause = self._step.note("process.started", {"command": "python", **known})
        await self._step.host.flush_events()
        return True

    def note_end(self, how: Mapping[str, Any]) -> None:
        """It is gone."""
        if self._pid:
            known = {"pid": self._pid, "call_id": self._call.id, **{key: value for key, value in how.items() if value is not None}}
            self._step.note("process.finished", known, cause=self._cause)
