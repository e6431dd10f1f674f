"""Memorizer node: after the reply it updates what the agent remembers of its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fleetlore.graph.history import select_recent_entries
from fleetlore.graph.node import Node, as_node
from fleetlore.graph.step import Step
from fleetlore.models.base import JsonSchema, ModelRequest
from fleetlore.prompts import text_safety
from fleetlore.views.conversation_state import Conversation, Entry

TASK = """\
Update the memory of the user. From the memory so far and the newest exchange, answer with one JSON object that says what is true now.
facts: only new facts that are worth knowing in a month, each one short sentence; do not repeat known ones."""
MAX_FACTS = 20
MAX_TOPICS = 8
MAX_TEXT_LENGTH = 200
TEXT_FIELDS = ("mood", "topic", "language", "style")

SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {**{name: {"type": "string"} for name in TEXT_FIELDS}, "facts": {"type": "array", "items": {"type": "string"}}},
    "required": [*TEXT_FIELDS, "facts"],
    "additionalProperties": False,
}


class MemorizerNode(Node):
    """Keeps the agent's memory of its user."""

    options: ClassVar[Mapping[str, Any]] = {"history_tokens": 1500}

    async def run(self, step: Step) -> dict[str, Any]:
        """The memory after this exchange."""
        earlier = _read_memory(step.session, self.role)
        recent = select_recent_entries(step.session.history, int(step.options["history_tokens"]))
        request = ModelRequest(
            prompt=f"{self.context(step.session)}\n\n## What was said\n{quote_history(recent)}",
            system=TASK,
            schema=SCHEMA,
            max_tokens=500,
            role=step.role,
        )
        answer = await step.ask_for_object(request)
        return merge_memory(earlier, answer, step.turn.identity)

    def to_record(self, output: Any) -> Any:
        """Everything; the newest output is the memory."""
        return output

    def context(self, session: Conversation) -> str:
        """The memory."""
        memory = _read_memory(session, self.role)
        lines = [f"{name}: {memory[name]}" for name in ("user", *TEXT_FIELDS) if memory.get(name)]
        lines += [f"fact: {fact}" for fact in memory.get("facts", ()) if isinstance(fact, str)]
        return (
            "## Remembered of the user\n" + "\n".join(text_safety.quote_record(line, MAX_TEXT_LENGTH + 20) for line in lines)
            if lines
            else ""
        )


def merge_memory(earlier: Mapping[str, Any], answer: Mapping[str, Any], identity: str) -> dict[str, Any]:
    """Merge new facts into the memory. The oldest facts and topics are dropped at the limits."""
    memory: dict[str, Any] = {"user": identity}
    for name in TEXT_FIELDS:
        memory[name] = str(answer.get(name) or earlier.get(name) or "")[:MAX_TEXT_LENGTH]
    topics = [*earlier.get("topics", ()), *([earlier["topic"]] if earlier.get("topic") not in (None, "", memory["topic"]) else [])]
    memory["topics"] = topics[-MAX_TOPICS:]
    facts = (str(fact).strip()[:MAX_TEXT_LENGTH] for fact in (*earlier.get("facts", ()), *answer.get("facts", ())))
    memory["facts"] = list(dict.fromkeys(filter(None, facts)))[-MAX_FACTS:]
    return memory


def quote_history(history: list[Entry]) -> str:
    """The conversation, fenced."""
    return "\n".join(text_safety.quote_record(f"{entry.role}: {entry.text}", 2000) for entry in history)


def _read_memory(session: Conversation, role: str) -> Mapping[str, Any]:
    output = session.kept.get(role)
    return output if isinstance(output, dict) else {}


NODE = as_node(MemorizerNode)
