"""Models behind Anthropic's messages. The only module that knows its client library."""

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
"""An object is had by a tool that the model must call."""

_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}


class AnthropicModel(HttpModel):
    """A model behind Anthropic's API, or one that speaks like it."""

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
        _ = client.messages  # loads more of the library: now, and not in the time of the first answer
        return client

    async def _stream_answer(self, ask: ModelRequest, unknown: frozenset[str], heard: StreamAccumulator) -> None:
        asked = self._build_request(ask, unknown)
        headers = await self._read_stream(
            lambda: self._client.messages.create(**asked),
            lambda piece: _accept_piece(heard, piece),
            lambda body: _accept_body(heard, body),
        )
        heard.request_id = parse_short_text(headers.get("request-id"))

    def _build_request(self, ask: ModelRequest, unknown: frozenset[str]) -> dict[str, Any]:
        if ask.schema is not None and FORMAT_PARAMETER in unknown:
            ask = replace(ask, prompt=f"{ask.prompt}\n\n{schema_instruction(ask.schema)}")
        asked: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": _encode_messages(normalise_messages(ask)),
            "max_tokens": ask.max_tokens,
            "stream": True,
        }
        # No temperature: since its version of October 2026 the API refuses every parameter of sampling.
        tool = {"name": ANSWER_TOOL, "description": "Gives the answer.", "input_schema": ask.schema}
        optional = {
            "system": ask.system and {"system": ask.system},
            FORMAT_PARAMETER: ask.schema and {"tools": [tool], "tool_choice": {"type": "tool", "name": ANSWER_TOOL}},
            "stop": ask.stop and {"stop_sequences": list(ask.stop)},
            "tools": ask.tools and {"tools": [*map(_encode_tool, ask.tools)]},
        }
        for name, given in optional.items():
            if given and name not in unknown:
                asked |= given
        return asked


def _encode_messages(turns: list[ChatMessage]) -> list[dict[str, Any]]:
    """Whoever asks and the model in turn; results are part of what the next one says who asks."""
    if len(turns) == 1 and not turns[0].calls:
        return [{"role": turns[0].role, "content": turns[0].text}]
    said: list[dict[str, Any]] = []
    for message in turns:
        role = "assistant" if message.role == "assistant" else "user"
        if not said or said[-1]["role"] != role:
            said.append({"role": role, "content": []})
        said[-1]["content"] += _encode_blocks(message)
    return said


def _encode_blocks(message: ChatMessage) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.call, "content": message.text, "is_error": message.failed}]
    # The API refuses a text of nothing but blanks.
    words = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*words, *({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.calls)]


def _encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _accept_piece(heard: StreamAccumulator, piece: Any) -> bool:
    """Take in a piece; whether it was a token."""
    match get_nested(piece, "type"):
        case "message_start":
            _accept_header(heard, get_nested(piece, "message"))
        case "content_block_start" if get_nested(piece, "content_block", "type") == "tool_use":
            block = get_nested(piece, "content_block")
            return heard.add_call_piece(get_nested(piece, "index"), id=get_nested(block, "id"), name=get_nested(block, "name"))
        case "content_block_delta":
            delta, written = get_nested(piece, "delta"), get_nested(piece, "delta", "partial_json")
            if heard.wants_calls and written:
                return heard.add_call_piece(get_nested(piece, "index"), arguments=written)
            return heard.add_text(get_nested(delta, "text") or written) or bool(get_nested(delta, "thinking"))
        case "message_delta":
            _accept_finish(heard, get_nested(piece, "delta", "stop_reason"))
            _accept_usage(heard, get_nested(piece, "usage"))
    return False


def _accept_body(heard: StreamAccumulator, body: Any) -> None:
    _accept_header(heard, body)
    blocks = get_nested(body, "content")
    for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
        made = get_nested(block, "input")
        if heard.wants_calls and isinstance(made, dict):
            heard.add_call_piece(number, id=get_nested(block, "id"), name=get_nested(block, "name"), arguments=made)
            continue
        heard.add_text(json.dumps(made) if isinstance(made, dict) else get_nested(block, "text"))
    _accept_finish(heard, get_nested(body, "stop_reason"))


def _accept_header(heard: StreamAccumulator, message: Any) -> None:
    heard.model = parse_short_text(get_nested(message, "model"))
    heard.message_id = parse_short_text(get_nested(message, "id"))
    _accept_usage(heard, get_nested(message, "usage"))


def _accept_finish(heard: StreamAccumulator, reason: Any) -> None:
    if isinstance(reason, str) and reason:
        heard.finish = _FINISH_REASONS.get(reason, "other")


def _accept_usage(heard: StreamAccumulator, usage: Any) -> None:
    """Later figures take the place of earlier ones; those that are missing leave them."""
    before = heard.usage or TokenUsage()
    counts = TokenUsage(
        input=parse_count(get_nested(usage, "input_tokens")) or before.input,
        output=parse_count(get_nested(usage, "output_tokens")) or before.output,
        cache_read=parse_count(get_nested(usage, "cache_read_input_tokens")) or before.cache_read,
        cache_write=parse_count(get_nested(usage, "cache_creation_input_tokens")) or before.cache_write,
    )
    heard.usage = counts if counts.total else None
