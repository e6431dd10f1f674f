"""Turns a collected answer into a `ModelReply`, or raises what is wrong with it. Every model uses it."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec.structs import replace

from fleetlore.errors import ModelRefused, UnusableAnswer
from fleetlore.models.base import JsonSchema, ModelReply, ModelRequest, ModelToolCall, ToolDefinition, estimate_usage
from fleetlore.models.json_schema import first_error, normalise_nulls
from fleetlore.models.parse_json import find_object, parse_whole_object, strip_reasoning
from fleetlore.models.stream_accumulator import PartialToolCall, StreamAccumulator

_MAX_SHOWN_CHARS = 400


def build_reply(request: ModelRequest, accumulator: StreamAccumulator, *, model: str, latency_ms: int, attempts: int = 1) -> ModelReply:
    """The reply. Raises a `ModelError` that carries the reply, and so its usage, if it cannot be used."""
    reply = ModelReply(
        text=strip_reasoning(accumulator.text),
        usage=accumulator.usage or estimate_usage(request, accumulator.written_text),
        usd=accumulator.usd,
        model=accumulator.model or model,
        latency_ms=latency_ms,
        finish=accumulator.finish or "other",
        attempts=attempts,
        message_id=accumulator.message_id,
        request_id=accumulator.request_id,
    )
    if reply.finish == "filtered":
        raise ModelRefused(f"{model}: the endpoint withheld the answer; ask for something else", attempts=attempts, reply=reply)
    if accumulator.calls:
        return _attach_calls(reply, accumulator, request)
    if request.schema is None:
        if request.tools and (written_call := _find_written_call(reply.text, request)):
            accumulator.calls.append(written_call)
            return _attach_calls(replace(reply, text=""), accumulator, request)
        return _require_text(reply, accumulator.text)
    return _attach_object(reply, accumulator.text, request.schema)


def schema_instruction(schema: JsonSchema) -> str:
    """The instruction for a model whose endpoint cannot enforce a schema."""
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"


def _require_text(reply: ModelReply, text: str) -> ModelReply:
    if reply.text:
        return reply
    reason = "it holds nothing but reasoning; more max_tokens may be needed" if text.strip() else "it is empty"
    raise UnusableAnswer(reason, text=text[:_MAX_SHOWN_CHARS], attempts=reply.attempts, reply=reply)


def _attach_calls(reply: ModelReply, accumulator: StreamAccumulator, request: ModelRequest) -> ModelReply:
    tools = {tool.name: tool for tool in request.tools}
    # Ids must be unique within a conversation, also if the endpoint sends none.
    earlier_calls = sum(len(message.calls) for message in request.messages)
    calls: dict[str, ModelToolCall] = {}
    for call in accumulator.calls:
        id = call.id if call.id and call.id not in calls else f"call_{earlier_calls + len(calls) + 1}"
        try:
            calls[id] = _parse_call(id, call, tools)
        except UnusableAnswer as error:
            hint = "; it was cut off at max_tokens, more may be needed" if reply.finish == "length" else ""
            raise UnusableAnswer(
                error.reason + hint, text=call.arguments[:_MAX_SHOWN_CHARS], attempts=reply.attempts, reply=reply
            ) from None
    return replace(reply, calls=tuple(calls.values()))


_CALL_WRAPPING = re.compile(r"\A(?:```\w*|<tool_call>|\[TOOL_CALLS?\])?\s*(\{.*\})\s*(?:```|</tool_call>)?\Z", re.DOTALL)


def _find_written_call(text: str, request: ModelRequest) -> PartialToolCall | None:
    """The tool call that a model without function calling wrote as its answer.

    The whole text must be the call, so that a call quoted from a file or a message is not run.
    """
    wrapped = _CALL_WRAPPING.match(text.strip())
    data = parse_whole_object(wrapped[1]) if wrapped else None
    if data is None:
        return None
    if isinstance(data.get("call"), dict) and len(data) == 1:
        data = data["call"]
    tools = [tool.name for tool in request.tools]
    name = next((data[key] for key in ("name", "tool", "function") if data.get(key) in tools), None)
    argument_keys = ("arguments", "args", "parameters", "input")
    arguments: dict[str, Any] = next((data[key] for key in argument_keys if isinstance(data.get(key), dict)), {})
    return PartialToolCall(index=0, name=name, parts=[json.dumps(arguments)]) if name else None


def attach_written_call(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """The reply with the tool call that its text is; unchanged if it is anything else. Raises `UnusableAnswer` for wrong arguments."""
    written_call = _find_written_call(reply.text, request)
    if written_call is None:
        return reply
    accumulator = StreamAccumulator(wants_calls=True)
    accumulator.calls.append(written_call)
    return _attach_calls(replace(reply, text=""), accumulator, request)


def _parse_call(id: str, call: PartialToolCall, tools: dict[str, ToolDefinition]) -> ModelToolCall:
    tool = tools.get(call.name or "")
    if tool is None:
        raise UnusableAnswer(f"unknown tool {(call.name or '')[:80]!r}; choose from {', '.join(tools)}")
    # Some endpoints send an empty string for no arguments.
    arguments = parse_whole_object(call.arguments.strip() or "{}")
    if arguments is None:
        raise UnusableAnswer(f"{tool.name}: its arguments are no JSON object")
    arguments = normalise_nulls(arguments, tool.schema)
    if error := first_error(arguments, tool.schema):
        raise UnusableAnswer(f"{tool.name}: {error}")
    return ModelToolCall(id=id, name=tool.name, arguments=arguments)


def _attach_object(reply: ModelReply, text: str, schema: JsonSchema) -> ModelReply:
    try:
        found = find_object(text)
        found = found._replace(data=normalise_nulls(found.data, schema))
        reason = first_error(found.data, schema)
    except UnusableAnswer as error:
        reason = error.reason
    if reason is None:
        return replace(reply, text=found.text, data=found.data)
    if reply.finish == "length":
        reason += "; it was cut off at max_tokens, more may be needed"
    raise UnusableAnswer(reason, text=text[:_MAX_SHOWN_CHARS], attempts=reply.attempts, reply=reply)
