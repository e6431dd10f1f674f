"""Models behind Anthropic's messages. The only module that knows its client library."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any, ClassVar

from msgspec.structs import replace

from fleetlore.models.base import Ask, Finish, Message, Tool, Usage
from fleetlore.models.conversation import turns
from fleetlore.models.endpoint import FORMAT, HttpMind
from fleetlore.models.parse_reply import instruction
from fleetlore.models.stream_accumulator import Heard, count_of, dig, text_of

OWN_URL = "https://api.anthropic.com"
TOOL = "answer"
"""An object is had by a tool that the model must call."""

_FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}


class AnthropicMind(HttpMind):
    """A model behind Anthropic's API, or one that speaks like it."""

    provider = "anthropic"
    parameters: ClassVar = {
        FORMAT: ("tool_choice", "tools", "input_schema"),
        "stop": ("stop_sequences",),
    }

    def _sdk(self) -> ModuleType:
        import anthropic

        return anthropic

    def _new_client(self, http: Any) -> Any:
        import anthropic

        key = self.place.key or "none"
        client = anthropic.AsyncAnthropic(api_key=key, base_url=self.place.base_url or OWN_URL, max_retries=0, http_client=http)
        _ = client.messages  # loads more of the library: now, and not in the time of the first answer
        return client

    async def _hear(self, ask: Ask, unknown: frozenset[str], heard: Heard) -> None:
        asked = self._request(ask, unknown)
        headers = await self._listen(
            lambda: self._client.messages.create(**asked),
            lambda piece: _take(heard, piece),
            lambda body: _take_whole(heard, body),
        )
        heard.request_id = text_of(headers.get("request-id"))

    def _request(self, ask: Ask, unknown: frozenset[str]) -> dict[str, Any]:
        if ask.schema is not None and FORMAT in unknown:
            ask = replace(ask, prompt=f"{ask.prompt}\n\n{instruction(ask.schema)}")
        asked: dict[str, Any] = {
            "model": self.place.model,
            "messages": _messages(turns(ask)),
            "max_tokens": ask.max_tokens,
            "stream": True,
        }
        # No temperature: since its version of October 2026 the API refuses every parameter of sampling.
        tool = {"name": TOOL, "description": "Gives the answer.", "input_schema": ask.schema}
        optional = {
            "system": ask.system and {"system": ask.system},
            FORMAT: ask.schema and {"tools": [tool], "tool_choice": {"type": "tool", "name": TOOL}},
            "stop": ask.stop and {"stop_sequences": list(ask.stop)},
            "tools": ask.tools and {"tools": [*map(_tool, ask.tools)]},
        }
        for name, given in optional.items():
            if given and name not in unknown:
                asked |= given
        return asked


def _messages(turns: list[Message]) -> list[dict[str, Any]]:
    """Whoever asks and the model in turn; results are part of what the next one says who asks."""
    if len(turns) == 1 and not turns[0].calls:
        return [{"role": turns[0].role, "content": turns[0].text}]
    said: list[dict[str, Any]] = []
    for message in turns:
        role = "assistant" if message.role == "assistant" else "user"
        if not said or said[-1]["role"] != role:
            said.append({"role": role, "content": []})
        said[-1]["content"] += _blocks(message)
    return said


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.call, "content": message.text, "is_error": message.failed}]
    # The API refuses a text of nothing but blanks.
    words = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return [*words, *({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.calls)]


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _take(heard: Heard, piece: Any) -> bool:
    """Take in a piece; whether it was a token."""
    match dig(piece, "type"):
        case "message_start":
            _take_head(heard, dig(piece, "message"))
        case "content_block_start" if dig(piece, "content_block", "type") == "tool_use":
            block = dig(piece, "content_block")
            return heard.call(dig(piece, "index"), id=dig(block, "id"), name=dig(block, "name"))
        case "content_block_delta":
            delta, written = dig(piece, "delta"), dig(piece, "delta", "partial_json")
            if heard.wants_calls and written:
                return heard.call(dig(piece, "index"), arguments=written)
            return heard.add(dig(delta, "text") or written) or bool(dig(delta, "thinking"))
        case "message_delta":
            _take_finish(heard, dig(piece, "delta", "stop_reason"))
            _count(heard, dig(piece, "usage"))
    return False


def _take_whole(heard: Heard, body: Any) -> None:
    _take_head(heard, body)
    blocks = dig(body, "content")
    for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
        made = dig(block, "input")
        if heard.wants_calls and isinstance(made, dict):
            heard.call(number, id=dig(block, "id"), name=dig(block, "name"), arguments=made)
            continue
        heard.add(json.dumps(made) if isinstance(made, dict) else dig(block, "text"))
    _take_finish(heard, dig(body, "stop_reason"))


def _take_head(heard: Heard, message: Any) -> None:
    heard.model = text_of(dig(message, "model"))
    heard.message_id = text_of(dig(message, "id"))
    _count(heard, dig(message, "usage"))


def _take_finish(heard: Heard, reason: Any) -> None:
    if isinstance(reason, str) and reason:
        heard.finish = _FINISHES.get(reason, "other")


def _count(heard: Heard, usage: Any) -> None:
    """Later figures take the place of earlier ones; those that are missing leave them."""
    before = heard.usage or Usage()
    counts = Usage(
        input=count_of(dig(usage, "input_tokens")) or before.input,
        output=count_of(dig(usage, "output_tokens")) or before.output,
        cache_read=count_of(dig(usage, "cache_read_input_tokens")) or before.cache_read,
        cache_write=count_of(dig(usage, "cache_creation_input_tokens")) or before.cache_write,
    )
    heard.usage = counts if counts.total else None
