"""Which failing commands, edits and other calls were troubles.

Attempts at the same command up to the one that works are one problem. Not a trouble: a lookup, a refusal, an interruption, a
mistyped command, and a failure that the next call repaired.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from fleetlore.views.outcomes.facts import CallFailure, CallKind, CallStep
from fleetlore.views.outcomes.failures import (
    CI_FAILED,
    ENVIRONMENTS,
    SERVER_FAILED,
    TURN_BROKEN,
    find_environment,
    is_missing_page,
    is_mistyped,
    name_command,
)
from fleetlore.views.outcomes.problems import CHEAP_CALLS, FailedStep, SessionProblem, SessionSteps, was_asked_for
from fleetlore.views.outcomes.shell import parse_script

# A command that is not important in itself is a trouble if it fails so often.
MANY_FAILURES = 3
# Failures of a tool that are further apart have nothing to do with each other.
NEAR_CALLS = 20
EDIT_NAME = "edit of "
TOOL_BROKEN = "tool: "
MISSING_PAGE = f"{TOOL_BROKEN}page"
SERIES = "commands"
# A request in which conflicts are to be expected: DESIGN calls only an unexpected failure a trouble.
_CONFLICT_EXPECTED = re.compile(
    r"\b(?:conflict\w*|rebas\w*|merg(?:e|es|ing)|cherry-pick\w*|sync\w*|backport\w*|port\w*|upstream|up[ -]to[ -]date|restack\w*"
    r"|(?:update|pull|catch up)\b[^.\n]{0,40}\b(?:branch|main|master|develop|trunk))\b",
    re.IGNORECASE,
)
_CONFLICT = re.compile(r"CONFLICT|[Mm]erge conflict|could not apply|[Aa]utomatic merge failed|needs merge|unmerged")
# Commands whose failure matters even if it happens once: their work is wanted, not only their output.
_IMPORTANT = re.compile(
    r"(?:git (?:clone|commit|push|merge|rebase|cherry-pick|pull|am|apply|worktree|revert|submodule|stash)"
    r"|(?:gh|glab|tea) (?:pr|mr|release|workflow|repo)"
    r"|docker (?:build|compose|push|buildx)|docker-compose up|podman (?:build|compose)"
    r"|(?:npm|pnpm|yarn|bun|pip|pip3|uv|poetry|pdm|bundle|cargo|go|gem|composer|mix|brew|apt|apt-get|conda|mise|asdf) "
    r"(?:install|i|ci|add|get|sync|update|upgrade|publish|deps\.get|mod|lock|push)"
    r"|(?:flutter|dart) pub"
    r"|terraform (?:apply|plan|init)|kubectl (?:apply|rollout)|helm (?:install|upgrade)|alembic \w+|prisma (?:migrate|db|generate)"
    r"|(?:rails|rake) db:\w+|mix ecto\.\w+"
    r"|(?:fly|flyctl|vercel|netlify|wrangler|heroku|railway|serverless|sls|cdk|pulumi) \w+|make \w+|just \w+|mise run)\b"
)
# What stands in the way of a command, whichever it is: its work is wanted as well.
_OBSTACLE = re.compile(
    r"(?i)\bECONNREFUSED\b|connection (?:refused|reset|timed out)|could not connect|cannot connect to|\bETIMEDOUT\b|timed? ?out\b"
    r"|\b(?:401|403|429)\b[^\n]{0,20}(?:unauthorized|forbidden|too many|client error)|\bunauthorized\b|authentication (?:failed|required)"
    r"|rate.?limit|quota exceeded|\bEADDRINUSE\b|address already in use|port \d+ is (?:already )?(?:in use|allocated)"
    r"|\bERESOLVE\b|version solving failed|could not find a version|no matching (?:version|distribution)|dependency conflict"
    r"|unable to resolve dependency|index\.lock|heap out of memory|out of memory|\bOOM\b|failed to sign|gpg failed|couldn['’]t sign"
    r"|certificate (?:verify|has expired|is not)|permission denied|\bEACCES\b|device or resource busy|database is locked"
)
_CHANGING_TOOL = re.compile(r"(?i)(?:^|[_-])(?:create|start|update|delete|deploy|send|merge|publish|apply|run|upload)(?:[_-]|$)")
_CI = re.compile(r"\b(?:gh pr checks|gh run (?:watch|view)|glab ci|glab pipeline)\b")
# A call that was not run because another one in the same message failed.
_CANCELLED = re.compile(r"(?i)sibling tool call errored|cancelled: parallel tool call")
_CI_FAILED = re.compile(r"\bfail|\berror|\bX\b|✗", re.IGNORECASE)
# What ends a command that stopped at a conflict.
_CONTINUED = frozenset(("git commit", "git push", "git merge", "git rebase", "git cherry-pick", "git pull"))
_IGNORED_HEADS = frozenset(
    ("cd", "echo", "export", "set", "source", ".", "true", "false", "test", "[", "sleep", "mkdir", "cat", "printf", "pwd", "which")
)


def find_command_problems(failures: Iterable[CallFailure], check_steps: set[int], session: SessionSteps) -> list[SessionProblem]:
    """The troubles among the failed calls; those at `check_steps` are failures of checks."""
    by_step = {call.step: call for call in session.calls}
    open_problems: dict[str, SessionProblem] = {}
    done: list[SessionProblem] = []
    for failure in failures:
        call = by_step.get(failure.step)
        if failure.step in check_steps or _CANCELLED.search(failure.cause):
            continue
        if call is not None and call.state in ("denied", "interrupted"):
            continue
        name = _name_problem(failure, call)
        if failure.expected and not (name == "ci" and _CI_FAILED.search(failure.cause)):
            continue
        problem = open_problems.get(name)
        if problem is not None:
            success = _find_success(name, problem.attempts[-1].step, failure.step, session)
            if success is not None and name not in ENVIRONMENTS and not _is_same_cause(problem, failure):
                problem.ended = success
                problem = None
        if problem is None:
            problem = open_problems[name] = SessionProblem(name)
            done.append(problem)
        problem.attempts.append(FailedStep(failure.step, failure.source, failure.what, failure.cause, failure.shown_by))
    for problem in done:
        if problem.ended is None:
            problem.ended = _find_success(problem.name, problem.attempts[-1].step, None, session)
    found = [problem for problem in done if _is_trouble_of_command(problem, session, by_step)]
    left = [attempt for problem in done if problem not in found for attempt in problem.attempts]
    return [*found, *_find_series(left, session, by_step)]


def _find_series(attempts: list[FailedStep], session: SessionSteps, by_step: dict[int, CallStep]) -> list[SessionProblem]:
    """Different commands that failed one after the other: each is only a try, together they are a trouble."""
    tried = [a for a in attempts if (call := by_step.get(a.step)) is not None and call.kind == "command" and not is_mistyped(a.cause)]
    series: list[list[FailedStep]] = []
    for attempt in sorted(tried, key=lambda attempt: attempt.step):
        if series and session.count_calls(series[-1][-1].step, attempt.step) <= CHEAP_CALLS:
            series[-1].append(attempt)
        else:
            series.append([attempt])
    problems = [SessionProblem(SERIES, attempts=each) for each in series if len(each) >= MANY_FAILURES]
    for problem in problems:
        problem.ended = _find_success(SERIES, problem.attempts[-1].step, None, session)
    return problems


_VARIABLE = re.compile(r"['\"`(/][^'\"`\s]{0,300}|\d+|[0-9a-f]{7,40}")


def _is_same_cause(problem: SessionProblem, failure: CallFailure) -> bool:
    """Whether the same thing goes wrong again, although the command worked in between: two lines that differ in names only."""
    last = problem.attempts[-1].cause
    return bool(failure.cause) and _VARIABLE.sub("", last) == _VARIABLE.sub("", failure.cause)


def _name_problem(failure: CallFailure, call: CallStep | None) -> str:
    if failure.signature == TURN_BROKEN:
        return TURN_BROKEN
    if (environment := find_environment(failure.cause)) and (call is None or call.kind in ("command", "other")):
        return environment
    if call is not None and call.kind == "edit":
        return f"{EDIT_NAME}{call.what}"
    if call is not None and call.kind == "read" and is_missing_page(failure.cause):
        return MISSING_PAGE
    if call is not None and call.kind in ("read", "search"):
        return f"{TOOL_BROKEN}{_VARIABLE.sub('', failure.cause)}"
    if call is None or call.kind != "command":
        return call.tool if call is not None else failure.signature
    if _CI.search(call.what) or failure.what == CI_FAILED:
        return "ci"
    if failure.what == SERVER_FAILED:
        return "server"
    heads = find_heads(call.what)
    suspect = failure.head if failure.head and failure.head.partition(" ")[0] not in _IGNORED_HEADS else ""
    return next((head for head in heads if _IMPORTANT.match(head)), suspect or (heads[-1] if heads else failure.signature))


@lru_cache(maxsize=1024)
def find_heads(command: str) -> tuple[str, ...]:
    """Program and first sub-command of every command in a shell line: `git push`, `npm run`."""
    heads: list[str] = []
    for simple in parse_script(command[:2000]):
        program = simple.program
        if not program or program in _IGNORED_HEADS:
            continue
        heads.append(name_command(program, simple.words))
    return tuple(dict.fromkeys(heads))


def _find_success(name: str, after: int, before: int | None, session: SessionSteps) -> int | None:
    """The step of the next call of the same command that worked."""
    if name in (TURN_BROKEN, SERIES) or name in ENVIRONMENTS:
        place = bisect_right(session.call_steps, after)
        later = (call.step for call in session.calls[place:] if call.kind == "command" and call.step not in session.failed)
        step = next((step for step in later), None)
        return step if step is not None and (before is None or step < before) else None
    if name.startswith(TOOL_BROKEN):
        tools = {call.tool for call in session.calls if call.step == after}
        place = bisect_right(session.call_steps, after)
        step = next((call.step for call in session.calls[place:] if call.tool in tools and call.state == "ok"), None)
        return step if step is not None and (before is None or step < before) else None
    if name.startswith(EDIT_NAME):
        steps = [edit.step for edit in session.edits if edit.step > after and edit.path.endswith(name[len(EDIT_NAME) :])]
        return next((step for step in steps if before is None or step < before), None)
    programs = ("gh", "glab") if name == "ci" else ("git",) if name in _CONTINUED else (name.partition(" ")[0],)
    for place in range(bisect_right(session.call_steps, after), len(session.calls)):
        call = session.calls[place]
        if before is not None and call.step >= before:
            return None
        if call.state != "ok" or call.kind not in ("command", "other") or call.step in session.failed:
            continue
        if call.kind == "command" and not any(program in call.what for program in programs):
            continue  # most calls need not be parsed
        heads = find_heads(call.what) if call.kind == "command" else (call.tool,)
        if name in heads or (name == "ci" and _CI.search(call.what) and "--log" not in call.what):
            return call.step
        if name in _CONTINUED and name != "git push" and not _CONTINUED.isdisjoint(heads):
            return call.step
    return None


_NOT_FOUND = re.compile(
    r"(?i)string to replace not found|string not found|no match(?:es)? found|could not find|failed to find|does not match|not unique"
    r"|found \d+ matches"
)
# Something else, such as a formatter, rewrites the file.
_CHANGED_MEANWHILE = re.compile(r"(?i)modified since (?:it was )?(?:last )?read|changed (?:on disk )?since")
_UNCOMMITTED = re.compile(
    r"(?i)you have (?:unstaged|uncommitted) changes|index contains uncommitted changes|local changes .{0,60}would be overwritten"
)
# The tool itself cannot work here.
_UNUSABLE = re.compile(r"(?i)\bsandbox\b|permission denied|read-only file system|\bEACCES\b|\bEROFS\b|operation not permitted")


def _is_trouble_of_edits(problem: SessionProblem, session: SessionSteps) -> bool:
    """An edit that failed more than once because the text was not found, and took several calls more; or that is not possible."""
    if any(_UNUSABLE.search(attempt.cause) for attempt in problem.attempts):
        return True
    wrong: list[FailedStep] = []
    for previous, attempt in zip((None, *problem.attempts), problem.attempts, strict=False):
        is_changed = _CHANGED_MEANWHILE.search(attempt.cause) is not None
        if is_changed and previous is not None and not session.count_calls(previous.step, attempt.step):
            continue  # several edits in one message meet the same change
        if is_changed or _NOT_FOUND.search(attempt.cause):
            wrong.append(attempt)
    if len(wrong) < 2:
        return False
    end = problem.ended if problem.ended is not None else wrong[-1].step
    return len(wrong) >= MANY_FAILURES or session.count_calls(wrong[0].step, end) > CHEAP_CALLS


def _is_trouble_of_tool(problem: SessionProblem, session: SessionSteps, kind: CallKind) -> bool:
    count = len(problem.attempts)
    if kind == "edit":
        return _is_trouble_of_edits(problem, session)
    if kind == "other":
        wanted = _CHANGING_TOOL.search(problem.name) is not None and (count > 1 or problem.ended is None)
        # The same error again after a repair.
        is_back = count > 1 and any(
            one.cause == other.cause and session.edits_between(one.step, other.step) for one, other in pairwise(problem.attempts)
        )
        return wanted or is_back or count >= MANY_FAILURES
    if problem.name == MISSING_PAGE:
        return count >= MANY_FAILURES  # once or twice is only a try at an address
    # A lookup is only tried again.
    return count > 1 and session.count_calls(problem.attempts[0].step, problem.attempts[-1].step) <= NEAR_CALLS


def _is_trouble_of_command(problem: SessionProblem, session: SessionSteps, by_step: dict[int, CallStep]) -> bool:
    first, last = problem.attempts[0], problem.attempts[-1]
    call = by_step.get(first.step)
    count = len(problem.attempts)
    if call is None or call.kind != "command":
        if problem.name == TURN_BROKEN:
            return count > 1  # once, and the request is only sent again
        return _is_trouble_of_tool(problem, session, "other" if call is None else call.kind)
    if problem.name in ENVIRONMENTS:
        is_repaired = problem.ended is not None and not session.count_calls(first.step, problem.ended)
        return count > 1 or (_was_run_again(first, call, session) and not (is_repaired and problem.name == "sandbox"))
    if problem.name == "server":
        place = bisect_right(session.prompt_steps, last.step)
        end = session.prompt_steps[place] if place < len(session.prompt_steps) else session.call_steps[-1] + 1
        return count > 1 or session.count_calls(first.step, end) > CHEAP_CALLS
    if problem.name == "ci":
        return _is_trouble_of_ci(problem, session)
    if _CONFLICT.search(first.cause) and any(
        _CONFLICT_EXPECTED.search(prompt.text[:2000]) for prompt in session.prompts_of_turn(first.step)
    ):
        return False  # resolving conflicts is what was asked for
    if count == 1 and problem.ended is not None and _UNCOMMITTED.search(first.cause):
        return False  # the changes are stashed or committed first
    if count < MANY_FAILURES and all(is_mistyped(attempt.cause) for attempt in problem.attempts):
        return False  # the agent goes on without the program, or writes the command again
    return _cost_effort(problem, session)


_SENT_TO_CI = re.compile(r"\bgit push\b|\b(?:gh run rerun|gh workflow run|gh pr create|glab ci (?:run|retry))\b")
_OTHER_BRANCH = re.compile(r"\bgit (?:checkout|switch) (?!--|-b )\w")
# Results that are shown at once are those of the run before. A step is a time in microseconds.
_CI_DELAY = 45_000_000


def _is_trouble_of_ci(problem: SessionProblem, session: SessionSteps) -> bool:
    """CI fails on the session's own work. What was red before is none until something was pushed or run again."""
    first = problem.attempts[0]
    if session.edited_before(first.step) and not was_asked_for("ci", first, session):
        return True
    problem.attempts = [attempt for attempt in problem.attempts if _was_sent_before(attempt, session)]
    return bool(problem.attempts)


def _was_sent_before(attempt: FailedStep, session: SessionSteps) -> bool:
    """Whether the session pushed, or ran CI again, and then saw it fail on the same branch."""
    place = bisect_left(session.call_steps, attempt.step)
    seen = session.calls[place].what if place < len(session.calls) else ""
    latest = attempt.step if " watch" in seen else attempt.step - _CI_DELAY
    for call in reversed(session.calls[:place]):
        if call.kind != "command" or call.state != "ok":
            continue
        if call.step < latest and _SENT_TO_CI.search(call.what):
            return True
        if _OTHER_BRANCH.search(call.what):
            return False
    return False


def _was_run_again(first: FailedStep, call: CallStep | None, session: SessionSteps) -> bool:
    """Whether the same command follows, as after a refusal of the sandbox."""
    heads = find_heads(call.what)[-1:] if call is not None else ()
    place = bisect_right(session.call_steps, first.step)
    return bool(heads) and any(heads[0] in find_heads(later.what) for later in session.calls[place : place + 4] if later.kind == "command")


# The server refuses the push; that the branch has no upstream yet is not meant.
_REJECTED = re.compile(r"\[(?:remote )?rejected\]|protected branch|push declined")
_FORCING = re.compile(
    r" (?:-f|--force(?:-with-lease)?|--no-verify|--no-gpg-sign|--legacy-peer-deps|--break-system-packages|--allow-[a-z-]+)\b|\bsudo "
)


def _was_forced(failed: int, ended: int, session: SessionSteps) -> bool:
    """Whether the attempt that worked overrode what refused the first one."""
    what = {call.step: call.what for call in session.calls if call.step in (failed, ended)}
    return _FORCING.search(what.get(ended, "")) is not None and _FORCING.search(what.get(failed, "")) is None


def _cost_effort(problem: SessionProblem, session: SessionSteps) -> bool:
    first, last, count = problem.attempts[0], problem.attempts[-1], len(problem.attempts)
    is_obstacle = any(_OBSTACLE.search(attempt.cause) for attempt in problem.attempts)
    if _IMPORTANT.match(problem.name) or is_obstacle:
        if count > 1 or problem.ended is None or session.count_calls(last.step, problem.ended) >= 1:
            return True
        return _REJECTED.search(first.cause) is not None or _was_forced(first.step, problem.ended, session)
    if count >= MANY_FAILURES:
        return True
    if problem.ended is None:
        # Once is perhaps only a try; twice for the same reason, and then given up, is not.
        return count > 1 and bool(first.cause) and _VARIABLE.sub("", first.cause) == _VARIABLE.sub("", last.cause)
    calls = session.count_calls(first.step, problem.ended)
    if count > 1:
        return calls > CHEAP_CALLS
    return calls > CHEAP_CALLS and bool(session.edits_between(first.step, problem.ended))
