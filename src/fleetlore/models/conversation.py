"""Earlier turns as every endpoint takes them: each call has its result right behind it, each result its call.

A history that was cut anywhere would be refused: a result whose call is gone, a call that was never answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from fleetlore.models.base import Ask, Call, Message

LOST = "No result of this call was kept."


def turns(ask: Ask) -> list[Message]:
    """The messages and the prompt, beginning with whoever asks. Without tools, calls and results are told in words."""
    prompt = Message(role="user", text=ask.prompt)
    mended = list(_mended([*ask.messages, prompt])) or [prompt]
    if not ask.tools:
        mended = list(_in_words(mended))
    first = next((number for number, message in enumerate(mended) if message.role == "user"), 0)
    return mended[first:]


def _mended(messages: Iterable[Message]) -> Iterator[Message]:
    open_calls: dict[str, Call] = {}
    for message in messages:
        if message.role == "tool":
            if message.call in open_calls:
                del open_calls[message.call]
                yield message
            continue
        if not message.text.strip() and not message.calls:
            continue  # nothing but blanks, which is refused, too
        yield from _lost(open_calls)
        open_calls = {call.id: call for call in message.calls}
        yield message
    yield from _lost(open_calls)


def _lost(calls: Iterable[str]) -> Iterator[Message]:
    return (Message(role="tool", call=id, text=LOST, failed=True) for id in calls)


def _in_words(messages: Iterable[Message]) -> Iterator[Message]:
    names: dict[str | None, str] = {}
    for message in messages:
        if message.role == "tool":
            yield Message(role="user", text=f"[{names.get(message.call, 'a tool')} answered]\n{message.text}")
            continue
        names |= {call.id: call.name for call in message.calls}
        called = (f"[called {call.name}: {json.dumps(call.arguments, ensure_ascii=False)}]" for call in message.calls)
        yield Message(role=message.role, text="\n".join(filter(None, (message.text, *called))))
