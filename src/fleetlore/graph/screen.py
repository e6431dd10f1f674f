"""The screen of a session: what a press changes without a model, and what it shows after a thought. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fleetlore.graph.controls import MAX_CELL_LENGTH, build_label, is_plain_value, truncate_controls
from fleetlore.graph.turn import ThinkerResult
from fleetlore.views.conversation_state import Conversation, Machine, UiControl

INITIAL_VALUES: Mapping[str, Any] = {"inc": 0, "dec": 0, "toggle": False, "set": None}
"""Default value of a variable before the first press."""
MAX_VARIABLES = 100


class ScreenState(NamedTuple):
    """The part of the screen that nodes may read."""

    controls: list[UiControl]
    state: dict[str, Any]
    machines: dict[str, Machine]


class MachineTransition(NamedTuple):
    """A machine changes its state."""

    machine: str
    old: str
    new: str


def find_button(session: Conversation | ScreenState, action: str | None) -> UiControl | None:
    """The button on the screen with this action."""
    return next((each for each in session.controls if each.get("type") == "button" and each.get("action") == action), None)


def is_local_action(session: Conversation | ScreenState, action: str | None) -> bool:
    """Whether the press needs no model: the button is on the screen, and belongs to a machine or is bound to a variable."""
    control = find_button(session, action)
    if control is None:
        return False
    if "machine_id" in control:
        return find_transition(session, control) is not None
    payload = control.get("payload")
    return isinstance(payload, Mapping) and payload.get("op") in INITIAL_VALUES and isinstance(payload.get("var"), str)


def find_transition(session: Conversation | ScreenState, control: UiControl) -> MachineTransition | None:
    """The transition that a machine's button triggers; `None` if there is none."""
    id = control.get("machine_id")
    machine = session.machines.get(id) if isinstance(id, str) else None
    if machine is None or not isinstance(id, str):
        return None
    for each in machine_buttons(machine):
        if machine_action(id, each) == control.get("action") and each["go"] in machine.states:
            return MachineTransition(id, machine.current, each["go"])
    return None


def apply_binding(state: Mapping[str, Any], payload: Mapping[str, Any], data: Any) -> tuple[str, Any]:
    """The variable that a press sets, and its new value; `data` is the press's own value, for `set`."""
    name, op = str(payload["var"]), payload["op"]
    current = state.get(name, payload.get("initial", INITIAL_VALUES[op]))
    match op:
        case "toggle":
            return name, not current
        case "set":
            value = payload.get("value", data)
            return name, value if is_plain_value(value) else str(value)[:MAX_CELL_LENGTH]
        case _:
            step = payload.get("step", 1)
            step = step if isinstance(step, int | float) and not isinstance(step, bool) else 1
            current = current if isinstance(current, int | float) and not isinstance(current, bool) else 0
            return name, current + step if op == "inc" else current - step


def machine_buttons(machine: Machine) -> list[dict[str, Any]]:
    """The buttons of a machine's current state."""
    state = machine.states.get(machine.current)
    buttons = state.get("buttons") if isinstance(state, Mapping) else None
    return [each for each in buttons if isinstance(each, dict) and isinstance(each.get("go"), str)] if isinstance(buttons, list) else []


def machine_action(id: str, button: Mapping[str, Any]) -> str:
    """The action of a machine's button; unique per machine."""
    return f"{id}.{button.get('action') or button['go']}"


def machine_controls(machines: Mapping[str, Machine]) -> list[UiControl]:
    """Each machine as a label with its state's text, and its buttons."""
    controls: list[UiControl] = []
    for id, machine in machines.items():
        state = machine.states.get(machine.current)
        text = state.get("text") if isinstance(state, Mapping) else None
        value = text if isinstance(text, str) and text else machine.current
        controls.append({**build_label(id, id, value), "machine_id": id})
        for each in machine_buttons(machine):
            name = str(each.get("label") or each["go"])
            controls.append({"type": "button", "label": name, "action": machine_action(id, each), "machine_id": id})
    return controls


def arrange_controls(session: Conversation, thought: ThinkerResult, state: Mapping[str, Any]) -> list[UiControl]:
    """The controls of the whole screen: machines, labels and tables, buttons. What a thought does not mention stays."""
    own = [control for control in session.controls if "machine_id" not in control]
    display = thought.display if thought.display is not None else [each for each in own if each.get("type") != "button"]
    buttons = thought.actions if thought.actions is not None else [each for each in own if each.get("type") == "button"]
    controls = [*machine_controls(session.machines), *(_fill_label_value(each, state) for each in display), *buttons]
    return truncate_controls(controls)


def _fill_label_value(control: UiControl, state: Mapping[str, Any]) -> UiControl:
    if control.get("type") != "label" or control.get("id") not in state:
        return control
    return {**control, "value": state[str(control["id"])]}


def update_variables(session: Conversation, thought: ThinkerResult) -> dict[str, Any]:
    """The variables after a thought: those it sets, and initial values for those its buttons are bound to."""
    state = {**session.state, **thought.state}
    for control in thought.actions or ():
        payload = control.get("payload")
        if isinstance(payload, Mapping) and payload.get("op") in INITIAL_VALUES:
            initial = payload.get("initial", INITIAL_VALUES[payload["op"]])
            state.setdefault(str(payload["var"]), initial)
    return dict(list(state.items())[-MAX_VARIABLES:])
