"""Makes earlier messages valid for every endpoint: each tool call is followed by its result, each result has its call.

Endpoints reject a truncated history with a result whose call is gone, or a call without a result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from fleetlore.models.base import ChatMessage, ModelRequest, ModelToolCall

MISSING_RESULT_TEXT = "No result of this call was kept."


def normalise_messages(request: ModelRequest) -> list[ChatMessage]:
    """The messages and the prompt, starting with a user message. Without tools, calls and results become text."""
    prompt = ChatMessage(role="user", text=request.prompt)
    messages = list(_pair_calls_with_results([*request.messages, prompt])) or [prompt]
    if not request.tools:
        messages = list(_calls_as_text(messages))
    first = next((index for index, message in enumerate(messages) if message.role == "user"), 0)
    return _join_user_messages(messages[first:])


def _join_user_messages(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Some chat templates accept only alternating roles."""
    joined: list[ChatMessage] = []
    for message in messages:
        if joined and joined[-1].role == message.role == "user":
            joined[-1] = ChatMessage(role="user", text=f"{joined[-1].text}\n\n{message.text}")
        else:
            joined.append(message)
    return joined


def _pair_calls_with_results(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    open_calls: dict[str, ModelToolCall] = {}
    for message in messages:
        if message.role == "tool":
            if message.call in open_calls:
                del open_calls[message.call]
                yield message
            continue
        if not message.text.strip() and not message.calls:
            continue  # endpoints also reject blank messages
        yield from _missing_results(open_calls)
        open_calls = {call.id: call for call in message.calls}
        yield message
    yield from _missing_results(open_calls)


def _missing_results(calls: Iterable[str]) -> Iterator[ChatMessage]:
    return (ChatMessage(role="tool", call=id, text=MISSING_RESULT_TEXT, failed=True) for id in calls)


def _calls_as_text(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    names: dict[str | None, str] = {}
    for message in messages:
        if message.role == "tool":
            yield ChatMessage(role="user", text=f"[{names.get(message.call, 'a tool')} answered]\n{message.text}")
            continue
        names |= {call.id: call.name for call in message.calls}
        call_lines = (f"[called {call.name}: {json.dumps(call.arguments, ensure_ascii=False)}]" for call in message.calls)
        yield ChatMessage(role=message.role, text="\n".join(filter(None, (message.text, *call_lines))))
