"""Decide which failures of a session were troubles: unexpected, and not fixed at once.

Failures of one problem are one trouble: runs of the same check up to the run that passes, and attempts at the same
command up to the one that works. Not a trouble: what the person asked to fix, a test written before its code, a lookup,
a refusal, an interruption, and a failure that the next step or two repaired.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct, field

from fleetlore.views.outcomes.facts import Answer, CallFailure, CallStep, CheckKind, CheckRun, FileEdit, Prompt, Source, TroubleFact
from fleetlore.views.outcomes.failures import CI_FAILED, ENVIRONMENTS, SERVER_FAILED, TURN_BROKEN, find_environment, name_command
from fleetlore.views.outcomes.shell import parse_script

MAX_EVIDENCE = 5
MAX_WHAT = 200
# What failed once and works again after so many calls was repaired at once ...
CHEAP_CALLS = 2
# ... unless the repair was a rewrite of so many lines.
REWRITE_LINES = 20
# A command that is not important in itself is a trouble if it fails so often.
MANY_FAILURES = 3
EDIT_NAME = "edit of "
TOOL_BROKEN = "tool: "

_CHECK_NAMES: dict[CheckKind, str] = {"tests": "Tests", "lint": "Lint", "types": "Type check", "build": "Build"}
_FIX = (
    r"fix(?:ing)?|address|resolve|repair|debug|investigate|solve|clean\s+up|sort\s+out|look\s+(?:at|into)|deal\s+with"
    r"|why\s+(?:do|does|did|are|is)"
)
_BETWEEN = (
    r"(?:\s+`?(?:the|all|any|these|those|our|my|this|that|its|some|failing|failed|broken|remaining|current|new|red|flaky|unit|integration"
    r"|e2e|issues?|errors?|failures?|problems?|warnings?|complaints?|in|of|from|by|with|on|for|mise|make|npm|yarn|pnpm|run|go|cargo"
    r"|github|gh|pr))"
)
# What the person asks to fix: "fix the failing tests", "address the issues in `make lint`", "the build is broken".
_ASKED: dict[str, re.Pattern[str]] = {
    name: re.compile(
        rf"\b(?:{_FIX}){_BETWEEN}{{0,6}}\s+`?(?:{words})\b"
        rf"|\b(?:{words})`?(?:\s+(?:is|are|was|were|run|runs|job|step|suite|still|now|keeps?|currently)){{0,3}}"
        rf"\s+(?:fail(?:s|ed|ing|ures?)?|broken|red|errors?|issues?|warnings?)\b",
        re.IGNORECASE,
    )
    for name, words in {
        "tests": r"tests?|specs?|suite|ci|build|pipeline",
        "lint": r"lint\w*|golangci\S*|eslint|ruff|clippy|rubocop|format\w*|ci|checks?|warnings?",
        "types": r"types?|typing|typecheck|mypy|pyright|tsc|typescript|ci|errors?",
        "build": r"build\w*|compil\w*|ci|pipeline",
        "ci": r"ci|checks?|pipeline|actions?|workflow|build\w*|tests?",
    }.items()
}
# A request in which conflicts are to be expected: DESIGN calls only an unexpected failure a trouble.
_CONFLICT_EXPECTED = re.compile(
    r"\b(?:conflict\w*|rebas\w*|merg(?:e|es|ing)|cherry-pick\w*|sync\w*|backport\w*|port\w*|upstream|up[ -]to[ -]date|restack\w*"
    r"|(?:update|pull|catch up)\b[^.\n]{0,40}\b(?:branch|main|master|develop|trunk))\b",
    re.IGNORECASE,
)
# Words of a request to fix; a report such as "the build fails" about the agent's own work is none.
_REQUEST = re.compile(rf"\b(?:{_FIX})\b", re.IGNORECASE)
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
    r"|\b0 tests|nothing to (?:do|be done)|did not match any test files"
)
_CONFLICT = re.compile(r"CONFLICT|[Mm]erge conflict|could not apply|[Aa]utomatic merge failed|needs merge|unmerged")
# Commands whose failure matters even if it happens once: their work is wanted, not only their output.
_IMPORTANT = re.compile(
    r"(?:git (?:clone|commit|push|merge|rebase|cherry-pick|pull|am|apply|worktree|revert|submodule|stash)"
    r"|(?:gh|glab|tea) (?:pr|mr|release|workflow|repo)"
    r"|docker (?:build|compose|push|buildx)|docker-compose up|podman (?:build|compose)"
    r"|(?:npm|pnpm|yarn|bun|pip|pip3|uv|poetry|pdm|bundle|cargo|go|gem|composer|mix|brew|apt|apt-get|conda|mise|asdf) "
    r"(?:install|i|ci|add|get|sync|update|upgrade|publish|deps\.get|mod|lock|push)"
    r"|terraform (?:apply|plan|init)|kubectl (?:apply|rollout)|helm (?:install|upgrade)|alembic \w+|prisma (?:migrate|db|generate)"
    r"|(?:rails|rake) db:\w+|mix ecto\.\w+"
    r"|(?:fly|flyctl|vercel|netlify|wrangler|heroku|railway|serverless|sls|cdk|pulumi) \w+|make \w+|just \w+|mise run)\b"
)
_CHANGING_TOOL = re.compile(
    r"(?i)(?:^|[_-])(?:create|start|update|delete|deploy|send|merge|publish|apply|run|stop|restart|upload)(?:[_-]|$)"
)
_CI = re.compile(r"\b(?:gh pr checks|gh run (?:watch|view)|glab ci|glab pipeline)\b")
# A call that was not run because another one in the same message failed.
_CANCELLED = re.compile(r"(?i)sibling tool call errored|cancelled: parallel tool call")
_CI_FAILED = re.compile(r"\bfail|\berror|\bX\b|✗", re.IGNORECASE)
# What ends a command that stopped at a conflict.
_CONTINUED = frozenset(("git commit", "git push", "git merge", "git rebase", "git cherry-pick", "git pull"))
_IGNORED_HEADS = frozenset(
    ("cd", "echo", "export", "set", "source", ".", "true", "false", "test", "[", "sleep", "mkdir", "cat", "printf", "pwd", "which")
)
_BOOKKEEPING = re.compile(r"(?i)todo|task(?:create|update|list|get)|update_plan|think|notify|report_intent")


class _Attempt(Struct, frozen=True):
    step: int
    source: Source
    what: str
    cause: str
    shown_by: Source | None = None


class _Problem(Struct):
    """Failures of the same thing, and the step that ended them."""

    name: str  # a kind of check, "ci", or the head of a command
    attempts: list[_Attempt] = field(default_factory=list)
    ended: int | None = None
    ran: bool = True  # False: the check could not be run at all
    previous: int = -1  # the step of the run of the same check before
    package: str = ""  # the package that the check was run for, if the command names one


class _Session:
    """The session's facts, with indexes by step."""

    def __init__(self, calls: Sequence[CallStep], edits: Iterable[FileEdit], prompts: Iterable[Prompt]) -> None:
        self.calls = calls
        self.edits = list(edits)
        self.prompts = list(prompts)
        self.call_steps = [call.step for call in calls]
        self.edit_steps = [edit.step for edit in self.edits]
        self.prompt_steps = [prompt.step for prompt in self.prompts]
        self.answers: list[Answer] = []
        self.failed: frozenset[int] = frozenset()  # steps of calls that failed, whatever their exit code

    def count_calls(self, after: int, before: int) -> int:
        """Calls between two steps that did any work; a word of the person counts too."""
        low, high = bisect_right(self.call_steps, after), bisect_left(self.call_steps, before)
        calls = sum(1 for call in self.calls[low:high] if not (call.kind == "other" and _BOOKKEEPING.search(call.tool)))
        return calls + max(0, bisect_left(self.prompt_steps, before) - bisect_right(self.prompt_steps, after))

    def edits_between(self, after: int, before: int) -> list[FileEdit]:
        return self.edits[bisect_right(self.edit_steps, after) : bisect_left(self.edit_steps, before)]

    def edited_before(self, step: int, *, covered: bool = False) -> bool:
        """Whether files were changed before a step; `covered`: files that a check is about."""
        return any(edit.covered or not covered for edit in self.edits[: bisect_left(self.edit_steps, step)])

    def edit_after(self, step: int) -> FileEdit | None:
        place = bisect_right(self.edit_steps, step)
        return self.edits[place] if place < len(self.edits) else None

    def prompt_before(self, step: int) -> Prompt | None:
        """The newest request before a step; words that refuse a call are none."""
        for place in range(bisect_left(self.prompt_steps, step) - 1, -1, -1):
            if self.prompts[place].refuses is None:
                return self.prompts[place]
        return None

    def prompts_of_turn(self, step: int) -> list[Prompt]:
        """The newest request before a step, and the others of the same turn before it."""
        newest = self.prompt_before(step)
        return [] if newest is None else [prompt for prompt in self.prompts if prompt.turn == newest.turn and prompt.step < step]


def find_troubles(
    calls: Sequence[CallStep],
    failures: Iterable[CallFailure] = (),
    checks: Iterable[CheckRun] = (),
    edits: Iterable[FileEdit] = (),
    prompts: Iterable[Prompt] = (),
    answers: Iterable[Answer] = (),
) -> tuple[TroubleFact, ...]:
    """The troubles of a session, in order. All arguments are in the order of their steps."""
    session = _Session(calls, edits, prompts)
    session.answers = list(answers)
    failures = list(failures)
    session.failed = frozenset(failure.step for failure in failures)
    # A check that the machine or the network kept from running has the same problem as other commands.
    runs = [run for run in checks if run.result != "could_not_run" or not find_environment(run.reason)]
    problems = [problem for problem in _group_checks(runs) if _is_trouble_of_check(problem, session)]
    problems += _find_command_problems(failures, {run.step for run in runs}, session)
    problems.sort(key=lambda problem: problem.attempts[0].step)
    return tuple(_describe_problem(problem) for problem in problems)


def _describe_problem(problem: _Problem) -> TroubleFact:
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


def _name_attempts(problem: _Problem, shown: _Attempt) -> str:
    """`Tests failed (3 failed)`, `Lint failed 2 times`, `Type check failed 3 times, last`: other causes are not called equal."""
    what = "CI failed" if problem.name == "ci" else shown.what
    same = sum(_numbers.sub("", attempt.cause) == _numbers.sub("", shown.cause) for attempt in problem.attempts)
    count = len(problem.attempts)
    if problem.name not in (*_CHECK_NAMES, "ci"):
        return what if same == 1 else f"{what} {same} times"  # the other failures of a command may be quite different ones
    if count == 1:
        return what
    counts = {attempt.what for attempt in problem.attempts}
    name = what if len(counts) == 1 else what.partition(" (")[0]
    if same == count:
        return f"{name} {count} times"
    return f"{name} {count} times, {'first' if problem.ended is not None else 'last'}"


def _cite_attempts(attempts: list[_Attempt]) -> tuple[Source, ...]:
    """The first attempts and the last one; of a background command also the call whose result showed its failure."""
    cited = [source for attempt in attempts for source in (attempt.shown_by, attempt.source) if source is not None]
    return tuple(cited if len(cited) <= MAX_EVIDENCE else [*cited[: MAX_EVIDENCE - 1], cited[-1]])


# --- checks ---


def _group_checks(runs: Iterable[CheckRun]) -> list[_Problem]:
    """Failing runs of each kind up to the run that passes; kinds that begin to fail in the same call are one problem."""
    done: list[_Problem] = []
    open_problems: dict[str, _Problem] = {}
    newest: dict[str, int] = {}
    for run in runs:
        previous = newest.get(run.kind, -1)
        newest[run.kind] = run.step
        if (run.meant_to_fail and run.result == "fail") or run.result == "unproven":
            continue
        if run.result == "could_not_run" and (not run.reason or _NOTHING_TO_RUN.search(run.reason)):
            continue
        current = open_problems.get(run.kind)
        if current is not None and _leaves_open(current, run):
            continue
        if current is not None and (run.result == "pass" or (run.result == "fail" and not current.ran)):
            # It passes; or it can be run again, and what it finds is another problem.
            _close_kind(run, current, open_problems)
            current = None
        if run.result == "pass":
            continue
        attempt = _Attempt(run.step, run.source, _name_run(run), run.reason, run.shown_by)
        if current is None:
            same_call = [problem for problem in open_problems.values() if problem.attempts[-1].step == run.step]
            current = same_call[0] if same_call else _Problem(run.kind, ran=run.result == "fail", previous=previous)
            current.package = current.package or find_package(run.command)
            if not same_call:
                done.append(current)
            open_problems[run.kind] = current
        if not current.attempts or current.attempts[-1].step != run.step:
            current.attempts.append(attempt)
    return done


def _close_kind(run: CheckRun, current: _Problem, open_problems: dict[str, _Problem]) -> None:
    """A problem ends when all kinds of check that began to fail with it pass."""
    del open_problems[run.kind]
    if current.ended is None and not any(problem is current for problem in open_problems.values()):
        current.ended = run.step


def _leaves_open(current: _Problem, run: CheckRun) -> bool:
    """Whether a run that passes does not end a problem. A failing run opens it again."""
    if run.result != "pass":
        current.ended = None
        return False
    if current.package and _other_package(current.package, run.command):
        return True  # the build of another package does not repair this one
    if _REPAIRING.search(run.command):
        current.ended = run.step  # for now: what is left after the automatic repair is the same problem
        return True
    return False


_REPAIRING = re.compile(r"[:_ -]fix\b|--fix\b|--write\b|--apply\b|--autocorrect\b|\bfix:")
_PACKAGE = re.compile(r" (?:--package-path|--manifest-path|--filter|-F|--package|--prefix|--cwd|-C|-pl|--workspace)[ =](\S{1,200})")


def find_package(command: str) -> str:
    """The package of a monorepo that a command names by an option; "" if none."""
    found = _PACKAGE.search(command[:400])
    return found[1] if found else ""


def _other_package(package: str, command: str) -> bool:
    other = find_package(command)
    return bool(other) and other != package


def _name_run(run: CheckRun) -> str:
    name = f"{_CHECK_NAMES[run.kind]} {'failed' if run.result == 'fail' else 'could not run'}"
    return f"{name} ({run.counts})" if run.counts else name


def _is_trouble_of_check(problem: _Problem, session: _Session) -> bool:
    first = problem.attempts[0]
    if problem.name == "tests" and _is_test_first(first, problem.previous, session):
        del problem.attempts[0]
        if not problem.attempts:
            return False
        first = problem.attempts[0]
    if _was_asked_for(problem.name, first, session):
        return False
    if problem.ran and not session.edited_before(first.step, covered=True):
        return False  # the state that the session found, not one that it caused
    problem.attempts = [attempt for attempt in problem.attempts if not _FORMAT.search(attempt.cause)]  # the formatter repairs it
    if not problem.attempts or (problem.ended is None and _is_found_state(problem, session)):
        return False
    first = problem.attempts[0]
    repeated = len(problem.attempts) > 1
    if problem.ended is None and problem.name == "tests" and _was_planned(first, session):
        return False
    if problem.ended is None:
        return repeated or problem.name != "tests" or not _is_of_no_test(problem)
    lines = sum(max(edit.added, edit.removed) for edit in session.edits_between(first.step, problem.ended))
    calls = session.count_calls(first.step, problem.ended)
    return repeated or calls > CHEAP_CALLS or (calls == CHEAP_CALLS and not problem.ran) or lines >= REWRITE_LINES


_PLANNED = re.compile(
    r"(?i)\bexpected (?:test )?fail(?:ure|s|ing)?\b|\b(?:expected|meant|supposed|intended) to fail\b"
    r"|\bfail(?:s|ed|ing)? (?:as|by) (?:expected|planned|intended|design)"
)


_NAMED_FILE = re.compile(r"(?P<path>[\w./@$\[\]+-]{1,300}\.\w{1,8})(?::\d+|\(\d+)")


def _is_found_state(problem: _Problem, session: _Session) -> bool:
    """Whether a type checker complains about a file that the session never changed, and nothing was done about it."""
    if problem.name != "types":
        return False
    named = _NAMED_FILE.search(problem.attempts[0].cause)
    if named is None:
        return False
    name = named["path"].rpartition("/")[2]
    return not any(edit.path.replace("\\", "/").rpartition("/")[2] == name for edit in session.edits)


def _was_planned(first: _Attempt, session: _Session) -> bool:
    """Whether the answer after a failing run says that the failure is meant."""
    answer = next((answer for answer in session.answers if answer.step > first.step), None)
    return answer is not None and _PLANNED.search(answer.text) is not None


def _is_of_no_test(problem: _Problem) -> bool:
    """A run that the runner calls failed although no test failed: something around the tests is missing."""
    what = problem.attempts[0].what.partition("(")[2]
    return bool(what) and not re.search(r"fail|error|problem|issue|warning", what)


def _is_test_first(first: _Attempt, previous: int, session: _Session) -> bool:
    """Whether only tests were written before the failing run, and the code follows."""
    prompt = session.prompt_before(first.step)
    start = max(previous, prompt.step if prompt else -1)
    before = session.edits_between(start, first.step)
    if not before or not all(_TEST_FILE.search(edit.path) for edit in before):
        return False
    after = session.edit_after(first.step)
    return after is not None and _TEST_FILE.search(after.path) is None


def _was_asked_for(name: str, first: _Attempt, session: _Session) -> bool:
    """Whether the failure is what the person asked to fix."""
    prompt = session.prompt_before(first.step)
    if prompt is None:
        return False
    text = prompt.text[:400]
    pattern = _ASKED.get(name)
    if pattern is None or not pattern.search(text):
        return False
    own_work = session.edited_before(prompt.step)
    return not own_work or _REQUEST.search(text) is not None


# --- other commands ---


def _find_command_problems(failures: Iterable[CallFailure], check_steps: set[int], session: _Session) -> list[_Problem]:
    by_step = {call.step: call for call in session.calls}
    open_problems: dict[str, _Problem] = {}
    done: list[_Problem] = []
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
            problem = open_problems[name] = _Problem(name)
            done.append(problem)
        problem.attempts.append(_Attempt(failure.step, failure.source, failure.what, failure.cause, failure.shown_by))
    for problem in done:
        if problem.ended is None:
            problem.ended = _find_success(problem.name, problem.attempts[-1].step, None, session)
    return [problem for problem in done if _is_trouble_of_command(problem, session, by_step)]


_numbers = re.compile(r"\d+")
_VARIABLE = re.compile(r"['\"`(/][^'\"`\s]{0,300}|\d+|[0-9a-f]{7,40}")


def _is_same_cause(problem: _Problem, failure: CallFailure) -> bool:
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


def _find_success(name: str, after: int, before: int | None, session: _Session) -> int | None:
    """The step of the next call of the same command that worked."""
    if name == TURN_BROKEN or name in ENVIRONMENTS:
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
# The program is not installed, or the command was written wrongly.
_MISTYPED = re.compile(
    r"(?i)command not found|: not found$|could not be found in this|is not recognized as|unknown (?:flag|option|command|argument|shorthand)"
    r"|unrecognized (?:option|argument|subcommand|command)|invalid option|unexpected argument|^usage:"
)
_UNCOMMITTED = re.compile(
    r"(?i)you have (?:unstaged|uncommitted) changes|index contains uncommitted changes|local changes .{0,60}would be overwritten"
)
# The tool itself cannot work here.
_UNUSABLE = re.compile(r"(?i)\bsandbox\b|permission denied|read-only file system|\bEACCES\b|\bEROFS\b|operation not permitted")


def _is_trouble_of_edits(problem: _Problem, session: _Session) -> bool:
    """An edit that failed more than once because the text was not found, and took several calls more; or that is not possible."""
    if any(_UNUSABLE.search(attempt.cause) for attempt in problem.attempts):
        return True
    wrong = [attempt for attempt in problem.attempts if _NOT_FOUND.search(attempt.cause) or _CHANGED_MEANWHILE.search(attempt.cause)]
    if len(wrong) < 2:
        return False
    end = problem.ended if problem.ended is not None else wrong[-1].step
    return len(wrong) >= MANY_FAILURES or session.count_calls(wrong[0].step, end) > CHEAP_CALLS


def _is_trouble_of_command(problem: _Problem, session: _Session, by_step: dict[int, CallStep]) -> bool:
    first, last = problem.attempts[0], problem.attempts[-1]
    if problem.name == TURN_BROKEN:
        return True
    call = by_step.get(first.step)
    kind = call.kind if call is not None else "other"
    count = len(problem.attempts)
    if kind == "edit":
        return _is_trouble_of_edits(problem, session)
    if kind != "command":
        # An edit or a lookup is only tried again; a tool that changes something is wanted.
        wanted = _CHANGING_TOOL.search(problem.name) is not None and (count > 1 or problem.ended is None)
        return (kind == "other" and wanted) or count >= (MANY_FAILURES if kind == "other" else 2)
    if problem.name in ENVIRONMENTS:
        return count > 1 or _was_run_again(first, call, session)
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
    if count < MANY_FAILURES and all(_MISTYPED.search(attempt.cause) for attempt in problem.attempts):
        return False  # the agent goes on without the program, or writes the command again
    return _cost_effort(problem, session)


_SENT_TO_CI = re.compile(r"\bgit push\b|\b(?:gh run rerun|gh workflow run|gh pr create|glab ci (?:run|retry))\b")
_OTHER_BRANCH = re.compile(r"\bgit (?:checkout|switch) (?!--|-b )\w")
# Results that are shown at once are those of the run before. A step is a time in microseconds.
_CI_DELAY = 45_000_000


def _is_trouble_of_ci(problem: _Problem, session: _Session) -> bool:
    """CI fails on the session's own work. What was red before is none until something was pushed or run again."""
    first = problem.attempts[0]
    if session.edited_before(first.step) and not _was_asked_for("ci", first, session):
        return True
    problem.attempts = [attempt for attempt in problem.attempts if _was_sent_before(attempt, session)]
    return bool(problem.attempts)


def _was_sent_before(attempt: _Attempt, session: _Session) -> bool:
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


def _was_run_again(first: _Attempt, call: CallStep | None, session: _Session) -> bool:
    """Whether the same command follows, as after a refusal of the sandbox."""
    heads = find_heads(call.what)[-1:] if call is not None else ()
    place = bisect_right(session.call_steps, first.step)
    return bool(heads) and any(heads[0] in find_heads(later.what) for later in session.calls[place : place + 4] if later.kind == "command")


# The server refuses the push; that the branch has no upstream yet is not meant.
_REJECTED = re.compile(r"\[(?:remote )?rejected\]|protected branch|push declined")
_FORCING = re.compile(
    r" (?:-f|--force(?:-with-lease)?|--no-verify|--no-gpg-sign|--legacy-peer-deps|--break-system-packages|--allow-[a-z-]+)\b|\bsudo "
)


def _was_forced(failed: int, ended: int, session: _Session) -> bool:
    """Whether the attempt that worked overrode what refused the first one."""
    what = {call.step: call.what for call in session.calls if call.step in (failed, ended)}
    return _FORCING.search(what.get(ended, "")) is not None and _FORCING.search(what.get(failed, "")) is None


def _cost_effort(problem: _Problem, session: _Session) -> bool:
    first, last, count = problem.attempts[0], problem.attempts[-1], len(problem.attempts)
    if _IMPORTANT.match(problem.name):
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
