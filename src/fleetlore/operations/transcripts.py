"""A session to read and to continue: its transcript in rows, its changes by file, and a hand-over for another agent."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta, Struct, field

from fleetlore.errors import UnknownName
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import OWNER, PUBLIC, can_see
from fleetlore.log.base import Position
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Text
from fleetlore.operations.sources import resolve_scope
from fleetlore.programs import registry
from fleetlore.projections.outcomes import OutcomeQuery, runs_in
from fleetlore.prompts.text_safety import sanitize_line, sanitize_text, truncate_block
from fleetlore.views.costs import CostAmount
from fleetlore.views.described_calls import CALL, RESULTS, FileDiff
from fleetlore.views.outcomes.record import CHECKS, Outcome
from fleetlore.views.transcripts import TranscriptRow, has_words, make_rows

EVENTS_AT_ONCE = 500
MOST_MATCHES = 1000
MOST_CHANGES = 2000
"""Edits of a session that are shown, the newest."""
MAX_LOOK_AHEAD = 20_000
"""Results after a page among which those of its calls are looked for."""
LONGEST_TASK, LONGEST_REQUEST, LONGEST_ANSWER = 6000, 800, 3000
MOST_REQUESTS = 8
MOST_LISTED = 20


class TranscriptSubject(AsOfRequest, kw_only=True):
    """Which session."""

    id: Annotated[str, Meta(min_length=1, max_length=500, description="The session's id or how it begins, or the name that is shown.")]


# --- the transcript


class ReadTranscript(TranscriptSubject, kw_only=True):
    """Which rows of a session's transcript."""

    after: Annotated[Text, Meta(description="The `next` of the page before; the beginning unless given.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=2000, description="At most so many rows.")] = 500


class TranscriptPage(Struct, kw_only=True):
    """Rows of a session's transcript, oldest first."""

    session: str
    agent: str
    """The session's own agent."""
    rows: list[TranscriptRow]
    next: str | None
    """Where the next page begins; `null` at the end."""
    last: str | None
    """The position of the last event that was read: ask after it for what comes later."""


def read_transcript(context: OperationContext, request: ReadTranscript) -> TranscriptPage:
    """A page of the transcript. Thoughts are shown to people, not to other agents."""
    reader = _SessionReader(context, request)
    rows: list[TranscriptRow] = []
    last = request.after
    for events in reader.read_chunks(request.after, min(EVENTS_AT_ONCE, request.limit)):
        rows += reader.make_rows(events)
        last = events[-1].position
        if len(rows) >= request.limit:
            break
    else:
        return TranscriptPage(session=reader.run, agent=reader.agent, rows=rows, next=None, last=last)
    return TranscriptPage(session=reader.run, agent=reader.agent, rows=rows, next=last, last=last)


class _SessionReader:
    """Reads the events of one session that the caller may see, and makes rows of them."""

    def __init__(self, context: OperationContext, request: TranscriptSubject) -> None:
        self._log, self._costs = context.log, context.source.costs_fold
        self._viewer = PUBLIC if context.is_agent else OWNER
        self._end = context.source.resolve_position(request.as_of)
        self.scope = resolve_scope(context.source, f"run:{request.id}")
        self.run = self.scope.partition(":")[2]
        first = next((event for event in self._log.read(self.scope, limit=50) if event.agent and not event.parent), None)
        self.agent = "" if first is None else first.agent or ""

    def read_chunks(self, after: Position | None, size: int) -> Iterator[list[Event]]:
        """Events in order, including those that the caller may not see."""
        while chunk := list(self._log.read(self.scope, after=after, limit=size)):
            if self._end is not None:
                chunk = [event for event in chunk if (event.position or "") <= self._end]
            if not chunk:
                return
            yield chunk
            after = chunk[-1].position

    def make_rows(self, events: list[Event]) -> list[TranscriptRow]:
        """The rows of one chunk: calls with their results, which may be stored later."""
        seen = [event for event in events if can_see(event, self._viewer)]
        calls = {event.id: event for event in seen if event.kind == CALL and event.id}
        results = {event.cause: event for event in seen if event.kind in RESULTS and event.cause in calls}
        missing = calls.keys() - results.keys()
        if missing:
            later = self._log.read(self.scope, after=events[-1].position, kinds=RESULTS, limit=MAX_LOOK_AHEAD)
            for event in later:
                if event.cause in missing and can_see(event, self._viewer) and not self._is_after_end(event):
                    results[event.cause] = event
                    missing = missing - {event.cause}
                    if not missing:
                        break
        orphans = {event.cause for event in seen if event.kind in RESULTS and event.cause and event.cause not in calls}
        earlier = {event.id for event in self._log.get(sorted(orphans)) if event.kind == CALL} if orphans else set()
        shown = [event for event in seen if not (event.kind in RESULTS and event.cause in earlier)]
        by_call = {str(cause): event for cause, event in results.items()}
        replaced = self._find_replaced(seen)

        def price(event: Event) -> CostAmount:
            return CostAmount() if event.id in replaced else self._costs.price_reply(event)

        return make_rows(shown, by_call, own_agent=self.agent, price=price, restore=self._log.restore_whole)

    def _find_replaced(self, events: list[Event]) -> set[str]:
        """The partial replies among these that a complete one, or a longer part, replaces. The others are all that is known of a reply."""
        parts: dict[str, list[Event]] = {}
        for event in events:
            if event.kind == "model.replied" and event.data.get("partial") is True:
                parts.setdefault(str(event.data.get("whole")), []).append(event)
        complete = {event.id for event in self._log.get(sorted(parts)) if not self._is_after_end(event)} if parts else set()
        replaced = set[str]()
        for whole, found in parts.items():
            longest = max(found, key=lambda event: self._costs.price_reply(event).tokens)
            replaced.update(event.id or "" for event in found if whole in complete or event is not longest)
        return replaced

    def _is_after_end(self, event: Event) -> bool:
        return self._end is not None and (event.position or "") > self._end

    def read_all_rows(self) -> Iterator[TranscriptRow]:
        for events in self.read_chunks(None, EVENTS_AT_ONCE):
            yield from self.make_rows(events)


class SearchTranscript(TranscriptSubject, kw_only=True):
    """What to look for in a transcript."""

    q: Annotated[str, Meta(min_length=1, max_length=500, description="Words that a row must all contain.")]


class TranscriptMatches(Struct, kw_only=True):
    """The rows of a transcript that contain the words."""

    ids: list[str]
    """Ids of rows, oldest first."""
    more: bool


def search_transcript(context: OperationContext, request: SearchTranscript) -> TranscriptMatches:
    """Find rows by words, in prompts, answers, thoughts, commands, outputs and diffs."""
    words = request.q.casefold().split()
    found: list[str] = []
    for row in _SessionReader(context, request).read_all_rows():
        if has_words(row, words):
            found.append(row.id)
            if len(found) > MOST_MATCHES:
                break
    return TranscriptMatches(ids=found[:MOST_MATCHES], more=len(found) > MOST_MATCHES)


# --- what changed


class ReadDiff(TranscriptSubject, kw_only=True):
    """The changes of a session."""

    path: Annotated[Text, Meta(description="Only this file.")] | None = None


class Change(Struct, kw_only=True):
    """One edit."""

    id: str
    """The row of the transcript."""
    at: str | None
    agent: str
    diff: str
    is_new: bool
    is_cut: bool


class FileChanges(Struct, kw_only=True):
    """The edits of one file, in order."""

    path: str
    added: int = 0
    removed: int = 0
    changes: list[Change] = field(default_factory=list)


class SessionDiff(Struct, kw_only=True):
    """What a session changed, by file, as its tools reported it: changes by commands such as `sed -i` are not known."""

    session: str
    files: list[FileChanges]
    more: bool
    """Whether there are more edits than these."""


def read_diff(context: OperationContext, request: ReadDiff) -> SessionDiff:
    """The edits that succeeded, by file, in the order of the first edit."""
    reader = _SessionReader(context, request)
    files: dict[str, FileChanges] = {}
    count = 0
    folder = _find_folder(context, reader.run)
    for row in reader.read_all_rows():
        if row.state in ("failed", "denied"):
            continue
        for edit in row.edits:
            path = _shorten_path(edit.path, folder)
            if request.path is not None and request.path not in (path, edit.path):
                continue
            count += 1
            if count <= MOST_CHANGES:
                _add_change(files.setdefault(path, FileChanges(path=path)), row, edit)
    return SessionDiff(session=reader.run, files=list(files.values()), more=count > MOST_CHANGES)


def _add_change(file: FileChanges, row: TranscriptRow, edit: FileDiff) -> None:
    lines = edit.diff.splitlines()
    file.added += sum(line.startswith("+") for line in lines)
    file.removed += sum(line.startswith("-") for line in lines)
    at = None if row.at is None else row.at.isoformat()
    file.changes.append(Change(id=row.id, at=at, agent=row.agent, diff=edit.diff, is_new=edit.is_new, is_cut=edit.is_cut))


def _find_folder(context: OperationContext, run: str) -> str:
    started = next(iter(context.log.read(f"run:{run}", kinds=("session.started",), limit=1)), None)
    folder = None if started is None else started.data.get("cwd")
    return folder if isinstance(folder, str) else ""


def _shorten_path(path: str, folder: str) -> str:
    prefix = folder.rstrip("/") + "/"
    return path[len(prefix) :] if folder and path.startswith(prefix) else path


# --- how to go on


def write_resume_command(outcome: Outcome) -> str:
    """The command line that continues a session in its program; empty if it is not known."""
    program = registry.find_program(outcome.program) if outcome.program else None
    command = None if program is None else program.resume_command(outcome.session)
    if command is None:
        return ""
    line = shlex.join(command)
    return f"cd {shlex.quote(outcome.folder)} && {line}" if outcome.folder else line


def write_stop_command(outcome: Outcome) -> str:
    """The command line that ends a session which runs on this machine, by its program's own state file; empty if there is none."""
    program = registry.find_program(outcome.program) if outcome.status == "running" and outcome.program else None
    live = () if program is None or not program.live_folders else program.read_live_sessions()
    return next((f"kill {one.pid}" for one in live if one.run == outcome.session and one.pid is not None and one.status != "gone"), "")


class HandOver(Struct, kw_only=True):
    """A prompt with which another agent can continue a session."""

    session: str
    answer: str
    """The prompt, as Markdown. What the session's agent and others wrote in it is untrusted."""
    resume: str
    """The command that continues the session in its own program; empty if there is none."""


def hand_over(context: OperationContext, request: TranscriptSubject) -> HandOver:
    """What another agent needs to continue: the task, what is done, what failed, what is open."""
    reader = _SessionReader(context, request)
    found = context.source.find_outcomes(OutcomeQuery(runs=runs_in(context.log, reader.scope), upto=reader._end))
    if not found:
        raise UnknownName("run", request.id, [], "`lore sessions --all` lists the sessions")
    outcome = found[0]
    prompts = [
        event
        for chunk in reader.read_chunks(None, 2000)
        for event in chunk
        if event.kind == "prompt.submitted" and event.agent in (None, reader.agent) and can_see(event, PUBLIC)
    ]
    texts = {event.id: _full_prompt(context.log.restore_whole(event)) for event in prompts}
    return HandOver(session=outcome.session, answer=write_hand_over(outcome, texts), resume=write_resume_command(outcome))


def _full_prompt(event: Event) -> str:
    prompt = event.data.get("prompt")
    return prompt if isinstance(prompt, str) and prompt.strip() else event.text or ""


def write_hand_over(outcome: Outcome, prompts: dict[str | None, str]) -> str:
    """The hand-over as Markdown. `prompts` has the person's prompts by event, oldest first."""
    asked = next((source.event for source in outcome.evidence.get("asked", []) if source.event in prompts), None)
    order = list(prompts)
    task = prompts.get(asked, "") or outcome.asked or outcome.name
    later = [prompts[id] for id in order[order.index(asked) + 1 :]] if asked in order else []
    parts = [
        f"# Continue this work: {sanitize_line(outcome.name, 200)}",
        "Another agent worked on this and stopped. Continue from here. Check the state of the files first: they may have changed since.",
        _format_section("Task", [truncate_block(sanitize_text(task), LONGEST_TASK)]),
        _format_section("Later requests", [f"- {sanitize_line(text, LONGEST_REQUEST)}" for text in later[-MOST_REQUESTS:]]),
        _format_section("Where", _list_places(outcome)),
        _format_section("Done", _list_done(outcome)),
        _format_section("Checks after the last edit", _list_checks(outcome)),
        _format_section("Failed or not proven", _list_problems(outcome)),
        _format_section("Open", _list_open(outcome)),
        _format_section("Last answer of the agent", [truncate_block(sanitize_text(outcome.delivered.answer), LONGEST_ANSWER)]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _format_section(title: str, lines: Iterable[str]) -> str:
    kept = [line for line in lines if line.strip()]
    return "\n".join((f"## {title}", "", *kept)) if kept else ""


def _list_places(outcome: Outcome) -> Iterator[str]:
    for name, value in (("Repository", outcome.repo), ("Branch", outcome.branch), ("Folder", outcome.folder), ("Session", outcome.session)):
        if value:
            yield f"- {name}: {sanitize_line(value, 300)}"


def _list_done(outcome: Outcome) -> Iterator[str]:
    delivered = outcome.delivered
    for commit in delivered.commits[-MOST_LISTED:]:
        yield f"- Commit {sanitize_line(f'{commit.sha} {commit.subject}'.strip(), 300)}"
    if delivered.commits:
        yield "- Pushed" if delivered.pushed else "- No push recorded" if delivered.push_unknown else "- Not pushed"
    for request in delivered.pull_requests:
        yield f"- Pull request {sanitize_line(f'{request.title} {request.url}'.strip(), 300)}"
    for file in outcome.files[:MOST_LISTED]:
        yield f"- Edited {sanitize_line(file.path, 300)} (+{file.added} -{file.removed})"
    if len(outcome.files) > MOST_LISTED:
        yield f"- and {len(outcome.files) - MOST_LISTED} more files"


def _list_checks(outcome: Outcome) -> Iterator[str]:
    words = {"pass": "passed", "fail": "failed", "could_not_run": "could not run", "not_run": "not run after the last edit"}
    for kind in CHECKS:
        check = getattr(outcome.checks, kind)
        if check.result in words and (check.result != "not_run" or check.earlier or kind == "tests"):
            detail = sanitize_line(", ".join(filter(None, (check.counts, check.reason))), 300)
            yield f"- {kind}: {words[check.result]}{f' ({detail})' if detail else ''}"


def _list_problems(outcome: Outcome) -> Iterator[str]:
    for trouble in outcome.troubles:
        if not trouble.resolved:
            words = trouble.what if trouble.cause in trouble.what else f"{trouble.what}: {trouble.cause}"
            yield f"- Not solved: {sanitize_line(words, 400)}"
    for claim in outcome.claims:
        if claim.verdict != "supported":
            yield f'- {claim.verdict.capitalize()} claim: "{sanitize_line(claim.text, 300)}" ({sanitize_line(claim.why, 300)})'
    for flag in outcome.flags:
        if flag.executed:
            yield f"- Risky step, check it: {sanitize_line(flag.what, 300)}"


def _list_open(outcome: Outcome) -> Iterator[str]:
    if outcome.question:
        yield f"- The agent asked: {sanitize_line(outcome.question, 600)}"
    if outcome.status == "interrupted":
        yield "- The session stopped before the end of its turn"
    if outcome.waiting_for == "permission":
        yield "- It waits for a permission"
    if outcome.files and not outcome.delivered.commits:
        yield "- The edits are not committed"
