"""Checks a goal's criteria. What they are checked with is captured before the agent starts.

Commands run in a copy of the starting files with the agent's changes laid over it (`judging_copy.py`), where judging files
are the originals. All criteria are checked in order, each with its own evidence. An error during a check means that the
criterion is not met. Called by `driver.py` after a turn.
"""

from __future__ import annotations

import asyncio
import hashlib
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
from fleetlore.goal.acceptance.commands import (
    MAX_EVIDENCE_BYTES,
    CheckPlace,
    check_command,
    clean_evidence,
    digest_programs,
    digest_settings,
    find_match_error,
    make_check_place,
)
from fleetlore.goal.acceptance.expansion import expand_command, find_runners, installs_dependencies, split_words
from fleetlore.goal.acceptance.judge import MAX_DIFF_BYTES, judge_criterion
from fleetlore.goal.acceptance.judging_copy import MAX_TOUCHED, DependencySnapshot, JudgingCopy, TouchedFile, judging_root
from fleetlore.goal.acceptance.judging_files import JudgingRules
from fleetlore.goal.acceptance.verifiers import Unmet
from fleetlore.goal.workspace import files, repository
from fleetlore.goal.workspace.snapshots import Snapshot
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
    touched: tuple[TouchedFile, ...] = ()
    """Judging files that the agent changed."""
    walls: tuple[str, ...] | None = None
    """The walls of the sandbox that commands ran in; `None` if no command ran."""
    is_cancelled: bool = False
    tokens: int = 0
    usd: float | None = None


class CapturedChecks(Struct, frozen=True, kw_only=True):
    """What is captured before the agent starts; stored as the manifest. Goals of 0.1 have only `start` and `settled`."""

    start: str
    settled: str
    """Digest of the workspace's location (`Workspace.location_digest`)."""
    dependencies: str | None = None
    """Digest of the listing of `DependencySnapshot`."""
    programs: dict[str, str] = {}
    """Path and digest of the programs that commands start."""
    home_settings: dict[str, str] = {}
    """Digests of settings in the home folder that programs of checks read."""
    source_settings: dict[str, str] = {}
    """Digests of settings and hooks of the user's repository."""


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

    def __init__(self, captured: CapturedChecks, digest: str, judging: _Judging) -> None:
        self._captured, self.digest, self._judging = captured, digest, judging

    @classmethod
    def capture(cls, goal: Goal, plan: Plan, workspace: Workspace, *, expect: str | None = None) -> AcceptanceChecker:
        """Capture what criteria are checked with before the first turn; for a resumed goal, load it. Blocks.

        `expect` is the digest of the manifest that the log recorded. Raises `Invalid` if a criterion cannot be checked,
        `FleetloreError` if what was captured or the location changed since.
        """
        folder = os.path.join(workspace.folder, "verifiers")
        _validate_criteria(goal)
        manifest = _read_manifest(folder)
        if manifest is None and expect is None:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            judging = _Judging(goal, plan, workspace, workspace.checkpoint(0).sha)
            dependencies = judging.capture_dependencies(folder)
            judging.copy.prepare()  # programs may lie in it: those of a virtual environment in the workspace, for example
            captured = CapturedChecks(
                start=judging.start_sha,
                settled=workspace.location_digest,
                dependencies=dependencies,
                programs=judging.digest_programs(),
                home_settings=digest_settings(),
                source_settings=workspace.source_settings,
            )
            manifest = msgspec.json.format(msgspec.json.encode(captured, order="deterministic"))
            files.replace_file(folder, _MANIFEST, mode=0o600, fill=lambda file: file.write(manifest))
            return cls(captured, hashlib.sha256(manifest).hexdigest(), judging)
        digest = hashlib.sha256(manifest or b"").hexdigest()
        loaded = None if manifest is None or expect not in (None, digest) else msgspec.json.decode(manifest, type=CapturedChecks)
        if loaded is not None and loaded.settled == workspace.location_digest:
            judging = _Judging(goal, plan, workspace, loaded.start)
            if judging.load_dependencies(folder) == loaded.dependencies or loaded.dependencies is None:
                return cls(loaded, digest, judging)
        raise FleetloreError(
            f"{workspace.folder}: what criteria are checked with, or where, was changed; nothing can be checked, and a person is needed"
        )

    @property
    def start(self) -> str:
        """The checkpoint before the first turn."""
        return self._captured.start

    def find_changed_settings(self, workspace: Workspace) -> list[str]:
        """Settings and hooks of the user's repository that somebody changed since the goal started."""
        before, now = self._captured.source_settings, workspace.source_settings
        return [] if not before else sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))

    async def check(
        self, goal: Goal, workspace: Workspace, *, judge: Model | None, cancel: asyncio.Event, words: str = ""
    ) -> AcceptanceReport:
        """Check every criterion. `words` is the agent's last message.

        When `cancel` is set, the running check is stopped at once, and the remaining criteria count as not met.
        """
        started_at = monotonic()
        check_round = _CheckRound(self._captured, self._judging, workspace, judge, words)
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
            touched=tuple(check_round.touched[:MAX_TOUCHED]),
            walls=check_round.walls,
            is_cancelled=cancel.is_set(),
            tokens=check_round.tokens,
            usd=check_round.usd,
        )


class _Judging:
    """The judging rules of one goal by its starting files, and the judging copy. All methods block."""

    def __init__(self, goal: Goal, plan: Plan, workspace: Workspace, start_sha: str) -> None:
        self.start_sha, self._workspace = start_sha, workspace
        self.start: Snapshot = workspace.store.load(start_sha)
        commands = [criterion.command for criterion in goal.acceptance if isinstance(criterion, ShellCommand)]
        originals = {path for path, entry in self.start.entries.items() if entry.sha}
        with workspace.store.open_reader() as read:

            def read_text(path: str) -> str | None:
                entry = self.start.entries.get(path)
                return read(entry.sha, "blob").decode(errors="replace") if entry is not None and entry.kind == "file" else None

            self.commands = {command: expand_command(command, read_text, originals, prefix=workspace.prefix) for command in commands}
            """Each command of a criterion, with what it runs."""
            self.rules = JudgingRules(
                self.commands.values(),
                originals,
                prefix=workspace.prefix,
                protect=plan.protect,
                may_change=plan.may_change,
                links=_resolve_links(workspace, self.start),
                read_text=read_text,
            )
        self.source = _find_source(goal, workspace)
        self.mark = checks_process_mark(goal.id)
        self._folder = os.path.join(workspace.folder, "check")
        self._dependencies: DependencySnapshot | None = None
        self._copy: JudgingCopy | None = None

    def capture_dependencies(self, folder: str) -> str:
        """Copy ignored dependencies; returns the digest of their listing."""
        named = {os.path.normpath(self._workspace.prefix + word) for command in self.commands for word in split_words(command)}
        known = self.start.entries.keys()
        root = judging_root(self._folder)
        self._dependencies = DependencySnapshot.capture(folder, self.source, known, sorted(named), moved_to=root)
        return self._dependencies.save()

    def load_dependencies(self, folder: str) -> str:
        """Load the listing of a resumed goal; returns its digest."""
        self._dependencies = DependencySnapshot.load(folder)
        return self._dependencies.digest

    @property
    def copy(self) -> JudgingCopy:
        """The judging copy."""
        if self._copy is None:
            assert self._dependencies is not None
            self._copy = JudgingCopy(self._folder, self._workspace, self.start, self.rules, self._dependencies)
        return self._copy

    def make_place(self) -> CheckPlace:
        """Where commands run."""
        workspace = self._workspace
        moved_from = [folder for folder in (workspace.root, self.source) if folder]
        objects = [] if workspace.objects is None else [workspace.objects]
        return make_check_place(
            cwd=self.copy.path,
            root=self.copy.root,
            temporary=self.copy.temporary,
            hidden=[workspace.root, os.path.dirname(os.path.dirname(workspace.folder))],
            readable=objects,
            moved_from=moved_from,
            mark=self.mark,
        )

    def digest_programs(self) -> dict[str, str]:
        """Path and digest of the programs that commands start."""
        texts = [text for command in self.commands.values() for text in command.texts]
        return digest_programs(texts, self.make_place(), outside=self.copy.root)


def _resolve_links(workspace: Workspace, start: Snapshot) -> dict[str, str]:
    """Links and the files that they lead to, so that of a link that judges the target does, too."""
    links = {path: entry for path, entry in start.entries.items() if entry.kind == "link"}
    if not links:
        return {}
    with workspace.store.open_reader() as read:
        targets = {path: os.fsdecode(read(entry.sha, "blob")) for path, entry in links.items()}
    return {path: os.path.normpath(os.path.join(os.path.dirname(path), target)) for path, target in targets.items()}


def _find_source(goal: Goal, workspace: Workspace) -> str | None:
    """The folder whose ignored dependencies are used: the operator's own, not the worktree, which has none at the start."""
    if not workspace.has_own_root:
        return workspace.root
    repo = repository.find_repository(goal.workspace) if goal.workspace and os.path.isdir(goal.workspace) else None
    return None if repo is None else repo.top


_MANIFEST = "manifest.json"


def _read_manifest(folder: str) -> bytes | None:
    try:
        with files.open_file(folder, _MANIFEST) as file:
            return file.read()
    except FileNotFoundError:
        return None


class _CheckRound:
    """One pass over all criteria."""

    def __init__(self, captured: CapturedChecks, judging: _Judging, workspace: Workspace, judge: Model | None, words: str) -> None:
        self._captured, self._judging, self._workspace = captured, judging, workspace
        self._judge, self._words = judge, words
        self.touched: list[TouchedFile] = []
        self.walls: tuple[str, ...] | None = None
        self._is_prepared = False
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
        if not self._is_prepared:
            self.touched = await asyncio.to_thread(self._judging.copy.prepare)
            self._is_prepared = True
        match criterion:
            case ShellCommand():
                return await self._check_command(criterion)
            case FileMatches():
                return await self._check_file(criterion)
            case Custom():
                return await self._check_custom(criterion)
        return await self._check_by_judge(criterion)

    async def _check_command(self, criterion: ShellCommand) -> Unmet | None:
        copy = self._judging.copy
        if self.walls is not None:  # the previous run executed the agent's code, which could change the files of this one
            await asyncio.to_thread(copy.restore_judging_files)
        programs = await asyncio.to_thread(self._judging.digest_programs)
        replaced = sorted(name for name, digest in self._captured.programs.items() if programs.get(name) != digest)
        if replaced:
            return Unmet(message=f"the program {replaced[0]} was replaced or changed since the goal started, so its word does not count")
        settings = await asyncio.to_thread(digest_settings)
        if changed := sorted(name for name, digest in self._captured.home_settings.items() if settings.get(name) != digest):
            return Unmet(message=f"~/{changed[0]} was changed since the goal started; it takes part in checks, so they do not count")
        texts = self._judging.commands[criterion.command].texts
        runners = find_runners(texts)
        unmet, self.walls = await check_command(criterion, self._judging.make_place(), runners)
        rewritten = await asyncio.to_thread(copy.find_changed_by_run)
        if unmet is None and not rewritten and not installs_dependencies(texts):
            rewritten = await asyncio.to_thread(copy.find_changed_dependencies)
        if unmet is None and rewritten:
            hint = f'If the command has to write it, set may_change = ["{rewritten[0]}"].'
            return Unmet(message=f"the run itself changed what judges it: {', '.join(rewritten[:_MAX_NAMED])}", evidence=hint)
        if unmet is not None and (missing := await asyncio.to_thread(copy.find_missing_folders)):
            hint = (
                f"Checks do not see {', '.join(missing[:_MAX_NAMED])} of the workspace: let the command install it,"
                f' or set may_change = ["{missing[0]}/**"].'
            )
            return Unmet(message=unmet.message, evidence=f"{unmet.evidence or ''}\n{hint}".strip())
        if unmet is not None and copy.lacks_ignored_files:
            hint = "Checks do not see all files that git ignores: there are too many. Commit what the check needs."
            return Unmet(message=unmet.message, evidence=f"{unmet.evidence or ''}\n{hint}".strip())
        return unmet

    async def _check_file(self, criterion: FileMatches) -> Unmet | None:
        content = await asyncio.to_thread(self._read_content, criterion.path)
        if content is None:
            return Unmet(message=f"{criterion.path}: file not found") if criterion.required else None
        problem = await find_match_error(criterion.regex, content, self._judging.mark)
        if problem is None:
            return None
        return Unmet(message=f"{criterion.path} {problem} {criterion.regex}", evidence=content[-_MAX_SHOWN_BYTES:].decode(errors="replace"))

    def _read_content(self, path: str) -> bytes | None:
        """From the judging copy; from the workspace if it is not there because git ignores it."""
        content = _read_content(self._judging.copy.path, path)
        is_judging = self._judging.rules.is_judging(os.path.normpath(self._workspace.prefix + path))
        return content if content is not None or is_judging else _read_content(self._workspace.path, path)

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
_MAX_NAMED = 5


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
