"""Extracts prompts and replies from spans, in the many shapes in which instrumentation libraries store messages."""

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
"""Attributes where JSON is the reply itself, not a container of it."""
_TEXT_TYPES = frozenset(("text", "input_text", "output_text", "message"))
_TEXT_KEYS = ("parts", "content", "text", "message", "messages", "prompt", "input", "output", "question", "query", "task", "response")


def find_prompt_text(span: OtlpSpan) -> str | None:
    """Return the last user message of a span, if it has readable text."""
    return _find_role_text(span, _PROMPT_ATTRIBUTES, USER_ROLE)


def find_reply_text(span: OtlpSpan) -> str | None:
    """Return the reply of a span, if it has readable text."""
    return _find_role_text(span, _REPLY_ATTRIBUTES, ASSISTANT_ROLE)


def is_first_call(span: OtlpSpan) -> bool:
    """Return whether a model call has a prompt and nothing that came after it."""
    messages = _list_objects(decode_nested_json(span.attributes.get("gen_ai.input.messages")))
    numbered = (each for key in ("llm.input_messages", "gen_ai.prompt") for each in _collect_numbered_messages(span.attributes, key))
    roles = {role for each in (*messages, *numbered) if isinstance(role := each.get("role"), str)}
    return USER_ROLE in roles and roles.isdisjoint((ASSISTANT_ROLE, "tool", "model"))


def _find_role_text(span: OtlpSpan, keys: tuple[str, ...], role: str) -> str | None:
    """Return the first text found: in an attribute, in numbered attributes, or in span events of that name."""
    for key in keys:
        value = span.attributes.get(key)
        if value is not None and (text := extract_role_text(value if key in _PLAIN_TEXT_ATTRIBUTES else decode_nested_json(value), role)):
            return text
        events = [each.attributes for each in span.events if each.name == key]
        for messages in (_collect_numbered_messages(span.attributes, key), events):
            if messages and (text := extract_role_text(messages, role)):
                return text
    return None


def _collect_numbered_messages(attributes: Attributes, prefix: str) -> list[Record]:
    """Collect messages spread over one attribute each: `llm.input_messages.0.message.content`."""
    found: dict[int, Record] = {}
    prefix = f"{prefix}."
    for key, value in attributes.items():
        if not key.startswith(prefix):
            continue
        number, _, rest = key[len(prefix) :].partition(".")
        name = rest.removeprefix("message.")
        if number.isdecimal() and len(number) < 6 and name in ("role", "content"):
            found.setdefault(int(number), {})[name] = value
    return [found[number] for number in sorted(found)]


def extract_role_text(value: Any, role: str, depth: int = 0) -> str | None:
    """Return the text of the last message with this role; for other values, any text they contain."""
    if isinstance(value, str):
        return value.strip() or None
    if depth > MAX_MESSAGE_DEPTH:
        return None
    if isinstance(value, list):
        matching = [each for each in value if not isinstance(each, dict) or each.get("role", role) == role]
        texts = [text for each in matching if (text := extract_role_text(each, role, depth + 1))]
        is_conversation = any(isinstance(each, dict) and "role" in each for each in matching)
        return (texts[-1] if is_conversation else "\n".join(texts)) if texts else None
    return next(_iterate_texts(value, role, depth), None) if isinstance(value, dict) else None


def _iterate_texts(value: Record, role: str, depth: int) -> Iterator[str]:
    type_name = value.get("type", "text")
    if isinstance(type_name, str) and type_name not in _TEXT_TYPES:
        return  # a tool call, its result, an image, reasoning
    for key in _TEXT_KEYS:
        raw = value.get(key)
        if raw is None:
            continue
        decoded = decode_nested_json(raw)
        # A string with a JSON object is plain text; a string with a JSON list holds the parts of the message.
        if text := extract_role_text(raw if isinstance(decoded, dict) else decoded, role, depth + 1):
            yield text


def iterate_call_ids(span: OtlpSpan) -> Iterator[str]:
    """Yield the ids of the tool calls in a model's reply."""
    messages = decode_nested_json(span.attributes.get("gen_ai.output.messages"))
    parts = [part for each in _list_objects(messages) for part in _list_objects(each.get("parts")) if part.get("type") == "tool_call"]
    yield from (part["id"] for part in parts if isinstance(part.get("id"), str))
    calls = decode_nested_json(span.attributes.get("ai.response.toolCalls"))
    yield from (call["toolCallId"] for call in _list_objects(calls) if isinstance(call.get("toolCallId"), str))


def _list_objects(value: Any) -> list[Record]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
