"""What a press does without any model, and what the screen shows after a thought: variables, bindings and machines. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fleetlore.graph.controls import MAX_CELL_LENGTH, build_label, is_plain_value, truncate_controls
from fleetlore.graph.turn import ThinkerResult
from fleetlore.views.conversation_state import Conversation, Machine, UiControl

INITIAL_VALUES: Mapping[str, Any] = {"inc": 0, "dec": 0, "toggle": False, "set": None}
"""What a variable holds before the first press, where nothing says so."""
MAX_VARIABLES = 100


class ScreenState(NamedTuple):
    """What is on the screen, as far as a node may look at it."""

    controls: list[UiControl]
    state: dict[str, Any]
    machines: dict[str, Machine]


class MachineTransition(NamedTuple):
    """A machine passes from one state to another."""

    machine: str
    old: str
    new: str


def find_button(session: Conversation | ScreenState, action: str | None) -> UiControl | None:
    """The button on the screen that has this action."""
    return next((each for each in session.controls if each.get("type") == "button" and each.get("action") == action), None)


def is_local_action(session: Conversation | ScreenState, action: str | None) -> bool:
    """Whether a press can be done here: the button is on the screen, and belongs to a machine or is bound to a variable."""
    control = find_button(session, action)
    if control is None:
        return False
    if "machine_id" in control:
        return find_transition(session, control) is not None
    payload = control.get("payload")
    return isinstance(payload, Mapping) and payload.get("op") in INITIAL_VALUES and isinstance(payload.get("var"), str)


def find_transition(session: Conversation | ScreenState, control: UiControl) -> MachineTransition | None:
    """Where a machine goes when one of its buttons is pressed."""
    id = control.get("machine_id")
    machine = session.machines.get(id) if isinstance(id, str) else None
    if machine is None or not isinstance(id, str):
        return None
    for each in machine_buttons(machine):
        if machine_action(id, each) == control.get("action") and each["go"] in machine.states:
            return MachineTransition(id, machine.current, each["go"])
    return None


def apply_binding(state: Mapping[str, Any], payload: Mapping[str, Any], data: Any) -> tuple[str, Any]:
    """The variable that a press sets, and to what; `data` is what the press itself brought, for `set`."""
    name, op = str(payload["var"]), payload["op"]
    now = state.get(name, payload.get("initial", INITIAL_VALUES[op]))
    match op:
        case "toggle":
            return name, not now
        case "set":
            value = payload.get("value", data)
            return name, value if is_plain_value(value) else str(value)[:MAX_CELL_LENGTH]
        case _:
            step = payload.get("step", 1)
            step = step if isinstance(step, int | float) and not isinstance(step, bool) else 1
            now = now if isinstance(now, int | float) and not isinstance(now, bool) else 0
            return name, now + step if op == "inc" else now - step


def machine_buttons(machine: Machine) -> list[dict[str, Any]]:
    """The buttons of the state in which a machine is."""
    state = machine.states.get(machine.current)
    buttons = state.get("buttons") if isinstance(state, Mapping) else None
    return [each for each in buttons if isinstance(each, dict) and isinstance(each.get("go"), str)] if isinstance(buttons, list) else []


def machine_action(id: str, button: Mapping[str, Any]) -> str:
    """The action of a machine's button: no two machines share one."""
    return f"{id}.{button.get('action') or button['go']}"


def machine_controls(machines: Mapping[str, Machine]) -> list[UiControl]:
    """Each machine's state as a label, with what the state says, and its buttons."""
    controls: list[UiControl] = []
    for id, machine in machines.items():
        state = machine.states.get(machine.current)
        words = state.get("text") if isinstance(state, Mapping) else None
        shown = words if isinstance(words, str) and words else machine.current
        controls.append({**build_label(id, id, shown), "machine_id": id})
        for each in machine_buttons(machine):
            name = str(each.get("label") or each["go"])
            controls.append({"type": "button", "label": name, "action": machine_action(id, each), "machine_id": id})
    return controls


def arrange_controls(session: Conversation, thought: ThinkerResult, state: Mapping[str, Any]) -> list[UiControl]:
    """The whole screen: machines, labels and tables, buttons. What a thought does not mention stays."""
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
    """The variables after a thought: those that it sets, and those that its buttons are bound to."""
    state = {**session.state, **thought.state}
    for control in thought.actions or ():
        payload = control.get("payload")
        if isinstance(payload, Mapping) and payload.get("op") in INITIAL_VALUES:
            first = payload.get("initial", INITIAL_VALUES[payload["op"]])
            state.setdefault(str(payload["var"]), first)
    return dict(list(state.items())[-MAX_VARIABLES:])
