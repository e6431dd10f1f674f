"""Models behind Anthropic's messages API. The only module that imports the `anthropic` library."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any, ClassVar

from msgspec.structs import replace

from fleetlore.models.base import ChatMessage, FinishReason, ModelRequest, TokenUsage, ToolDefinition
from fleetlore.models.conversation import normalise_messages
from fleetlore.models.endpoint import FORMAT_PARAMETER, HttpModel
from fleetlore.models.parse_reply import schema_instruction
from fleetlore.models.stream_accumulator import StreamAccumulator, get_nested, parse_count, parse_short_text

DEFAULT_URL = "https://api.anthropic.com"
ANSWER_TOOL = "answer"
"""To get an object, the model is forced to call this tool."""

_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}


class AnthropicModel(HttpModel):
    """A model behind Anthropic's API, or a compatible one."""

    provider = "anthropic"
    parameters: ClassVar = {
        FORMAT_PARAMETER: ("tool_choice", "tools", "input_schema"),
        "stop": ("stop_sequences",),
    }

    def _import_sdk(self) -> ModuleType:
        import anthropic

        return anthropic

    def _new_client(self, http: Any) -> Any:
        import anthropic

        key = self.endpoint.key or "none"
        client = anthropic.AsyncAnthropic(api_key=key, base_url=self.endpoint.base_url or DEFAULT_URL, max_retries=0, http_client=http)
        _ = client.messages  # import more of the library now, not during the first request
        return client

    async def _stream_answer(self, request: ModelRequest, unknown: frozenset[str], accumulator: StreamAccumulator) -> None:
        parameters = self._build_request(request, unknown)
        headers = await self._read_stream(
            lambda: self._client.messages.create(**parameters),
            lambda piece: _accept_piece(accumulator, piece),
            lambda body: _accept_body(accumulator, body),
        )
        accumulator.request_id = parse_short_text(headers.get("request-id"))

    def _build_request(self, request: ModelRequest, unknown: frozenset[str]) -> dict[str, Any]:
        if request.schema is not None and FORMAT_PARAMETER in unknown:
            request = replace(request, prompt=f"{request.prompt}\n\n{schema_instruction(request.schema)}")
        parameters: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": _encode_messages(normalise_messages(request)),
            "max_tokens": request.max_tokens,
            "stream": True,
        }
        # No temperature: since October 2026 the API rejects all sampling parameters.
        tool = {"name": ANSWER_TOOL, "description": "Gives the answer.", "input_schema": request.schema}
        optional = {
            "system": request.system and {"system": request.system},
            FORMAT_PARAMETER: request.schema and {"tools": [tool], "tool_choice": {"type": "tool", "name": ANSWER_TOOL}},
            "stop": request.stop and {"stop_sequences": list(request.stop)},
            "tools": request.tools and {"tools": [*map(_encode_tool, request.tools)]},
        }
        for name, values in optional.items():
            if values and name not in unknown:
                parameters |= values
        return parameters


def _encode_messages(messages: list[ChatMessage]) -> list[dict[str, Any]]:
    """Alternating user and assistant messages; tool results are part of the next user message."""
    if len(messages) == 1 and not messages[0].calls:
        return [{"role": messages[0].role, "content": messages[0].text}]
    encoded: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        if not encoded or encoded[-1]["role"] != role:
            encoded.append({"role": role, "content": []})
        encoded[-1]["content"] += _encode_blocks(message)
    return encoded


def _encode_blocks(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.call, "content": message.text, "is_error": message.failed}]
    # The API rejects a text of blanks only.
    text_blocks = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*text_blocks, *({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.calls)]


def _encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _accept_piece(accumulator: StreamAccumulator, piece: Any) -> bool:
    """Add an event of the stream. Returns whether it had a token."""
    match get_nested(piece, "type"):
        case "message_start":
            _accept_header(accumulator, get_nested(piece, "message"))
        case "content_block_start" if get_nested(piece, "content_block", "type") == "tool_use":
            block = get_nested(piece, "content_block")
            return accumulator.add_call_piece(get_nested(piece, "index"), id=get_nested(block, "id"), name=get_nested(block, "name"))
        case "content_block_delta":
            delta, partial_json = get_nested(piece, "delta"), get_nested(piece, "delta", "partial_json")
            if accumulator.wants_calls and partial_json:
                return accumulator.add_call_piece(get_nested(piece, "index"), arguments=partial_json)
            return accumulator.add_text(get_nested(delta, "text") or partial_json) or bool(get_nested(delta, "thinking"))
        case "message_delta":
            _accept_finish(accumulator, get_nested(piece, "delta", "stop_reason"))
            _accept_usage(accumulator, get_nested(piece, "usage"))
    return False


def _accept_body(accumulator: StreamAccumulator, body: Any) -> None:
    _accept_header(accumulator, body)
    blocks = get_nested(body, "content")
    for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
        input = get_nested(block, "input")
        if accumulator.wants_calls and isinstance(input, dict):
            accumulator.add_call_piece(number, id=get_nested(block, "id"), name=get_nested(block, "name"), arguments=input)
            continue
        accumulator.add_text(json.dumps(input) if isinstance(input, dict) else get_nested(block, "text"))
    _accept_finish(accumulator, get_nested(body, "stop_reason"))


def _accept_header(accumulator: StreamAccumulator, message: Any) -> None:
    accumulator.model = parse_short_text(get_nested(message, "model"))
    accumulator.message_id = parse_short_text(get_nested(message, "id"))
    _accept_usage(accumulator, get_nested(message, "usage"))


def _accept_finish(accumulator: StreamAccumulator, reason: Any) -> None:
    if isinstance(reason, str) and reason:
        accumulator.finish = _FINISH_REASONS.get(reason, "other")


def _accept_usage(accumulator: StreamAccumulator, usage: Any) -> None:
    """Later numbers replace earlier ones; missing ones keep them."""
    previous = accumulator.usage or TokenUsage()
    counts = TokenUsage(
        input=parse_count(get_nested(usage, "input_tokens")) or previous.input,
        output=parse_count(get_nested(usage, "output_tokens")) or previous.output,
        cache_read=parse_count(get_nested(usage, "cache_read_input_tokens")) or previous.cache_read,
        cache_write=parse_count(get_nested(usage, "cache_creation_input_tokens")) or previous.cache_write,
    )
    accumulator.usage = counts if counts.total else None
