"""One turn of a coding agent's program: it is run, heard record by record, told of, and its end put into words.

What each program prints is known to its own module; what holds for all of them is here: noise between the records, a program that says
how it ended and then hangs, one that never says so, one that is called off.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.dialects.fields import as_count, as_text
from fleetlore.errors import DialectError, NotStarted
from fleetlore.events.envelope import Event
from fleetlore.process.identity import Process
from fleetlore.process.pipes import Line, readable
from fleetlore.process.run import Finished, Program, run
from fleetlore.programs.harness import Ended, Heard, How, Order, Watch
from fleetlore.redact import Redactor

# --- An agent that has nothing to do for now asks to be woken later: its last words are a JSON object that says so.

SENTINEL = "__nexo_sleep__"
"""How agents that were driven by nexo say it; the time then stands under `duration_ms`."""
_LONGEST = 4096
_fenced = re.compile(r"```(?:json)?\s*(\{.*\})\s*```\s*\Z", re.DOTALL)


class Sleep(NamedTuple):
    """For how long, and why."""

    ms: int
    reason: str


def asks_to_sleep(words: str) -> Sleep | None:
    """What the last words ask for: `{"sleep_ms": 60000, "reason": "the build runs"}`, alone, on the last line, or in a block of code."""
    for text in _candidates(words.strip()):
        asked = _parse(text)
        ms = as_count(asked.get("duration_ms") if asked.get(SENTINEL) is True else asked.get("sleep_ms"))
        if ms:
            return Sleep(ms, as_text(asked.get("reason")) or "")
    return None


def _candidates(words: str) -> Iterator[str]:
    end = words[-_LONGEST:]
    if len(words) <= _LONGEST:
        yield words
    yield end.rpartition("\n")[2]
    if match := _fenced.search(end):
        yield match[1]


def _parse(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# ---

LONGEST_WORDS = 16 * 1024
LONGEST_ERROR = 8 * 1024
LINGER = 30.0
"""Seconds that a program has to end by itself, once it has said how its turn ended."""
_NOISE_SHOWN = 500


class Report(Struct, kw_only=True):
    """What is known of a turn so far."""

    session: str | None = None
    model: str | None = None
    tokens: int = 0
    usd: float | None = None
    context: int | None = None
    words: str = ""
    how: How | None = None
    """How the program says that its turn ended."""
    error: str = ""
    status: int | None = None
    denials: int = 0
    extras: dict[str, Any] = field(default_factory=dict)


class Hearer(Protocol):
    """Who understands what a program prints."""

    report: Report

    def hear(self, raw: bytes) -> Sequence[Event]:
        """The events of one more record. `DialectError` for what is none."""

    def end(self) -> Sequence[Event]:
        """What was held back, now that nothing more comes."""


def program_for(order: Order, argv: Sequence[str], env: Mapping[str, str]) -> Program:
    """The program of a turn: the prompt is on its stdin, for a command line would be too short for it and readable for everybody."""
    return Program(
        argv=tuple(argv),
        cwd=order.workspace,
        env=env,
        mark=order.mark,
        stdin=order.prompt.encode(errors="replace"),
        timeout=_time_for(order),
        idle=order.idle,
    )


async def listen(order: Order, program: Program, hearer: Hearer, watch: Watch, *, linger: float = LINGER) -> Ended:
    """The turn, from the program's start to its end. It is not begun where nothing is left to spend."""
    if any(rest is not None and rest <= 0 for rest in (order.rest.tokens, order.rest.usd, order.rest.seconds)):
        return Ended(how="over_budget", error="the budget is spent", session=order.session)
    ended = await _listen(program, hearer, watch, linger)
    if ended.how == "timed_out" and program.timeout < order.timeout:
        return replace(ended, how="over_budget")
    return ended


def _time_for(order: Order) -> float:
    return order.timeout if order.rest.seconds is None else max(0.0, min(order.timeout, order.rest.seconds))


async def _listen(program: Program, hearer: Hearer, watch: Watch, linger: float) -> Ended:
    turn = _Turn(hearer, watch, linger)
    try:
        async with asyncio.timeout(None) as turn.limit:
            finished = await run(program, turn.start, turn.hear)
    except TimeoutError:
        if not turn.is_over:
            raise
        finished = None  # said how it ended, and did not go: nothing of it runs any more
    except NotStarted as error:
        return Ended(how="not_started", error=str(error))
    await turn.close()
    return turn.ended(finished)


class _Turn:
    """A turn that lasts."""

    limit: asyncio.Timeout

    def __init__(self, hearer: Hearer, watch: Watch, linger: float) -> None:
        self._hearer, self._watch, self._linger = hearer, watch, linger
        self._verdict: How | None = None
        self._noise, self._cut, self._last_noise = 0, 0, b""

    @property
    def is_over(self) -> bool:
        """Whether the program has said how its turn ended."""
        return self._hearer.report.how is not None

    async def start(self, process: Process) -> bool:
        return await self._tell(Heard(process=process))

    async def hear(self, line: Line) -> bool:
        if not line.text.strip():
            return True
        try:
            events = self._hearer.hear(line.text)
        except DialectError:
            self._note_noise(line)
            return True
        if not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self._linger if self.is_over else None)
        return await self._tell(self._heard(events))

    async def close(self) -> None:
        """What the reader held back is told, too; it is too late to stop anything."""
        if events := self._hearer.end():
            await self._watch(self._heard(events))

    async def _tell(self, heard: Heard) -> bool:
        self._verdict = self._verdict or await self._watch(heard)
        # What has ended already is not called off.
        return self._verdict is None or self.is_over

    def _heard(self, events: Sequence[Event]) -> Heard:
        report = self._hearer.report
        return Heard(
            events=events,
            session=report.session,
            model=report.model,
            tokens=report.tokens,
            usd=report.usd,
            context=report.context,
            words=cut(report.words, LONGEST_WORDS) or None,
        )

    def _note_noise(self, line: Line) -> None:
        self._noise += 1
        self._cut += line.is_cut
        self._last_noise = line.text[-_NOISE_SHOWN:]

    def ended(self, finished: Finished | None) -> Ended:
        """The turn in the driver's words."""
        report, how = self._hearer.report, self._how(finished)
        sleep = asks_to_sleep(report.words) if how == "finished" else None
        return Ended(
            how="asleep" if sleep else how,
            words=cut(sleep.reason if sleep else report.words, LONGEST_WORDS),
            error="" if how == "finished" else cut(self._error(finished), LONGEST_ERROR),
            status=report.status,
            session=report.session,
            tokens=report.tokens,
            usd=report.usd,
            context=report.context,
            model=report.model,
            sleep_ms=sleep.ms if sleep else None,
            exit_code=finished.code if finished else None,
            denials=report.denials,
            extras=self._extras(finished),
        )

    def _how(self, finished: Finished | None) -> How:
        if self._verdict is not None and not self.is_over:
            return self._verdict
        if self._hearer.report.how is not None:
            return self._hearer.report.how
        if finished is not None and finished.why in ("timed_out", "silent"):
            return "timed_out" if finished.why == "timed_out" else "silent"
        return "failed" if finished is not None and finished.code and finished.stderr else "no_result"

    def _error(self, finished: Finished | None) -> str:
        """What the program complained of; where it did not say, what it printed last."""
        report = self._hearer.report
        hints = [report.error]
        if report.how is None and finished is not None:
            hints += [finished.stderr, readable(self._last_noise).strip(), _manner(finished)]
        return Redactor().clean("\n".join(hint for hint in hints if hint))[0]

    def _extras(self, finished: Finished | None) -> dict[str, Any]:
        told = {
            "noise": self._noise,
            "cut_lines": self._cut,
            "lingered": finished is None or (self.is_over and finished.why != "ended"),
            "left_running": finished.left if finished else 0,
        }
        return {**self._hearer.report.extras, **{key: value for key, value in told.items() if value}}


def _manner(finished: Finished) -> str:
    if finished.signal is not None and finished.why == "ended":
        return f"ended by signal {finished.signal}"
    return f"exit code {finished.code}" if finished.code else ""


def cut(text: str, most: int) -> str:
    """No more than so many bytes of it, and nothing that UTF-8 has no bytes for."""
    raw = text.encode(errors="replace")
    return raw.decode() if len(raw) <= most else raw[: most - 3].decode(errors="ignore") + "…"
