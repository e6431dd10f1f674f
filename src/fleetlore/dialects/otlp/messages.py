"""What was asked and what was answered, out of the many shapes in which spans hold messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleetlore.dialects.otlp.values import Attributes, OtlpSpan, decode_nested_json
from fleetlore.dialects.wire import Record

USER_ROLE, ASSISTANT_ROLE = "user", "assistant"

MAX_MESSAGE_DEPTH = 6
_PROMPT_ATTRIBUTES = (
    "gen_ai.input.messages",
    "pydantic_ai.all_messages",
    "all_messages_events",
    "ai.prompt.messages",
    "ai.prompt",
    "llm.input_messages",
    "gen_ai.prompt",
    "gen_ai.user.message",
    "input.value",
    "traceloop.entity.input",
    "langfuse.observation.input",
)
_REPLY_ATTRIBUTES = (
    "gen_ai.output.messages",
    "ai.response.text",
    "llm.output_messages",
    "gen_ai.completion",
    "gen_ai.choice",
    "gen_ai.assistant.message",
    "final_result",
    "output.value",
    "traceloop.entity.output",
    "langfuse.observation.output",
)
_PLAIN_TEXT_ATTRIBUTES = frozenset(("ai.response.text", "final_result"))
"""Where JSON is the answer itself, and not what holds it."""
_TEXT_TYPES = frozenset(("text", "input_text", "output_text", "message"))
_TEXT_KEYS = ("parts", "content", "text", "message", "messages", "prompt", "input", "output", "question", "query", "response")


def find_prompt_text(span: OtlpSpan) -> str | None:
    """What a person last asked, where the span holds readable words."""
    return _find_role_text(span, _PROMPT_ATTRIBUTES, USER_ROLE)


def find_reply_text(span: OtlpSpan) -> str | None:
    """What was answered, where the span holds readable words."""
    return _find_role_text(span, _REPLY_ATTRIBUTES, ASSISTANT_ROLE)


def _find_role_text(span: OtlpSpan, keys: tuple[str, ...], role: str) -> str | None:
    """The first that says something: an attribute, a row of numbered ones, or events of that name."""
    for key in keys:
        own = span.attributes.get(key)
        if own is not None and (words := extract_role_text(own if key in _PLAIN_TEXT_ATTRIBUTES else decode_nested_json(own), role)):
            return words
        events = [each.attributes for each in span.events if each.name == key]
        for held in (_collect_numbered_messages(span.attributes, key), events):
            if held and (words := extract_role_text(held, role)):
                return words
    return None


def _collect_numbered_messages(attributes: Attributes, start: str) -> list[Record]:
    """Messages that are spread over an attribute each: `llm.input_messages.0.message.content`."""
    found: dict[int, Record] = {}
    start = f"{start}."
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        number, _, rest = key[len(start) :].partition(".")
        name = rest.removeprefix("message.")
        if number.isdecimal() and len(number) < 6 and name in ("role", "content"):
            found.setdefault(int(number), {})[name] = value
    return [found[number] for number in sorted(found)]


def extract_role_text(value: Any, role: str, depth: int = 0) -> str | None:
    """The words of the last message by somebody in this role; of anything else, whatever words it holds."""
    if isinstance(value, str):
        return value.strip() or None
    if depth > MAX_MESSAGE_DEPTH:
        return None
    if isinstance(value, list):
        mine = [each for each in value if not isinstance(each, dict) or each.get("role", role) == role]
        words = [text for each in mine if (text := extract_role_text(each, role, depth + 1))]
        is_talk = any(isinstance(each, dict) and "role" in each for each in mine)
        return (words[-1] if is_talk else "\n".join(words)) if words else None
    return next(_iterate_texts(value, role, depth), None) if isinstance(value, dict) else None


def _iterate_texts(value: Record, role: str, depth: int) -> Iterator[str]:
    kind = value.get("type", "text")
    if isinstance(kind, str) and kind not in _TEXT_TYPES:
        return  # a call, its result, a picture, a thought
    for key in _TEXT_KEYS:
        own = value.get(key)
        if own is None:
            continue
        held = decode_nested_json(own)
        # An object in a text is what was said; a list is of the parts that hold it.
        if words := extract_role_text(own if isinstance(held, dict) else held, role, depth + 1):
            yield words


def iterate_call_ids(span: OtlpSpan) -> Iterator[str]:
    """The ids of the tool calls that a model's answer asks for."""
    messages = decode_nested_json(span.attributes.get("gen_ai.output.messages"))
    parts = [part for each in _list_objects(messages) for part in _list_objects(each.get("parts")) if part.get("type") == "tool_call"]
    yield from (part["id"] for part in parts if isinstance(part.get("id"), str))
    wanted = decode_nested_json(span.attributes.get("ai.response.toolCalls"))
    yield from (call["toolCallId"] for call in _list_objects(wanted) if isinstance(call.get("toolCallId"), str))


def _list_objects(value: Any) -> list[Record]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
