"""Director node: after the reply it chooses mode and style; before a complex request a stronger model makes a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.errors import ModelError
from fleetlore.graph.history import build_history_messages, select_recent_entries
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.nodes.memorizer import quote_history
from fleetlore.graph.step import Step
from fleetlore.graph.turn import UserCommand
from fleetlore.models.base import JsonSchema, ModelRequest
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import Conversation

MODES = ("casual", "building", "debugging", "exploring")
MODE_TASK = "Choose how to continue the conversation. Answer with one JSON object: mode, style (a few words), proactive (true or false)."
PLAN_TASK = """\
Plan the answer to the user's message. Answer with one JSON object: goal (one sentence), steps (at most six, short; each names the tool
that it needs, if any), present_as (table, summary, machine or buttons)."""
MAX_STEPS = 6
MAX_TEXT_LENGTH = 300

MODE_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {"mode": {"type": "string", "enum": list(MODES)}, "style": {"type": "string"}, "proactive": {"type": "boolean"}},
    "required": ["mode", "style", "proactive"],
    "additionalProperties": False,
}
PLAN_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "goal": {"type": "string"},
        "steps": {"type": "array", "items": {"type": "string"}},
        "present_as": {"type": "string", "enum": ["table", "summary", "machine", "buttons"]},
    },
    "required": ["goal", "steps", "present_as"],
    "additionalProperties": False,
}


class DirectorNode(Node):
    """Chooses the mode of the conversation, and plans complex answers."""

    options: ClassVar[Mapping[str, Any]] = {"history_tokens": 1500, "plan_profile": "strong"}

    async def run(self, step: Step) -> dict[str, Any]:
        """A plan if a command leads here, else the mode. A plan is added to the previous mode."""
        previous = {name: value for name, value in _read_kept_output(step.session, self.role).items() if name != "plan"}
        if isinstance(command := step.inputs.get("command"), UserCommand):
            plan = await self._request_plan(step, command)
            return {**previous, **({"plan": plan} if plan else {})}
        recent = select_recent_entries(step.session.history, int(step.options["history_tokens"]))
        request = ModelRequest(
            prompt=f"## What was said\n{quote_history(recent)}",
            system=step.build_system_prompt(MODE_TASK),
            schema=MODE_SCHEMA,
            max_tokens=200,
            role=step.role,
        )
        answer = await step.ask_for_object(request)
        return {
            "mode": answer.get("mode", "casual"),
            "style": str(answer.get("style", ""))[:MAX_TEXT_LENGTH],
            "proactive": bool(answer.get("proactive")),
        }

    async def _request_plan(self, step: Step, command: UserCommand) -> dict[str, Any] | None:
        """The plan; `None` if the stronger model fails, because the turn can continue without it."""
        request = ModelRequest(
            prompt=command.text,
            system=step.build_system_prompt(PLAN_TASK),
            messages=build_history_messages(step.session, int(step.options["history_tokens"])),
            schema=PLAN_SCHEMA,
            max_tokens=600,
            role=f"{step.role}:plan",
        )
        try:
            answer = await step.ask_for_object(request, profile=str(step.options["plan_profile"]))
        except ModelError:
            return None
        steps = [str(each)[:MAX_TEXT_LENGTH] for each in answer.get("steps", ())][:MAX_STEPS]
        return {
            "goal": str(answer.get("goal", ""))[:MAX_TEXT_LENGTH],
            "steps": steps,
            "present_as": answer.get("present_as"),
            "turn": step.turn.number,
        }

    def to_record(self, output: Any) -> Any:
        """Everything; the newest output replaces the previous one."""
        return output

    def context(self, session: Conversation) -> str:
        """The mode, and the plan of this turn."""
        output = _read_kept_output(session, self.role)
        lines = [f"mode: {output['mode']}; style: {output.get('style')}"] if output.get("mode") else []
        plan = output.get("plan")
        if isinstance(plan, dict) and session.open is not None and plan.get("turn") == session.turn:
            lines += [
                f"goal: {plan.get('goal')}",
                *(f"step: {each}" for each in plan.get("steps", ())),
                f"present as: {plan.get('present_as')}",
            ]
        return "## The course\n" + "\n".join(text_safety.quote_record(line, MAX_TEXT_LENGTH + 20) for line in lines) if lines else ""


def _read_kept_output(session: Conversation, role: str) -> Mapping[str, Any]:
    output = session.kept.get(role)
    return output if isinstance(output, dict) else {}


NODE = as_node(DirectorNode)
