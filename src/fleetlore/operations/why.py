"""Why a line is there: the edit that wrote it, the prompt that asked for it, the session, the commit, the checks and the cost."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, takewhile
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fleetlore.dialects.fields import as_object
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import OWNER, PUBLIC, can_see
from fleetlore.ingest import git_files
from fleetlore.ingest.git_files import BlamedCommit, BlamedLine, Repository, TrackedFile
from fleetlore.operations.authorship import read_agent_traces, read_git_ai_note
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import Request
from fleetlore.projections import file_calls
from fleetlore.projections.file_calls import FileCall
from fleetlore.projections.outcomes import OutcomeQuery
from fleetlore.views.described_calls import find_text, make_file_diff
from fleetlore.views.line_origins import (
    DOUBTFUL,
    FileVersion,
    RecordedEdit,
    encode_notebook_lines,
    find_origins,
    is_distinct_line,
)
from fleetlore.views.outcomes.record import CHECKS, JudgedClaim, Outcome
from fleetlore.views.threads import TURN_ENDING_KINDS
from fleetlore.views.transcripts import LONGEST_DIFF

LONGEST_PROMPT = 2000
LONGEST_UNCOMMITTED = timedelta(days=7)
"""How long what a shell command wrote may wait for its commit, or for its branch to be squashed or rebased."""
MOST_MERGES = 10
MOST_REPLIES = 20
MOST_MEANWHILE = 20
_place = re.compile(r"(?P<path>.+?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?")
_lines_of_place = re.compile(r":\d{1,9}(?:-\d{1,9})?\Z")
_file_name = re.compile(r"(?<![.^~])\.[A-Za-z]\w{0,9}\Z")
_numbered_line = re.compile(r" {0,8}(\d{1,9})(?:→|\t)(.*)", re.DOTALL)

Author = Literal["agent", "hand", "unknown"]


class ExplainLines(Request, kw_only=True):
    """Which file, or which lines of it."""

    place: Annotated[str, Meta(min_length=1, max_length=4096, description="FILE, FILE:LINE or FILE:FIRST-LAST")]


class LineEdit(Struct, frozen=True, kw_only=True):
    """The edit that wrote lines, and what is known around it."""

    event: str
    """The id of the tool call."""
    at: datetime
    tool: str
    path: str
    diff: str
    session: str
    agent: str
    parent: str
    """The agent that launched it; empty if a person did."""
    prompt: str
    """What was asked: the prompt that opened the turn of the edit."""
    prompt_event: str
    said_meanwhile: list[str]
    """The prompts that came while the agent was at it, before the edit."""
    answer: str
    """What the agent said with the edit, or last before it."""
    model: str
    task: str
    mission: str
    allowed_by: str
    """Who allowed the call when the agent asked; empty if it did not ask."""


class OtherRecord(Struct, frozen=True):
    """A line's author as another tool noted it in the repository: git-ai or Agent Trace."""

    tool: str
    model: str
    session: str


class LineSession(Struct, frozen=True, kw_only=True):
    """The session of an edit."""

    session: str
    name: str
    headline: str
    person: str | None
    usd: float | None
    checks: dict[str, str]
    """The last result of each check after the session's last edit."""
    claims: list[JudgedClaim]
    pull_requests: list[str]
    tasks: list[str]


class ExplainedLines(Struct, frozen=True, kw_only=True):
    """Lines that follow each other and have the same origin."""

    first: int
    last: int
    author: Author
    why: str
    """How that is known, in one sentence."""
    text: str = ""
    """The lines themselves."""
    edit: LineEdit | None = None
    other: OtherRecord | None = None
    commit: BlamedCommit | None = None
    merge: BlamedCommit | None = None
    """The merge that brought the commit to the current branch; only looked for if few commits are behind the lines."""


class FileExplanation(Struct, frozen=True, kw_only=True):
    """The lines of a file with their origins."""

    path: str
    repository: str
    lines: list[ExplainedLines]
    sessions: list[LineSession]


def explain_lines(context: OperationContext, request: ExplainLines) -> FileExplanation:
    """For each line of a file who wrote it, why, and what is known about that. Never a guess."""
    found = _place.fullmatch(request.place)
    assert found is not None  # any text has a path
    file = git_files.find_file(found["path"], is_local=context.via in ("terminal", "api"))
    explainer = FileExplainer(context, RecordedSessions(context, file.repository), file)
    text = explainer.text
    count = len(text.split("\n")) - text.endswith("\n")
    first = int(found["first"] or 1)
    last = int(found["last"] or found["first"] or count)
    if not 1 <= first <= last <= max(count, 1):
        raise Invalid(f"{file.path} has {count} lines; {first}{f'-{last}' if last != first else ''} is none of them")
    return explainer.explain(first, last)


def names_file(place: str) -> bool:
    """Whether a place is a file or lines of one, and no commit or pull request. What could be both is a file."""
    path = place[: found.start()] if (found := _lines_of_place.search(place)) else place
    return os.path.isfile(path) or ("/" in path and "//" not in path) or found is not None or _file_name.search(path) is not None


class RecordedSessions:
    """The recorded sessions, and which of them worked in a repository."""

    def __init__(self, context: OperationContext, repository: Repository) -> None:
        self.repository = repository
        self.by_run = {outcome.session: outcome for outcome in context.source.find_outcomes(OutcomeQuery())}
        self.here = [outcome for outcome in self.by_run.values() if self.is_here(outcome)]
        local = [outcome for outcome in self.here if self._is_on_this_machine(outcome)]
        self.first = min((outcome.started for outcome in self.here if outcome.started is not None), default=None)
        self.first_local = min((outcome.started for outcome in local if outcome.started is not None), default=None)
        self.tracked: dict[str, list[str]] = defaultdict(list)
        """The paths of the repository by their last component."""
        self.tracked_folders: set[str] = set()
        for path in git_files.list_files(repository) if self.here else ():
            folder, _, name = path.rpartition("/")
            self.tracked[name].append(path)
            while folder and folder not in self.tracked_folders:
                self.tracked_folders.add(folder)
                folder = folder.rpartition("/")[0]
        erasures = [event.at for event in context.log.read(kinds=("log.forgotten", "log.trimmed")) if event.at is not None]
        self.erased = max(erasures, default=None)
        """When events were last erased."""

    def is_here(self, outcome: Outcome) -> bool:
        """Whether a session worked in the repository: in one of its folders, or in another clone with the same name."""
        return self._is_on_this_machine(outcome) or (outcome.repo or "").rpartition("/")[2] == self.repository.name

    def _is_on_this_machine(self, outcome: Outcome) -> bool:
        return any(outcome.folder == root or outcome.folder.startswith(f"{root}/") for root in self.repository.worktrees)

    def find_committer(self, sha: str) -> Outcome | None:
        """The session that made a commit."""
        return next((one for one in self.here if any(made.sha and sha.startswith(made.sha) for made in one.delivered.commits)), None)


class FileExplainer:
    """Everything that is needed to explain one file."""

    def __init__(self, context: OperationContext, sessions: RecordedSessions, file: TrackedFile) -> None:
        self._context, self._sessions, self._file = context, sessions, file
        self.text = git_files.read_text(file)
        self._blamed = git_files.blame_lines(file)
        self._committed = git_files.read_versions(file, self._blamed) if sessions.here else []  # nothing to replay otherwise
        self._paths = tuple(dict.fromkeys((file.path, *(version.path for version in self._committed))))
        names = [path.rpartition("/")[2] for path in self._paths]
        with context.source.show_progress() as progress:
            calls = file_calls.find_file_calls(context.log, context.source.find_store(), names, progress)
        viewer = PUBLIC if context.is_agent else OWNER
        self._calls = [each for each in calls if can_see(each.call, viewer)]
        mine = [each for each in self._calls if self._is_here(each.call)]
        self._unread_writes: list[tuple[datetime, str, str]] = []
        """When shell commands wrote the file in a way that their text does not show, their sessions, and what is in each line at least."""
        self._edits = sorted((edit for each in mine for edit in self._read_edits(each)), key=lambda edit: edit.at)
        self._versions = [
            FileVersion(version.at, version.text, commit=version.sha, previous=version.previous) for version in self._committed
        ]
        self._versions += [version for each in mine for version in self._read_listing(each)]

    def explain(self, first: int = 1, last: int | None = None) -> FileExplanation:
        """The lines from `first` to `last`, all of them unless given."""
        blamed = list(self._blamed)
        introduced = [("", 0) if commit is None else (commit.sha, number) for commit, _, number in blamed]
        found = find_origins(self.text, self._edits, self._versions, introduced)
        origins = [None if origin == DOUBTFUL else origin for origin in found]
        read = {version.sha for version in self._committed}
        in_order = sorted({line.commit for line in blamed if line.commit is not None}, key=lambda commit: commit.at)
        for place, (commit, _, _) in enumerate(blamed[: len(origins)]):
            origin = origins[place]
            if origin is None or commit is None or self._edits[origin].at <= commit.at + git_files.END_OF_SECOND:
                continue
            after = (each for each in in_order if self._edits[origin].at <= each.at + git_files.END_OF_SECOND)
            if commit.sha in read and (later := next(after, None)) is not None:
                blamed[place] = blamed[place]._replace(commit=later)  # git took the line for another one with the same text
            else:
                origins[place] = None  # it was committed before: the same text, written again elsewhere
        self._recorded_authors = {
            line.commit.author for origin, line in zip(origins, blamed, strict=False) if origin is not None and line.commit is not None
        }
        others = self._find_other_records(origins, blamed)
        texts = self.text.split("\n")

        def describe_place(place: int) -> tuple[int | None, BlamedCommit | None, OtherRecord | None, str]:
            commit = blamed[place].commit if place < len(blamed) else None
            is_near = any(each is not None for each in origins[max(0, place - 1) : place + 2])
            doubt = "" if origins[place] is not None else self._find_doubt(texts[place], commit, is_near, found[place])
            return origins[place], commit, others.get(place), doubt

        end = len(origins) if last is None else min(last, len(origins))
        groups = [(key, list(places)) for key, places in groupby(range(first - 1, end), key=describe_place)]
        commits = {commit.sha for (_, commit, _, _), _ in groups if commit is not None}
        merges = {sha: git_files.find_merge(self._file.repository, sha) for sha in commits} if len(commits) <= MOST_MERGES else {}
        edits = {origin: self._describe_edit(self._edits[origin]) for (origin, *_), _ in groups if origin is not None}
        rows = []
        for (origin, commit, other, doubt), places in groups:
            author, why = self._name_author(origin, commit, other, doubt)
            rows.append(
                ExplainedLines(
                    first=places[0] + 1,
                    last=places[-1] + 1,
                    author=author,
                    why=why,
                    text="\n".join(texts[places[0] : places[-1] + 1]),
                    edit=None if origin is None else edits[origin],
                    other=other,
                    commit=commit,
                    merge=None if commit is None else merges.get(commit.sha),
                )
            )
        runs = dict.fromkeys(edit.session for edit in edits.values())
        sessions = [_describe_session(self._sessions.by_run[run]) for run in runs if run in self._sessions.by_run]
        return FileExplanation(path=self._file.path, repository=self._file.repository.name, lines=rows, sessions=sessions)

    def _name_author(self, origin: int | None, commit: BlamedCommit | None, other: OtherRecord | None, doubt: str) -> tuple[Author, str]:
        if origin is not None:
            return "agent", "a recorded edit wrote it"
        if other is not None:
            return "agent", "another tool noted it with the commit"
        author, why = self._explain_missing(commit)
        return ("unknown", doubt) if author == "hand" and doubt else (author, why)

    def _find_other_records(self, origins: Sequence[int | None], blamed: Sequence[BlamedLine]) -> dict[int, OtherRecord]:
        """Lines without an edit that git-ai or Agent Trace give to an agent."""
        missing = [place for place in range(min(len(origins), len(blamed))) if origins[place] is None]
        shas = dict.fromkeys(line.commit.sha for line in (blamed[place] for place in missing) if line.commit is not None)
        known = {
            sha: [*read_git_ai_note(note), *read_agent_traces(traces, sha)]
            for sha, (note, traces) in git_files.read_attestations(self._file.repository, shas).items()
        }
        found: dict[int, OtherRecord] = {}
        for place in missing:
            commit, path, number = blamed[place]
            for each in known.get(commit.sha, ()) if commit is not None else ():
                if each.path == path and each.first <= number <= each.last:
                    found[place] = OtherRecord(each.tool, each.model, each.session)
        return found

    def _find_doubt(self, text: str, commit: BlamedCommit | None, is_near: bool, origin: int | None) -> str:
        """Why a line that no edit wrote may still be an agent's; `is_near`: whether it is next to a line that is."""
        if origin == DOUBTFUL:
            return "an agent wrote the same text, but perhaps not here"
        if is_near and not is_distinct_line(text):
            return "too short to be recognised, next to lines of an agent"
        until = self._context.now() if commit is None else commit.at + git_files.END_OF_SECOND
        for at, run, new in self._unread_writes:
            if until - LONGEST_UNCOMMITTED <= at <= until and new in text:
                return f"a shell command of session {run[:8]} wrote the file before, and its text does not show what"
        return ""

    def _explain_missing(self, commit: BlamedCommit | None) -> tuple[Author, str]:
        """Lines that no edit wrote: by hand if agents were recorded here at that time, else unknown."""
        sessions = self._sessions
        if sessions.first is None:
            return "unknown", "no recorded session worked in this repository"
        if commit is not None and commit.at < sessions.first:
            return "unknown", f"older than the first recorded session in this repository ({sessions.first:%Y-%m-%d})"
        if commit is not None and (outcome := sessions.find_committer(commit.sha)) is not None:
            return "unknown", f"session {outcome.session[:8]} committed it, but no recorded edit wrote it; a command may have"
        if sessions.first_local is None or (commit is not None and commit.at < sessions.first_local):
            return (
                "unknown",
                "no recorded edit wrote it, and not all agents of this repository may be recorded: their folders are elsewhere",
            )
        if commit is not None and self._recorded_authors and commit.author not in self._recorded_authors:
            return "unknown", f"committed by {commit.author}, whose agents may not be recorded here"
        if sessions.erased is not None and (commit is None or sessions.erased >= commit.at):
            return "unknown", "no recorded edit wrote it, but events of this log were erased"
        return "hand", "no recorded edit wrote it" if commit is not None else "not committed; no recorded edit wrote it"

    # --- recorded calls

    def _is_here(self, call: Event) -> bool:
        """Whether a call belongs to this repository: its files, or those of another clone with the same name."""
        return any(self._locate(path, call)[1] in self._paths for path in _find_paths(call))

    def _locate(self, path: str, call: Event) -> tuple[str, str]:
        """The work tree of a path, and the path in it; empty if it is elsewhere."""
        folder = call.data.get("cwd")
        outcome = self._sessions.by_run.get(call.run or "")
        if not path.startswith("/"):
            base = folder if isinstance(folder, str) else "" if outcome is None else outcome.folder
            path = f"{base.rstrip('/')}/{path.removeprefix('./')}" if base else path
        for root in self._file.repository.worktrees:
            if path.startswith(f"{root}/"):
                return root, path[len(root) + 1 :]
        if outcome is None or not self._sessions.is_here(outcome):
            return "", ""
        tracked = self._sessions.tracked.get(path.rpartition("/")[2], ())
        own = max((each for each in (*tracked, *self._paths) if path.endswith(f"/{each}") or path == each), key=len, default="")
        tree = path.removesuffix(own)
        below = tree.removeprefix(f"{outcome.folder}/").rstrip("/") if tree.startswith(f"{outcome.folder}/") else ""
        return ("", "") if below in self._sessions.tracked_folders else (tree, own)

    def _read_edits(self, each: FileCall) -> Iterator[RecordedEdit]:
        """The edits of a call that succeeded, of this file."""
        if each.result is None or each.result.kind != "tool.returned":
            return
        call, at = self._context.log.restore_whole(each.call), each.result.at or each.call.at
        if at is None:
            return
        given = file_calls.read_call(call)
        edits: list[tuple[str, str | None, str]] = list(given.edits)
        for write in file_calls.list_shell_writes(given.command) if given.kind == "command" else ():
            if write.edit is not None:
                edits.append((write.path, *write.edit))
            if not write.is_certain and self._locate(write.path, call)[1] in self._paths:
                self._unread_writes.append((at, call.run or "", write.edit[1] if write.edit else ""))
        for path, old, new in edits:
            tree, own = self._locate(path, call)
            if own in self._paths:
                new = encode_notebook_lines(new) if path.endswith(".ipynb") and old == "" else new
                tool = str(call.data.get("tool") or "")
                yield RecordedEdit(call.id or "", call.run or "", call.agent or "", at, call.position or "", path, old, new, tool, tree)

    def _read_listing(self, each: FileCall) -> Iterator[FileVersion]:
        """What a call read, if it was the whole file with numbered lines."""
        if (
            each.result is None
            or each.result.kind != "tool.returned"
            or each.result.at is None
            or file_calls.read_call(each.call).kind != "read"
        ):
            return
        given = each.call.data.get("input")
        if not isinstance(given, dict) or given.get("offset") or given.get("limit"):
            return
        output = self._context.log.restore_whole(each.result).data.get("output")
        if isinstance(output, str) and (lines := _parse_listing(output)):
            tree, _ = self._locate(next(_find_paths(each.call), ""), each.call)
            yield FileVersion(each.result.at, "".join(f"{line}\n" for line in lines), tree)

    # --- what is known around an edit

    def _describe_edit(self, edit: RecordedEdit) -> LineEdit:
        [call] = [each.call for each in self._calls if each.call.id == edit.event][:1]
        prompts, (answer, model) = self._find_prompts(call), self._find_answer(call)
        asked, *meanwhile = [str(prompt.data.get("prompt") or prompt.text or "")[:LONGEST_PROMPT] for prompt in prompts] or [""]
        return LineEdit(
            event=edit.event,
            at=edit.at,
            tool=edit.tool,
            path=edit.path,
            diff=make_file_diff(edit.path, edit.old, edit.new, longest=LONGEST_DIFF).diff,
            session=edit.run,
            agent=edit.agent,
            parent=call.parent or "",
            prompt=asked,
            prompt_event=(prompts[0].id or "") if prompts else "",
            said_meanwhile=meanwhile,
            answer=answer,
            model=model,
            task=call.task or "",
            mission=call.mission or "",
            allowed_by=self._find_approver(call),
        )

    def _find_answer(self, call: Event) -> tuple[str, str]:
        """What the agent said with a call, or last before it in the same turn; and the model of the call."""
        scope, kinds = f"run:{call.run}", ("model.replied", "prompt.submitted")
        # A reply is stored after its calls, because only its end tells its tokens.
        after = self._context.log.read(scope, after=call.position, kinds=kinds, limit=MOST_REPLIES)
        before = self._context.log.read(scope, before=call.position, kinds=kinds, newest_first=True, limit=MOST_REPLIES)
        own: list[Event] = []
        for events, most in ((after, 1), (before, MOST_REPLIES)):
            replies = takewhile(lambda event: event.kind == "model.replied", events)
            own += [event for event in replies if event.agent == call.agent][:most]
        said = next((self._context.log.restore_whole(event) for event in own if event.data.get("said")), None)
        model = next((str(event.data["model"]) for event in own if event.data.get("model")), "")
        return "" if said is None else find_text(said)[:LONGEST_PROMPT], model

    def _find_approver(self, call: Event) -> str:
        """Who allowed a call that the agent asked for. On a sealed log nobody: signatures are not checked here."""
        id = call.data.get("call_id")
        if not id or self._context.is_sealed():
            return ""
        asked = None
        for event in self._context.log.read(f"run:{call.run}", kinds=("approval.requested", "control.requested")):
            if event.kind == "approval.requested" and event.data.get("call_id") == id:
                asked = event.id
            elif asked is not None and event.data.get("of") == asked and event.data.get("action") == "decide":
                return (event.actor or "") if as_object(event.data.get("value")).get("choice") == "allow" else ""
        return ""

    def _find_prompts(self, call: Event) -> list[Event]:
        """The prompt that opened the turn of a call, or the launch of its agent; then the prompts that came while the agent worked."""
        prompt = self._find_cause(call)
        if prompt is None or prompt.kind != "prompt.submitted":
            return [] if prompt is None else [prompt]
        scope, kinds = f"run:{prompt.run}", ("prompt.submitted", *TURN_ENDING_KINDS)
        after = self._context.log.read(scope, after=prompt.position, before=call.position, kinds=kinds)
        later = takewhile(lambda event: event.kind == "prompt.submitted", (event for event in after if event.agent == prompt.agent))
        found = [*self._find_earlier_prompts(prompt), prompt, *later]
        return [self._context.log.restore_whole(event) for event in (found[0], *found[1:][-MOST_MEANWHILE:])]

    def _find_earlier_prompts(self, prompt: Event) -> list[Event]:
        """The prompts of the same turn before a prompt."""
        scope, kinds = f"run:{prompt.run}", ("prompt.submitted", "tool.called", "model.replied", "session.started", *TURN_ENDING_KINDS)
        found: list[Event] = []
        said: dict[str, Event] = {}
        """The last call and the last reply between two prompts."""
        for event in self._context.log.read(scope, before=prompt.position, kinds=kinds, newest_first=True):
            if event.agent != prompt.agent:
                continue
            if event.kind in ("tool.called", "model.replied"):
                said.setdefault(event.kind, event)
            elif event.kind != "prompt.submitted" or not self._is_still_working(prompt.run, said):
                break
            else:
                found.insert(0, event)
                said = {}
        return found

    def _is_still_working(self, run: str | None, said: dict[str, Event]) -> bool:
        """Whether an agent was not done when a prompt came, although no end of its turn is between that and the prompt before."""
        call, reply = said.get("tool.called"), said.get("model.replied")
        if reply is None:  # perhaps a program whose replies are not recorded, but then the ends of its turns must be
            return any(self._context.log.read(f"run:{run}", kinds=("session.turn_ended",), limit=1))
        if stop := reply.data.get("stop_reason"):
            return stop in ("tool_use", "tool_calls", "toolUse")
        return call is not None and (call.at is None or reply.at is None or call.at >= reply.at)

    def _find_cause(self, call: Event) -> Event | None:
        """The last prompt before a call, or the launch that led to it, along its causes."""
        event: Event | None = call
        for _ in range(50):
            if event is None or event.cause is None:
                break
            event = next(iter(self._context.log.get([event.cause])), None)
            if event is not None and event.kind in ("prompt.submitted", "agent.launched"):
                return self._context.log.restore_whole(event)
        earlier = self._context.log.read(f"run:{call.run}", before=call.position, kinds=("prompt.submitted",), newest_first=True, limit=1)
        return next(iter(earlier), None)


def _describe_session(outcome: Outcome) -> LineSession:
    results = {kind: getattr(outcome.checks, kind) for kind in CHECKS}
    return LineSession(
        session=outcome.session,
        name=outcome.name,
        headline=outcome.headline,
        person=outcome.person,
        usd=outcome.usd,
        checks={kind: check.result for kind, check in results.items() if check.result not in ("no_edit", "not_run")},
        claims=outcome.claims,
        pull_requests=[request.url or request.title for request in outcome.delivered.pull_requests],
        tasks=list(outcome.delivered.tasks),
    )


def _find_paths(call: Event) -> Iterator[str]:
    given = file_calls.read_call(call)
    yield from given.paths
    yield from (path for path, _, _ in given.edits)
    if given.kind == "command":
        yield from (write.path for write in file_calls.list_shell_writes(given.command))


def _parse_listing(output: str) -> list[str]:
    """The lines of a file that was printed with line numbers from 1 on; empty if it is anything else."""
    lines: list[str] = []
    for raw in output.split("\n"):
        found = _numbered_line.fullmatch(raw)
        if found is None or int(found[1]) != len(lines) + 1:
            break
        lines.append(found[2])
    rest = output.split("\n")[len(lines) :]
    is_whole = not rest or not rest[0].strip() or rest[0].lstrip().startswith("<")
    return lines if is_whole and len(lines) < 2000 else []
