"""The one loop that asks a model until there is an answer: goal, graph and stage use it. Actors of a stage have no tools.

An answer is one of:

- tool calls: they run, their results go back, and the model is asked again;
- text (or an object, if the request has a schema): the answer, if `check_answer` accepts it;
- unusable: broken JSON, wrong arguments, nothing at all.

An unusable answer, or one that `check_answer` rejects, is corrected once: the model gets the reason and is asked again. A caller
may let a failed call count as one (`can_ask_again`): then the model is asked the same once more. Tool calls that succeed renew this
chance. `parse_reply.py` also accepts a call that a model wrote as plain JSON text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fleetlore.errors import UnusableAnswer
from fleetlore.models.base import ChatMessage, ModelReply, ModelRequest, ModelToolCall

_MAX_SHOWN_CHARS = 300


class ToolOutcome(NamedTuple):
    """What a tool call returned, as text for the model."""

    text: str
    failed: bool = False


def accept_answer(reply: ModelReply, *, can_retry: bool) -> str | None:
    """Accept every answer."""
    return None


async def refuse_tool(call: ModelToolCall) -> ToolOutcome:
    """Refuse every call: no tools were offered."""
    return ToolOutcome("There are no tools. Answer with the object.", failed=True)


def is_unusable(error: Exception) -> bool:
    """Whether the model answered, but not in a way that can be used."""
    return isinstance(error, UnusableAnswer)


class ToolLoop:
    """Asks until there is an answer.

    `ask` sends the conversation so far; its argument says that this is the last round, in which no tool should be
    offered. `add_message` appends to the conversation. `check_answer` returns what to tell the model about an answer
    that is not good enough, or `None`; with `can_retry=False` the answer is used whatever it returns. `can_ask_again` says for which
    errors of `ask` the model is asked once more.
    """

    def __init__(
        self,
        ask: Callable[[bool], Awaitable[ModelReply]],
        add_message: Callable[[ChatMessage], None],
        use_tool: Callable[[ModelToolCall], Awaitable[ToolOutcome]],
        *,
        check_answer: Callable[..., str | None] = accept_answer,
        can_ask_again: Callable[[Exception], bool] = is_unusable,
        max_rounds: int,
    ) -> None:
        self._ask, self._add_message, self._use_tool = ask, add_message, use_tool
        self._check_answer, self._can_ask_again, self._max_rounds = check_answer, can_ask_again, max_rounds

    async def run(self) -> ModelReply | None:
        """The answer; `None` if the rounds are used up. Raises `UnusableAnswer` after two unusable answers in a row."""
        can_correct = True
        for number in range(1, self._max_rounds + 1):
            can_retry = can_correct and number < self._max_rounds
            try:
                reply = await self._ask(number == self._max_rounds)
            except Exception as error:
                if not can_retry or not self._can_ask_again(error):
                    raise
                can_correct = False
                if isinstance(error, UnusableAnswer):
                    self._add_message(ChatMessage(role="user", text=describe_correction(error.reason, error.text)))
                continue
            if reply.calls:
                can_correct = not await self._run_calls(reply) or can_correct
                continue
            problem = self._check_answer(reply, can_retry=can_retry)
            self._add_message(ChatMessage(role="assistant", text=reply.text))
            if problem is None or not can_retry:
                return reply
            can_correct = False
            self._add_message(ChatMessage(role="user", text=problem))
        return None

    async def _run_calls(self, reply: ModelReply) -> bool:
        """Run the calls in order; returns whether all failed."""
        self._add_message(ChatMessage(role="assistant", text=reply.text, calls=reply.calls))
        failures = 0
        for call in reply.calls:
            outcome = await self._use_tool(call)
            failures += outcome.failed
            self._add_message(ChatMessage(role="tool", call=call.id, text=outcome.text, failed=outcome.failed))
        return failures == len(reply.calls)


def with_messages(request: ModelRequest, messages: Sequence[ChatMessage]) -> ModelRequest:
    """The request with a conversation; its last message is the prompt, unless it is a tool's result."""
    if messages and messages[-1].role == "user":
        return replace(request, prompt=messages[-1].text, messages=tuple(messages[:-1]))
    return replace(request, prompt="", messages=tuple(messages))


def describe_correction(reason: str, answer: str = "") -> str:
    """What a model gets to read about an answer that could not be used."""
    shown = " ".join(answer.split())[:_MAX_SHOWN_CHARS]
    quoted = f"\nYou wrote: {shown}" if shown else ""
    return f"Your last answer could not be used: {reason}. Answer again and correct this.{quoted}"
