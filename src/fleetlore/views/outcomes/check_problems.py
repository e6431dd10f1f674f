"""Which failing tests, linters, type checks and builds were troubles.

Runs of the same check up to the one that passes are one problem. Not a trouble: what the person asked to fix, a test written
before its code, the state that the session found, and a failure that the next step or two repaired.
"""

import re
from collections.abc import Iterable

from fleetlore.views.outcomes.check_commands import find_checks, find_package
from fleetlore.views.outcomes.facts import CheckKind, CheckRun
from fleetlore.views.outcomes.failures import is_mistyped
from fleetlore.views.outcomes.problems import CHEAP_CALLS, FailedStep, SessionProblem, SessionSteps, was_asked_for

CHECK_NAMES: dict[CheckKind, str] = {"tests": "Tests", "lint": "Lint", "types": "Type check", "build": "Build"}
# A repair is not cheap if it was a rewrite of so many lines.
REWRITE_LINES = 20
# More findings of a linter than a session makes.
MANY_FINDINGS = 100
_TEST_FILE = re.compile(
    r"(?i)(?:^|/)(?:tests?|specs?|__tests__|e2e|integration_tests?|testdata|fixtures)/|[_.-](?:test|tests|spec|e2e|cy)\.\w+$|(?:^|/)test_\w+\.py$"
    r"|tests?\.(?:java|kt|cs|swift|php|scala|groovy|exs)$|(?:^|/)conftest\.py$"
)
_FORMAT = re.compile(
    r"(?i)would (?:be )?reformat|not formatted|needs? formatting|gofmt|goimports|prettier|rustfmt|code style issues"
    r"|^Diff in \S+:\d+|\bformat ━|dart format"
)
_NOTHING_TO_RUN = re.compile(
    r"(?i)no test files|no tests? (?:found|ran|to run|were (?:found|collected))|collected 0 items|no go files"
    r"|\b0 tests|\bin 0 files|^Linting: 0 file|nothing to (?:do|be done)|did not match any test files|^l?stat \S{1,300}: no such file"
)


def group_checks(runs: Iterable[CheckRun]) -> list[SessionProblem]:
    """Failing runs of each kind up to the run that passes; kinds that begin to fail in the same call are one problem."""
    done: list[SessionProblem] = []
    open_problems: dict[str, SessionProblem] = {}
    newest: dict[str, int] = {}
    for run in runs:
        previous = newest.get(run.kind, -1)
        newest[run.kind] = run.step
        current = open_problems.get(run.kind)
        if run.result == "unproven" and current is not None:
            current.ended = run.step  # for now: nothing says that it failed again
        if not _says_something(run):
            continue
        if current is not None and _leaves_open(current, run):
            continue
        if current is not None and (run.result == "pass" or _is_another(current, run)):
            _close_kind(run, current, open_problems)
            current = None
        if run.result == "pass":
            continue
        attempt = FailedStep(run.step, run.source, _name_run(run), run.reason, run.shown_by, run.command)
        if current is None:
            same_call = [problem for problem in open_problems.values() if problem.attempts[-1].step == run.step]
            current = same_call[0] if same_call else SessionProblem(run.kind, ran=run.result == "fail", previous=previous)
            current.package = current.package or find_package(run.command)
            if not same_call:
                done.append(current)
            open_problems[run.kind] = current
        if not current.attempts or current.attempts[-1].step != run.step:
            current.attempts.append(attempt)
    return [_end_elsewhere(problem) for problem in done]


def _end_elsewhere(problem: SessionProblem) -> SessionProblem:
    """The failed tests were not run again; that others passed is the best end there is."""
    problem.ended = problem.ended or problem.passed_elsewhere
    return problem


def _says_something(run: CheckRun) -> bool:
    if run.result == "could_not_run":
        return bool(run.reason) and not _NOTHING_TO_RUN.search(run.reason) and not is_mistyped(run.reason)
    return run.result == "pass" or (run.result == "fail" and not run.meant_to_fail)


def _close_kind(run: CheckRun, current: SessionProblem, open_problems: dict[str, SessionProblem]) -> None:
    """A problem ends when all kinds of check that began to fail with it pass."""
    del open_problems[run.kind]
    if current.ended is None and not any(problem is current for problem in open_problems.values()):
        current.ended = run.step


def _is_another(current: SessionProblem, run: CheckRun) -> bool:
    """Whether a failing run has another problem: the check could not be run before, or others passed and something else fails."""
    if current.passed_elsewhere is not None and run.reason != current.attempts[-1].cause:
        current.ended = current.passed_elsewhere
        return True
    current.ended = current.passed_elsewhere = None
    return run.result == "fail" and not current.ran


def _leaves_open(current: SessionProblem, run: CheckRun) -> bool:
    """Whether a run that passes does not end a problem. A failing run opens it again."""
    if run.result != "pass":
        return False
    if run.kind == "tests" and not run.whole and not _covers_attempt(run.command, current.attempts[-1]):
        current.passed_elsewhere = current.passed_elsewhere or run.step
        return True
    if any(check.lists_findings for check in find_checks(tuple(run.command.split()))) and not _FORMAT.search(current.attempts[-1].cause):
        return True  # a formatter says nothing about what a linter found
    if current.package and _other_package(current.package, run.command):
        return True  # the build of another package does not repair this one
    if _REPAIRING.search(run.command):
        current.ended = run.step  # for now: what is left after the automatic repair is the same problem
        return True
    return False


_SELECTING = re.compile(
    r"(?:^|\s)(?:-run|-k|-t|--grep|-g|--filter|--testPathPatterns?|--testNamePattern|-only-testing|--name)[ =](\S{1,300})|::(\S{1,300})"
)


def _covers_attempt(command: str, failed: FailedStep) -> bool:
    """Whether a run of selected tests has those that failed: the same files or packages, and no other choice of names."""
    names = [a or b for a, b in _SELECTING.findall(command)]
    if names and names != [a or b for a, b in _SELECTING.findall(failed.command)]:
        shown = f"{failed.cause} {failed.what}"
        return any(part in shown for name in names for part in name.strip("\"'^$()").split("|") if len(part) > 4)
    tried, wanted = (_list_paths(text) for text in (command, failed.command))
    return not tried or any(f"{one}/" in f"{other}/" or one in failed.cause for one in tried for other in wanted or {one})


def repeats_check(failed: CheckRun, passed: CheckRun) -> bool:
    """Whether a run that passed is a failed one again: the same runner, with the same or a wider selection."""
    if failed.command == passed.command:
        return True
    if _name_runners(_FIX_TASK.sub("", failed.command)).isdisjoint(_name_runners(passed.command)) or find_package(passed.command) not in (
        "",
        find_package(failed.command),
    ):
        return False
    if passed.whole or failed.whole:
        return passed.whole
    failed_names, passed_names = (_SELECTING.findall(run.command) for run in (failed, passed))
    if passed_names and failed_names != passed_names:
        return False
    wanted, tried = (_list_paths(run.command) for run in (failed, passed))
    return all(any(f"{path}/".startswith(f"{one}/") for one in tried) for path in wanted) and bool(wanted or not tried)


def _name_runners(command: str) -> set[str]:
    return {check.name for check in find_checks(tuple(command.split()))} or {command}


def _list_paths(command: str) -> set[str]:
    """The files and folders that a command names."""
    return {
        word.removesuffix("...").strip("\"'").rstrip("/")
        for word in command.split()[1:]
        if "/" in word or word.endswith((".py", ".ts", ".js", ".rb"))
    }


_FIX_TASK = re.compile(r"(?<=\w)[:_-]fix\b| --fix\b")
_REPAIRING = re.compile(r"[:_ -]fix\b|--fix\b|--write\b|--apply\b|--autocorrect\b|\bfix:")


def _other_package(package: str, command: str) -> bool:
    other = find_package(command)
    return bool(other) and other != package


def _name_run(run: CheckRun) -> str:
    name = f"{CHECK_NAMES[run.kind]} {'failed' if run.result == 'fail' else 'could not run'}"
    return f"{name} ({run.counts})" if run.counts else name


def is_trouble_of_check(problem: SessionProblem, session: SessionSteps) -> bool:
    """Whether the failing runs were unexpected and cost steps. Takes out the attempts that were not."""
    first = problem.attempts[0]
    if problem.name == "tests" and _is_test_first(first, problem.previous, session):
        del problem.attempts[0]
        if not problem.attempts:
            return False
        first = problem.attempts[0]
    if was_asked_for(problem.name, first, session):
        return False
    is_refusal = first.command.startswith("git ")  # a hook kept git from its work, whoever caused it
    if problem.ran and not is_refusal and not session.edited_before(first.step, covered=True):
        return False  # the state that the session found, not one that it caused
    problem.attempts = _join_looks(problem.attempts, session)
    problem.attempts = [attempt for attempt in problem.attempts if not _FORMAT.search(attempt.cause)]  # the formatter repairs it
    if not problem.attempts or (problem.ended is None and not is_refusal and _is_found_state(problem, session)):
        return False
    first = problem.attempts[0]
    repeated = len(problem.attempts) > 1
    if problem.ended is None and problem.name == "tests" and _was_planned(first, session):
        return False
    if (problem.ended is None or problem.passed_elsewhere is not None) and not is_refusal and _was_there_before(problem, session):
        return False
    if problem.ended is None:
        return repeated or problem.name != "tests" or not _is_of_no_test(problem)
    lines = sum(max(edit.added, edit.removed) for edit in session.edits_between(first.step, problem.ended))
    calls = session.count_calls(first.step, problem.ended)
    if not repeated and problem.name == "tests" and calls <= 2 * CHEAP_CALLS and _is_expectation(problem, session):
        return False
    return repeated or calls > CHEAP_CALLS or (calls == CHEAP_CALLS and not problem.ran) or lines >= REWRITE_LINES


_NO_CAUSE = re.compile(r"(?i)exited with (?:exit )?code|^exit (?:code|status)|command failed|task failed|^✖|errors were emitted")


def _join_looks(attempts: list[FailedStep], session: SessionSteps) -> list[FailedStep]:
    """A check that is run again without a change only shows more of the same failure; the run that names the cause is kept."""
    joined: list[FailedStep] = []
    for attempt in attempts:
        last = joined[-1] if joined else None
        if last is None or session.count_changes(last.step, attempt.step):
            joined.append(attempt)
        elif not last.cause or _NO_CAUSE.search(last.cause):
            joined[-1] = attempt
    return joined


def _is_expectation(problem: SessionProblem, session: SessionSteps) -> bool:
    """Whether only tests were changed until the failed ones passed: they expected what the code did before."""
    assert problem.ended is not None
    edits = session.edits_between(problem.attempts[0].step, problem.ended)
    return bool(edits) and all(_TEST_FILE.search(edit.path) for edit in edits)


_PLANNED = re.compile(
    r"(?i)\bexpected (?:test )?fail(?:ure|s|ing)?\b|\b(?:expected|meant|supposed|intended) to fail\b"
    r"|\bfail(?:s|ed|ing)? (?:as|by) (?:expected|planned|intended|design)"
)


_NAMED_FILE = re.compile(r"(?P<path>[\w./@$\[\]+-]{1,300}\.\w{1,8})(?::\d+|\(\d+)")


def _is_found_state(problem: SessionProblem, session: SessionSteps) -> bool:
    """Whether a type checker complains about a file that the session never changed, and nothing was done about it."""
    if problem.name in ("lint", "types") and all(_count_findings(attempt.what) >= MANY_FINDINGS for attempt in problem.attempts):
        return True  # nobody makes so many in a session
    if problem.name != "types":
        return False
    named = _NAMED_FILE.search(problem.attempts[0].cause)
    if named is None:
        return False
    name = named["path"].rpartition("/")[2]
    return not any(edit.path.replace("\\", "/").rpartition("/")[2] == name for edit in session.edits)


_FINDINGS = re.compile(r"\b(\d{1,7}) (?:problems?|issues?|errors?|warnings?|findings?)\b")


def _count_findings(what: str) -> int:
    found = _FINDINGS.search(what)
    return int(found[1]) if found else 0


def _was_planned(first: FailedStep, session: SessionSteps) -> bool:
    """Whether the answer after a failing run says that the failure is meant."""
    answer = next((answer for answer in session.answers if answer.step > first.step), None)
    return answer is not None and _PLANNED.search(answer.text) is not None


# Only to call a failure "pre-existing" shows nothing.
_THERE_BEFORE = re.compile(
    r"(?i)\b(?:confirm\w*|verif\w*|checked|reproduc\w*)\b[^.\n]{0,80}"
    r"\b(?:pre-?existing|unrelated|before|without|on (?:main|master|the base))\b"
    r"|\b(?:also|already|same)\b[^.\n]{0,40}\bfail\w*\b[^.\n]{0,40}\b(?:on|without|before)\b"
)


def _was_there_before(problem: SessionProblem, session: SessionSteps) -> bool:
    """Whether the agent says after the last failing run that it has seen the failure without its changes, and leaves it."""
    last = problem.attempts[-1].step
    prompt = next((step for step in session.prompt_steps if step > last), None)
    said = (answer.text for answer in session.answers if answer.step > last and (prompt is None or answer.step < prompt))
    return any(_THERE_BEFORE.search(text) for text in said)


def _is_of_no_test(problem: SessionProblem) -> bool:
    """A run that the runner calls failed although no test failed: something around the tests is missing."""
    what = problem.attempts[0].what.partition("(")[2]
    return bool(what) and not re.search(r"fail|error|problem|issue|warning", what)


def _is_test_first(first: FailedStep, previous: int, session: SessionSteps) -> bool:
    """Whether only tests were written before the failing run, and the code follows."""
    prompt = session.prompt_before(first.step)
    start = max(previous, prompt.step if prompt else -1)
    before = session.edits_between(start, first.step)
    if not before or not all(_TEST_FILE.search(edit.path) for edit in before):
        return False
    after = session.edit_after(first.step)
    return after is not None and _TEST_FILE.search(after.path) is None
