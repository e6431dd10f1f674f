"""Checks a goal's criteria. They are captured before the agent starts, with copies of the files they use.

Before each check the copies are restored, so the agent's changes to them have no effect. All criteria are checked in
order, each with its own evidence. An error during a check means that the criterion is not met. Called by `driver.py`
after a turn.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable
from contextlib import suppress
from time import monotonic
from typing import TypeVar

import msgspec
from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.events.driver_types import Criterion, Custom, Failure, FileMatches, Goal, LlmJudge, ShellCommand, Verdict
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.acceptance import verifiers
from fleetlore.goal.acceptance.commands import MAX_EVIDENCE_BYTES, check_command, clean_evidence, find_match_error
from fleetlore.goal.acceptance.judge import MAX_DIFF_BYTES, judge_criterion
from fleetlore.goal.acceptance.protected import (
    ProtectedFiles,
    capture_files,
    content_digest,
    read_manifest,
    restore_files,
    write_manifest,
)
from fleetlore.goal.acceptance.verifiers import Unmet
from fleetlore.goal.workspace import files
from fleetlore.goal.workspace.workspace import Workspace
from fleetlore.models.base import Model

CUSTOM_TIMEOUT = 300.0
_MAX_FILE_BYTES = 16 * 1024 * 1024
_MAX_LABEL_CHARS = 200
_T = TypeVar("_T")


class CriterionResult(Struct, frozen=True, kw_only=True):
    """The result of one criterion."""

    label: str
    met: bool
    message: str = ""
    evidence: str | None = None


class AcceptanceReport(Struct, frozen=True, kw_only=True):
    """The result of all criteria, and what the judge cost."""

    verdict: Verdict
    outcomes: tuple[CriterionResult, ...]
    put_back: tuple[str, ...] = ()
    """Protected files that had been changed and were restored."""
    is_cancelled: bool = False
    tokens: int = 0
    usd: float | None = None


class CapturedChecks(Struct, frozen=True, kw_only=True):
    """What is captured before the agent starts; stored as the manifest."""

    start: str
    protected: ProtectedFiles
    settled: str
    """Digest of the workspace's location (`Workspace.location_digest`)."""


def checks_process_mark(goal_id: str) -> str:
    """The mark of all processes of a goal's checks, so that a resumed goal can kill leftovers."""
    return f"{goal_id}:check"


def label_criterion(criterion: Criterion) -> str:
    """A short label by which people recognise a criterion."""
    match criterion:
        case ShellCommand():
            return f"shell:{criterion.command}"[:_MAX_LABEL_CHARS]
        case FileMatches():
            return f"file:{criterion.path}"[:_MAX_LABEL_CHARS]
        case Custom():
            return f"custom:{criterion.name}"[:_MAX_LABEL_CHARS]
    return "llm_judge"


class AcceptanceChecker:
    """A goal's criteria, ready to be checked."""

    def __init__(self, captured: CapturedChecks, folder: str, digest: str) -> None:
        self._captured, self._folder, self.digest = captured, folder, digest

    @classmethod
    def capture(cls, goal: Goal, plan: Plan, workspace: Workspace, *, expect: str | None = None) -> AcceptanceChecker:
        """Capture the criteria's files before the first turn; for a resumed goal, load what was captured. Blocks.

        `expect` is the digest of the manifest that the log recorded. Raises `Invalid` if a criterion cannot be checked,
        `FleetloreError` if the captured files or the location changed since.
        """
        folder = os.path.join(workspace.folder, "verifiers")
        _validate_criteria(goal)
        manifest = read_manifest(folder)
        if manifest is None and expect is None:
            commands = [criterion.command for criterion in goal.acceptance if isinstance(criterion, ShellCommand)]
            protected = capture_files(folder, workspace.path, commands=commands, patterns=plan.protect)
            captured = CapturedChecks(start=workspace.checkpoint(0).sha, protected=protected, settled=workspace.location_digest)
            return cls(captured, folder, write_manifest(folder, captured))
        digest = content_digest(manifest or b"")
        loaded = None if manifest is None or expect not in (None, digest) else msgspec.json.decode(manifest, type=CapturedChecks)
        if loaded is None or loaded.settled != workspace.location_digest:
            raise FleetloreError(
                f"{workspace.folder}: what criteria are checked with, or where, was changed; nothing can be checked, and a person is needed"
            )
        return cls(loaded, folder, digest)

    @property
    def start(self) -> str:
        """The checkpoint before the first turn."""
        return self._captured.start

    async def check(
        self, goal: Goal, workspace: Workspace, *, judge: Model | None, cancel: asyncio.Event, words: str = ""
    ) -> AcceptanceReport:
        """Check every criterion. `words` is the agent's last message.

        When `cancel` is set, the running check is stopped at once, and the remaining criteria count as not met.
        """
        started_at = monotonic()
        check_round = _CheckRound(self._captured, self._folder, goal, workspace, judge, words)
        outcomes = [await check_round.check_criterion(criterion, cancel) for criterion in goal.acceptance]
        failures = [
            Failure(criterion_index=number, criterion_label=result.label, message=result.message, evidence=result.evidence)
            for number, result in enumerate(outcomes)
            if not result.met
        ]
        verdict = Verdict(
            met=not failures and not cancel.is_set(),
            failures=tuple(failures),
            evaluated_at=clock.now().isoformat().replace("+00:00", "Z"),
            elapsed_ms=round((monotonic() - started_at) * 1000),
        )
        return AcceptanceReport(
            verdict=verdict,
            outcomes=tuple(outcomes),
            put_back=tuple(sorted(check_round.put_back)),
            is_cancelled=cancel.is_set(),
            tokens=check_round.tokens,
            usd=check_round.usd,
        )


class _CheckRound:
    """One pass over all criteria."""

    def __init__(self, captured: CapturedChecks, folder: str, goal: Goal, workspace: Workspace, judge: Model | None, words: str) -> None:
        self._captured, self._folder, self._workspace = captured, folder, workspace
        self._judge, self._words, self._mark = judge, words, checks_process_mark(goal.id)
        self.put_back: set[str] = set()
        self.tokens, self.usd = 0, None if judge is None else 0.0

    async def check_criterion(self, criterion: Criterion, cancel: asyncio.Event) -> CriterionResult:
        """Check one criterion; never raises."""
        try:
            unmet = await _run_unless_cancelled(cancel, self._find_unmet(criterion))
        except _CheckCancelled:
            unmet = Unmet(message="called off before it was checked")
        except Exception as error:  # noqa: BLE001 - third-party verifiers may raise anything; the criterion is not met then
            unmet = Unmet(message=f"could not be checked: {clean_evidence(str(error) or type(error).__name__)}")
        if unmet is None:
            return CriterionResult(label=label_criterion(criterion), met=True)
        evidence = None if unmet.evidence is None else clean_evidence(unmet.evidence)
        return CriterionResult(label=label_criterion(criterion), met=False, message=unmet.message, evidence=evidence)

    async def _find_unmet(self, criterion: Criterion) -> Unmet | None:
        # Each check runs the agent's code, which could change the files of the next check.
        self.put_back |= set(await asyncio.to_thread(restore_files, self._captured.protected, self._folder, self._workspace.path))
        match criterion:
            case ShellCommand():
                return await check_command(criterion, self._workspace.path, self._mark)
            case FileMatches():
                return await self._check_file(criterion)
            case Custom():
                return await self._check_custom(criterion)
        return await self._check_by_judge(criterion)

    async def _check_file(self, criterion: FileMatches) -> Unmet | None:
        content = await asyncio.to_thread(_read_content, self._workspace.path, criterion.path)
        if content is None:
            return Unmet(message=f"{criterion.path}: there is no such file") if criterion.required else None
        problem = await find_match_error(criterion.regex, content, self._mark)
        if problem is None:
            return None
        return Unmet(message=f"{criterion.path} {problem} {criterion.regex}", evidence=content[-_MAX_SHOWN_BYTES:].decode(errors="replace"))

    async def _check_custom(self, criterion: Custom) -> Unmet | None:
        verifier = verifiers.find_verifier(criterion.name)
        if verifier is None:
            return Unmet(message=f"unknown verifier: {criterion.name}; ours are {', '.join(verifiers.BUILTIN_VERIFIERS)}")
        site = verifiers.Site(workspace=self._workspace, start=self._captured.start)
        try:
            return await asyncio.wait_for(asyncio.to_thread(verifier, criterion.args, site), CUSTOM_TIMEOUT)
        except TimeoutError:
            return Unmet(message=f"timed out after {CUSTOM_TIMEOUT:g} s")

    async def _check_by_judge(self, criterion: LlmJudge) -> Unmet | None:
        diff = await asyncio.to_thread(self._workspace.diff, self._captured.start, MAX_DIFF_BYTES)
        judgement = await judge_criterion(self._judge, criterion.criterion_text, diff, self._words)
        self.tokens += judgement.tokens
        self.usd = None if self.usd is None or judgement.usd is None else self.usd + judgement.usd
        return judgement.unmet


_MAX_SHOWN_BYTES = 2 * MAX_EVIDENCE_BYTES


def _read_content(workspace: str, path: str) -> bytes | None:
    """Content of a file in the workspace, or `None`. Links are followed, but not out of the workspace."""
    root, real = os.path.realpath(workspace), os.path.realpath(os.path.join(workspace, path))
    if not real.startswith(f"{root}/"):
        raise Invalid(f"{path}: leads out of the workspace; name a path inside it")
    try:
        with files.open_file(root, os.path.relpath(real, root)) as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) > _MAX_FILE_BYTES:
        raise Invalid(f"{path}: is larger than {_MAX_FILE_BYTES // 1024 // 1024} MiB")
    return content


class _CheckCancelled(Exception):
    """The `cancel` event was set."""


async def _run_unless_cancelled(cancel: asyncio.Event, work: Awaitable[_T]) -> _T:
    """The result of `work`. If `cancel` is set first, stop it, wait for its end and raise `_CheckCancelled`."""
    work_task, cancel_task = asyncio.ensure_future(work), asyncio.ensure_future(cancel.wait())
    try:
        if not cancel.is_set():
            await asyncio.wait((work_task, cancel_task), return_when=asyncio.FIRST_COMPLETED)
        if cancel.is_set() and not work_task.done():
            raise _CheckCancelled
        return await work_task
    finally:
        for task in (work_task, cancel_task):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await cancel_task
        await asyncio.gather(work_task, return_exceptions=True)


def _validate_criteria(goal: Goal) -> None:
    """Raise `Invalid` for the first criterion that can never be met."""
    for number, criterion in enumerate(goal.acceptance, 1):
        if problem := _find_criterion_error(criterion):
            raise Invalid(f"criterion {number} ({label_criterion(criterion)}): {problem}")


def _find_criterion_error(criterion: Criterion) -> str | None:
    match criterion:
        case ShellCommand(command=command, stdout_must_match=pattern):
            return _find_pattern_error(pattern) if command.strip() and "\0" not in command else "the command is empty, or holds a NUL"
        case FileMatches(path=path, regex=pattern):
            parts = os.path.normpath(path).split("/")
            is_outside = os.path.isabs(path) or parts[0] in ("..", ".") or "\0" in path
            return "the path must lie in the workspace" if is_outside else _find_pattern_error(pattern)
        case Custom(name="no_paths_touched", args=args):
            try:
                verifiers.parse_prefixes(args)
            except Invalid as error:
                return str(error)
    return None


def _find_pattern_error(pattern: str | None) -> str | None:
    try:
        re.compile(pattern or "")
    except (re.error, RecursionError, OverflowError) as error:
        return f"the pattern cannot be read: {error}"
    return None
