"""The thinker's tools: their definitions for the model, and their handlers. Screen tools collect changes; two tools act externally."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from fleetlore.graph import controls
from fleetlore.graph.controls import InvalidControl
from fleetlore.graph.external_tools import ToolFailure, query_database, run_python_program
from fleetlore.graph.screen import MAX_VARIABLES
from fleetlore.graph.step import Step
from fleetlore.graph.turn import ThinkerResult
from fleetlore.models.base import ModelToolCall, ToolDefinition
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import Machine, UiControl

MAX_MACHINES = 10
MAX_STATES = 40
MAX_MACHINE_BYTES = 64 * 1024
MAX_RESULT_LENGTH = 12_000
MAX_HUD_LENGTH = 300
"""Characters of arguments and results that the user sees."""
EXTERNAL_TOOLS = ("query_db", "run_python")

_TEXT_SCHEMA = {"type": "string"}
_PLAIN_SCHEMA = {"type": ["string", "number", "boolean", "null"]}
_BUTTON_SCHEMA = {
    "type": "object",
    "properties": {
        "label": _TEXT_SCHEMA,
        "action": _TEXT_SCHEMA,
        "payload": {
            "type": "object",
            "description": "Makes a button that works by itself: var is a variable, op inc, dec, set or toggle; initial its first value.",
            "properties": {
                "var": _TEXT_SCHEMA,
                "op": {"type": "string", "enum": list(controls.OPERATIONS)},
                "step": {"type": "number"},
                "value": _PLAIN_SCHEMA,
                "initial": _PLAIN_SCHEMA,
            },
        },
    },
    "required": ["label", "action"],
    "additionalProperties": False,
}
_DISPLAY_SCHEMA = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["label", "table"]},
        "id": _TEXT_SCHEMA,
        "text": _TEXT_SCHEMA,
        "value": _PLAIN_SCHEMA,
        "columns": {"type": "array", "items": _TEXT_SCHEMA},
        "data": {"type": "array", "items": {"type": "array", "items": _PLAIN_SCHEMA}},
    },
    "required": ["type"],
    "additionalProperties": False,
}
_STATE_SCHEMA = {
    "type": "object",
    "properties": {
        "name": _TEXT_SCHEMA,
        "text": _TEXT_SCHEMA,
        "buttons": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"label": _TEXT_SCHEMA, "action": _TEXT_SCHEMA, "go": _TEXT_SCHEMA},
                "required": ["label", "go"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}


def _define_tool(name: str, description: str, required: str, **properties: Any) -> ToolDefinition:
    schema = {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}
    return ToolDefinition(name=name, description=description, schema=schema)


SCREEN_TOOLS = (
    _define_tool(
        "emit_actions",
        "Put buttons on the screen, in place of those there; an empty list takes them away.",
        "actions",
        actions={"type": "array", "items": _BUTTON_SCHEMA},
    ),
    _define_tool("set_state", "Set a variable; a label with its name as id shows it.", "key value", key=_TEXT_SCHEMA, value=_PLAIN_SCHEMA),
    _define_tool(
        "emit_display",
        "Show labels ({type: label, id, text, value}) and tables ({type: table, columns, data}), in place of those there; empty clears.",
        "items",
        items={"type": "array", "items": _DISPLAY_SCHEMA},
    ),
    _define_tool(
        "create_machine",
        "Make a state machine that works by itself: its buttons go to other states without asking you.",
        "id initial states",
        id=_TEXT_SCHEMA,
        initial=_TEXT_SCHEMA,
        states={"type": "array", "items": _STATE_SCHEMA},
    ),
    _define_tool("add_state", "Give a machine one more state, or change one.", "id state", id=_TEXT_SCHEMA, state=_STATE_SCHEMA),
    _define_tool("reset_machine", "Put a machine back into its first state.", "id", id=_TEXT_SCHEMA),
    _define_tool("destroy_machine", "Take a machine away.", "id", id=_TEXT_SCHEMA),
)


def list_tools(step: Step) -> tuple[ToolDefinition, ...]:
    """The tools that the thinker may call in this graph, on this machine."""
    tools, toolbox = list(SCREEN_TOOLS), step.host.tools
    if toolbox.databases:
        description = (
            "Ask a database with one SELECT; read only. The result is shown as a table. An empty query lists tables and columns; "
            "SHOW TABLES, DESCRIBE table and EXPLAIN SELECT … work, too."
        )
        tools.append(
            _define_tool(
                "query_db",
                description,
                "database query",
                database={"type": "string", "enum": sorted(toolbox.databases)},
                query=_TEXT_SCHEMA,
            )
        )
    if toolbox.can_run_python:
        tools.append(
            _define_tool(
                "run_python", "Run a short Python program without network or files; print what you want to know.", "code", code=_TEXT_SCHEMA
            )
        )
    return tuple(tools)


class ToolRunner:
    """Runs the tool calls of one turn and collects their results."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.called_tools: list[str] = []
        self._actions: tuple[UiControl, ...] | None = None
        self._display: tuple[UiControl, ...] | None = None
        self._tables: list[UiControl] = []
        self._state: dict[str, Any] = {}
        self._machines: list[dict[str, Any]] = []
        self._known_machines: dict[str, Machine] = dict(step.session.machines)
        self.failure_count = 0
        """Failed calls of external tools in this turn."""

    def build_result(self, response: str) -> ThinkerResult:
        """The thinker's result: the response with everything the tools collected."""
        display = self._display
        if self._tables:
            labels = display if display is not None else [each for each in self._displayed_controls() if each.get("type") == "label"]
            display = (*labels, *self._tables)
        return ThinkerResult(
            response=response,
            tools=tuple(self.called_tools),
            actions=self._actions,
            display=display,
            state=self._state,
            machines=tuple(self._machines),
        )

    def _displayed_controls(self) -> list[UiControl]:
        return [each for each in self._step.session.controls if "machine_id" not in each and each.get("type") != "button"]

    async def run_tool_call(self, call: ModelToolCall) -> tuple[str, bool]:
        """Run and record one call; returns the text for the model, and whether it failed."""
        step, started_at = self._step, self._step.host.ticks()
        call = replace(call, id=f"{step.turn.number}.{call.id}")  # call ids may repeat from turn to turn
        self.called_tools.append(call.name)
        called = {"tool": call.name, "call_id": call.id, "input": call.arguments, "turn": step.turn.number}
        cause = step.note("tool.called", called, cause=step.cause)
        arguments = msgspec.json.encode(call.arguments).decode(errors="replace")
        step.send_hud_event("tool_call", call_id=call.id, tool=call.name, detail=text_safety.truncate_text(arguments, MAX_HUD_LENGTH))
        try:
            if call.name in EXTERNAL_TOOLS:
                await step.host.flush_events()
            result, failed = text_safety.truncate_text(await self._dispatch_tool_call(call), MAX_RESULT_LENGTH), False
        except (InvalidControl, ToolFailure) as error:
            result, failed = text_safety.truncate_text(str(error), MAX_RESULT_LENGTH), True
        common = {"tool": call.name, "call_id": call.id, "duration_ms": round((step.host.ticks() - started_at) * 1000, 3)}
        detail = text_safety.truncate_text(result, MAX_HUD_LENGTH)
        step.send_hud_event("tool_result", call_id=call.id, tool=call.name, ok=not failed, detail=detail, duration_ms=common["duration_ms"])
        if failed:
            step.note("tool.failed", {**common, "error": result}, cause=cause)
        else:
            step.note("tool.returned", {**common, "output": result[:2000]}, cause=cause)
        return result, failed

    async def _dispatch_tool_call(self, call: ModelToolCall) -> str:
        handler = _TOOL_HANDLERS.get(call.name)
        if handler is None:
            raise ToolFailure(f"there is no tool {call.name}")
        return await handler(self, call)

    async def emit_actions(self, call: ModelToolCall) -> str:
        """Replace the buttons."""
        self._actions = controls.parse_buttons(call.arguments.get("actions"))
        return f"On the screen now: {_describe_controls(self._actions, 'label')}."

    async def emit_display(self, call: ModelToolCall) -> str:
        """Replace the labels and tables."""
        self._display = controls.parse_display(call.arguments.get("items"))
        return f"Shown now: {_describe_controls(self._display, 'text')}."

    async def set_state(self, call: ModelToolCall) -> str:
        """Set one variable."""
        key, value = controls.clean_text(call.arguments.get("key")), call.arguments.get("value")
        if not key or not controls.is_plain_value(value):
            raise InvalidControl("set_state takes a key and a plain value: text of at most 500 characters, a number, true, false or null")
        if len({*self._step.session.state, *self._state, key}) > MAX_VARIABLES:
            raise InvalidControl(f"there are {MAX_VARIABLES} variables already")
        self._state[key] = value
        return f"{key} = {value}"

    async def create_machine(self, call: ModelToolCall) -> str:
        """Create a machine, or replace the one with this id."""
        id, initial = controls.clean_text(call.arguments.get("id")), controls.clean_text(call.arguments.get("initial"))
        state_list = call.arguments.get("states")
        states = dict(_parse_state(each) for each in (state_list if isinstance(state_list, list) else ()))
        if not id or initial not in states or len(states) > MAX_STATES:
            raise InvalidControl(
                f"a machine needs an id, at most {MAX_STATES} states, each with a name, and initial, the name of one of them"
            )
        if id not in self._known_machines and len(self._known_machines) >= MAX_MACHINES:
            raise InvalidControl(f"there are {MAX_MACHINES} machines already; destroy one first")
        _check_machine_size(states)
        _check_transitions(states, states)
        self._known_machines[id] = Machine(initial=initial, current=initial, states=states)
        self._machines.append({"do": "create", "id": id, "initial": initial, "states": states})
        return f"The machine {id} is on the screen, in {initial}."

    async def add_state(self, call: ModelToolCall) -> str:
        """Add a state to a machine, or replace one."""
        id, machine = self._find_machine(call)
        name, state = _parse_state(call.arguments.get("state"))
        states = {**machine.states, name: state}
        if len(states) > MAX_STATES:
            raise InvalidControl(f"a machine has at most {MAX_STATES} states")
        _check_machine_size(states)
        _check_transitions({name: state}, states)
        self._known_machines[id] = Machine(initial=machine.initial, current=machine.current, states=states)
        self._machines.append({"do": "add", "id": id, "states": {name: state}})
        return f"The machine {id} has the state {name}."

    async def reset_machine(self, call: ModelToolCall) -> str:
        """Put a machine back into its initial state."""
        id, machine = self._find_machine(call)
        self._machines.append({"do": "reset", "id": id})
        return f"The machine {id} is in {machine.initial} again."

    async def destroy_machine(self, call: ModelToolCall) -> str:
        """Remove a machine."""
        id, _ = self._find_machine(call)
        del self._known_machines[id]
        self._machines.append({"do": "destroy", "id": id})
        return f"The machine {id} is gone."

    def _find_machine(self, call: ModelToolCall) -> tuple[str, Machine]:
        id = controls.clean_text(call.arguments.get("id"))
        if (machine := self._known_machines.get(id)) is None:
            raise InvalidControl(f"unknown machine {id!r}; known: {', '.join(self._known_machines) or 'none'}")
        return id, machine

    async def query_db(self, call: ModelToolCall) -> str:
        """Query a database and show the result as a table. An error suggests one retry."""
        try:
            table, description = await query_database(self._step, call)
        except ToolFailure as error:
            raise self._with_retry_advice(error) from error
        self._tables = [table]
        return description

    async def run_python(self, call: ModelToolCall) -> str:
        """Run a program; returns its output."""
        try:
            return await run_python_program(self._step, call)
        except ToolFailure as error:
            raise self._with_retry_advice(error) from error

    def _with_retry_advice(self, error: ToolFailure) -> ToolFailure:
        self.failure_count += 1
        advice = "Correct it and call again." if self.failure_count == 1 else "Do not try again; tell the user what went wrong."
        return ToolFailure(f"{str(error).rstrip('.')}. {advice}")


ToolHandler: TypeAlias = Callable[[ToolRunner, ModelToolCall], Awaitable[str]]
_TOOL_HANDLERS: Mapping[str, ToolHandler] = {
    "emit_actions": ToolRunner.emit_actions,
    "emit_display": ToolRunner.emit_display,
    "set_state": ToolRunner.set_state,
    "create_machine": ToolRunner.create_machine,
    "add_state": ToolRunner.add_state,
    "reset_machine": ToolRunner.reset_machine,
    "destroy_machine": ToolRunner.destroy_machine,
    "query_db": ToolRunner.query_db,
    "run_python": ToolRunner.run_python,
}


def _describe_controls(shown: tuple[UiControl, ...], key: str) -> str:
    return ", ".join(str(each.get(key) or f"a table of {', '.join(each['columns'])}") for each in shown) or "nothing"


def _parse_state(value: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, Mapping) or not (name := controls.clean_text(value.get("name"))):
        raise InvalidControl("a state needs a name")
    buttons = value.get("buttons") or []
    if not isinstance(buttons, list) or len(buttons) > controls.MAX_BUTTONS:
        raise InvalidControl("a state's buttons are a list")
    state: dict[str, Any] = {"buttons": [_parse_state_button(each) for each in buttons]}
    if text := controls.clean_text(value.get("text")):
        state["text"] = text
    return name, state


def _parse_state_button(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not controls.clean_text(value.get("label")) or not controls.clean_text(value.get("go")):
        raise InvalidControl("a state's button needs a label, and go, the name of the state to which it leads")
    go = controls.clean_text(value["go"])
    return {"label": controls.clean_text(value["label"]), "action": controls.clean_text(value.get("action")) or go, "go": go}


def _check_machine_size(states: Mapping[str, Any]) -> None:
    if len(msgspec.json.encode(states)) > MAX_MACHINE_BYTES:
        raise InvalidControl(f"a machine has at most {MAX_MACHINE_BYTES:,} bytes of JSON; give it fewer states, or fewer buttons")


def _check_transitions(states: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, state in states.items():
        if unknown := [button["go"] for button in state["buttons"] if button["go"] not in known]:
            raise InvalidControl(f"a button of the state {name} goes to {unknown[0]}, which is no state of this machine")
