"""Runs one turn of a coding agent's program: parses its output record by record, reports progress, and builds the result.

Each program's own module parses its records. This module handles what all programs share: noise between the records, a program that
hangs after its result, one without a result, one that is cancelled.
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
from fleetlore.process.run import Inputs, OutputLine, ProcessSpec, ProgramResult, clean_output, run
from fleetlore.process.tree import Process
from fleetlore.programs.harness import TurnOutcome, TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.redact import Redactor

# --- An agent that has nothing to do asks to be woken later, with a JSON object as its last message.

NEXO_SLEEP_KEY = "__nexo_sleep__"
"""The format of agents that were driven by nexo, with the time under `duration_ms`."""
_MAX_SLEEP_REQUEST_CHARS = 4096
_FENCED_JSON_PATTERN = re.compile(r"```(?:json)?\s*(\{.*\})\s*```\s*\Z", re.DOTALL)


class SleepRequest(NamedTuple):
    """A request to sleep: how long, and why."""

    ms: int
    reason: str


def parse_sleep_request(words: str) -> SleepRequest | None:
    """A sleep request: `{"sleep_ms": 60000, "reason": "the build runs"}`, alone, on the last line, or in a code block."""
    for text in _iterate_json_candidates(words.strip()):
        asked = _parse_json_object(text)
        ms = as_count(asked.get("duration_ms") if asked.get(NEXO_SLEEP_KEY) is True else asked.get("sleep_ms"))
        if ms:
            return SleepRequest(ms, as_text(asked.get("reason")) or "")
    return None


def _iterate_json_candidates(words: str) -> Iterator[str]:
    end = words[-_MAX_SLEEP_REQUEST_CHARS:]
    if len(words) <= _MAX_SLEEP_REQUEST_CHARS:
        yield words
    yield end.rpartition("\n")[2]
    if match := _FENCED_JSON_PATTERN.search(end):
        yield match[1]


def _parse_json_object(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# ---

MAX_WORDS_BYTES = 16 * 1024
MAX_ERROR_BYTES = 8 * 1024
LINGER_SECONDS = 30.0
"""Seconds that a program gets to exit after it reported the end of its turn."""
_MAX_NOISE_BYTES = 500


class TurnReport(Struct, kw_only=True):
    """The state of a turn so far."""

    session: str | None = None
    model: str | None = None
    tokens: int = 0
    usd: float | None = None
    context: int | None = None
    words: str = ""
    how: TurnOutcome | None = None
    """The outcome that the program reported."""
    error: str = ""
    status: int | None = None
    denials: int = 0
    extras: dict[str, Any] = field(default_factory=dict)


class OutputParser(Protocol):
    """Parses the output of a program."""

    report: TurnReport

    def parse_output(self, raw: bytes) -> Sequence[Event]:
        """The events of a record; `DialectError` if it is not one."""

    def flush_events(self) -> Sequence[Event]:
        """The held-back events, at the end of the output."""


def build_turn_program(request: TurnRequest, argv: Sequence[str], env: Mapping[str, str]) -> ProcessSpec:
    """The process of a turn. The prompt goes to stdin: command lines have a length limit and are readable by all users."""
    return ProcessSpec(
        argv=tuple(argv),
        cwd=request.workspace,
        env=env,
        mark=request.mark,
        stdin=request.prompt.encode(errors="replace"),
        timeout=_turn_timeout(request),
        idle=request.idle,
    )


async def run_turn_program(
    request: TurnRequest,
    program: ProcessSpec,
    parser: OutputParser,
    watch: Watch,
    *,
    linger: float = LINGER_SECONDS,
    inputs: Inputs | None = None,
) -> TurnResult:
    """Run the program to its end. It is not started if no budget is left. `inputs` are for a program that is talked to."""
    if any(rest is not None and rest <= 0 for rest in (request.rest.tokens, request.rest.usd, request.rest.seconds)):
        return TurnResult(how="over_budget", error="the budget is spent", session=request.session)
    ended = await _run_and_parse(program, parser, watch, linger, inputs)
    if ended.how == "timed_out" and program.timeout < request.timeout:
        return replace(ended, how="over_budget")
    return ended


def _turn_timeout(request: TurnRequest) -> float:
    return request.timeout if request.rest.seconds is None else max(0.0, min(request.timeout, request.rest.seconds))


async def _run_and_parse(program: ProcessSpec, parser: OutputParser, watch: Watch, linger: float, inputs: Inputs | None) -> TurnResult:
    turn = _ProgramTurn(parser, watch, linger)
    try:
        async with asyncio.timeout(None) as turn.limit:
            finished = await run(program, turn.on_start, turn.on_line, inputs)
    except TimeoutError:
        if not turn.is_over:
            raise
        finished = None  # it reported its result and did not exit: it was killed
    except NotStarted as error:
        return TurnResult(how="not_started", error=str(error))
    await turn.flush_parser()
    return turn.make_result(finished)


class _ProgramTurn:
    """A running turn."""

    limit: asyncio.Timeout

    def __init__(self, parser: OutputParser, watch: Watch, linger: float) -> None:
        self._parser, self._watch, self._linger_seconds = parser, watch, linger
        self._stop_outcome: TurnOutcome | None = None
        self._noise_count, self._cut_count, self._last_noise = 0, 0, b""

    @property
    def is_over(self) -> bool:
        """Whether the program has reported the end of its turn."""
        return self._parser.report.how is not None

    async def on_start(self, process: Process) -> bool:
        return await self._report_progress(TurnProgress(process=process))

    async def on_line(self, line: OutputLine) -> bool:
        if not line.text.strip():
            return True
        try:
            events = self._parser.parse_output(line.text)
        except DialectError:
            self._record_noise(line)
            return True
        if not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self._linger_seconds if self.is_over else None)
        return await self._report_progress(self._make_progress(events))

    async def flush_parser(self) -> None:
        """Report the events that the reader held back; it is too late to stop the turn."""
        if events := self._parser.flush_events():
            await self._watch(self._make_progress(events))

    async def _report_progress(self, progress: TurnProgress) -> bool:
        self._stop_outcome = self._stop_outcome or await self._watch(progress)
        # A turn that has ended is not stopped.
        return self._stop_outcome is None or self.is_over

    def _make_progress(self, events: Sequence[Event]) -> TurnProgress:
        report = self._parser.report
        return TurnProgress(
            events=events,
            session=report.session,
            model=report.model,
            tokens=report.tokens,
            usd=report.usd,
            context=report.context,
            words=truncate_bytes(report.words, MAX_WORDS_BYTES) or None,
        )

    def _record_noise(self, line: OutputLine) -> None:
        self._noise_count += 1
        self._cut_count += line.is_cut
        self._last_noise = line.text[-_MAX_NOISE_BYTES:]

    def make_result(self, finished: ProgramResult | None) -> TurnResult:
        """The result for the driver."""
        report, how = self._parser.report, self._find_outcome(finished)
        sleep = parse_sleep_request(report.words) if how == "finished" else None
        return TurnResult(
            how="asleep" if sleep else how,
            words=truncate_bytes(sleep.reason if sleep else report.words, MAX_WORDS_BYTES),
            error="" if how == "finished" else truncate_bytes(self._find_error_text(finished), MAX_ERROR_BYTES),
            status=report.status,
            session=report.session,
            tokens=report.tokens,
            usd=report.usd,
            context=report.context,
            model=report.model,
            sleep_ms=sleep.ms if sleep else None,
            exit_code=finished.code if finished else None,
            denials=report.denials,
            extras=self._collect_extras(finished),
        )

    def _find_outcome(self, finished: ProgramResult | None) -> TurnOutcome:
        if self._stop_outcome is not None and not self.is_over:
            return self._stop_outcome
        if self._parser.report.how is not None:
            return self._parser.report.how
        if finished is not None and finished.why in ("timed_out", "silent"):
            return "timed_out" if finished.why == "timed_out" else "silent"
        return "failed" if finished is not None and finished.code and finished.stderr else "no_result"

    def _find_error_text(self, finished: ProgramResult | None) -> str:
        """The program's error message, or else its last output."""
        report = self._parser.report
        hints = [report.error]
        if report.how is None and finished is not None:
            hints += [finished.stderr, clean_output(self._last_noise).strip(), _describe_exit(finished)]
        return Redactor().redact_value("\n".join(hint for hint in hints if hint))[0]

    def _collect_extras(self, finished: ProgramResult | None) -> dict[str, Any]:
        extras = {
            "noise": self._noise_count,
            "cut_lines": self._cut_count,
            "lingered": finished is None or (self.is_over and finished.why != "ended"),
            "left_running": finished.left if finished else 0,
        }
        return {**self._parser.report.extras, **{key: value for key, value in extras.items() if value}}


def _describe_exit(finished: ProgramResult) -> str:
    if finished.signal is not None and finished.why == "ended":
        return f"ended by signal {finished.signal}"
    return f"exit code {finished.code}" if finished.code else ""


def truncate_bytes(text: str, most: int) -> str:
    """The text as valid UTF-8, truncated to this many bytes."""
    raw = text.encode(errors="replace")
    return raw.decode() if len(raw) <= most else raw[: most - 3].decode(errors="ignore") + "…"
