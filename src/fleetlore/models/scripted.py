"""A mind that answers by a script: deterministic, offline, free.

    ScriptedMind(["First answer.", {"text": "an object"}, MindBusy("too many questions"), Stall()])
    ScriptedMind({"judge": {"winner": "ada"}, re.compile("lantern|lamp"): AnyOf(["It was lit.", "It was out."])})
    ScriptedMind(lambda ask: f"You said {len(ask.prompt)} characters.")
    ScriptedMind([Calls([("query_db", {"sql": "SELECT 1"})], text="Let me look."), "It is one.", BreaksOff("It is", MindBusy("gone"))])

Without a script it answers by curated lines, and makes whatever object is wanted.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, Union

from msgspec import Struct

from fleetlore.errors import InvalidMind, MindError, MindTimeout
from fleetlore.models.base import DEFAULT_TIMEOUT_SECONDS, ModelReply, ModelRequest
from fleetlore.models.fake_from_schema import SeededRandom, make_fake_value, make_line
from fleetlore.models.parse_reply import build_reply
from fleetlore.models.stream_accumulator import StreamAccumulator
from fleetlore.models.text_stream import TextStream

# --- Scripts that come with Fleetlore, each played by the mind `scripted:NAME`: agents for demos and first steps, offline and free.


def find_script(name: str) -> Callable[[ModelRequest], dict[str, Any]] | None:
    """The script of that name; `None` where there is none, and lines are made up."""
    return _SCRIPTS.get(name)


def _herald_script(ask: ModelRequest) -> dict[str, Any]:
    """Puts a notice on the board, which is asked of a person first; takes no for an answer."""
    turn = ask.prompt.rpartition(" task, turn ")[2]
    if "what shell told" in turn:
        if "You may not do that" in turn:
            return {"say": "I was not allowed to, so the board is as it was. The table waits in table.txt.", "done": True}
        return {"say": "The new table is on the board.", "done": True}
    if "what read told" in turn:
        return {
            "say": "The table is complete. What is on the board is read by everybody, so I ask first.",
            "tool": "shell",
            "args": {"command": "cp table.txt board.txt"},
        }
    return {"say": "I read the table before I put it up.", "tool": "read", "args": {"path": "table.txt"}}


_SCRIPTS: Mapping[str, Callable[[ModelRequest], dict[str, Any]]] = {"herald": _herald_script}


# ---

Answer: TypeAlias = Union[
    str, "dict[str, Any]", Exception, "Calls", "BreaksOff", "Stall", "Slow", "AnyOf", "Callable[[ModelRequest], Answer]"
]
"""Words, an object, calls, an error to raise, a stall, a delay, a choice, or a function that gives one of these."""

Key: TypeAlias = "str | re.Pattern[str]"
"""A role, or what is found in the prompt."""

# A mapping's keys are of one type to mypy, hence Any.
Script: TypeAlias = "Sequence[Answer] | Mapping[Any, Answer | Sequence[Answer]] | Callable[[ModelRequest], Answer]"
"""Answers one after the other; or by `Key`, a role before a pattern; or what a function says."""

Sleep: TypeAlias = Callable[[float], Awaitable[object]]

_FREE = 0.0
_WORD = re.compile(r"\s*\S+\s*|\s+")


class Calls(Struct, frozen=True):
    """Tools to call, each with its arguments: an object, or the text that stands where one should."""

    calls: Sequence[tuple[str, dict[str, Any] | str]]
    text: str = ""
    """What is said with it."""


class BreaksOff(Struct, frozen=True):
    """The beginning of an answer, which is heard, and an error."""

    text: str
    error: Exception


class Stall(Struct, frozen=True):
    """Nothing comes: the question's time runs out."""


class Slow(Struct, frozen=True):
    """An answer that takes some seconds."""

    seconds: float
    answer: Any
    """Any other `Answer`."""


class AnyOf(Struct, frozen=True):
    """One of several answers, chosen by a hash of the question: the same one gets the same answer, after a restart, too."""

    answers: Sequence[Any]


class ScriptedMind:
    """Answers by a script. Takes no time but what the script says, and costs nothing."""

    def __init__(self, script: Script | None = None, *, name: str = "scripted:", sleep: Sleep = asyncio.sleep) -> None:
        self.name, self._script, self._sleep = name, script, sleep
        self._given_counts: Counter[Key] = Counter()
        self.asked: list[ModelRequest] = []
        """What it was asked, in order."""

    async def reply(self, ask: ModelRequest) -> ModelReply:
        """What the script says."""
        self.asked.append(ask)
        answer, seconds = self._next_answer(ask), 0.0
        while True:
            match answer:
                case Slow():
                    seconds += answer.seconds
                    await self._wait_or_time_out(answer.seconds, ask, seconds)
                    answer = answer.answer
                case Stall():
                    await self._wait_or_time_out(float("inf"), ask, float("inf"))
                case AnyOf():
                    answer = self._seeded_random(ask).choose_item(answer.answers)
                case Exception():
                    raise answer
                case BreaksOff():
                    await _stream_words(StreamAccumulator(speech=_open_text_stream(ask)), answer.text)
                    raise answer.error
                case str() | dict() | Calls():
                    return await self._build_reply(ask, answer, seconds)
                case _ if callable(answer):
                    answer = answer(ask)
                case _:
                    raise InvalidMind(f"{self.name}: a script cannot answer with {answer!r}; give it text, a dict, an error, or a function")

    async def _build_reply(self, ask: ModelRequest, answer: str | dict[str, Any] | Calls, seconds: float) -> ModelReply:
        heard = StreamAccumulator(finish="stop", usd=_FREE, wants_calls=True, speech=_open_text_stream(ask))
        match answer:
            case Calls():
                await _stream_words(heard, answer.text)
                for number, (name, arguments) in enumerate(answer.calls):
                    heard.add_call_piece(number, name=name, arguments=arguments)
            case str():
                await _stream_words(heard, answer)
            case _:
                await _stream_words(heard, json.dumps(answer, ensure_ascii=False))
        return build_reply(ask, heard, model=self.name, latency_ms=round(seconds * 1000))

    async def _wait_or_time_out(self, seconds: float, ask: ModelRequest, altogether: float) -> None:
        patience = DEFAULT_TIMEOUT_SECONDS if ask.timeout is None else ask.timeout
        if altogether >= patience:
            await self._sleep(patience - (0 if seconds == altogether else altogether - seconds))
            raise MindTimeout(f"{self.name}: no answer within {patience:g} s", waiting_for="the whole answer")
        await self._sleep(seconds)

    def _next_answer(self, ask: ModelRequest) -> Answer:
        match self._script:
            case None:
                return self._improvise_answer(ask)
            case Mapping() as parts:
                key = _find_key(parts, ask)
                return self._improvise_answer(ask) if key is None else self._answer_in_turn(parts[key], key)
            case Sequence() as answers:
                return self._answer_in_turn(answers, "")
            case function:
                return function(ask)

    def _answer_in_turn(self, answers: Answer | Sequence[Answer], key: Key) -> Answer:
        if isinstance(answers, str) or not isinstance(answers, Sequence):
            return answers
        number = self._given_counts[key]
        if number >= len(answers):
            whose = f" for {key if isinstance(key, str) else key.pattern}" if key else ""
            raise MindError(
                f"{self.name}: the script{whose} has no more than {len(answers)} answers; add some, or give AnyOf(…) or a function"
            )
        self._given_counts[key] += 1
        return answers[number]

    def _improvise_answer(self, ask: ModelRequest) -> str | dict[str, Any]:
        dice = self._seeded_random(ask)
        if ask.schema is None:
            return make_line(dice, role=ask.role)
        made: dict[str, Any] = make_fake_value(ask.schema, dice, role=ask.role)
        return made

    def _seeded_random(self, ask: ModelRequest) -> SeededRandom:
        return SeededRandom(self.name, ask.role, ask.seed, ask.system, ask.prompt, *filter(None, (ask.context_json,)))


def _open_text_stream(ask: ModelRequest) -> TextStream | None:
    return TextStream(ask.hear) if ask.hear and ask.schema is None else None


async def _stream_words(heard: StreamAccumulator, text: str) -> None:
    """Word by word where somebody listens, with room for everybody else in between."""
    if heard.speech is None:
        heard.add_text(text)
        return
    for word in _WORD.findall(text):
        heard.add_text(word)
        await asyncio.sleep(0)
    heard.speech.flush()


def _find_key(parts: Mapping[Any, Any], ask: ModelRequest) -> Key | None:
    if ask.role in parts:
        return ask.role
    return next((key for key in parts if isinstance(key, re.Pattern) and key.search(ask.newest_text)), None)
