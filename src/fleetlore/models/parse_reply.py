"""From what was heard of a model to its reply, or to what is wrong with it. Every mind ends here."""

from __future__ import annotations

import json

from msgspec.structs import replace

from fleetlore.errors import MindNonsense, MindRefused
from fleetlore.models.base import JsonSchema, ModelReply, ModelRequest, ModelToolCall, ToolDefinition, estimate_usage
from fleetlore.models.json_schema import first_error
from fleetlore.models.parse_json import find_object, parse_whole_object, strip_reasoning
from fleetlore.models.stream_accumulator import PartialToolCall, StreamAccumulator

_MAX_SHOWN_CHARS = 400


def build_reply(ask: ModelRequest, heard: StreamAccumulator, *, model: str, latency_ms: int, attempts: int = 1) -> ModelReply:
    """The reply. If it cannot be used, a `MindError` that carries what it took."""
    reply = ModelReply(
        text=strip_reasoning(heard.text),
        usage=heard.usage or estimate_usage(ask, heard.written_text),
        usd=heard.usd,
        model=heard.model or model,
        latency_ms=latency_ms,
        finish=heard.finish or "other",
        attempts=attempts,
        message_id=heard.message_id,
        request_id=heard.request_id,
    )
    if reply.finish == "filtered":
        raise MindRefused(f"{model}: the endpoint withheld the answer; ask for something else", attempts=attempts, reply=reply)
    if heard.calls:
        return _attach_calls(reply, heard, ask)
    if ask.schema is None:
        return _require_text(reply, heard.text)
    return _attach_object(reply, heard.text, ask.schema)


def schema_instruction(schema: JsonSchema) -> str:
    """What a model is told where its endpoint has no way to hold it to a schema."""
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"


def _require_text(reply: ModelReply, text: str) -> ModelReply:
    if reply.text:
        return reply
    reason = "it holds nothing but reasoning; more max_tokens may be needed" if text.strip() else "it is empty"
    raise MindNonsense(reason, text=text[:_MAX_SHOWN_CHARS], attempts=reply.attempts, reply=reply)


def _attach_calls(reply: ModelReply, heard: StreamAccumulator, ask: ModelRequest) -> ModelReply:
    tools = {tool.name: tool for tool in ask.tools}
    # Ids of a conversation are never used again, also where an endpoint gives none.
    number = sum(len(message.calls) for message in ask.messages)
    calls: dict[str, ModelToolCall] = {}
    for begun in heard.calls:
        id = begun.id if begun.id and begun.id not in calls else f"call_{number + len(calls) + 1}"
        try:
            calls[id] = _parse_call(id, begun, tools)
        except MindNonsense as error:
            cut = "; it was cut off at max_tokens, more may be needed" if reply.finish == "length" else ""
            raise MindNonsense(error.reason + cut, text=begun.arguments[:_MAX_SHOWN_CHARS], attempts=reply.attempts, reply=reply) from None
    return replace(reply, calls=tuple(calls.values()))


def _parse_call(id: str, begun: PartialToolCall, tools: dict[str, ToolDefinition]) -> ModelToolCall:
    tool = tools.get(begun.name or "")
    if tool is None:
        raise MindNonsense(f"there is no tool {(begun.name or '')[:80]!r}; there are {', '.join(tools)}")
    # Nothing at all is how some endpoints write no arguments.
    arguments = parse_whole_object(begun.arguments.strip() or "{}")
    if arguments is None:
        raise MindNonsense(f"{tool.name}: its arguments are no JSON object")
    if wrong := first_error(arguments, tool.schema):
        raise MindNonsense(f"{tool.name}: {wrong}")
    return ModelToolCall(id=id, name=tool.name, arguments=arguments)


def _attach_object(reply: ModelReply, text: str, schema: JsonSchema) -> ModelReply:
    try:
        found = find_object(text)
        reason = first_error(found.data, schema)
    except MindNonsense as error:
        reason = error.reason
    if reason is None:
        return replace(reply, text=found.text, data=found.data)
    if reply.finish == "length":
        reason += "; it was cut off at max_tokens, more may be needed"
    raise MindNonsense(reason, text=text[:_MAX_SHOWN_CHARS], attempts=reply.attempts, reply=reply)
