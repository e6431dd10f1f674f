"""Reads what the thinker came to before it is said, and adds what is missing: the node that the graph `eight` has more than `seven`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from fleetlore.errors import MindNonsense
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.nodes.output import NOTES, SAID
from fleetlore.graph.step import Step
from fleetlore.graph.turn import Thought
from fleetlore.models.base import Ask, Schema
from fleetlore.prompts import text_safety

TASK = """\
You check an agent's notes before they are said. As one JSON object: ok (whether they answer the user), and advice (one sentence on what is
missing or wrong; empty if nothing is)."""
LONGEST = 400
SCHEMA: Schema = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "advice": {"type": "string"}},
    "required": ["ok", "advice"],
    "additionalProperties": False,
}


class Critic(Node):
    """A second look."""

    options: ClassVar[Mapping[str, Any]] = {"max_tokens": 200}

    async def run(self, step: Step) -> Thought:
        """The thought, with the advice where there is some."""
        thought: Thought = step.inputs["thought"]
        ask = Ask(
            prompt=f"{SAID}\n{text_safety.record(step.turn.said, 4000)}\n\n{NOTES}\n{text_safety.record(thought.response, 4000)}",
            system=step.briefing(TASK),
            schema=SCHEMA,
            max_tokens=int(step.options["max_tokens"]),
            role=step.role,
        )
        try:
            said = (await step.ask(ask)).data or {}
        except MindNonsense:
            return thought
        if said.get("ok") is not False or not said.get("advice"):
            return thought
        return replace(thought, response=f"{thought.response}\n(Mind this: {str(said['advice'])[:LONGEST]})".strip())


NODE = as_node(Critic)
