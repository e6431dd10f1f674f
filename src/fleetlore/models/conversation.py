"""Earlier turns as every endpoint takes them: each call has its result right behind it, each result its call.

A history that was cut anywhere would be refused: a result whose call is gone, a call that was never answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from fleetlore.models.base import ChatMessage, ModelRequest, ModelToolCall

LOST_RESULT_TEXT = "No result of this call was kept."


def normalise_messages(ask: ModelRequest) -> list[ChatMessage]:
    """The messages and the prompt, beginning with whoever asks. Without tools, calls and results are told in words."""
    prompt = ChatMessage(role="user", text=ask.prompt)
    mended = list(_pair_calls_with_results([*ask.messages, prompt])) or [prompt]
    if not ask.tools:
        mended = list(_calls_as_text(mended))
    first = next((number for number, message in enumerate(mended) if message.role == "user"), 0)
    return mended[first:]


def _pair_calls_with_results(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    open_calls: dict[str, ModelToolCall] = {}
    for message in messages:
        if message.role == "tool":
            if message.call in open_calls:
                del open_calls[message.call]
                yield message
            continue
        if not message.text.strip() and not message.calls:
            continue  # nothing but blanks, which is refused, too
        yield from _lost_results(open_calls)
        open_calls = {call.id: call for call in message.calls}
        yield message
    yield from _lost_results(open_calls)


def _lost_results(calls: Iterable[str]) -> Iterator[ChatMessage]:
    return (ChatMessage(role="tool", call=id, text=LOST_RESULT_TEXT, failed=True) for id in calls)


def _calls_as_text(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    names: dict[str | None, str] = {}
    for message in messages:
        if message.role == "tool":
            yield ChatMessage(role="user", text=f"[{names.get(message.call, 'a tool')} answered]\n{message.text}")
            continue
        names |= {call.id: call.name for call in message.calls}
        called = (f"[called {call.name}: {json.dumps(call.arguments, ensure_ascii=False)}]" for call in message.calls)
        yield ChatMessage(role=message.role, text="\n".join(filter(None, (message.text, *called))))
