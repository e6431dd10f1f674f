"""Critic node: checks the thinker's notes before they are said and adds advice. Used by the graph `eight`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from fleetlore.errors import UnusableAnswer
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.nodes.output import NOTES_HEADING, USER_HEADING
from fleetlore.graph.step import Step
from fleetlore.graph.turn import ThinkerResult
from fleetlore.models.base import JsonSchema, ModelRequest
from fleetlore.prompts import text_safety

TASK = """\
Check the notes before the reply is written from them. Answer with one JSON object: ok (whether they answer the user), and advice (one
sentence on what is missing or wrong; empty if nothing is)."""
MAX_ADVICE_LENGTH = 400
SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "advice": {"type": "string"}},
    "required": ["ok", "advice"],
    "additionalProperties": False,
}


class CriticNode(Node):
    """Checks the thinker's result."""

    options: ClassVar[Mapping[str, Any]] = {"max_tokens": 200}

    async def run(self, step: Step) -> ThinkerResult:
        """The thinker's result, with advice added if something is missing."""
        thought: ThinkerResult = step.inputs["thought"]
        request = ModelRequest(
            prompt=f"{USER_HEADING}\n{text_safety.quote_record(step.turn.input_text, 4000)}\n\n"
            f"{NOTES_HEADING}\n{text_safety.quote_record(thought.response, 4000)}",
            system=step.build_system_prompt(TASK),
            schema=SCHEMA,
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
        )
        try:
            answer = await step.ask_for_object(request)
        except UnusableAnswer:
            return thought
        if answer.get("ok") is not False or not answer.get("advice"):
            return thought
        return replace(thought, response=f"{thought.response}\n(Mind this: {str(answer['advice'])[:MAX_ADVICE_LENGTH]})".strip())


NODE = as_node(CriticNode)
