"""Input node: analyses a message (language, intent, topic, tone, complexity). A button press is handled without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from fleetlore.errors import UnusableAnswer
from fleetlore.graph.history import build_history_messages
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.screen import ScreenState, find_button, is_local_action
from fleetlore.graph.step import Step
from fleetlore.graph.turn import Analysis, Complexity, GraphTurn, Intent, Tone, UserCommand
from fleetlore.models.base import JsonSchema, ModelRequest

TASK = """\
Classify the user's last message. Answer with one JSON object:
language: its two-letter code. intent: question, request (make or do something), social (greeting, thanks, small talk), action or feedback.
topic: at most eight words. tone: casual, frustrated, playful or urgent. complexity: trivial (needs no thought), simple, or complex
(several steps, or data must be looked up)."""
MAX_TOPIC_LENGTH = 120
EMPTY_SCREEN = ScreenState([], {}, {})
"""Used if no state edge leads here from the screen."""


def _enum_schema(kind: Any) -> dict[str, Any]:
    return {"type": "string", "enum": list(kind.__args__)}


SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "language": {"type": "string"},
        "intent": _enum_schema(Intent),
        "topic": {"type": "string"},
        "tone": _enum_schema(Tone),
        "complexity": _enum_schema(Complexity),
    },
    "required": ["language", "intent", "topic", "tone", "complexity"],
    "additionalProperties": False,
}


class InputNode(Node):
    """Analyses the user's input; the first node of a turn."""

    options: ClassVar[Mapping[str, Any]] = {"history_tokens": 1000}

    async def run(self, step: Step) -> UserCommand:
        """Return the user's input with its analysis."""
        turn = step.turn
        if turn.action is not None:
            analysis = Analysis(who=turn.identity, intent="action", topic=turn.action[:MAX_TOPIC_LENGTH], language=_last_language(step))
            screen = step.state.get("screen") or EMPTY_SCREEN
            return UserCommand(analysis=analysis, text=describe_press(screen, turn), local=is_local_action(screen, turn.action))
        return UserCommand(analysis=await self._analyse_text(step), text=turn.text)

    async def _analyse_text(self, step: Step) -> Analysis:
        request = ModelRequest(
            prompt=step.turn.text,
            system=step.build_system_prompt(f"{TASK}\nThe user is {step.turn.identity}, on {step.turn.channel}."),
            messages=build_history_messages(step.session, int(step.options["history_tokens"])),
            schema=SCHEMA,
            max_tokens=300,
            role=step.role,
        )
        try:
            answer = await step.ask_for_object(request)
        except UnusableAnswer:
            answer = {}  # continue with the default analysis
        fields = {**answer, "who": step.turn.identity, "topic": str(answer.get("topic", ""))[:MAX_TOPIC_LENGTH]}
        return msgspec.convert(fields, Analysis)

    def to_record(self, output: Any) -> Any:
        """The part of the output for the log: the analysis, and whether the command is local."""
        return {**msgspec.to_builtins(output.analysis), "local": output.local}


def describe_press(screen: ScreenState, turn: GraphTurn) -> str:
    """Describe a button press as text, with its payload."""
    control = find_button(screen, turn.action)
    name = f"the button {control['label']}" if control is not None else "a button that is not on the screen any more"
    payload = turn.data if turn.data is not None else (control or {}).get("payload")
    payload_text = "" if payload is None else f", with {msgspec.json.encode(payload).decode()[:1000]}"
    return f"[The user pressed {name} (action {turn.action}){payload_text}]"


def _last_language(step: Step) -> str:
    earlier_analysis = step.earlier
    language = earlier_analysis.get("language") if isinstance(earlier_analysis, Mapping) else None
    return language if isinstance(language, str) else "en"


def _is_local_command(output: Any, turn: GraphTurn) -> bool:
    return isinstance(output, UserCommand) and output.local


InputNode.conditions = {"local": _is_local_command}
NODE = as_node(InputNode)
