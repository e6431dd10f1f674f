"""The headline of a session: what came of it, then how it was left.

The result is the title of a pull request, else the most telling commit, else the agent's own sentence about what it changed,
else the title of the session, else what was asked, marked as such. The names of files are the last resort.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fleetlore.views.outcomes.file_edits import agent_folder
from fleetlore.views.outcomes.result_words import find_change, is_statement, is_title
from fleetlore.views.outcomes.words import cut_words, first_sentence, short_request, shorten

if TYPE_CHECKING:
    from fleetlore.views.outcomes.record import ChangedFile, Commit, Outcome
    from fleetlore.views.outcomes.session import SessionState

CHECK_NAMES = {"tests": "tests", "lint": "lint", "types": "type check", "build": "build"}
MOST_WORDS = 20
"""Of the result; the closing state comes on top."""
MANY_COMMITS = 3
"""So many commits are named by the session's title, if it has one."""
MOST_TURNS = 50
ASKED = "Asked: "
LONGEST_TITLE = 120
_minor = re.compile(
    r"(?i)(?:merge\b|wip\b|fixup!|squash!|(?:chore|docs?|style|ci|build|test|release)(?:\([^)]{0,60}\))?!?:"
    r"|(?:bump|update) (?:the )?(?:version|dependenc|changelog|lock)|v?\d+\.\d+\.\d+)"
)
_trailer = re.compile(r"\s+[A-Z][\w-]{2,40}: \S{6,80}$")
_absolute = re.compile(r"[/\\~]|[A-Za-z]:[/\\]")


def write_headline(record: Outcome, state: SessionState) -> str:
    """What came of the session, and how it was left. The first part is kept in `record.result`."""
    record.result = find_result(record, state)
    return "; ".join((record.result, *describe_closing(record, state)))


# --- what came of it


def find_result(record: Outcome, state: SessionState) -> str:
    """What came of the session, in one clause."""
    delivered = record.delivered
    titled = [request.title for request in delivered.pull_requests if request.title]
    if titled:
        return _clean(titled[-1])
    if delivered.commits:
        return _name_commits(record, state)
    return _describe_work(record, state)


def _name_commits(record: Outcome, state: SessionState) -> str:
    commits = record.delivered.commits
    more = len(commits) - 1
    suffix = f" (+{more} commit{'s' if more > 1 else ''})" if more else ""
    if all(commit.rewritten for commit in state.commits):
        return f"Rebased: {_clean(commits[-1].subject)}{suffix}"
    if len(commits) >= MANY_COMMITS and (title := find_title(record, state)):
        return f"{title} ({len(commits)} commits)"
    named = choose_commit(commits)
    return _clean(named.subject) + suffix if named is not None else f"{_describe_work(record, state)}{suffix}"


def choose_commit(commits: Sequence[Commit]) -> Commit | None:
    """The first commit that is neither a merge nor a chore; else the first with a subject."""
    named = [commit for commit in commits if commit.subject]
    telling = [commit for commit in named if not _minor.match(commit.subject)]
    unmerged = [commit for commit in named if not commit.subject.startswith("Merge ")]
    return next(iter((*telling, *unmerged, *named)), None)


def find_title(record: Outcome, state: SessionState) -> str:
    """A title for the work: of the program, a person, or the plan that was to be carried out. Nothing for a raw prompt."""
    for text in (record.title or "", _read_plan_title(state)):
        if is_title(text):
            return _clean(text)
    return ""


_plan = re.compile(
    r"(?is)\W{0,9}(?:implement|execute|carry out|follow)\b[^\n]{0,60}\bplan\b[^\n]{0,40}\n+#{1,3} +(?:plan: *)?([^\n]{4,200})"
)


def _read_plan_title(state: SessionState) -> str:
    found = next((found for prompt in state.prompts[:3] if (found := _plan.match(prompt.text[:2000]))), None)
    return " ".join(found[1].split()) if found else ""


def _describe_work(record: Outcome, state: SessionState) -> str:
    """The work of a session without a commit."""
    title = find_title(record, state)
    changes = [] if title and record.files else list(_find_changes(record, state))
    if title and (record.files or not changes):
        return title
    if changes:
        return changes[0]
    if not record.files and (answer := _find_answer(state)):
        return cut_words(answer, MOST_WORDS)
    work = [file for file in record.files if not _is_note(file.path)]
    return _name_request(record, state) or (f"Edited {name_files(work)}" if work else record.name)


def _find_changes(record: Outcome, state: SessionState) -> Iterator[str]:
    """The agent's sentences about what it changed; those of the turn with the most edits first. None that the records contradict."""
    edits = Counter(call.turn for call in state.calls if call.kind == "edit" and call.state == "ok" and not _is_note(call.what))
    answers = [answer for answer in state.answers[-MOST_TURNS:] if not answer.helper]
    ranked = sorted(answers, key=lambda answer: (edits[answer.turn], answer.step), reverse=True)
    refuted = [claim.text for claim in record.claims if claim.verdict == "contradicted"]
    for answer in ranked:
        if edits and not edits[answer.turn]:
            return
        if (found := find_change(answer.text, MOST_WORDS)) and not any(found in claim or claim in found for claim in refuted):
            yield found


def _find_answer(state: SessionState) -> str:
    """The first sentence of the last answer, if it can be understood alone."""
    answer = first_sentence(state.answers[-1].text, is_answer=True).rstrip(".。") if state.answers else ""
    return answer if is_statement(answer) else ""


def _name_request(record: Outcome, state: SessionState) -> str:
    from fleetlore.views.outcomes.record import find_request

    request = find_request(state)
    asked = short_request(request.text, MOST_WORDS) if request is not None else ""
    asked = asked or cut_words(record.asked.rstrip(".: "), MOST_WORDS)
    return f"{ASKED}{asked[:1].upper()}{asked[1:]}" if asked else ""


def _is_note(path: str) -> bool:
    """Whether a file is the agent's own: a plan or a memory."""
    return agent_folder.search(path) is not None


def name_files(files: Sequence[ChangedFile]) -> str:
    """`setup.go`, `setup.go and 2 more files`: the one with the most changed lines, rather code than notes."""
    largest = max(files, key=lambda file: (not file.path.endswith((".md", ".lock", ".json")), file.added + file.removed, file.path))
    name = largest.path.replace("\\", "/").rstrip("/").rpartition("/")[2][:60] or largest.path
    more = len(files) - 1
    return f"{name} and {more} more file{'s' if more > 1 else ''}" if more else name


def _clean(text: str) -> str:
    return shorten(_trailer.sub("", text), LONGEST_TITLE).rstrip(". ")


# --- how it was left


def describe_closing(record: Outcome, state: SessionState) -> Iterator[str]:
    """How the work was delivered, the check results, and how the session ended."""
    yield from _describe_delivery(record, state)
    yield from describe_results(record)
    last_push = max((push.step for push in state.pushes), default=0)
    if state.ci and state.ci[-1].step > last_push and state.ci[-1].result in ("pass", "fail"):
        yield "CI passed" if state.ci[-1].result == "pass" else "CI failed"
    match record.status:
        case "interrupted":
            yield "stopped before the end"
        case "failed":
            yield "ended with an error"
        case "running":
            yield "still running"
    if record.waiting_for == "permission":
        yield "waits for your permission"
    elif record.waiting_for == "person":
        yield "waits for your answer"


def _describe_delivery(record: Outcome, state: SessionState) -> Iterator[str]:
    delivered = record.delivered
    numbers = [f"#{request.number}" for request in delivered.pull_requests if request.number]
    if delivered.pull_requests:
        count = len(delivered.pull_requests)
        yield " ".join(part for part in ("pull request" + "s" * (count > 1), join_names(numbers) if numbers else "", "opened") if part)
    elif delivered.pushed:
        yield "pushed"
    elif delivered.commits:
        yield "committed, not pushed"
    work = [file for file in record.files if not _is_note(file.path)] or record.files
    changed = f"{name_files(work)} changed" if work else ""
    if list_uncommitted(record, state):
        if delivered.commits:
            yield "later edits not committed"
        else:
            yield f"{changed}, not committed" if record.result.startswith(ASKED) and changed else "not committed"
    elif not (delivered.commits or delivered.pushed or delivered.pull_requests):
        done = "answered, " if record.result.startswith(ASKED) and delivered.answer and record.status == "finished" else ""
        if changed:
            yield changed
        elif not any(call.kind in ("command", "other") and call.state == "ok" for call in state.calls):
            yield f"{done}nothing changed"
        elif record.status != "running":
            yield f"{done}no files edited"


def list_uncommitted(record: Outcome, state: SessionState) -> list[str]:
    """Files of the session's repository that were edited after its last commit. A later push or commit command may have taken them in."""
    if not (state.branch or any(call.kind == "command" and "git " in call.what for call in state.calls)):
        return []
    last = max((*(commit.step for commit in state.commits), *(push.step for push in state.pushes)), default=0)
    if last:
        last = max([last, *(tried.step for tried in state.attempts if tried.act in ("commit", "push") and not tried.failed)])
    folder = f"{state.cwd.rstrip('/')}/" if state.cwd else ""
    edits = [edit for edit in state.edits if edit.step > last and (edit.covered or not last)]
    discarded = [flag for flag in state.flags if flag.executed and flag.what.startswith("uncommitted changes discarded")]
    kept = [edit.path for edit in edits if not any(flag.step > edit.step and _ends_with(flag.what, edit.path) for flag in discarded)]
    paths = (path.removeprefix(folder) for path in kept)
    return list(dict.fromkeys(path for path in paths if not _is_note(path) and not _absolute.match(path)))


def _ends_with(command: str, path: str) -> bool:
    """Whether the last word of a command names the file, by its whole path or the end of it."""
    name = command.rpartition(" ")[2]
    return "." in name and (path == name or path.endswith(f"/{name}"))


def describe_results(record: Outcome) -> Iterable[str]:
    """`tests and lint passed`, `build failed`."""
    for result, word in (("pass", "passed"), ("fail", "failed")):
        names = [name for kind, name in CHECK_NAMES.items() if getattr(record.checks, kind).result == result]
        if names:
            yield f"{join_names(names)} {word}"


def join_names(names: Sequence[str]) -> str:
    """`tests, lint and build`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
