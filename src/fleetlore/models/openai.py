"""Models behind the chat completions of OpenAI, and everybody who speaks like it. The only module that knows its client library."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any, ClassVar

from msgspec.structs import replace

from fleetlore.models.base import ChatMessage, FinishReason, JsonSchema, ModelRequest, TokenUsage, ToolDefinition
from fleetlore.models.conversation import normalise_messages
from fleetlore.models.endpoint import FORMAT_PARAMETER, HttpModel
from fleetlore.models.parse_reply import schema_instruction
from fleetlore.models.stream_accumulator import StreamAccumulator, get_nested, parse_count, parse_short_text

DEFAULT_URL = "https://api.openai.com/v1"

_ACCOUNT_HEADERS = ("OpenAI-Organization", "OpenAI-Project")
_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filtered",
}


class OpenAIModel(HttpModel):
    """A model behind an OpenAI-compatible endpoint."""

    provider = "openai"
    parameters: ClassVar = {
        FORMAT_PARAMETER: ("response_format", "json_schema", "structured output", "grammar"),
        "stream_options": ("stream_options", "include_usage"),
        "max_tokens": ("max_tokens", "max_completion_tokens"),
        "temperature": ("temperature",),
        "seed": ("'seed'", '"seed"', "seed "),
        "stop": ("'stop'", '"stop"', "stop "),
    }

    def _import_sdk(self) -> ModuleType:
        import openai

        return openai

    def _new_client(self, http: Any) -> Any:
        import openai

        # The library wants a key even where none is needed.
        key, url = self.endpoint.key or "none", self.endpoint.base_url or DEFAULT_URL
        # Who its user is at OpenAI, the library takes from the environment; that is nobody else's business.
        headers: Any = {name: openai.Omit() for name in _ACCOUNT_HEADERS} if self.endpoint.base_url else None
        client = openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, default_headers=headers, http_client=http)
        _ = client.chat.completions  # loads more of the library: now, and not in the time of the first answer
        return client

    async def _stream_answer(self, ask: ModelRequest, unknown: frozenset[str], heard: StreamAccumulator) -> None:
        asked = self._build_request(ask, unknown)
        headers = await self._read_stream(
            lambda: self._client.chat.completions.create(**asked),
            lambda piece: _accept_piece(heard, piece, "delta"),
            lambda body: _accept_body(heard, body),
        )
        heard.request_id = parse_short_text(headers.get("x-request-id"))

    def _build_request(self, ask: ModelRequest, unknown: frozenset[str]) -> dict[str, Any]:
        if ask.schema is not None and FORMAT_PARAMETER in unknown:
            ask = replace(ask, prompt=f"{ask.prompt}\n\n{schema_instruction(ask.schema)}")
        system = [{"role": "system", "content": ask.system}] if ask.system else []
        asked: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [*system, *map(_encode_message, normalise_messages(ask))],
            "stream": True,
        }
        # The newest models of the provider itself refuse the older name, which is the only one that others know.
        is_new = (self.endpoint.base_url is None) != ("max_tokens" in unknown)
        asked["max_completion_tokens" if is_new else "max_tokens"] = ask.max_tokens
        optional = {
            FORMAT_PARAMETER: ask.schema and {"response_format": _response_format(ask.schema)},
            "stream_options": {"stream_options": {"include_usage": True}},
            "temperature": ask.temperature is not None and {"temperature": ask.temperature},
            "seed": ask.seed is not None and {"seed": ask.seed},
            "stop": ask.stop and {"stop": list(ask.stop)},
            "tools": ask.tools and {"tools": [*map(_encode_tool, ask.tools)]},
        }
        for name, given in optional.items():
            if given and name not in unknown:
                asked |= given
        return asked


def _encode_message(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call, "content": message.text}
    said: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        said["content"] = message.text or None
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for call in message.calls
        ]
    return said


def _encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema}}


def _response_format(schema: JsonSchema) -> dict[str, Any]:
    named: dict[str, Any] = {"name": "answer", "schema": schema}
    if _is_strict(schema):
        named["strict"] = True
    return {"type": "json_schema", "json_schema": named}


def _is_strict(schema: Any) -> bool:
    """Whether every object in it names all its fields and allows no other: what the endpoint can hold a model to exactly."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(fields):
            return False
    return all(map(_is_strict, schema.values()))


def _accept_piece(heard: StreamAccumulator, piece: Any, where: str) -> bool:
    """Take in a piece; whether it was a token."""
    choice = get_nested(piece, "choices", 0)
    said = get_nested(choice, where)
    heard.model = heard.model or parse_short_text(get_nested(piece, "model"))
    heard.message_id = heard.message_id or parse_short_text(get_nested(piece, "id"))
    finish = get_nested(choice, "finish_reason")
    if isinstance(finish, str) and finish:
        heard.finish = _FINISH_REASONS.get(finish, "other")
    _accept_usage(heard, get_nested(piece, "usage"))
    if get_nested(said, "refusal"):
        heard.finish = "filtered"
    thought = get_nested(said, "reasoning_content") or get_nested(said, "reasoning")
    is_called = _accept_calls(heard, get_nested(said, "tool_calls"))
    return heard.add_text(get_nested(said, "content")) or is_called or bool(thought)


def _accept_calls(heard: StreamAccumulator, calls: Any) -> bool:
    took = False
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        place, made = get_nested(call, "index"), get_nested(call, "function")
        place = number if place is None else place
        took |= heard.add_call_piece(
            place, id=get_nested(call, "id"), name=get_nested(made, "name"), arguments=get_nested(made, "arguments")
        )
    return took


def _accept_body(heard: StreamAccumulator, body: Any) -> None:
    _accept_piece(heard, body, "message")
    if heard.parts or heard.calls:
        heard.finish = heard.finish or "other"


def _accept_usage(heard: StreamAccumulator, usage: Any) -> None:
    if usage is None or not (read := parse_count(get_nested(usage, "prompt_tokens"))) + parse_count(get_nested(usage, "completion_tokens")):
        return
    cached = min(read, parse_count(get_nested(usage, "prompt_tokens_details", "cached_tokens")))
    heard.usage = TokenUsage(input=read - cached, output=parse_count(get_nested(usage, "completion_tokens")), cache_read=cached)
    cost = get_nested(usage, "cost")  # some endpoints say it, in dollars
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 10**6:
        heard.usd = float(cost)
