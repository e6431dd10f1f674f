"""A scripted model: deterministic, offline and free. For tests and demos.

ScriptedModel(["First answer.", {"text": "an object"}, ModelBusy("too many questions"), Stall()])
ScriptedModel({"judge": {"winner": "ada"}, re.compile("lantern|lamp"): AnyOf(["It was lit.", "It was out."])})
ScriptedModel(lambda ask: f"You said {len(ask.prompt)} characters.")
ScriptedModel([Calls([("query_db", {"sql": "SELECT 1"})], text="Let me look."), "It is one.", BreaksOff("It is", ModelBusy("gone"))])

Without a script it answers with built-in lines, and generates objects that fit the requested schema.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, Union

from msgspec import Struct

from fleetlore.errors import InvalidModelAddress, ModelError, ModelTimeout
from fleetlore.models.base import DEFAULT_TIMEOUT_SECONDS, ModelReply, ModelRequest
from fleetlore.models.fake_from_schema import SeededRandom, make_fake_value, make_line
from fleetlore.models.parse_reply import build_reply
from fleetlore.models.stream_accumulator import StreamAccumulator
from fleetlore.models.text_stream import TextStream

# --- Built-in scripts, used as `scripted:NAME` in demos


def find_script(name: str) -> Callable[[ModelRequest], Answer] | None:
    """The built-in script with that name, or `None`."""
    return _SCRIPTS.get(name)


def _publish_script(request: ModelRequest) -> Answer:
    """Publishes release notes after asking a person; accepts a denial. `herald` is its name of 0.1."""
    task = max((number for number, message in enumerate(request.messages) if message.role == "user"), default=-1)
    results = [message for message in request.messages[task + 1 :] if message.role == "tool"]
    if len(results) >= 2:
        denied = "You may not do that" in results[-1].text
        refused = "I was not allowed to publish them. The website is unchanged; the notes are in notes.md."
        return Calls([("done", {"text": refused if denied else "The release notes are published."})])
    if results:
        text = "The notes are complete. Customers read the website, so I ask first."
        return Calls([("shell", {"command": "cp notes.md website.md"})], text=text)
    return Calls([("read", {"path": "notes.md"})], text="I read the notes before I publish them.")


_SCRIPTS: Mapping[str, Callable[[ModelRequest], Answer]] = {"publisher": _publish_script, "herald": _publish_script}


# --- Scripted model

Answer: TypeAlias = Union[
    str, "dict[str, Any]", Exception, "Calls", "BreaksOff", "Stall", "Slow", "AnyOf", "Callable[[ModelRequest], Answer]"
]
"""Text, an object, tool calls, an error to raise, a stall, a delay, a choice, or a function that returns one of these."""

Key: TypeAlias = "str | re.Pattern[str]"
"""A role, or a pattern to find in the prompt."""

# `Any` because the key type of a Mapping is invariant to mypy.
Script: TypeAlias = "Sequence[Answer] | Mapping[Any, Answer | Sequence[Answer]] | Callable[[ModelRequest], Answer]"
"""Answers in order; or by `Key`, roles before patterns; or a function."""

Sleep: TypeAlias = Callable[[float], Awaitable[object]]

_FREE = 0.0
_WORD = re.compile(r"\s*\S+\s*|\s+")


class Calls(Struct, frozen=True):
    """Tool calls with their arguments: an object, or invalid text in its place."""

    calls: Sequence[tuple[str, dict[str, Any] | str]]
    text: str = ""
    """Text of the answer beside the calls."""


class BreaksOff(Struct, frozen=True):
    """The beginning of an answer, which is streamed, and then an error."""

    text: str
    error: Exception


class Stall(Struct, frozen=True):
    """No answer: the request times out."""


class Slow(Struct, frozen=True):
    """An answer that takes some seconds."""

    seconds: float
    answer: Any
    """Any other `Answer`."""


class AnyOf(Struct, frozen=True):
    """One of several answers, chosen by a hash of the request: the same request always gets the same answer."""

    answers: Sequence[Any]


class ScriptedModel:
    """A model that answers from a script. Takes only the time that the script says, and costs nothing."""

    def __init__(self, script: Script | None = None, *, name: str = "scripted:", sleep: Sleep = asyncio.sleep) -> None:
        self.name, self._script, self._sleep = name, script, sleep
        self._answers_taken: Counter[Key] = Counter()
        self.asked: list[ModelRequest] = []
        """All requests, in order."""

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The script's next answer."""
        self.asked.append(request)
        answer, seconds = self._next_answer(request), 0.0
        while True:
            match answer:
                case Slow():
                    await self._wait(answer.seconds, request, waited=seconds)
                    seconds += answer.seconds
                    answer = answer.answer
                case Stall():
                    await self._wait(float("inf"), request, waited=seconds)
                case AnyOf():
                    answer = self._seeded_random(request).choose_item(answer.answers)
                case Exception():
                    raise answer
                case BreaksOff():
                    await _stream_words(StreamAccumulator(text_stream=_open_text_stream(request)), answer.text)
                    raise answer.error
                case str() | dict() | Calls():
                    return await self._build_reply(request, answer, seconds)
                case _ if callable(answer):
                    answer = answer(request)
                case _:
                    raise InvalidModelAddress(
                        f"{self.name}: a script cannot answer with {answer!r}; give it text, a dict, an error, or a function"
                    )

    async def _build_reply(self, request: ModelRequest, answer: str | dict[str, Any] | Calls, seconds: float) -> ModelReply:
        accumulator = StreamAccumulator(finish="stop", usd=_FREE, wants_calls=True, text_stream=_open_text_stream(request))
        match answer:
            case Calls():
                await _stream_words(accumulator, answer.text)
                for number, (name, arguments) in enumerate(answer.calls):
                    accumulator.add_call_piece(number, name=name, arguments=arguments)
            case str():
                await _stream_words(accumulator, answer)
            case _:
                await _stream_words(accumulator, json.dumps(answer, ensure_ascii=False))
        return build_reply(request, accumulator, model=self.name, latency_ms=round(seconds * 1000))

    async def _wait(self, seconds: float, request: ModelRequest, *, waited: float) -> None:
        timeout = DEFAULT_TIMEOUT_SECONDS if request.timeout is None else request.timeout
        await self._sleep(min(seconds, timeout - waited))
        if waited + seconds >= timeout:
            raise ModelTimeout(f"{self.name}: no answer within {timeout:g} s", waiting_for="the whole answer")

    def _next_answer(self, request: ModelRequest) -> Answer:
        match self._script:
            case None:
                return self._generate_answer(request)
            case Mapping() as answers_by_key:
                key = _find_key(answers_by_key, request)
                return self._generate_answer(request) if key is None else self._take_next_answer(answers_by_key[key], key)
            case Sequence() as answers:
                return self._take_next_answer(answers, "")
            case function:
                return function(request)

    def _take_next_answer(self, answers: Answer | Sequence[Answer], key: Key) -> Answer:
        if isinstance(answers, str) or not isinstance(answers, Sequence):
            return answers
        number = self._answers_taken[key]
        if number >= len(answers):
            suffix = f" for {key if isinstance(key, str) else key.pattern}" if key else ""
            raise ModelError(
                f"{self.name}: the script{suffix} has no more than {len(answers)} answers; add some, or give AnyOf(…) or a function"
            )
        self._answers_taken[key] += 1
        return answers[number]

    def _generate_answer(self, request: ModelRequest) -> str | dict[str, Any]:
        random = self._seeded_random(request)
        if request.schema is None:
            return make_line(random, role=request.role)
        value: dict[str, Any] = make_fake_value(request.schema, random, role=request.role)
        return value

    def _seeded_random(self, request: ModelRequest) -> SeededRandom:
        return SeededRandom(self.name, request.role, request.seed, request.system, request.prompt, *filter(None, (request.context_json,)))


def _open_text_stream(request: ModelRequest) -> TextStream | None:
    return TextStream(request.on_text) if request.on_text and request.schema is None else None


async def _stream_words(accumulator: StreamAccumulator, text: str) -> None:
    """Stream word by word if there is a listener, and let other tasks run in between."""
    if accumulator.text_stream is None:
        accumulator.add_text(text)
        return
    for word in _WORD.findall(text):
        accumulator.add_text(word)
        await asyncio.sleep(0)
    accumulator.text_stream.flush()


def _find_key(answers_by_key: Mapping[Any, Any], request: ModelRequest) -> Key | None:
    if request.role in answers_by_key:
        return request.role
    return next((key for key in answers_by_key if isinstance(key, re.Pattern) and key.search(request.newest_text)), None)
