"""Failures of the same thing, and the steps of the session around them: what troubles are decided from."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from fleetlore.views.outcomes.facts import Answer, CallStep, FileEdit, Prompt, Source

# What failed once and works again after so many calls was repaired at once.
CHEAP_CALLS = 2
_BOOKKEEPING = re.compile(r"(?i)todo|task(?:create|update|list|get)|update_plan|think|notify|report_intent")


# Commands between two runs of a check after which the second one is a new attempt.
_CHANGING = re.compile(
    r"\b(?:install|add|sync|update|upgrade|generate|migrate|fix|--fix|--write|fmt|format|checkout|restore|stash|reset|merge|rebase|pull"
    r"|cp|mv|rm|mkdir|sed -i|perl -|tee|patch|apply|export|chmod|touch|ln|kill|docker|compose|start|restart|clean)\b"
    r"|(?<![\d&>])>{1,2}\s*[^&\s]"
)


class FailedStep(Struct, frozen=True):
    """One failure."""

    step: int
    source: Source
    what: str
    cause: str
    shown_by: Source | None = None
    command: str = ""  # of a check


class SessionProblem(Struct):
    """Failures of the same thing, and the step that ended them."""

    name: str  # a kind of check, "ci", or the head of a command
    attempts: list[FailedStep] = field(default_factory=list)
    ended: int | None = None
    passed_elsewhere: int | None = None  # other tests passed since: not the end, if the failed ones pass later
    ran: bool = True  # False: the check could not be run at all
    previous: int = -1  # the step of the run of the same check before
    package: str = ""  # the package that the check was run for, if the command names one


class SessionSteps:
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

    def count_changes(self, after: int, before: int) -> int:
        """Changes of files, and commands that may have changed something: an installation, a move."""
        low, high = bisect_right(self.call_steps, after), bisect_left(self.call_steps, before)
        changing = sum(1 for call in self.calls[low:high] if call.kind == "command" and call.state == "ok" and _CHANGING.search(call.what))
        return len(self.edits_between(after, before)) + changing

    def edits_between(self, after: int, before: int) -> list[FileEdit]:
        """Changes of files between two steps."""
        return self.edits[bisect_right(self.edit_steps, after) : bisect_left(self.edit_steps, before)]

    def edited_before(self, step: int, *, covered: bool = False) -> bool:
        """Whether files were changed before a step; `covered`: files that a check is about."""
        return any(edit.covered or not covered for edit in self.edits[: bisect_left(self.edit_steps, step)])

    def edit_after(self, step: int) -> FileEdit | None:
        """The next change of a file."""
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


# --- what the person asked for ---

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
# Words of a request to fix; a report such as "the build fails" about the agent's own work is none.
_REQUEST = re.compile(rf"\b(?:{_FIX})\b", re.IGNORECASE)


def was_asked_for(name: str, first: FailedStep, session: SessionSteps) -> bool:
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
