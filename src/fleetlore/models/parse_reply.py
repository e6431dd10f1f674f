"""From what was heard of a model to its reply, or to what is wrong with it. Every mind ends here."""

from __future__ import annotations

import json

from msgspec.structs import replace

from fleetlore.errors import MindNonsense, MindRefused
from fleetlore.models.base import Ask, Call, Reply, Schema, Tool, estimated_usage
from fleetlore.models.json_schema import misfit
from fleetlore.models.parse_json import find_object, whole_object, without_thoughts
from fleetlore.models.stream_accumulator import Begun, Heard

_SHOWN = 400


def settled(ask: Ask, heard: Heard, *, model: str, latency_ms: int, attempts: int = 1) -> Reply:
    """The reply. If it cannot be used, a `MindError` that carries what it took."""
    reply = Reply(
        text=without_thoughts(heard.text),
        usage=heard.usage or estimated_usage(ask, heard.written),
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
        return _with_calls(reply, heard, ask)
    if ask.schema is None:
        return _with_words(reply, heard.text)
    return _with_object(reply, heard.text, ask.schema)


def instruction(schema: Schema) -> str:
    """What a model is told where its endpoint has no way to hold it to a schema."""
    return f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"


def _with_words(reply: Reply, text: str) -> Reply:
    if reply.text:
        return reply
    reason = "it holds nothing but reasoning; more max_tokens may be needed" if text.strip() else "it is empty"
    raise MindNonsense(reason, text=text[:_SHOWN], attempts=reply.attempts, reply=reply)


def _with_calls(reply: Reply, heard: Heard, ask: Ask) -> Reply:
    tools = {tool.name: tool for tool in ask.tools}
    # Ids of a conversation are never used again, also where an endpoint gives none.
    number = sum(len(message.calls) for message in ask.messages)
    calls: dict[str, Call] = {}
    for begun in heard.calls:
        id = begun.id if begun.id and begun.id not in calls else f"call_{number + len(calls) + 1}"
        try:
            calls[id] = _call(id, begun, tools)
        except MindNonsense as error:
            cut = "; it was cut off at max_tokens, more may be needed" if reply.finish == "length" else ""
            raise MindNonsense(error.reason + cut, text=begun.arguments[:_SHOWN], attempts=reply.attempts, reply=reply) from None
    return replace(reply, calls=tuple(calls.values()))


def _call(id: str, begun: Begun, tools: dict[str, Tool]) -> Call:
    tool = tools.get(begun.name or "")
    if tool is None:
        raise MindNonsense(f"there is no tool {(begun.name or '')[:80]!r}; there are {', '.join(tools)}")
    # Nothing at all is how some endpoints write no arguments.
    arguments = whole_object(begun.arguments.strip() or "{}")
    if arguments is None:
        raise MindNonsense(f"{tool.name}: its arguments are no JSON object")
    if wrong := misfit(arguments, tool.schema):
        raise MindNonsense(f"{tool.name}: {wrong}")
    return Call(id=id, name=tool.name, arguments=arguments)


def _with_object(reply: Reply, text: str, schema: Schema) -> Reply:
    try:
        found = find_object(text)
        reason = misfit(found.data, schema)
    except MindNonsense as error:
        reason = error.reason
    if reason is None:
        return replace(reply, text=found.text, data=found.data)
    if reply.finish == "length":
        reason += "; it was cut off at max_tokens, more may be needed"
    raise MindNonsense(reason, text=text[:_SHOWN], attempts=reply.attempts, reply=reply)
