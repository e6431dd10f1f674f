"""Tool calls of a model that does not use its endpoint's function calling: it writes each as an object that is held to a schema.

Small models, and servers whose chat template knows no tools, answer a request with tools in prose. Most servers can still hold an answer
to a schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from fleetlore.models.base import ChatMessage, JsonSchema, ModelReply, ModelRequest, ModelToolCall, ToolDefinition

_INSTRUCTION = 'Answer with nothing but the next tool call, as JSON: {"call": {"name": "TOOL", "arguments": {…}}}. The tools:'


def request_written_call(request: ModelRequest) -> ModelRequest:
    """The request for an object that is a call of one of its tools, instead of tools."""
    lines = [_describe_tool(tool) for tool in request.tools]
    system = "\n".join(filter(None, (request.system, _INSTRUCTION, *lines)))
    messages = tuple(_write_messages(request.messages))
    return replace(request, system=system, messages=messages, tools=(), schema=_build_schema(request.tools))


def read_written_call(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """The reply with the call that it holds; `request` is the one with tools."""
    if reply.data is None:
        return reply
    call = reply.data["call"]
    id = f"call_{1 + sum(len(message.calls) for message in request.messages)}"
    return replace(reply, text="", data=None, calls=(ModelToolCall(id=id, name=call["name"], arguments=call["arguments"]),))


def _write_messages(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    """Earlier calls as the model is to write the next."""
    names: dict[str | None, str] = {}
    for message in messages:
        if message.role == "tool":
            yield ChatMessage(
                role="user", text=f"{names.get(message.call, 'The tool')} {'failed' if message.failed else 'returned'}: {message.text}"
            )
            continue
        names |= {call.id: call.name for call in message.calls}
        calls = (json.dumps({"call": {"name": call.name, "arguments": call.arguments}}, ensure_ascii=False) for call in message.calls)
        yield ChatMessage(role=message.role, text="\n".join(filter(None, (message.text, *calls))))


def _describe_tool(tool: ToolDefinition) -> str:
    """One line: a whole schema for each tool is more than a small model can follow. The schema is enforced anyway."""
    required = tool.schema.get("required", ())
    names = ", ".join(f'"{name}": …' for name in tool.schema.get("properties", {}) if name in required)
    optional = ", ".join(f"`{name}`" for name in tool.schema.get("properties", {}) if name not in required)
    return f'{{"name": "{tool.name}", "arguments": {{{names}}}}}  {tool.description}{f" (optional: {optional})" if optional else ""}'


def _build_schema(tools: tuple[ToolDefinition, ...]) -> JsonSchema:
    # Below a field, because strict modes accept no choice at the top.
    return _closed_object({"call": {"anyOf": [_closed_object({"name": {"const": tool.name}, "arguments": tool.schema}) for tool in tools]}})


def _closed_object(properties: dict[str, JsonSchema]) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
