"""The harness of Codex: runs `codex exec --json` per turn, with the prompt on stdin and records on stdout. A goal has one thread.

`codex exec` cannot ask the gate for permission. Its sandbox is the limit: commands write only to the workspace and the system's
temporary folder and have no network, unless the user's config.toml says otherwise; everything else fails without a question. Tool names
in `allow` and `deny` have no effect; `extras["ungated"]` reports that if a goal sets them. Codex has no budget options for money or
tokens either: it is stopped at the first record that exceeds the budget.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.dialects.fields import as_count, as_name, as_object, as_uuid
from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.process.environment import scrub_environment
from fleetlore.process.run import LineBuffer
from fleetlore.programs.codex.outputs import extract_text
from fleetlore.programs.codex.reader_state import CodexReaderState
from fleetlore.programs.codex.transcript import CodexTranscriptReader
from fleetlore.programs.codex.usage import CodexUsage, read_usage
from fleetlore.programs.harness import TurnRequest, TurnResult, Watch
from fleetlore.programs.turn_output import LINGER_SECONDS, TurnReport, build_turn_program, run_turn_program

# --- What Codex writes down of its threads while it works, read as it grows: its stream tells neither what each answer took nor what its

MAX_THREADS = 100
_MAX_LINE_BYTES = 8 * 1024 * 1024
_READ_CHUNK_BYTES = 1024 * 1024
_TOKEN_KEYS = ("input", "output", "cache_read", "cache_write")


class RolloutFile:
    """The rollout of one thread, read as it grows. Lines that are not records are skipped; the import reports them."""

    def __init__(self, path: Path) -> None:
        self.state = CodexReaderState()
        self._reader, self._lines = CodexTranscriptReader(self.state), LineBuffer(_MAX_LINE_BYTES)
        self._path, self._offset = path, 0

    def read_new_lines(self) -> list[Event]:
        """The events of new lines."""
        events: list[Event] = []
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while piece := file.read(_READ_CHUNK_BYTES):
                    self._offset += len(piece)
                    for line in self._lines.feed(piece):
                        events += self._parse_line(line.text)
        except OSError:
            return events
        return events

    def flush_events(self) -> list[Event]:
        """The held-back events."""
        return [*self.read_new_lines(), *self._reader.end()]

    def _parse_line(self, raw: bytes) -> list[Event]:
        try:
            return self._reader.read(raw) if raw.strip() else []
        except DialectError:
            return []


class RolloutFollower:
    """The rollouts of a turn's thread and its sub-agents. Records before `since` belong to earlier turns and are skipped."""

    def __init__(self, home: Path, *, since: datetime) -> None:
        self._home, self._since = home, since
        self._files_by_thread: dict[str, RolloutFile] = {}
        self._missing_threads: set[str] = set()
        self._unread_events: list[Event] = []
        self.main_rollout: RolloutFile | None = None
        self.tokens = 0
        """Tokens used since the last call."""

    def follow_thread(self, thread: object) -> bool:
        """Start to read a thread's rollout if it exists; returns whether it does. The first one is the turn's own."""
        name = as_uuid(thread)
        if name is None or name in self._files_by_thread or len(self._files_by_thread) >= MAX_THREADS:
            return name in self._files_by_thread
        path = next(self._home.glob(f"sessions/*/*/*/rollout-*-{name}.jsonl"), None)
        if path is None:
            self._missing_threads.add(name)
            return False
        self._missing_threads.discard(name)
        rollout = self._files_by_thread[name] = RolloutFile(path)
        self.main_rollout = self.main_rollout or rollout
        self._unread_events += self._filter_new_events(rollout.read_new_lines())
        return True

    def read_new_events(self) -> list[Event]:
        """The new events of all rollouts."""
        for thread in sorted(self._missing_threads):
            self.follow_thread(thread)
        early, self._unread_events = self._unread_events, []
        return [*early, *self._filter_new_events(event for rollout in self._files_by_thread.values() for event in rollout.read_new_lines())]

    def flush_events(self) -> list[Event]:
        """The held-back events."""
        return [
            *self.read_new_events(),
            *self._filter_new_events(event for rollout in self._files_by_thread.values() for event in rollout.flush_events()),
        ]

    def _filter_new_events(self, events: Iterable[Event]) -> list[Event]:
        new = [event for event in events if event.at is None or event.at >= self._since]
        self.tokens += sum(as_count(event.data.get(key)) or 0 for event in new if event.kind == "model.replied" for key in _TOKEN_KEYS)
        return new


# --- Parses the output of `codex exec --json`: the state of the turn, and events if there is no rollout with more detail.

MAX_HELD_EVENTS = 200
"""Maximum number of stream events that are held back until a rollout appears."""
_STATUS_PATTERN = re.compile(r"\bstatus:? ([45]\d\d)\b")


class CodexOutputParser:
    """Parses the output of one turn."""

    def __init__(self, request: TurnRequest, rollouts: RolloutFollower) -> None:
        self.report = TurnReport(session=request.session, model=request.model)
        self._rollouts = rollouts
        self._stream_state = CodexReaderState(model=request.model)
        self._stream_reader = CodexTranscriptReader(self._stream_state)
        self._held_events: list[Event] = []
        self._stopped_waiting = False
        main = rollouts.main_rollout
        self._usage_before = _sum_tokens(main.state.meter.totals) if main else 0

    def parse_output(self, raw: bytes) -> Sequence[Event]:
        """The events of a record."""
        record = parse_record(raw)
        events = self._stream_reader.read(raw)
        self._apply_record(record)
        return self._prefer_rollout_events(events)

    def flush_events(self) -> Sequence[Event]:
        """The held-back events."""
        if not self._has_rollout():
            return [*self._held_events, *self._stream_reader.end()]
        events = self._rollouts.flush_events()
        self._apply_rollout_totals()
        return events

    def _prefer_rollout_events(self, events: list[Event]) -> list[Event]:
        """The rollout's events instead of the stream's, once there is a rollout."""
        if self._has_rollout():
            self._held_events.clear()
            events = self._rollouts.read_new_events()
            self._apply_rollout_totals()
            return events
        if self._stopped_waiting:
            return events
        self._held_events += events
        if len(self._held_events) <= MAX_HELD_EVENTS:
            return []
        self._stopped_waiting = True
        held, self._held_events = self._held_events, []
        return held

    def _has_rollout(self) -> bool:
        return not self._stopped_waiting and (self._rollouts.main_rollout is not None or self._rollouts.follow_thread(self.report.session))

    def _apply_rollout_totals(self) -> None:
        report, main = self.report, self._rollouts.main_rollout
        report.tokens = max(report.tokens, self._rollouts.tokens)
        if main is not None:
            report.context = main.state.context or report.context
            report.model = as_name(main.state.model) or report.model

    def _apply_record(self, record: Record) -> None:
        report = self.report
        match record.get("type"):
            case "thread.started":
                report.session = as_uuid(record.get("thread_id")) or report.session
            case "item.started" | "item.completed":
                self._apply_item(as_object(record.get("item")))
            case "turn.started":
                report.how = None
            case "turn.completed":
                report.how, report.error = "finished", ""
                report.tokens = max(report.tokens, _sum_tokens(read_usage(record.get("usage"))) - self._usage_before)
            case "turn.failed":
                self._apply_error(as_object(record.get("error")))
                report.how = "failed"
            case "error":
                self._apply_error(record)

    def _apply_item(self, item: Record) -> None:
        if item.get("type") in ("agent_message", "assistant_message"):
            self.report.words = extract_text(item.get("text")) or self.report.words
        threads = item.get("receiver_thread_ids")
        for thread in threads if isinstance(threads, list) and self._has_rollout() else ():
            self._rollouts.follow_thread(thread)

    def _apply_error(self, error: Record) -> None:
        self.report.error = extract_text(error.get("message")) or "failed"
        match = _STATUS_PATTERN.search(self.report.error)
        self.report.status = int(match[1]) if match else None


def _sum_tokens(usage: CodexUsage | None) -> int:
    """Input and output tokens; cached ones are part of the input."""
    return 0 if usage is None else usage.input + usage.output


# ---

KEPT_VARIABLES = ("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*", "RUST_LOG")
_TOOL_FEATURES = ("shell_tool", "unified_exec", "view_image", "multi_agent", "goals", "apps", "plugins")


class CodexHarness:
    """The harness of Codex. `command` may contain arguments; `keep` names further environment variables to pass on."""

    name = "codex"
    has_sessions = True

    def __init__(
        self,
        command: Sequence[str] = ("codex",),
        environ: Mapping[str, str] = os.environ,
        *,
        keep: Sequence[str] = (),
        sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write",
        linger: float = LINGER_SECONDS,
    ) -> None:
        self._command, self._environ, self._kept_variables = tuple(command), environ, tuple(keep)
        self._sandbox, self._linger_seconds = sandbox, linger

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Run one turn. Codex chooses the thread id: `request.new_session` is not used."""
        rollouts = RolloutFollower(self._find_codex_home(), since=clock.now())
        if request.session:
            await asyncio.to_thread(rollouts.follow_thread, request.session)
        env = scrub_environment(self._environ, keep=(*KEPT_VARIABLES, *self._kept_variables), mark=request.mark)
        program = build_turn_program(request, (*self._command, *self._build_arguments(request)), env)
        ended = await run_turn_program(request, program, CodexOutputParser(request, rollouts), watch, linger=self._linger_seconds)
        if request.gate or request.allow or request.deny:
            return replace(ended, extras={**ended.extras, "ungated": True})
        return ended

    def _build_arguments(self, request: TurnRequest) -> Iterator[str]:
        yield from ("exec", "--json", "--skip-git-repo-check", "--color", "never", "-c", 'approval_policy="never"')
        yield from ("--sandbox", "read-only" if request.is_summary else self._sandbox)
        if request.model:
            yield from ("--model", request.model)
        if request.is_summary:
            yield from (part for tool in _TOOL_FEATURES for part in ("-c", f"features.{tool}=false"))
            yield from ("-c", 'web_search="disabled"')
        yield from ("resume", request.session, "-") if request.session else ("-",)

    def _find_codex_home(self) -> Path:
        named = self._environ.get("CODEX_HOME")
        return Path(named) if named else Path(self._environ.get("HOME") or "~").expanduser() / ".codex"
