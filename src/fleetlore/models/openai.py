"""Models behind OpenAI's chat completions API, or a compatible one. The only module that imports the `openai` library."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any, ClassVar

from msgspec.structs import replace

from fleetlore.models.base import ChatMessage, FinishReason, JsonSchema, ModelRequest, TokenUsage, ToolDefinition
from fleetlore.models.conversation import normalise_messages
from fleetlore.models.endpoint import FORMAT_PARAMETER, HttpModel
from fleetlore.models.json_schema import make_strict
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
        "strict": ("strict",),
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

        # The library requires a key even if the endpoint needs none.
        key, url = self.endpoint.key or "none", self.endpoint.base_url or DEFAULT_URL
        # The library reads the user's OpenAI organization from the environment; other endpoints must not get it.
        headers: Any = {name: openai.Omit() for name in _ACCOUNT_HEADERS} if self.endpoint.base_url else None
        client = openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, default_headers=headers, http_client=http)
        _ = client.chat.completions  # import more of the library now, not during the first request
        return client

    async def _stream_answer(self, request: ModelRequest, unknown: frozenset[str], accumulator: StreamAccumulator) -> None:
        parameters = self._build_request(request, unknown)
        headers = await self._read_stream(
            lambda: self._client.chat.completions.create(**parameters),
            lambda piece: _accept_piece(accumulator, piece, "delta"),
            lambda body: _accept_body(accumulator, body),
        )
        accumulator.request_id = parse_short_text(headers.get("x-request-id"))

    def _build_request(self, request: ModelRequest, unknown: frozenset[str]) -> dict[str, Any]:
        if request.schema is not None and FORMAT_PARAMETER in unknown:
            request = replace(request, prompt=f"{request.prompt}\n\n{schema_instruction(request.schema)}")
        system = [{"role": "system", "content": request.system}] if request.system else []
        parameters: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [*system, *map(_encode_message, normalise_messages(request))],
            "stream": True,
        }
        # OpenAI's newest models reject `max_tokens`; compatible endpoints know only that.
        is_new = (self.endpoint.base_url is None) != ("max_tokens" in unknown)
        parameters["max_completion_tokens" if is_new else "max_tokens"] = request.max_tokens
        is_strict = "strict" not in unknown
        optional = {
            FORMAT_PARAMETER: request.schema and {"response_format": _response_format(request.schema, is_strict)},
            "stream_options": {"stream_options": {"include_usage": True}},
            "temperature": request.temperature is not None and {"temperature": request.temperature},
            "seed": request.seed is not None and {"seed": request.seed},
            "stop": request.stop and {"stop": list(request.stop)},
            "tools": request.tools and {"tools": [_encode_tool(tool, is_strict) for tool in request.tools]},
        }
        for name, values in optional.items():
            if values and name not in unknown:
                parameters |= values
        return parameters


def _encode_message(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call, "content": message.text}
    encoded: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        encoded["content"] = message.text or None
        encoded["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for call in message.calls
        ]
    return encoded


def _encode_tool(tool: ToolDefinition, is_strict: bool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function | _strict_fields("parameters", tool.schema, is_strict)}


def _response_format(schema: JsonSchema, is_strict: bool) -> dict[str, Any]:
    json_schema = {"name": "answer", "schema": schema} | _strict_fields("schema", schema, is_strict)
    return {"type": "json_schema", "json_schema": json_schema}


def _strict_fields(name: str, schema: JsonSchema, is_strict: bool) -> dict[str, Any]:
    """The schema for strict mode, in which the endpoint lets the model write nothing else; empty if that is impossible."""
    strict_schema = make_strict(schema) if is_strict else None
    return {} if strict_schema is None else {name: strict_schema, "strict": True}


def _accept_piece(accumulator: StreamAccumulator, piece: Any, delta_key: str) -> bool:
    """Add a chunk of the stream. Returns whether it had a token."""
    choice = get_nested(piece, "choices", 0)
    delta = get_nested(choice, delta_key)
    accumulator.model = accumulator.model or parse_short_text(get_nested(piece, "model"))
    accumulator.message_id = accumulator.message_id or parse_short_text(get_nested(piece, "id"))
    finish = get_nested(choice, "finish_reason")
    if isinstance(finish, str) and finish:
        accumulator.finish = _FINISH_REASONS.get(finish, "other")
    _accept_usage(accumulator, get_nested(piece, "usage"))
    if get_nested(delta, "refusal"):
        accumulator.finish = "filtered"
    reasoning = get_nested(delta, "reasoning_content") or get_nested(delta, "reasoning")
    has_call = _accept_calls(accumulator, get_nested(delta, "tool_calls"))
    return accumulator.add_text(get_nested(delta, "content")) or has_call or bool(reasoning)


def _accept_calls(accumulator: StreamAccumulator, calls: Any) -> bool:
    has_new = False
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        index, function = get_nested(call, "index"), get_nested(call, "function")
        index = number if index is None else index
        has_new |= accumulator.add_call_piece(
            index, id=get_nested(call, "id"), name=get_nested(function, "name"), arguments=get_nested(function, "arguments")
        )
    return has_new


def _accept_body(accumulator: StreamAccumulator, body: Any) -> None:
    _accept_piece(accumulator, body, "message")
    if accumulator.parts or accumulator.calls:
        accumulator.finish = accumulator.finish or "other"


def _accept_usage(accumulator: StreamAccumulator, usage: Any) -> None:
    if usage is None or not (input_tokens := parse_count(get_nested(usage, "prompt_tokens"))) + parse_count(
        get_nested(usage, "completion_tokens")
    ):
        return
    cached = min(input_tokens, parse_count(get_nested(usage, "prompt_tokens_details", "cached_tokens")))
    accumulator.usage = TokenUsage(
        input=input_tokens - cached, output=parse_count(get_nested(usage, "completion_tokens")), cache_read=cached
    )
    cost = get_nested(usage, "cost")  # some endpoints report it, in US dollars
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 10**6:
        accumulator.usd = float(cost)
