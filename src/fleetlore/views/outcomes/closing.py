"""How the work of a session was left: delivered, checked, and how the session ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fleetlore.dialects.commands.classify import classify_tool_call
from fleetlore.programs.tool_calls import proposes_plan
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.outcomes.request_text import no_request
from fleetlore.views.outcomes.session import LONGEST_WHAT, SessionState
from fleetlore.views.outcomes.words import drop_courtesy, first_sentence

if TYPE_CHECKING:
    from fleetlore.views.outcomes.record import ChangedFile, Outcome


CHECK_NAMES = {"tests": "tests", "lint": "lint", "types": "type check", "build": "build"}
MOST_QUOTED = 14
ASKED = "Asked: "
WROTE = "Wrote "
PLAN_REFUSED = "its plan was refused"
LAST_PLAN_REFUSED = "the plan for its last request was refused"
DISCARDED = "its changes were discarded"
STOPPED = "stopped during "
"""Begins the end of a session whose last request was not answered."""
MOST_MERGED = 4
HELPERS_UNSEEN = "the work of its helpers is not recorded"
_notes = re.compile(r"^\$|(?:^|/)\.\w+/(?:plans|projects|todos|memory)/|^/(?:private/)?(?:tmp|var/folders)/")
_by_product = re.compile(r"\.(?:log|pid|tmp|out|err)$", re.IGNORECASE)
"""A file that a program leaves behind."""
_plain_name = re.compile(
    r"(?:^|/)(?!\w+file$|LICEN[CS]E|README|CODEOWNERS|COPYING)(?:\w[\w-]*|\.(?:build|cache|git|idea|next|venv|vscode))$"
)
"""The name of a folder rather than a file: no suffix, and not `Makefile`."""
_merges = re.compile(r"\bgh pr merge\b|\bglab mr merge\b")

_merged_number = re.compile(r"\b(?:gh pr|glab mr) merge (?:--?\w[\w-]* ){0,4}(\d{1,7})(?=\s|$)(?!.{0,80} --auto\b)")

_tags = re.compile(r"\bgit tag (?:-[asf] ){0,3}(?!-)([\w./-]{1,60})(?=\s|$)")

_absolute = re.compile(r"[/\\~]|[A-Za-z]:[/\\]")


def _count_commits(count: int) -> str:
    return f"{count} commits" if count > 1 else "commit"


def is_note(path: str) -> bool:
    """Whether a file is the agent's own: a plan, a memory or a temporary file."""
    return _notes.search(path) is not None


def list_work_files(files: Sequence[ChangedFile]) -> list[ChangedFile]:
    """The changed files without plans, temporary files, logs, and folders that a command made, copied or moved."""
    found = [file for file in files if not is_note(file.path) and not _by_product.search(file.path)]
    folders = {str(folder) for file in found for folder in PurePosixPath(file.path).parents}
    has_lines = any(file.added + file.removed for file in found)

    def is_folder(file: ChangedFile) -> bool:
        is_unread = has_lines and not file.added + file.removed
        return file.path.endswith("/") or file.path in folders or (is_unread and _plain_name.search(file.path) is not None)

    return [file for file in found if not is_folder(file)]


def name_files(files: Sequence[ChangedFile]) -> str:
    """`setup.go`, `setup.go and 2 more files`: the one with the most changed lines, rather code than notes."""
    if not files:
        return ""
    largest = max(files, key=lambda file: (not file.path.endswith((".md", ".lock", ".json")), file.added + file.removed, file.path))
    name = base_name(largest.path)[:60] or largest.path
    more = len(files) - 1
    return f"{name} and {more} more file{'s' if more > 1 else ''}" if more else name


def base_name(path: str) -> str:
    """The name of a file without its folders."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def describe_closing(record: Outcome, state: SessionState, *, is_long: bool = False) -> Iterator[str]:
    """How the work was delivered, the check results, and how the session ended.

    `is_long`: with checks that were not run, the error and the whole question.
    """
    yield from _describe_delivery(record, state)
    yield from describe_results(record)
    if is_long and record.checks.tests.result == "not_run" and any(edit.covered for edit in state.edits):
        yield "tests not run after the last edit"
    last_push = max((push.step for push in state.pushes), default=0)
    if state.ci and state.ci[-1].step > last_push and state.ci[-1].result in ("pass", "fail"):
        record.evidence["ci"] = [state.ci[-1].source]
        yield "CI passed" if state.ci[-1].result == "pass" else "CI failed"
    if record.waiting_for == "permission":
        yield "waits for your permission"
    elif record.waiting_for == "person":
        question = (record.question or "") if is_long else quote_short(record.question or "")
        yield f"asks: {question}" if question else "waits for your answer"
    elif record.status == "failed" and is_long and state.status.error:
        yield f"failed: {state.status.error}"
    elif record.status != "finished":
        yield describe_end(record, state)


def describe_end(record: Outcome, state: SessionState) -> str:
    """How a session ended that is not finished: by an error, a refused plan, or in the middle of a request."""
    match record.status:
        case "failed":
            return "ended with an error"
        case "running":
            return "still running"
    prompts = [prompt for prompt in state.prompts if prompt.refuses is None]
    if is_plan_refused(state):
        refused = next(call for call in reversed(state.calls) if not call.helper)
        record.evidence["status"] = [refused.source, *([Source(refused.result, refused.source.source)] if refused.result else [])]
        asked = quote_short(drop_courtesy(first_sentence(prompts[-1].text))) if prompts else ""
        return f'{PLAN_REFUSED}: "{asked}"' if state.answers and asked else LAST_PLAN_REFUSED if state.answers else PLAN_REFUSED
    answered = {answer.turn for answer in state.answers if not answer.helper}
    last = prompts[-1] if prompts and prompts[-1].turn not in answered and len({prompt.turn for prompt in prompts}) > 1 else None
    request = quote_short(first_sentence(last.text)) if last is not None else ""
    if last is not None and request:
        record.evidence["status"] = [last.source]
    return f'{STOPPED}"{request}"' if request else "no final answer"


def is_plan_refused(state: SessionState) -> bool:
    """Whether the session's last call proposed a plan that the person refused."""
    own = [call for call in state.calls if not call.helper]
    return bool(own) and own[-1].state == "denied" and proposes_plan(own[-1].tool)


def quote_short(text: str) -> str:
    """A question or a request for the end of a headline: whole, or nothing if it is long."""
    plain = " ".join(text.replace('"', "'").split()).rstrip(".")
    is_clear = 2 <= len(plain.split()) <= MOST_QUOTED and "://" not in plain and not no_request.match(plain)
    return plain if is_clear else ""


def _describe_delivery(record: Outcome, state: SessionState) -> Iterator[str]:
    delivered = record.delivered
    if delivered.pull_requests:
        yield _describe_requests(record, state)
    elif delivered.pushed:
        yield f"pushed, but not the last {_count_commits(delivered.unpushed)}" if delivered.unpushed else "pushed"
    elif delivered.commits:
        yield "committed" if delivered.push_unknown else "committed, not pushed"
    yield from _describe_git(record, state)
    work = list_work_files(record.files)
    is_delivered = bool(delivered.commits or delivered.pushed or delivered.pull_requests)
    unseen = _has_unseen_helpers(state)
    changed = f"{name_files(work)} changed" if work and not record.result.startswith(WROTE) else ""
    if left := list_uncommitted(record, state):
        if delivered.commits:
            later = [file for file in work if file.path in left]
            yield f"later edits of {name_files(later)} not committed" if later else "later edits not committed"
        else:
            yield f"{changed}, not committed" if changed else "not committed"
    elif not is_delivered and (changed or not (unseen or work)):
        yield from _describe_undelivered(record, state, changed)
    if unseen and not is_delivered:
        yield HELPERS_UNSEEN


_LAUNCHERS = frozenset(("task", "agent", "spawn_agent", "dispatch_agent"))

_only_reads = re.compile(r"(?i)explore|plan|review|research|search")


def _has_unseen_helpers(state: SessionState) -> bool:
    """Whether helpers that may edit files were started, and the log has none of their calls."""
    started = sum(call.tool.lower() in _LAUNCHERS and call.state == "ok" and not call.helper for call in state.calls)
    seen = {call.helper for call in state.calls if call.helper}
    readers = [name for name, helper in state.helpers.items() if name not in seen and _only_reads.search(helper.role)]
    return started > len(seen) + len(readers)


def _describe_undelivered(record: Outcome, state: SessionState, changed: str) -> Iterator[str]:
    """What is left of a session without a commit and without uncommitted changes."""
    done = ""
    if record.result.startswith(ASKED) and record.delivered.answer and record.status == "finished":
        answer = record.delivered.answer.replace('"', "'").rstrip(".")
        done = f'answered "{answer}", ' if len(answer.split()) <= MOST_QUOTED and not answer.endswith("…") else "answered, "
    if changed:
        yield DISCARDED if _is_inside_repository(state) and _has_discarded(record) else changed
    elif refused := _name_refused(state):
        yield refused
    elif not any(call.kind in ("command", "other") and call.state == "ok" for call in state.calls):
        yield f"{done}nothing changed"
    elif record.status != "running" and not _may_have_written(state):
        yield f"{done}no files edited"
    elif done:
        yield done.rstrip(", ")


def _name_refused(state: SessionState) -> str:
    """The files that the agent was not permitted to edit."""
    paths = [call.what for call in state.calls if call.kind == "edit" and call.state == "denied"]
    return f"no permission to edit {join_names(list(dict.fromkeys(map(base_name, paths)))[:3])}" if paths else ""


_WITHOUT_WRITING = frozenset(["look", "test", "check", "plan", "ask", "launch"])


def _may_have_written(state: SessionState) -> bool:
    """Whether a command or a tool ran that may have changed files unseen."""
    for call in state.calls:
        if call.state != "ok" or call.kind not in ("command", "other"):
            continue
        if call.kind == "command" and len(call.what) >= LONGEST_WHAT:
            return True  # only its beginning is known
        action = classify_tool_call("bash" if call.kind == "command" else call.tool, {"command": call.what})
        if action.name not in _WITHOUT_WRITING:
            return True
    return False


def _has_discarded(record: Outcome) -> bool:
    return any(flag.executed and flag.what.startswith("uncommitted changes discarded") for flag in record.flags)


def _describe_requests(record: Outcome, state: SessionState) -> str:
    requests = record.delivered.pull_requests
    numbers = [f"#{request.number}" for request in requests if request.number]
    commands = [call.what for call in state.calls if call.kind == "command" and call.state == "ok"]
    is_merged = any(map(_merges.search, commands))
    created = [command for command in commands if "pr create" in command]
    is_draft = bool(created) and all("--draft" in command for command in created) and not any("pr ready" in one for one in commands)
    name = ("draft " if is_draft and not is_merged else "") + ("pull requests" if len(requests) > 1 else "pull request")
    if len(set(numbers)) < len(requests) > 1:  # of several repositories
        name, numbers = f"{len(requests)} {name}", []
    return " ".join(part for part in (name, join_names(numbers) if numbers else "", "opened and merged" if is_merged else "opened") if part)


def _describe_git(record: Outcome, state: SessionState) -> Iterator[str]:
    """Skipped hooks, tags, and a last attempt to deliver that failed."""
    delivered = record.delivered
    if delivered.commits and any(flag.flag == "no_verify" and flag.executed for flag in record.flags):
        yield "git hooks skipped"
    opened = {request.number for request in delivered.pull_requests}
    commands = [call.what for call in state.calls if call.kind == "command" and call.state == "ok"]
    merged = list(dict.fromkeys(found[1] for what in commands for found in _merged_number.finditer(what) if found[1] not in opened))
    if merged:
        yield f"pull request{'s' if len(merged) > 1 else ''} {join_names([f'#{number}' for number in merged[:MOST_MERGED]])} merged"
    tags = [found[1] for call in state.calls if call.kind == "command" and call.state == "ok" and (found := _tags.search(call.what))]
    if tags and (delivered.commits or delivered.pushed):
        yield f"tagged {tags[-1]}"
    tried = [each for each in state.attempts if each.act in ("commit", "push", "pull_request") and not each.unseen]
    if tried and tried[-1].failed and not tried[-1].denied:
        is_later = bool(delivered.commits) if tried[-1].act == "commit" else tried[-1].act == "push" and delivered.pushed
        yield f"{'a later ' if is_later else ''}{tried[-1].act.replace('_', ' ')} failed"


def _is_inside_repository(state: SessionState) -> bool:
    return bool(state.branch) or any(call.kind == "command" and "git " in call.what for call in state.calls)


def list_uncommitted(record: Outcome, state: SessionState) -> list[str]:
    """Files of the session's repository that were edited after its last commit. A later push or commit command may have taken them in."""
    may_be_committed = any("git commit" in pending.call.command for pending in state.pending.values())  # its result is not recorded
    if may_be_committed or not _is_inside_repository(state):
        return []
    last = max((*(commit.step for commit in state.commits), *(push.step for push in state.pushes)), default=0)
    if last:
        last = max([last, *(tried.step for tried in state.attempts if tried.act in ("commit", "push") and not tried.failed)])
    folder = f"{state.cwd.rstrip('/')}/" if state.cwd else ""
    edits = [edit for edit in state.edits if edit.step > last and (edit.covered or not last)]
    discarded = [flag for flag in state.flags if flag.executed and flag.what.startswith("uncommitted changes discarded")]
    kept = [edit.path for edit in edits if not any(flag.step >= edit.step and _ends_with(flag.what, edit.path) for flag in discarded)]
    paths = (path.removeprefix(folder) for path in kept)
    return list(dict.fromkeys(path for path in paths if not (is_note(path) or _by_product.search(path) or _absolute.match(path))))


def _ends_with(command: str, path: str) -> bool:
    """Whether the last word of a command names the file, by its whole path or the end of it."""
    name = command.rpartition(" ")[2]
    return "." in name and (path == name or path.endswith(f"/{name}"))


def describe_results(record: Outcome) -> Iterable[str]:
    """`tests and lint passed`, `build failed`."""
    for result, word in (("pass", "passed"), ("fail", "failed")):
        found = [(name, getattr(record.checks, kind)) for kind, name in CHECK_NAMES.items()]
        # In a session without an edit the last run counts.
        shown = [(name, check) for name, check in found if (check.earlier if check.result == "no_edit" else check.result) == result]
        names = [f"selected {name}" if check.selected and name == "tests" else name for name, check in shown]
        if names:
            yield f"{join_names(names)} {word}"


def join_names(names: Sequence[str]) -> str:
    """`tests, lint and build`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
