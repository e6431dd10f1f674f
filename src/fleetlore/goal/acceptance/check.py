"""Whether a goal is reached: criteria that were read before the agent started, checked with files that it cannot change for good.

All criteria are checked, one after the other, each with evidence of its own. Whatever goes wrong in a check, the criterion is not met.
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
from fleetlore.goal.acceptance import commands as acceptance_commands
from fleetlore.goal.acceptance import judge as judging
from fleetlore.goal.acceptance import protected as protecting
from fleetlore.goal.acceptance import verifiers
from fleetlore.goal.acceptance.findings import Unmet
from fleetlore.goal.acceptance.protected import ProtectedFiles
from fleetlore.goal.workspace import files
from fleetlore.goal.workspace.workspace import Workspace
from fleetlore.models.base import Model

CUSTOM_TIMEOUT = 300.0
_MAX_FILE_BYTES = 16 * 1024 * 1024
_MAX_LABEL_CHARS = 200
_T = TypeVar("_T")


class CriterionResult(Struct, frozen=True, kw_only=True):
    """What checking one criterion came to."""

    label: str
    met: bool
    message: str = ""
    evidence: str | None = None


class AcceptanceReport(Struct, frozen=True, kw_only=True):
    """What checking all of them came to, and what the judge took."""

    verdict: Verdict
    outcomes: tuple[CriterionResult, ...]
    put_back: tuple[str, ...] = ()
    """Protected files that had been changed, and are as they were again."""
    is_cancelled: bool = False
    tokens: int = 0
    usd: float | None = None


class CapturedChecks(Struct, frozen=True, kw_only=True):
    """What was settled before the agent started."""

    start: str
    protected: ProtectedFiles
    settled: str
    """Where that is, by `Workspace.settled`."""


def checks_process_mark(goal_id: str) -> str:
    """What every process of a goal's checks carries, so that a resumed goal can end what is left of them."""
    return f"{goal_id}:check"


def label_criterion(criterion: Criterion) -> str:
    """How people find a criterion again."""
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
        """Settle what is checked, and with which files, before the first turn; of a resumed goal, take up what was settled. Blocks.

        `Invalid` if a criterion cannot be checked. `expect` is the digest that was told of it: what was changed since is not used.
        """
        folder = os.path.join(workspace.folder, "verifiers")
        _validate_criteria(goal)
        kept = protecting.read_manifest(folder)
        if kept is None and expect is None:
            commands = [one.command for one in goal.acceptance if isinstance(one, ShellCommand)]
            protected = protecting.capture_files(folder, workspace.path, commands=commands, patterns=plan.protect)
            captured = CapturedChecks(start=workspace.checkpoint(0).sha, protected=protected, settled=workspace.location_digest)
            return cls(captured, folder, protecting.write_manifest(folder, captured))
        digest = protecting.content_digest(kept or b"")
        found = None if kept is None or expect not in (None, digest) else msgspec.json.decode(kept, type=CapturedChecks)
        if found is None or found.settled != workspace.location_digest:
            raise FleetloreError(
                f"{workspace.folder}: what criteria are checked with, or where, was changed; nothing can be checked, and a person is needed"
            )
        return cls(found, folder, digest)

    @property
    def start(self) -> str:
        """The checkpoint before the first turn."""
        return self._captured.start

    async def check(
        self, goal: Goal, workspace: Workspace, *, judge: Model | None, cancel: asyncio.Event, words: str = ""
    ) -> AcceptanceReport:
        """Check every criterion; once `cancel` is set, what runs is ended at once, and the rest is not met. `words`: the agent's last."""
        began = monotonic()
        round_ = _CheckRound(self._captured, self._folder, goal, workspace, judge, words)
        outcomes = [await round_.check_criterion(criterion, cancel) for criterion in goal.acceptance]
        failures = [
            Failure(criterion_index=number, criterion_label=one.label, message=one.message, evidence=one.evidence)
            for number, one in enumerate(outcomes)
            if not one.met
        ]
        verdict = Verdict(
            met=not failures and not cancel.is_set(),
            failures=tuple(failures),
            evaluated_at=clock.now().isoformat().replace("+00:00", "Z"),
            elapsed_ms=round((monotonic() - began) * 1000),
        )
        return AcceptanceReport(
            verdict=verdict,
            outcomes=tuple(outcomes),
            put_back=tuple(sorted(round_.put_back)),
            is_cancelled=cancel.is_set(),
            tokens=round_.tokens,
            usd=round_.usd,
        )


class _CheckRound:
    """One time that all criteria are checked."""

    def __init__(self, captured: CapturedChecks, folder: str, goal: Goal, workspace: Workspace, judge: Model | None, words: str) -> None:
        self._captured, self._folder, self._workspace = captured, folder, workspace
        self._judge, self._words, self._mark = judge, words, checks_process_mark(goal.id)
        self.put_back: set[str] = set()
        self.tokens, self.usd = 0, None if judge is None else 0.0

    async def check_criterion(self, criterion: Criterion, cancel: asyncio.Event) -> CriterionResult:
        """Whether it is met, and if not, why."""
        try:
            unmet = await _run_unless_cancelled(cancel, self._find_unmet(criterion))
        except _CheckCancelled:
            unmet = Unmet(message="called off before it was checked")
        except Exception as error:  # noqa: BLE001 - a verifier may be anybody's, and what it raises is no reason to believe in success
            unmet = Unmet(message=f"could not be checked: {acceptance_commands.clean_evidence(str(error) or type(error).__name__)}")
        if unmet is None:
            return CriterionResult(label=label_criterion(criterion), met=True)
        shown = None if unmet.evidence is None else acceptance_commands.clean_evidence(unmet.evidence)
        return CriterionResult(label=label_criterion(criterion), met=False, message=unmet.message, evidence=shown)

    async def _find_unmet(self, criterion: Criterion) -> Unmet | None:
        # What one check runs is the agent's work, and could change what the next one is made with.
        self.put_back |= set(
            await asyncio.to_thread(protecting.restore_files, self._captured.protected, self._folder, self._workspace.path)
        )
        match criterion:
            case ShellCommand():
                return await acceptance_commands.check_command(criterion, self._workspace.path, self._mark)
            case FileMatches():
                return await self._check_file(criterion)
            case Custom():
                return await self._check_custom(criterion)
        return await self._check_by_judge(criterion)

    async def _check_file(self, criterion: FileMatches) -> Unmet | None:
        content = await asyncio.to_thread(_read_content, self._workspace.path, criterion.path)
        if content is None:
            return Unmet(message=f"{criterion.path}: there is no such file") if criterion.required else None
        found = await acceptance_commands.find_match_error(criterion.regex, content, self._mark)
        if found is None:
            return None
        return Unmet(message=f"{criterion.path} {found} {criterion.regex}", evidence=content[-_MAX_SHOWN_BYTES:].decode(errors="replace"))

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
        diff = await asyncio.to_thread(self._workspace.diff, self._captured.start, judging.MAX_DIFF_BYTES)
        judged = await judging.judge_criterion(self._judge, criterion.criterion_text, diff, self._words)
        self.tokens += judged.tokens
        self.usd = None if self.usd is None or judged.usd is None else self.usd + judged.usd
        return judged.unmet


_MAX_SHOWN_BYTES = 2 * acceptance_commands.MAX_EVIDENCE_BYTES


def _read_content(workspace: str, path: str) -> bytes | None:
    """What a file of the workspace holds; links within it are followed, and lead nowhere else."""
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
    """Somebody set the event."""


async def _run_unless_cancelled(cancel: asyncio.Event, work: Awaitable[_T]) -> _T:
    """What comes of it, unless it is called off: then it is ended, and has ended."""
    doing, called_off = asyncio.ensure_future(work), asyncio.ensure_future(cancel.wait())
    try:
        if not cancel.is_set():
            await asyncio.wait((doing, called_off), return_when=asyncio.FIRST_COMPLETED)
        if cancel.is_set() and not doing.done():
            raise _CheckCancelled
        return await doing
    finally:
        for task in (doing, called_off):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await called_off
        await asyncio.gather(doing, return_exceptions=True)


def _validate_criteria(goal: Goal) -> None:
    """`Invalid` for the first criterion that no work could meet."""
    for number, criterion in enumerate(goal.acceptance, 1):
        if wrong := _find_criterion_error(criterion):
            raise Invalid(f"criterion {number} ({label_criterion(criterion)}): {wrong}")


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
