"""Runs the external tools of the thinker, database queries and Python programs, with events and a card for the user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from fleetlore.errors import FleetloreError
from fleetlore.graph.controls import build_table
from fleetlore.graph.step import Step
from fleetlore.models.base import ModelToolCall
from fleetlore.process.tree import Process
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import UiControl

MAX_ROWS_FOR_MODEL = 20
"""Rows of a result that the model gets; the user sees all. An outline is not truncated."""
MAX_COLUMNS_LENGTH = 1000


class ToolFailure(Exception):
    """A tool failed; the message is for the model."""


class ToolCard:
    """What the user sees of a running tool."""

    def __init__(self) -> None:
        self.detail = ""


@asynccontextmanager
async def show_tool_card(step: Step, call: ModelToolCall) -> AsyncIterator[ToolCard]:
    """Show a card while the block runs; it ends with the result, also on errors."""
    card, started_at, ok = ToolCard(), step.host.ticks(), False
    step.send_hud_event("process_started", call_id=call.id, tool=call.name)
    try:
        yield card
        ok = True
    finally:
        duration_ms = round((step.host.ticks() - started_at) * 1000, 3)
        step.send_hud_event("process_finished", call_id=call.id, tool=call.name, ok=ok, detail=card.detail, duration_ms=duration_ms)


async def query_database(step: Step, call: ModelToolCall) -> tuple[UiControl, str]:
    """The table, and its description for the model. Raises `ToolFailure`."""
    from fleetlore.graph.tools.database import parse_database_address
    from fleetlore.graph.tools.query_db import read_outline, run_query

    name = str(call.arguments.get("database"))
    if name not in step.host.tools.databases:
        raise ToolFailure(f"unknown database {name!r}; choose from {', '.join(step.host.tools.databases)}")
    async with show_tool_card(step, call) as card:
        try:
            database, sql = parse_database_address(name, step.host.tools.databases[name]), str(call.arguments.get("query", "")).strip()
            table = await (run_query(database, sql) if sql else read_outline(database))
        except FleetloreError as error:
            card.detail = "refused, or failed"
            raise ToolFailure(str(error)) from error
        card.detail = f"{len(table.rows)} rows"
    control = build_table(table.columns, table.rows)
    if table.cut is not None:
        control["cut"] = True
    return control, _describe_table(table.columns, table.rows, table.cut, MAX_ROWS_FOR_MODEL if sql else len(table.rows))


def _describe_table(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], cut: str | None, max_rows: int) -> str:
    count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}" + (f", cut {cut}" if cut else "")
    lines = [msgspec.json.encode(row).decode() for row in (columns, *rows[:max_rows])]
    omitted = [f"… and {len(rows) - max_rows} more"] if len(rows) > max_rows else []
    return "\n".join(
        [f"{count}, shown as a table of {text_safety.sanitize_line(', '.join(columns), MAX_COLUMNS_LENGTH)}.", *lines, *omitted]
    )


async def run_python_program(step: Step, call: ModelToolCall) -> str:
    """The program's output. Its start is stored before it runs, its end in any case. Raises `ToolFailure`."""
    from fleetlore.graph.tools.run_python import REQUIRED_WALLS, PythonLimits, run_python_code

    if not step.host.tools.can_run_python:
        raise ToolFailure("no programs can be run here")
    process_events = _ProcessEvents(step, call)
    async with show_tool_card(step, call) as card:
        try:
            limits = PythonLimits(needs=() if step.host.tools.may_run_unconfined else REQUIRED_WALLS)
            result = await run_python_code(str(call.arguments.get("code")), limits=limits, on_start=process_events.note_start)
        except FleetloreError as error:
            card.detail = "not started"
            process_events.note_end({})
            raise ToolFailure(str(error)) from error
        except BaseException:
            process_events.note_end({"signal": "cancelled"})
            raise
        duration_ms = round(result.seconds * 1000)
        process_events.note_end({"exit_code": result.code, "timed_out": result.why == "too long" or None, "duration_ms": duration_ms})
        card.detail = "ended well" if result.is_success else result.why
        if not result.is_success:
            raise ToolFailure(result.format_for_model())
        return result.format_for_model()


class _ProcessEvents:
    """Records the start and end of one process."""

    def __init__(self, step: Step, call: ModelToolCall) -> None:
        self._step, self._call, self._pid, self._cause = step, call, 0, ""

    async def note_start(self, process: Process) -> bool:
        self._pid = process.pid
        data = {"pid": process.pid, "group": process.group, "born": process.born, "call_id": self._call.id}
        self._cause = self._step.note("process.started", {"command": "python", **data})
        await self._step.host.flush_events()
        return True

    def note_end(self, result: Mapping[str, Any]) -> None:
        if self._pid:
            data = {"pid": self._pid, "call_id": self._call.id, **{key: value for key, value in result.items() if value is not None}}
            self._step.note("process.finished", data, cause=self._cause)
