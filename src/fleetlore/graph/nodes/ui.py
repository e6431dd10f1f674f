"""Keeps the screen, without any model: variables, buttons bound to them, machines, labels and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetlore.graph.controls import text
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.screen import Move, OnScreen, arranged, bound, buttons_of, control_of, machine_action, move_of, variables
from fleetlore.graph.step import Step
from fleetlore.graph.turn import Command, Shown, Thought
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import Control, Conversation

NOTHING = Thought()
MOST_TOLD = 40


class Ui(Node):
    """What the user sees besides words."""

    async def run(self, step: Step) -> Shown:
        """A press that is done here, or what a thought wants shown. The controls go out at once, before any words."""
        command, thought = step.inputs.get("command"), step.inputs.get("thought")
        if isinstance(command, Command) and command.local:
            return self._pressed(step)
        if isinstance(thought, Thought):
            for each in thought.machines:
                _operate(step, each)
            return self._show(step, thought, variables(step.session, thought), "")
        return Shown()

    def _pressed(self, step: Step) -> Shown:
        session = step.session
        control = control_of(session, step.turn.action)
        if control is None:  # it went while the press waited for its turn
            return Shown(text="That button is not there any more.", pressed=True)
        if (move := move_of(session, control)) is not None:
            _move(step, move)
            return self._show(step, NOTHING, session.state, f"{move.machine}: {move.new}")
        name, value = bound(session.state, control["payload"], step.turn.data)
        return self._show(step, NOTHING, {**session.state, name: value}, f"{name} = {_said(value)}")

    def _show(self, step: Step, thought: Thought, state: Mapping[str, Any], words: str) -> Shown:
        session = step.session
        controls = arranged(session, thought, state)
        changed = controls != session.controls or dict(state) != session.state
        if changed:
            step.note("ui.controls", {"controls": controls, "state": dict(state)})
            step.send({"type": "controls", "controls": controls, "state": dict(state)})
        return Shown(text=words, pressed=bool(words), changed=changed, controls=len(controls))

    def told(self, made: Any) -> Any:
        """How many controls there are."""
        return {"controls": made.controls, "changed": made.changed}

    def state(self, session: Conversation) -> Any:
        """The controls, variables and machines."""
        return OnScreen(session.controls, session.state, session.machines)

    def context(self, session: Conversation) -> str:
        """What is on the screen, and in which state each machine is."""
        lines = [line for control in session.controls[:MOST_TOLD] if "machine_id" not in control and (line := _line(control))]
        for id, machine in session.machines.items():
            ways = ", ".join(machine_action(id, each) for each in buttons_of(machine)) or "no buttons"
            lines.append(f"Machine {id}: in {machine.current} (of {', '.join(machine.states)}); {ways}")
        lines += [f"Variable {name} = {value}" for name, value in session.state.items()]
        told = "\n".join(text_safety.record(line, 300) for line in lines[: 2 * MOST_TOLD])
        return f"## On the screen\n{told or '> nothing'}"


def _line(control: Control) -> str:
    match control.get("type"):
        case "button":
            return f"Button: {control.get('label')} (action {control.get('action')})"
        case "label":
            return f"Label: {control.get('text')} = {control.get('value')}"
        case "table":
            return f"Table: {', '.join(map(str, control.get('columns', ())))} ({len(control.get('data', ()))} rows)"
        case _:
            return ""


def _move(step: Step, move: Move) -> None:
    step.note("machine.moved", {"machine": move.machine, "action": step.turn.action}, old_state=move.old, new_state=move.new)


def _operate(step: Step, wanted: Mapping[str, Any]) -> None:
    """What a thought wants done with a machine; the tools have checked it."""
    id, machine = str(wanted["id"]), step.session.machines.get(str(wanted["id"]))
    match wanted["do"]:
        case "create":
            step.note(
                "machine.created", {"machine": id, "initial": wanted["initial"], "states": wanted["states"]}, new_state=wanted["initial"]
            )
        case "add" if machine is not None:
            states = {**machine.states, **wanted["states"]}
            step.note("machine.created", {"machine": id, "initial": machine.initial, "states": states}, new_state=machine.current)
        case "reset" if machine is not None:
            step.note("machine.reset", {"machine": id}, old_state=machine.current, new_state=machine.initial)
        case "destroy" if machine is not None:
            step.note("machine.destroyed", {"machine": id})


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return text(value) if isinstance(value, str) else str(value)


NODE = as_node(Ui)
