"""Decide which failures of a session were troubles: unexpected, and not fixed at once.

Failures of one problem are one trouble. `check_problems` decides about tests, linters, type checks and builds,
`command_problems` about everything else.
"""

import re
from collections.abc import Iterable, Sequence

from fleetlore.views.outcomes.check_problems import CHECK_NAMES, group_checks, is_trouble_of_check
from fleetlore.views.outcomes.command_problems import find_command_problems
from fleetlore.views.outcomes.facts import Answer, CallFailure, CallStep, CheckRun, FileEdit, Prompt, Source, TroubleFact
from fleetlore.views.outcomes.failures import find_environment
from fleetlore.views.outcomes.problems import FailedStep, SessionProblem, SessionSteps

MAX_EVIDENCE = 5
MAX_WHAT = 200
_numbers = re.compile(r"\d+")


def find_troubles(
    calls: Sequence[CallStep],
    failures: Iterable[CallFailure] = (),
    checks: Iterable[CheckRun] = (),
    edits: Iterable[FileEdit] = (),
    prompts: Iterable[Prompt] = (),
    answers: Iterable[Answer] = (),
) -> tuple[TroubleFact, ...]:
    """The troubles of a session, in order. All arguments are in the order of their steps."""
    session = SessionSteps(calls, edits, prompts)
    session.answers = list(answers)
    failures = list(failures)
    session.failed = frozenset(failure.step for failure in failures)
    # A check that the machine or the network kept from running has the same problem as other commands.
    runs = [run for run in checks if run.result != "could_not_run" or not find_environment(run.reason)]
    problems = [problem for problem in group_checks(runs) if is_trouble_of_check(problem, session)]
    problems += find_command_problems(failures, {run.step for run in runs if run.result in ("fail", "could_not_run")}, session)
    problems.sort(key=lambda problem: problem.attempts[0].step)
    return tuple(_describe_problem(problem) for problem in problems)


def _describe_problem(problem: SessionProblem) -> TroubleFact:
    first = problem.attempts[0]
    # What is left of a problem that was not fixed is what its last attempt shows.
    shown = first if problem.ended is not None else problem.attempts[-1]
    what = _name_attempts(problem, shown)
    if shown.cause and shown.cause not in what:
        what = f"{what}: {shown.cause}"
    return TroubleFact(
        first.step,
        " ".join(what[: 2 * MAX_WHAT].split())[:MAX_WHAT],
        shown.cause,
        problem.ended is not None,
        _cite_attempts(problem.attempts),
        len(problem.attempts),
        problem.ended,
        problem.name,
        problem.ran,
    )


def _name_attempts(problem: SessionProblem, shown: FailedStep) -> str:
    """`Tests failed (3 failed)`, `Lint failed 2 times`, `Type check failed 3 times, last`: other causes are not called equal."""
    what = "CI failed" if problem.name == "ci" else shown.what
    same = sum(_numbers.sub("", attempt.cause) == _numbers.sub("", shown.cause) for attempt in problem.attempts)
    count = len(problem.attempts)
    if problem.name not in (*CHECK_NAMES, "ci"):
        return what if same == 1 else f"{what} {same} times"  # the other failures of a command may be quite different ones
    if count == 1:
        return what
    counts = {attempt.what for attempt in problem.attempts}
    name = what if len(counts) == 1 else what.partition(" (")[0]
    if same == count:
        return f"{name} {count} times"
    return f"{name} {count} times, {'first' if problem.ended is not None else 'last'}"


def _cite_attempts(attempts: list[FailedStep]) -> tuple[Source, ...]:
    """The first attempts and the last one; of a background command also the call whose result showed its failure."""
    cited = [source for attempt in attempts for source in (attempt.shown_by, attempt.source) if source is not None]
    return tuple(cited if len(cited) <= MAX_EVIDENCE else [*cited[: MAX_EVIDENCE - 1], cited[-1]])
