"""The thinker's tools: what each is called with, and what it comes to. Those for the screen only note what is wanted; two act outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from fleetlore.graph import controls
from fleetlore.graph.controls import BadControl
from fleetlore.graph.external_tools import ToolTrouble, ask_database, run_program
from fleetlore.graph.screen import MOST_VARIABLES
from fleetlore.graph.step import Step
from fleetlore.graph.turn import Thought
from fleetlore.models.base import Call, Tool
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import Control, Machine

MOST_MACHINES = 10
MOST_STATES = 40
LARGEST_MACHINE = 64 * 1024
LONGEST_RESULT = 12_000
OUTWARD = ("query_db", "run_python")

_TEXT = {"type": "string"}
_PLAIN = {"type": ["string", "number", "boolean", "null"]}
_BUTTON = {
    "type": "object",
    "properties": {
        "label": _TEXT,
        "action": _TEXT,
        "payload": {
            "type": "object",
            "description": "Makes a button that works by itself: var is a variable, op inc, dec, set or toggle; initial its first value.",
            "properties": {
                "var": _TEXT,
                "op": {"type": "string", "enum": list(controls.OPERATIONS)},
                "step": {"type": "number"},
                "value": _PLAIN,
                "initial": _PLAIN,
            },
        },
    },
    "required": ["label", "action"],
}
_STATE = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "text": _TEXT,
        "buttons": {
            "type": "array",
            "items": {"type": "object", "properties": {"label": _TEXT, "action": _TEXT, "go": _TEXT}, "required": ["label", "go"]},
        },
    },
    "required": ["name"],
}


def _tool(name: str, description: str, required: str, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}
    return Tool(name=name, description=description, schema=schema)


SCREEN_TOOLS = (
    _tool(
        "emit_actions",
        "Put buttons on the screen, in place of those there; an empty list takes them away.",
        "actions",
        actions={"type": "array", "items": _BUTTON},
    ),
    _tool("set_state", "Set a variable; a label with its name as id shows it.", "key value", key=_TEXT, value=_PLAIN),
    _tool(
        "emit_display",
        "Show labels ({type: label, id, text, value}) and tables ({type: table, columns, data}), in place of those there; empty clears.",
        "items",
        items={"type": "array", "items": {"type": "object"}},
    ),
    _tool(
        "create_machine",
        "Make a state machine that works by itself: its buttons go to other states without asking you.",
        "id initial states",
        id=_TEXT,
        initial=_TEXT,
        states={"type": "array", "items": _STATE},
    ),
    _tool("add_state", "Give a machine one more state, or change one.", "id state", id=_TEXT, state=_STATE),
    _tool("reset_machine", "Put a machine back into its first state.", "id", id=_TEXT),
    _tool("destroy_machine", "Take a machine away.", "id", id=_TEXT),
)


def tools_of(step: Step) -> tuple[Tool, ...]:
    """What the thinker may call in this graph, on this machine."""
    tools, box = list(SCREEN_TOOLS), step.host.tools
    if box.databases:
        about = "Ask a database with one SELECT; read only. The result is shown as a table. An empty query tells which tables there are."
        tools.append(_tool("query_db", about, "database query", database={"type": "string", "enum": sorted(box.databases)}, query=_TEXT))
    if box.runs_python:
        tools.append(
            _tool("run_python", "Run a short Python program without network or files; print what you want to know.", "code", code=_TEXT)
        )
    return tuple(tools)


class Deeds:
    """What the thinker has called in one turn, gathered into a thought."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.called: list[str] = []
        self._actions: tuple[Control, ...] | None = None
        self._display: tuple[Control, ...] | None = None
        self._tables: list[Control] = []
        self._state: dict[str, Any] = {}
        self._machines: list[dict[str, Any]] = []
        self._known: dict[str, Machine] = dict(step.session.machines)
        self.troubles = 0
        """Outward tools that failed in this turn."""

    def thought(self, response: str) -> Thought:
        """All of it."""
        display = self._display
        if self._tables:
            kept = display if display is not None else [each for each in self._shown() if each.get("type") == "label"]
            display = (*kept, *self._tables)
        return Thought(
            response=response,
            tools=tuple(self.called),
            actions=self._actions,
            display=display,
            state=self._state,
            machines=tuple(self._machines),
        )

    def _shown(self) -> list[Control]:
        return [each for each in self._step.session.controls if "machine_id" not in each and each.get("type") != "button"]

    async def do(self, call: Call) -> tuple[str, bool]:
        """One call, on record; answers what the model is told, and whether it failed."""
        step, began = self._step, perf_counter()
        call = replace(call, id=f"{step.turn.number}.{call.id}")  # a script, or a model, may count anew in every turn
        self.called.append(call.name)
        asked = {"tool": call.name, "call_id": call.id, "input": call.arguments, "turn": step.turn.number}
        cause = step.note("tool.called", asked, cause=step.cause)
        try:
            if call.name in OUTWARD:
                await step.host.durable()
            result, failed = text_safety.cut(await self._done(call), LONGEST_RESULT), False
        except (BadControl, ToolTrouble) as error:
            result, failed = text_safety.cut(str(error), LONGEST_RESULT), True
        told = {"tool": call.name, "call_id": call.id, "duration_ms": round((perf_counter() - began) * 1000, 3)}
        if failed:
            step.note("tool.failed", {**told, "error": result}, cause=cause)
        else:
            step.note("tool.returned", {**told, "output": result[:2000]}, cause=cause)
        return result, failed

    async def _done(self, call: Call) -> str:
        deed = _DEEDS.get(call.name)
        if deed is None:
            raise ToolTrouble(f"there is no tool {call.name}")
        return await deed(self, call)

    async def emit_actions(self, call: Call) -> str:
        """Buttons in place of those there."""
        self._actions = controls.buttons(call.arguments.get("actions"))
        return f"On the screen now: {_names(self._actions, 'label')}."

    async def emit_display(self, call: Call) -> str:
        """Labels and tables in place of those there."""
        self._display = controls.display(call.arguments.get("items"))
        return f"Shown now: {_names(self._display, 'text')}."

    async def set_state(self, call: Call) -> str:
        """One variable."""
        key, value = controls.text(call.arguments.get("key")), call.arguments.get("value")
        if not key or not controls.is_plain(value):
            raise BadControl("set_state takes a key and a plain value: text of at most 500 characters, a number, true, false or null")
        if len({*self._step.session.state, *self._state, key}) > MOST_VARIABLES:
            raise BadControl(f"there are {MOST_VARIABLES} variables already")
        self._state[key] = value
        return f"{key} = {value}"

    async def create_machine(self, call: Call) -> str:
        """A machine, or another in its place."""
        id, initial = controls.text(call.arguments.get("id")), controls.text(call.arguments.get("initial"))
        said = call.arguments.get("states")
        states = dict(_state_of(each) for each in (said if isinstance(said, list) else ()))
        if not id or initial not in states or len(states) > MOST_STATES:
            raise BadControl(f"a machine needs an id, at most {MOST_STATES} states, each with a name, and initial, the name of one of them")
        if id not in self._known and len(self._known) >= MOST_MACHINES:
            raise BadControl(f"there are {MOST_MACHINES} machines already; destroy one first")
        _check_size(states)
        _check_ways(states, states)
        self._known[id] = Machine(initial=initial, current=initial, states=states)
        self._machines.append({"do": "create", "id": id, "initial": initial, "states": states})
        return f"The machine {id} is on the screen, in {initial}."

    async def add_state(self, call: Call) -> str:
        """One more state."""
        id, machine = self._machine(call)
        name, state = _state_of(call.arguments.get("state"))
        states = {**machine.states, name: state}
        if len(states) > MOST_STATES:
            raise BadControl(f"a machine has at most {MOST_STATES} states")
        _check_size(states)
        _check_ways({name: state}, states)
        self._known[id] = Machine(initial=machine.initial, current=machine.current, states=states)
        self._machines.append({"do": "add", "id": id, "states": {name: state}})
        return f"The machine {id} has the state {name}."

    async def reset_machine(self, call: Call) -> str:
        """Back to the first state."""
        id, machine = self._machine(call)
        self._machines.append({"do": "reset", "id": id})
        return f"The machine {id} is in {machine.initial} again."

    async def destroy_machine(self, call: Call) -> str:
        """Away with it."""
        id, _ = self._machine(call)
        del self._known[id]
        self._machines.append({"do": "destroy", "id": id})
        return f"The machine {id} is gone."

    def _machine(self, call: Call) -> tuple[str, Machine]:
        id = controls.text(call.arguments.get("id"))
        if (machine := self._known.get(id)) is None:
            raise BadControl(f"there is no machine {id!r}; there are {', '.join(self._known) or 'none'}")
        return id, machine

    async def query_db(self, call: Call) -> str:
        """Rows, shown as a table. What goes wrong is handed back once for correction."""
        try:
            table, told = await ask_database(self._step, call)
        except ToolTrouble as error:
            raise self._troubled(error) from error
        self._tables = [table]
        return told

    async def run_python(self, call: Call) -> str:
        """What the program printed."""
        try:
            return await run_program(self._step, call)
        except ToolTrouble as error:
            raise self._troubled(error) from error

    def _troubled(self, error: ToolTrouble) -> ToolTrouble:
        self.troubles += 1
        advice = "Correct it and call again." if self.troubles == 1 else "Do not try again; tell the user what went wrong."
        return ToolTrouble(f"{str(error).rstrip('.')}. {advice}")


Deed: TypeAlias = Callable[[Deeds, Call], Awaitable[str]]
_DEEDS: Mapping[str, Deed] = {
    "emit_actions": Deeds.emit_actions,
    "emit_display": Deeds.emit_display,
    "set_state": Deeds.set_state,
    "create_machine": Deeds.create_machine,
    "add_state": Deeds.add_state,
    "reset_machine": Deeds.reset_machine,
    "destroy_machine": Deeds.destroy_machine,
    "query_db": Deeds.query_db,
    "run_python": Deeds.run_python,
}


def _names(made: tuple[Control, ...], key: str) -> str:
    return ", ".join(str(each.get(key) or f"a table of {', '.join(each['columns'])}") for each in made) or "nothing"


def _state_of(said: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(said, Mapping) or not (name := controls.text(said.get("name"))):
        raise BadControl("a state needs a name")
    buttons = said.get("buttons") or []
    if not isinstance(buttons, list) or len(buttons) > controls.MOST_BUTTONS:
        raise BadControl("a state's buttons are a list")
    state: dict[str, Any] = {"buttons": [_way(each) for each in buttons]}
    if words := controls.text(said.get("text")):
        state["text"] = words
    return name, state


def _way(said: Any) -> dict[str, str]:
    if not isinstance(said, Mapping) or not controls.text(said.get("label")) or not controls.text(said.get("go")):
        raise BadControl("a state's button needs a label, and go, the name of the state to which it leads")
    go = controls.text(said["go"])
    return {"label": controls.text(said["label"]), "action": controls.text(said.get("action")) or go, "go": go}


def _check_size(states: Mapping[str, Any]) -> None:
    if len(msgspec.json.encode(states)) > LARGEST_MACHINE:
        raise BadControl(f"a machine has at most {LARGEST_MACHINE:,} bytes of JSON; give it fewer states, or fewer buttons")


def _check_ways(states: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, state in states.items():
        if lost := [way["go"] for way in state["buttons"] if way["go"] not in known]:
            raise BadControl(f"a button of the state {name} goes to {lost[0]}, which is no state of this machine")
