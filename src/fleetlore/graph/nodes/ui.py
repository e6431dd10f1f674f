"""UI node: updates the user's screen without calling a model: variables, buttons bound to variables, state machines, labels and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetlore.graph.controls import clean_text
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.screen import (
    MachineTransition,
    ScreenState,
    apply_binding,
    arrange_controls,
    find_button,
    find_transition,
    machine_action,
    machine_buttons,
    update_variables,
)
from fleetlore.graph.step import Step
from fleetlore.graph.turn import ScreenUpdate, ThinkerResult, UserCommand
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_audit import compare_controls
from fleetlore.views.conversation_state import Conversation, UiControl

EMPTY_RESULT = ThinkerResult()
MAX_DESCRIBED_CONTROLS = 40


class UiNode(Node):
    """Applies button presses and the thinker's changes to the screen."""

    async def run(self, step: Step) -> ScreenUpdate:
        """Apply a button press that needs no model, or show the thinker's controls. Controls are sent to the browser before the reply."""
        command, thought = step.inputs.get("command"), step.inputs.get("thought")
        if isinstance(command, UserCommand) and command.local:
            return self._apply_press(step)
        if isinstance(thought, ThinkerResult):
            for each in thought.machines:
                _apply_machine_change(step, each)
            return self._show_controls(step, thought, update_variables(step.session, thought), "")
        return ScreenUpdate()

    def _apply_press(self, step: Step) -> ScreenUpdate:
        session = step.session
        control = find_button(session, step.turn.action)
        if control is None:  # the button was removed while the press was queued
            return ScreenUpdate(text="That button is not there any more.", pressed=True)
        if (transition := find_transition(session, control)) is not None:
            _note_transition(step, transition)
            return self._show_controls(step, EMPTY_RESULT, session.state, f"{transition.machine}: {transition.new}")
        name, value = apply_binding(session.state, control["payload"], step.turn.data)
        return self._show_controls(step, EMPTY_RESULT, {**session.state, name: value}, f"{name} = {_format_value(value)}")

    def _show_controls(self, step: Step, thought: ThinkerResult, state: Mapping[str, Any], text: str) -> ScreenUpdate:
        session = step.session
        controls = arrange_controls(session, thought, state)
        has_changed = controls != session.controls or dict(state) != session.state
        if has_changed:
            step.note("ui.controls", {"controls": controls, "state": dict(state)})
            step.send({"type": "controls", "controls": controls, "state": dict(state)})
        return ScreenUpdate(text=text, pressed=bool(text), changed=has_changed, controls=len(controls))

    def to_record(self, output: Any) -> Any:
        """The number of controls."""
        return {"controls": output.controls, "changed": output.changed}

    def state(self, session: Conversation) -> Any:
        """The controls, variables and machines."""
        return ScreenState(session.controls, session.state, session.machines)

    def context(self, session: Conversation) -> str:
        """Description of the screen for the model's prompt: controls, state machines, variables, and what the browser reports."""
        lines = [_describe_control(control) for control in session.controls[:MAX_DESCRIBED_CONTROLS] if "machine_id" not in control]
        for id, machine in session.machines.items():
            actions = ", ".join(machine_action(id, each) for each in machine_buttons(machine)) or "no buttons"
            lines.append(f"Machine {id}: in {machine.current} (of {', '.join(machine.states)}); {actions}")
        lines += [f"Variable {name} = {value}" for name, value in session.state.items()]
        quoted = "\n".join(text_safety.quote_record(line, 300) for line in lines[: 2 * MAX_DESCRIBED_CONTROLS])
        return f"## On the screen\n{quoted or '> nothing'}{_describe_browser(session)}"


def _describe_browser(session: Conversation) -> str:
    """Prompt text about what the user's browser shows, if that is known."""
    if session.reported is None:
        return ""
    if compare_controls(session.controls, session.reported) is None:
        return "\nThe user's browser shows exactly this."
    quoted = "\n".join(text_safety.quote_record(_describe_control(control), 300) for control in session.reported[:MAX_DESCRIBED_CONTROLS])
    return f"\n\n## What the user sees instead\n{quoted or '> nothing'}"


def _describe_control(control: UiControl) -> str:
    match control.get("type"):
        case "button":
            return f"Button: {control.get('label')} (action {control.get('action')})"
        case "label":
            return f"Label: {control.get('text')} = {control.get('value')}"
        case "table":
            rows = control.get("rows", len(control.get("data", ())))  # of a browser's table only the number of rows is known
            return f"Table: {', '.join(map(str, control.get('columns', ())))} ({rows} rows)"
        case other:
            return f"{other or 'control'}: {control.get('label') or control.get('text') or '?'}"


def _note_transition(step: Step, transition: MachineTransition) -> None:
    step.note(
        "machine.moved", {"machine": transition.machine, "action": step.turn.action}, old_state=transition.old, new_state=transition.new
    )


def _apply_machine_change(step: Step, change: Mapping[str, Any]) -> None:
    """Record a change that the thinker's tools have validated."""
    id, machine = str(change["id"]), step.session.machines.get(str(change["id"]))
    match change["do"]:
        case "create":
            step.note(
                "machine.created", {"machine": id, "initial": change["initial"], "states": change["states"]}, new_state=change["initial"]
            )
        case "add" if machine is not None:
            states = {**machine.states, **change["states"]}
            step.note("machine.created", {"machine": id, "initial": machine.initial, "states": states}, new_state=machine.current)
        case "reset" if machine is not None:
            step.note("machine.reset", {"machine": id}, old_state=machine.current, new_state=machine.initial)
        case "destroy" if machine is not None:
            step.note("machine.destroyed", {"machine": id})


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return clean_text(value) if isinstance(value, str) else str(value)


NODE = as_node(UiNode)
