"""The harness for any command: the prompt on stdin, its answer on stdout, its exit code as the outcome of the turn.

Its environment has `LORE_GOAL`, `LORE_AGENT`, `LORE_TURN_NUMBER` (from 1), `LORE_TURN` (the mark of the turn; child processes must
inherit it), `LORE_MODEL` if the goal sets one, `LORE_SUMMARY=1` if only a summary is wanted, and the remaining budget:
`LORE_TOKENS_LEFT`, `LORE_USD_LEFT`, `LORE_SECONDS_LEFT`.

A line on stdout that is a JSON object with some of these keys, and no others, is a report and not part of the answer:

    {"done": true, "say": "…", "tokens": 12, "usd": 0.01, "context": 900, "model": "…", "sleep_ms": 60000, "error": "…"}

Later reports override earlier ones. Tokens and dollars are those of the turn so far: a command that reports while it works is stopped
when its budget is spent. They are recorded as `model.replied`, which costs are computed from. Exit code 0 is a finished turn, any other
a failed one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fleetlore.errors import NotStarted
from fleetlore.events.envelope import Event
from fleetlore.process.environment import scrub_environment
from fleetlore.process.run import OutputLine, ProcessSpec, ProgramResult, TailBuffer, clean_output, run
from fleetlore.process.tree import Process
from fleetlore.programs.harness import TurnOutcome, TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.redact import Redactor

MAX_WORDS_BYTES = 16_384
"""Bytes kept of the end of the output."""

MAX_REPORT_BYTES = 65_536

KEPT_VARIABLES = ("VIRTUAL_ENV", "NVM_*", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME")
"""Variables that tools need. Keys of models are not among them: a goal names those that its command needs (`variables`)."""

_PROGRESS_INTERVAL_SECONDS = 1.0
"""Minimum seconds between two progress reports."""

_Count = Annotated[int, Meta(ge=0, le=2**53)]


class CommandReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report of the command."""

    done: bool | None = None
    say: str | None = None
    tokens: _Count | None = None
    usd: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    context: _Count | None = None
    model: str | None = None
    sleep_ms: Annotated[int, Meta(ge=0, le=31_557_600_000)] | None = None
    error: str | None = None

    def merge_later(self, later: CommandReport) -> CommandReport:
        """This report, updated by a later one."""
        return msgspec.structs.replace(self, **_list_set_fields(later))


def _list_set_fields(report: CommandReport) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(report).items() if value is not None}


def parse_report_line(line: OutputLine) -> CommandReport | None:
    """The line as a report, if it is one."""
    text = line.text.strip()
    if not text.startswith(b"{") or line.is_cut or len(text) > MAX_REPORT_BYTES:
        return None
    try:
        report = msgspec.json.decode(text, type=CommandReport)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return report if _list_set_fields(report) else None


class CommandHarness:
    """Runs any command. It has no session between turns, and no gate: only the system limits it."""

    name = "command"
    has_sessions = False

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str] = os.environ, keep: Sequence[str] = KEPT_VARIABLES) -> None:
        self._command, self._environ, self._kept_variables = tuple(command), environ, tuple(keep)

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Run the command once."""
        turn = _CommandTurn(watch)
        try:
            finished = await run(self._build_program(request), turn.on_start, turn.on_line)
        except NotStarted as error:
            return TurnResult(how="not_started", error=str(error))
        await turn.report_remaining_usage()
        return turn.make_result(finished, is_spent=_turn_timeout(request) < request.timeout)

    def _build_program(self, request: TurnRequest) -> ProcessSpec:
        return ProcessSpec(
            argv=self._command,
            cwd=request.workspace,
            env={**scrub_environment(self._environ, keep=self._kept_variables, mark=request.mark), **_build_order_variables(request)},
            mark=request.mark,
            stdin=request.prompt.encode("utf-8", "replace"),
            timeout=_turn_timeout(request),
            idle=request.idle,
        )


def _turn_timeout(request: TurnRequest) -> float:
    """Maximum seconds of the turn."""
    return request.timeout if request.rest.seconds is None else min(request.timeout, max(request.rest.seconds, 0.0))


def _build_order_variables(request: TurnRequest) -> dict[str, str]:
    """The order as environment variables."""
    variables = {
        "LORE_GOAL": request.goal,
        "LORE_AGENT": request.agent,
        "LORE_TURN_NUMBER": request.turn,
        "LORE_MODEL": request.model,
        "LORE_SUMMARY": 1 if request.is_summary else None,
        "LORE_TOKENS_LEFT": request.rest.tokens,
        "LORE_USD_LEFT": request.rest.usd,
        "LORE_SECONDS_LEFT": request.rest.seconds,
    }
    return {name: str(value).replace("\0", "") for name, value in variables.items() if value is not None}


class _CommandTurn:
    """Collects output and reports of one run."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._report = CommandReport()
        self._output_tail = TailBuffer(MAX_WORDS_BYTES)
        self._stop_outcome: TurnOutcome | None = None
        self._next_words_at = self._next_usage_at = 0.0
        self._reported_usage = CommandReport(tokens=0, usd=0.0)

    async def on_start(self, process: Process) -> bool:
        """Report the process at once, so that it can be found after a crash."""
        return await self._report_progress(TurnProgress(process=process))

    async def on_line(self, line: OutputLine) -> bool:
        """Read a line: a report, or output, which is passed on now and then."""
        if report := parse_report_line(line):
            self._report = self._report.merge_later(report)
            return await self._report_progress(self._make_progress(words=report.say, events=self._make_usage_events_if_due()))
        self._output_tail.feed(line.text[-MAX_WORDS_BYTES:] + b"\n")
        now = asyncio.get_running_loop().time()
        if now < self._next_words_at or not line.text.strip():
            return True
        self._next_words_at = now + _PROGRESS_INTERVAL_SECONDS
        return await self._report_progress(self._make_progress(words=clean_output(line.text[:MAX_WORDS_BYTES])))

    async def report_remaining_usage(self) -> None:
        """Report progress that was not reported yet."""
        if events := self._make_usage_events():
            await self._watch(self._make_progress(words=None, events=events))

    def _make_progress(self, *, words: str | None, events: Sequence[Event] = ()) -> TurnProgress:
        report = self._report
        return TurnProgress(
            tokens=report.tokens or 0, usd=report.usd, context=report.context, model=report.model, words=words, events=events
        )

    def _make_usage_events_if_due(self) -> Sequence[Event]:
        now = asyncio.get_running_loop().time()
        if now < self._next_usage_at:
            return ()
        self._next_usage_at = now + _PROGRESS_INTERVAL_SECONDS
        return self._make_usage_events()

    def _make_usage_events(self) -> Sequence[Event]:
        """The usage since the last report. Input and output are not split, so it cannot be priced from a table."""
        report, reported = self._report, self._reported_usage
        tokens, usd = (report.tokens or 0) - (reported.tokens or 0), round((report.usd or 0.0) - (reported.usd or 0.0), 9)
        if tokens <= 0 and usd <= 0:
            return ()
        self._reported_usage = CommandReport(
            tokens=max(report.tokens or 0, reported.tokens or 0), usd=max(report.usd or 0.0, reported.usd or 0.0)
        )
        priced = {"usd": usd, "model": report.model} if usd > 0 else {}
        data = {"input": max(0, tokens), "source": CommandHarness.name, **priced}
        return (Event(kind="model.replied", data={name: value for name, value in data.items() if value is not None}),)

    async def _report_progress(self, progress: TurnProgress) -> bool:
        self._stop_outcome = await self._watch(progress)
        return self._stop_outcome is None

    def make_result(self, finished: ProgramResult, *, is_spent: bool) -> TurnResult:
        """The result of the turn; `is_spent` if its time limit was the goal's remaining time."""
        report = self._report
        how = self._find_outcome(finished, is_spent=is_spent)
        return TurnResult(
            how=how,
            words=_truncate_to_tail(clean_output(report.say.encode("utf-8", "replace")) if report.say else self._output_tail.decode_text()),
            error=_describe_failure(finished, report, how),
            tokens=report.tokens or 0,
            usd=report.usd,
            context=report.context,
            model=report.model,
            sleep_ms=report.sleep_ms if how == "asleep" else None,
            exit_code=finished.code,
            extras={} if report.done is None else {"done": report.done},
        )

    def _find_outcome(self, finished: ProgramResult, *, is_spent: bool) -> TurnOutcome:
        if self._stop_outcome:
            return self._stop_outcome
        if finished.why == "timed_out":
            return "over_budget" if is_spent else "timed_out"
        if finished.why == "silent":
            return "silent"
        if finished.code != 0 or self._report.error:
            return "failed"
        return "asleep" if self._report.sleep_ms else "finished"


def _describe_failure(finished: ProgramResult, report: CommandReport, how: TurnOutcome) -> str:
    """The error: its own message, its exit code unless we ended it, and stderr."""
    if how in ("finished", "asleep"):
        return ""
    end = _describe_exit(finished) if how == "failed" else None
    return Redactor().redact_value("\n".join(one for one in (report.error, end, finished.stderr) if one))[0]


def _describe_exit(finished: ProgramResult) -> str | None:
    if finished.signal:
        return f"it was ended by {_signal_name(finished.signal)}"
    return f"it ended with exit code {finished.code}" if finished.code else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _truncate_to_tail(words: str) -> str:
    """The end of a text, within the limit."""
    return words.encode("utf-8", "replace")[-MAX_WORDS_BYTES:].decode("utf-8", "ignore")
