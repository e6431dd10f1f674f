"""The brief: what a period delivered, what is not pushed or committed, what was answered, what went wrong, what to check, who needs
you, and the bill.

`make_brief` decides what is said, from the outcome records of sessions and tasks; `brief_formats` writes it as text, Markdown,
HTML or for a chat. Every line names its sessions and its source events.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from msgspec import Struct, field

from fleetlore.story.paragraphs import MOST_EVIDENCE
from fleetlore.story.phrases import count_things, fill_phrase, join_words, load_phrases
from fleetlore.story.titles import (
    capitalise_text,
    clean_cause,
    describe_end,
    describe_trouble,
    find_error,
    find_part,
    format_usd,
    has_discarded,
    has_result,
    list_notable_troubles,
    name_agent,
    name_repo,
    name_result,
    name_topic,
    quote_inside,
    shorten_paths,
    shorten_text,
    title_delivery,
)
from fleetlore.views.outcomes.closing import (
    DISCARDED,
    HELPERS_UNSEEN,
    LAST_PLAN_REFUSED,
    PLAN_REFUSED,
    STOPPED,
    WROTE,
    list_work_files,
    name_files,
)
from fleetlore.views.outcomes.facts import RiskFlag, Source
from fleetlore.views.outcomes.record import CHECKS, JudgedClaim, Outcome, PullRequest, Trouble
from fleetlore.views.outcomes.words import is_order, is_whole_request
from fleetlore.views.task_outcomes import TaskOutcome, TaskResult

AT_ONCE = timedelta(seconds=5)
SOON = timedelta(minutes=30)
"""A session that begins so soon after another one in the same folder follows it."""
GIVEN_OFTEN = 3
"""A task that was given out so often in the period is worth a line."""

MAIN_REPO = 0.7
"""The repository of so many sessions need not be named."""

SMALL_DAY = 14
WORDS_OF_SMALL_DAY = 350
MOST_WORDS = 800
WORDS_PER_SESSION = 10
"""A brief may have so many more words for each session above a small day."""

PROVABLE = frozenset(["tests_pass", "build_or_lint_ok", "committed", "pushed", "pr_opened"])
"""Claims that a record can prove; others are mentioned only if they are contradicted."""
FLAG_ORDER = (
    "secret_exposed",
    "destructive_command",
    "permission_bypass",
    "force_push",
    "no_verify",
    "test_weakened",
    "check_disabled",
    "unpinned_download",
    "loop",
    "repeated_work",
)
SERIOUS = frozenset(FLAG_ORDER[:5])
"""Flags that are never grouped over several sessions."""
_CONTRADICTED, _FLAGS, _NOT_RUN, _UNPROVEN = 0, 1, 30, 60
_offer = re.compile(
    r"(?i)(?:(?:do you )?want me to|would you like|shall i|should i (?:go ahead|proceed|continue)|anything else|ready to)\b"
)
_good = (
    r"(?:(?:is|are|was|were|now|still|also|all|both|runs?|ran|came back|comes back|reports?) )*"
    r"(?:clean\w*|pass(?:es|ed|ing)?\b(?! rate)|green|succe\w+|ok\b|fine|without (?:\w+ )?(?:errors?|issues?|warnings?)"
    r"|(?:no|0|zero) (?:\w+ )?(?:errors?|issues?|warnings?|findings))"
)
_checks_claim = re.compile(
    r"(?i)\b(?:builds?|compiles?|compilation|lint(?:er|ing|s)?|type.?checks?|typescript|types|tsc|format(?:ting)?|clippy|ruff|eslint|mypy)\b"
    rf"[^.;:]{{0,25}}?\b{_good}"
    r"|\b(?:no|0|zero) (?:lint|type|build|compile|compilation|typescript|formatting)\w* (?:errors?|issues?|warnings?|findings)"
)
"""A claim about a build, linter or type check: "the line is built conditionally" is none."""
_no_claim = re.compile(r"\d/\d| : |[✅✓]|\|")
"""In a row of a table, or a share that passed."""
_tests_claim = re.compile(
    r"(?i)\b(?:all|every|\d+|the|full|unit|integration|new|existing|both|e2e)\b[^.;:]{0,30}\b(?:tests?|suites?|specs?)\b[^.;:]{0,25}?\b"
    r"(?:pass(?:es|ed|ing)?\b(?! rate)|green|succe\w+)|\btests? (?:now |all |still )?(?:pass(?:es|ed|ing)?|are green)\b"
)
"""A claim that tests pass."""
_condition = re.compile(r"(?i)\W*(?:once|until|unless|if|when)\b|.*\?\W*$")
"""Not a claim: a sentence that begins with a condition, or asks."""
_planned = re.compile(r"(?i)\b(?:should|would|will|must|once|until|if|when|before|after|ensure|verify that|to make|need|expect)\b")
"""A clause with a condition, a plan or a wish."""
_own_act = re.compile(
    r"(?i)\W*(?:done[.,:!]? |all )?(?:(?:i|we)(?:['’]ve| have)?"
    r"|(?:all |the |your )?(?:changes?|fix(?:es)?|work|branch|commits?|everything|it|pr|pull request))?"
    r"(?: (?:is|are|was|were|has|have|been|also|now|just|all|successfully))* ?(?:committed|pushed|opened|created|merged)"
    r"(?:\W*$|[.,;!]| (?:and|to|as|the|all|everything|in|with|on|it|this|them|both|a|an|pr|pull)\b)"
)
"""What an agent says of its own commit, push or pull request."""
_clause_end = re.compile(r"[,;.] (?:and )?| and (?=I\b|we\b)")
_shows_success = re.compile(r"(?i)(?:tests|lint|type check|build|commit|push|the turn)\b")
"""What shows by its result that it worked. Another command may still run when its call returns."""
_times = re.compile(r" (\d+) times\b")
_numbers = re.compile(r"\d+")
ENDS = frozenset(
    [
        "CI failed",
        "CI passed",
        "commit failed",
        "a later commit failed",
        "push failed",
        "a later push failed",
        "pull request failed",
        "git hooks skipped",
    ]
)
"""Parts of a headline that a line repeats."""


class Limits(NamedTuple):
    """How much a brief says. The first that fits into the words is taken."""

    title: int
    cause: int
    delivered: int
    in_progress: int
    troubles: int
    checks: int
    waiting: int
    named: int
    has_files: bool = False
    """Whether changed files are named beside a title that says what was done."""


LIMITS = (
    Limits(260, 150, 24, 14, 5, 7, 8, 3, has_files=True),
    Limits(140, 140, 24, 14, 5, 7, 8, 3),
    Limits(120, 130, 24, 14, 5, 7, 8, 3),
    Limits(100, 120, 24, 14, 5, 7, 7, 3),
    Limits(90, 110, 20, 12, 4, 6, 6, 3),
    Limits(80, 100, 18, 10, 4, 5, 5, 2),
    Limits(75, 90, 15, 8, 3, 4, 4, 2),
    Limits(70, 80, 12, 6, 3, 4, 3, 1),
    Limits(60, 70, 9, 4, 2, 3, 3, 1),
    Limits(50, 60, 7, 2, 1, 3, 2, 1),
)


class BriefLine(Struct, kw_only=True):
    """One line, with the sessions, tasks and events that it is about."""

    text: str
    sessions: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    evidence: list[Source] = field(default_factory=list)


class Bill(Struct, kw_only=True):
    """What the period cost and how much there was of it."""

    text: str
    sessions: int = 0
    usd: float | None = None
    tokens: int = 0
    commits: int = 0
    pull_requests: int = 0
    tasks_closed: int = 0


class Brief(Struct, kw_only=True):
    """The brief of a period."""

    title: str
    since: datetime | None
    until: datetime | None
    delivered: list[BriefLine]
    committed: list[BriefLine]
    """Commits of which no push is recorded."""
    in_progress: list[BriefLine]
    """Changes that are not committed, and sessions that still run."""
    answered: list[BriefLine]
    """Sessions without a change."""
    went_wrong: list[BriefLine]
    check_this: list[BriefLine]
    needs_you: list[BriefLine]
    bill: Bill


def make_brief(
    sessions: Iterable[Outcome], tasks: Iterable[TaskOutcome] = (), *, since: datetime | None, until: datetime | None, zone: tzinfo
) -> Brief:
    """The brief of what sessions did and what happened to tasks from `since` until `until`. The records are of this period only."""
    ordered = sorted(sessions, key=lambda one: (one.ended is None, one.ended, one.session))
    closed = sorted(tasks, key=lambda one: (one.at, one.task))
    most = min(MOST_WORDS, WORDS_OF_SMALL_DAY + WORDS_PER_SESSION * max(0, len(ordered) - SMALL_DAY))
    title = name_period(since, until, zone)
    brief = _write_brief(ordered, closed, title, since, until, LIMITS[0])
    for limits in LIMITS[1:]:
        if count_words(brief) <= most:
            break
        brief = _write_brief(ordered, closed, title, since, until, limits)
    return brief


def _write_brief(
    sessions: Sequence[Outcome], tasks: Sequence[TaskOutcome], title: str, since: datetime | None, until: datetime | None, limits: Limits
) -> Brief:
    writer = BriefWriter(sessions, tasks, until, limits)
    return Brief(
        title=title,
        since=since,
        until=until,
        delivered=[*writer.list_deliveries(), *writer.list_closed_tasks()],
        committed=list(writer.list_commits()),
        in_progress=list(writer.list_unfinished()),
        answered=list(writer.list_answers()),
        went_wrong=[*writer.list_troubles(), *writer.list_task_troubles()],
        check_this=writer.list_checks(),
        needs_you=list(writer.list_waiting()),
        bill=writer.sum_up(),
    )


def count_words(brief: Brief) -> int:
    """The words of all lines, with the headings, the ids of sessions and the note about them."""
    phrases = load_phrases("brief")
    sections = {name: getattr(brief, name) for name in phrases["headings"]}
    named = [*brief.went_wrong, *brief.check_this, *brief.needs_you]
    texts = [line.text for lines in sections.values() for line in lines] + [
        phrases["headings"][name] for name, lines in sections.items() if lines
    ]
    return sum(len(text.split()) for text in (*texts, brief.title, brief.bill.text, phrases["bill"]["ids"])) + len(named)


def bounds_of_day(day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """When a day begins and when the next one does; `OverflowError` at the ends of the calendar."""
    first, last = (datetime.combine(each, time(), zone).astimezone(UTC) for each in (day, day + timedelta(days=1)))
    return first, last


def name_period(since: datetime | None, until: datetime | None, zone: tzinfo, whole: str = "All sessions") -> str:
    """`Monday 2026-02-09`, or `2026-02-09 08:00 to 2026-02-10 08:00`; `whole` for a period without a beginning."""
    if since is None:
        return whole
    start = since.astimezone(zone)
    if until is None:
        return f"Since {start:%Y-%m-%d %H:%M}"
    end = until.astimezone(zone)
    if start.time() == end.time() == time() and end.date() - start.date() == timedelta(days=1):
        return f"{start:%A} {start:%Y-%m-%d}"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"


class BriefWriter:
    """Turns records into the lines of each section. People are named if there are several, and repositories beside the main one."""

    def __init__(self, sessions: Sequence[Outcome], tasks: Sequence[TaskOutcome], until: datetime | None, limits: Limits) -> None:
        self._sessions, self._tasks, self._until, self._limits = sessions, tasks, until, limits
        self._phrases = load_phrases("brief")
        self._has_people = len({self._name_person(one) for one in sessions}) > 1
        repos = Counter(name_repo(one) for one in sessions).most_common(1)
        self._main_repo = repos[0][0] if repos and repos[0][1] >= MAIN_REPO * len(sessions) else None
        self._landed = [one for one in sessions if one.delivered.commits or one.delivered.pull_requests or one.delivered.pushed]
        changed = [one for one in sessions if one not in self._landed and list_work_files(one.files) and not find_part(one, DISCARDED)]
        self._taken_over = [one for one in changed if any(takes_over(later, one) for later in self._landed)]
        self._changed = [one for one in changed if one not in self._taken_over]

    # --- delivered

    def list_deliveries(self) -> Iterator[BriefLine]:
        """What others can see: sessions with pull requests, then those whose commits were pushed, then work that a later one took over."""
        ranked = sorted(self._landed, key=lambda one: not one.delivered.pull_requests)
        yield from self._list_landed([one for one in ranked if self._is_published(one)])
        yield from self._name_some("taken_over", self._taken_over)

    def list_commits(self) -> Iterator[BriefLine]:
        """Sessions with commits of which no push is recorded."""
        yield from self._list_landed([one for one in self._landed if not self._is_published(one)])

    def _is_published(self, one: Outcome) -> bool:
        return bool(one.delivered.pull_requests) or one.delivered.pushed or self._is_pushed_later(one)

    def _list_landed(self, found: Sequence[Outcome]) -> Iterator[BriefLine]:
        yield from map(self._describe_landed, found[: self._limits.delivered])
        if rest := found[self._limits.delivered :]:
            commits = sum(len(one.delivered.commits) for one in rest)
            values = {"commits": count_things(commits, "commit"), "cost": format_usd(_sum_usd(rest))}
            yield self._line("delivered", "more", {"sessions": count_things(len(rest), "more session"), **values}, rest)

    def _describe_landed(self, one: Outcome, *, is_alone: bool = False) -> BriefLine:
        """A session with pull requests, commits or pushes; `is_alone`: no heading says whether they were pushed."""
        values = {
            "title": title_delivery(one, self._limits.title),
            "state": "; ".join(self._describe_state(one, is_alone=is_alone)),
            "checks": "; ".join(self._describe_checks(one)),
            "who": self._describe_who(one, with_cost=True),
        }
        requests = [source for request in one.delivered.pull_requests for source in request.evidence[-1:]]
        commits = [source for commit in one.delivered.commits for source in commit.evidence[-2:]]
        first = [source for commit in one.delivered.commits[:1] for source in commit.evidence[-2:]]
        pushed = one.evidence.get("delivered.pushed", [])[-1:]
        # What shows the push and the checks must not be crowded out by many commits.
        evidence = [*one.evidence.get("result", ())[:1], *requests[:1], *first, *pushed, *_cite_checks(one), *requests, *commits]
        if not has_result(one):
            values["title"] = self._fill("delivered", "for", {"title": quote_inside(name_topic(one, self._limits.title))})
        return self._line("delivered", "session", values, [one], evidence)

    def describe_session(self, one: Outcome, beside: str = "") -> BriefLine:
        """One line: what came of the session. `beside` is what else is on record about it."""
        if one in self._landed:
            return self._describe_landed(one, is_alone=True)
        if one in self._changed or one in self._taken_over:
            return self._describe_changed(one, is_alone=True)
        phrases = load_phrases("story")["headline"]
        answer = shorten_text(one.delivered.answer, self._limits.cause)
        refuted = any(claim.verdict == "contradicted" and claim.text in one.delivered.answer for claim in one.claims)
        values = {
            "title": name_topic(one, self._limits.title),
            "answer": quote_inside(answer).rstrip("."),
            "who": self._describe_who(one, with_cost=True),
            "question": one.question or "",
            "beside": beside,
        }
        if one.status == "failed":
            return self._describe_failed(one)
        if beside and not one.delivered.answer:
            phrase = "beside_running" if one.status == "running" else "beside"
        elif one.delivered.answer and one.status != "interrupted":
            phrase = "answered_refuted" if refuted else "answered"
        elif one.status == "running":
            phrase = "continued" if self._went_on(one) else "running"
        else:
            phrase = "interrupted" if one.status == "interrupted" else "nothing"
            if _is_plan_refused(one):
                phrase, values["end"] = "refused", describe_end(one)
        text = fill_phrase(phrases[phrase], values)
        if one.waiting_for == "permission":
            text += phrases["permission"]
        elif one.waiting_for == "person" and one.question and one.question not in one.delivered.answer:
            text += fill_phrase(phrases["question"], values)
        evidence = one.evidence.get("delivered.answer") or one.evidence.get("status") or one.evidence.get("asked", [])
        return BriefLine(text=text, sessions=[one.session], evidence=evidence[:MOST_EVIDENCE])

    def list_answers(self) -> Iterator[BriefLine]:
        """Finished sessions without a change: questions in one line, work that was ordered in another."""
        shown = [one for one in self._quiet() if self._has_finding(one)][-self._limits.waiting :]
        for one in reversed(shown):
            state = find_part(one, DISCARDED, HELPERS_UNSEEN, "no files edited", "nothing changed")
            end = "; ".join(part for part in (state, describe_end(one)) if part)
            values = {"title": name_result(one, self._limits.title), "state": end, "who": self._describe_who(one, with_cost=True)}
            yield self._line("delivered", "found", values, [one], one.evidence.get("result") or one.evidence.get("delivered.answer", []))
        quiet = [one for one in self._quiet() if one.status == "finished" and one.delivered.answer and not one.waiting_for]
        rest = [one for one in quiet if one not in shown and not find_part(one, HELPERS_UNSEEN)]
        ordered = [one for one in rest if is_order(one.asked)]
        yield from self._name_some("answered", [one for one in rest if one not in ordered], "questions", "question")
        yield from self._name_some("unchanged", ordered)
        refused = [one for one in self._quiet() if _is_plan_refused(one) and not self._has_finding(one)]
        yield from self._name_some("planned", [one for one in refused if self._is_followed(one)])

    def list_closed_tasks(self) -> Iterator[BriefLine]:
        """Tasks that were closed and pull requests that were merged; those closed without work only as numbers."""
        for result, phrase, key, thing in (
            ("merged", "tasks_merged", "requests", "pull request"),
            ("closed", "tasks_closed", "tasks", "task"),
            ("not_merged", "tasks_not_merged", "requests", "pull request"),
        ):
            found = self._tasks_with(result)
            if found:
                named = sorted(found, key=lambda one: (not one.title, not one.reason))[: self._limits.named]
                values = {key: count_things(len(found), thing), "titles": "; ".join(map(self._name_task, named))}
                ordered = [*named, *(one for one in found if one not in named)]
                yield self._task_line("delivered", phrase, {**values, "more": len(found) - len(named)}, ordered)
        for result, phrase in (("no_change", "tasks_unchanged"), ("dropped", "tasks_dropped")):
            if found := self._tasks_with(result):
                values = {"tasks": count_things(len(found), "task"), "reasons": self._name_reasons(found)}
                yield self._task_line("delivered", phrase, values, found)

    def _has_finding(self, one: Outcome) -> bool:
        """Whether a session that changed nothing has a result to tell; one that waits is told under "Needs you"."""
        is_told = has_result(one) and bool(one.evidence.get("result"))
        return is_told and one.status in ("finished", "interrupted") and not one.waiting_for

    def _name_reasons(self, tasks: Sequence[TaskOutcome]) -> str:
        """The reasons that were given several times: `14 × "artifact pollution"`."""
        reasons = Counter(quote_inside(shorten_text(one.reason.rstrip("."), LONGEST_REASON)) for one in tasks if one.reason)
        return ", ".join(f'{count} × "{reason}"' for reason, count in reasons.most_common(self._limits.named) if count > 1)

    def list_open_tasks(self) -> Iterator[BriefLine]:
        """Tasks that were given out or started and not closed, in one line."""
        found = [one for one in self._tasks_with("open") if one.agent]
        if found:
            named = found[-self._limits.named :]
            values = {"tasks": count_things(len(found), "task"), "titles": "; ".join(map(self._name_task, named))}
            yield self._task_line("delivered", "tasks_open", {**values, "more": len(found) - len(named)}, found)

    def _tasks_with(self, result: str) -> list[TaskOutcome]:
        return [one for one in self._tasks if one.result == result]

    def _name_task(self, one: TaskOutcome) -> str:
        values = {"title": shorten_text(one.title or one.task, self._limits.title), "agent": name_agent(one.agent)}
        return self._fill("delivered", "task", values)

    # --- in progress

    def list_unfinished(self) -> Iterator[BriefLine]:
        """Sessions with changes that are not committed; then those that still run."""
        shown, rest = self._changed[-self._limits.in_progress :], self._changed[: -self._limits.in_progress]
        yield from map(self._describe_changed, reversed(shown))
        if rest:
            values = {"sessions": count_things(len(rest), "more session"), "cost": format_usd(_sum_usd(rest))}
            yield self._line("delivered", "more_changed", values, rest)
        working = [one for one in self._quiet() if one.status == "running" and not self._went_on(one) and not one.waiting_for]
        yield from self._name_some("working", working)
        later = [one for one in self._quiet() if one.status == "running" and self._went_on(one) and not one.waiting_for]
        yield from self._name_some("continuing", later)

    def _describe_changed(self, one: Outcome, *, is_alone: bool = False) -> BriefLine:
        """A session with changes that are not committed; `is_alone`: no heading says so."""
        files = list_work_files(one.files)
        states = [*([self._phrases["delivered"]["not_committed"]] if is_alone else []), *self._describe_state(one)]
        is_named = has_result(one)
        title = name_result(one, self._limits.title)
        values = {
            "title": title if is_named else quote_inside(title) if one.title or is_whole_request(one.asked) else "",
            "files": name_files(files) if (self._limits.has_files and not one.result.startswith(WROTE)) or not is_named else "",
            "discarded": self._phrases["delivered"]["discarded"] if has_discarded(one) else "",
            "state": "; ".join(states),
            "checks": "; ".join(self._describe_checks(one)),
            "who": self._describe_who(one, with_cost=True),
        }
        said = one.evidence.get("result") or one.evidence.get("delivered.answer", [])
        said = [*said[:2], *(one.evidence.get("status", []) if one.status == "interrupted" else [])]
        evidence = [*said, *_cite_checks(one), *(source for file in files for source in file.evidence[-1:])]
        return self._line("delivered", "changed" if is_named else "changed_for", values, [one], evidence)

    def _quiet(self) -> Iterator[Outcome]:
        """Sessions that changed nothing."""
        changed = (*self._landed, *self._changed, *self._taken_over)
        return (one for one in self._sessions if one not in changed)

    def _name_some(self, phrase: str, found: Sequence[Outcome], key: str = "sessions", thing: str = "session") -> Iterator[BriefLine]:
        if not found:
            return
        named = found[-self._limits.named :]
        titles = [f'"{quote_inside(name_topic(one, self._limits.title - 10))}"' for one in reversed(named)]
        values = {key: count_things(len(found), thing), "titles": ", ".join(titles), "more": len(found) - len(named)}
        evidence = [source for one in named for source in one.evidence.get("delivered.answer", one.evidence.get("asked", ()))]
        if phrase == "taken_over":
            later = (other for one in named for other in self._landed if takes_over(other, one))
            evidence += [source for other in later for commit in other.delivered.commits[:1] for source in commit.evidence[-2:]]
        yield self._line("delivered", phrase, values, found, evidence)

    def _went_on(self, one: Outcome) -> bool:
        return self._until is not None and one.ended is not None and one.ended >= self._until

    def _describe_state(self, one: Outcome, *, is_alone: bool = False) -> Iterator[str]:
        phrases = self._phrases["delivered"]
        opened = find_part(one, "pull request", "draft pull request") if one.delivered.pull_requests else ""
        if opened:
            yield opened.removesuffix(" opened")
        for request in one.delivered.pull_requests if not opened else ():
            yield fill_phrase(phrases["pull_request" if request.number else "pull_request_url"], {"number": request.number})
        if not one.delivered.pull_requests and (one.delivered.commits or one.delivered.pushed):
            if one.delivered.pushed:
                yield phrases["pushed_before" if one.delivered.unpushed else "pushed"]
            elif self._is_pushed_later(one):
                yield phrases["pushed_later"]
            elif is_alone and not one.delivered.push_unknown:
                yield phrases["not_pushed"]
        if one in self._taken_over:
            yield phrases["committed_later"]
        if one.delivered.commits and (left := find_part(one, "later edits")):
            yield left
        if find_part(one, HELPERS_UNSEEN):
            yield HELPERS_UNSEEN
        if self._went_on(one):
            yield phrases["continued"]
        elif one.status in ("running", "interrupted", "failed"):
            end = describe_end(one)
            yield phrases["followed"] if end and self._is_followed(one) and _is_plan_refused(one) else end or phrases[one.status]

    def _is_pushed_later(self, one: Outcome) -> bool:
        """Whether another session pushed the same branch of the same folder after this one had ended."""
        return any(
            other.delivered.pushed and other.started is not None and one.ended is not None and other.started >= one.ended
            for other in self._landed
            if other is not one and one.branch and (other.folder, other.branch) == (one.folder, one.branch)
        )

    def _describe_checks(self, one: Outcome) -> Iterator[str]:
        for result, phrase in (("pass", "passed"), ("fail", "failed_checks")):
            names = [name_check(one, kind) for kind in CHECKS if getattr(one.checks, kind).result == result]
            if names:
                yield self._fill("delivered", phrase, {"names": join_words(names)})
        yield from (part for part in one.headline.split("; ") if part in ENDS)

    # --- went wrong

    def list_troubles(self) -> Iterator[BriefLine]:
        """What is not resolved, each in a line; then what took many attempts."""
        room = self._limits.troubles
        failed = [one for one in self._sessions if one.status == "failed"]
        yield from map(self._describe_failed, failed[-room:])
        room = max(0, room - len(failed))
        ended = [line for one in self._sessions for line in self._describe_failed_checks(one)]
        yield from ended[-room:] if room else ()
        room = max(0, room - len(ended))
        unresolved = group_troubles(
            (one, trouble)
            for one in self._sessions
            for trouble in list_notable_troubles(one)
            if not trouble.resolved and (not trouble.retried or trouble.what.startswith("CI "))  # the session got on without it
            if not _is_last_run(one, trouble)
        )
        yield from map(self._describe_troubles, unresolved[:room])
        fixed = group_troubles((one, trouble) for one in self._sessions for trouble in list_notable_troubles(one) if trouble.resolved)
        fixed.sort(key=lambda pairs: -sum(count_attempts(trouble) for _, trouble in pairs))
        costly = [pairs for pairs in fixed if sum(count_attempts(trouble) for _, trouble in pairs) >= GIVEN_OFTEN]
        shown = [pairs for pairs in fixed if name_end(*pairs[0]) != "settled"]  # of others nothing shows how they ended
        yield from map(self._describe_troubles, (costly or shown)[: min(2, room)])
        stopped = [one for one in self._quiet() if one.status == "interrupted" and not one.waiting_for]
        stopped = [one for one in stopped if not self._has_finding(one) and not _is_plan_refused(one)]
        yield from self._name_some("stopped", stopped)

    def _describe_failed_checks(self, one: Outcome) -> Iterator[BriefLine]:
        """The checks that failed in their last run after the last edit."""
        failed = [kind for kind in CHECKS if getattr(one.checks, kind).result == "fail"]
        if not failed:
            return
        checks = [getattr(one.checks, kind) for kind in failed]
        reason = next((cause for check in checks if (cause := clean_cause(check.reason, self._limits.cause))), "")
        names = capitalise_text(join_words([name_check(one, kind) for kind in failed]))
        values = {"names": names, "reason": reason, "title": name_topic(one, min(self._limits.title, 80)), "who": self._describe_who(one)}
        yield self._line("went_wrong", "checks_failed", values, [one], [source for check in checks for source in check.evidence])

    def _describe_failed(self, one: Outcome) -> BriefLine:
        values = {
            "title": name_topic(one, self._limits.title),
            "error": shorten_text(find_error(one), self._limits.cause),
            "who": self._describe_who(one),
        }
        return self._line("went_wrong", "session_failed", values, [one], one.evidence.get("status", ()))

    def _describe_troubles(self, pairs: Sequence[tuple[Outcome, Trouble]]) -> BriefLine:
        """One trouble, or like troubles of one or several sessions."""
        trouble = pairs[0][1]
        sessions = _unique_names(found.session for found, _ in pairs)
        people = _unique_names(name for found, _ in pairs if (name := self._describe_who(found)))
        values = {
            "what": capitalise_text(describe_trouble(trouble, self._limits.cause)),
            "end": self._phrases["went_wrong"][name_end(pairs[0][0], trouble)],
            "who": people[0] if len(people) == 1 else "",
            "such": len(pairs) if len(pairs) > 1 else "",
            "sessions": count_things(len(sessions), "session") if len(sessions) > 1 else "",
        }
        evidence = [source for _, found in pairs for source in (*found.evidence, *found.fixed_by, *found.retried)]
        return self._line("went_wrong", "trouble", values, [found for found, _ in pairs], evidence)

    def list_task_troubles(self) -> Iterator[BriefLine]:
        """Tasks that failed, were given out again and again, or were reopened."""
        often = sorted((one for one in self._tasks if one.given >= GIVEN_OFTEN), key=lambda one: -one.given)
        failed = [one for one in self._tasks if one.result == "failed" and one not in often]
        found = [*failed, *often]
        for one in found[: self._limits.troubles]:
            values = {
                "title": shorten_text(one.title or one.task, self._limits.title),
                "reason": shorten_text(one.reason, self._limits.cause),
                "agent": name_agent(one.agent),
                "agents": join_words([name for agent in one.agents[:4] if (name := name_agent(agent))]),
                "given": one.given,
                "said": quote_inside(shorten_text(one.reason.rstrip("."), self._limits.cause)),
                "end": self._phrases["task_ends"].get(one.result, ""),
            }
            phrase = "task_failed" if one in failed else "task_repeated"
            text = self._fill("went_wrong", phrase, values)
            yield BriefLine(text=text, tasks=[one.task], evidence=one.evidence)
        for one in [one for one in self._tasks if one.failed_check and one not in found][-self._limits.troubles :]:
            title = shorten_text(one.title or one.task, self._limits.title)
            values = {"check": shorten_text(one.failed_check, 60), "title": title, "agent": name_agent(one.agent)}
            yield self._task_line("went_wrong", "check_failed", values, [one])
        if reopened := self._tasks_with("reopened"):
            named = reopened[-self._limits.named :]
            values = {"tasks": count_things(len(reopened), "task"), "titles": "; ".join(map(self._name_task, named))}
            yield self._task_line("went_wrong", "tasks_reopened", {**values, "more": len(reopened) - len(named)}, reopened)

    # --- check this

    def list_checks(self) -> list[BriefLine]:
        """At most seven lines, the worst first: contradicted claims, risk flags, claims without proof."""
        lines: list[tuple[int, BriefLine]] = []
        for one in self._sessions:
            lines += [(_CONTRADICTED, self._describe_claim(one, claim)) for claim in one.claims if is_refuted(claim)]
        lines += self._describe_flags()
        unproven = [
            (one, claim) for one in reversed(self._sessions) for claim in [claim for claim in one.claims if needs_proof(one, claim)][-1:]
        ]
        lines += [(_UNPROVEN, self._describe_claim(one, claim)) for one, claim in unproven[:2]]
        if len(unproven) > 2:
            rest = [one for one, _ in unproven[2:]]
            values = {"sessions": count_things(len(rest), "more session")}
            evidence = [source for _, claim in unproven[2:] for source in claim.evidence[:1]]
            lines.append((_UNPROVEN, self._line("check_this", "unproven_more", values, rest, evidence)))
        lines.sort(key=lambda line: line[0])
        most = self._limits.checks
        shown = [line for _, line in lines[:most]]
        if len(lines) > most:
            shown = shown[: most - 1]
            text = self._fill("check_this", "more", {"items": len(lines) - len(shown)})
            shown.append(BriefLine(text=text, sessions=_unique_names(name for _, line in lines[len(shown) :] for name in line.sessions)))
        return shown

    def _describe_claim(self, one: Outcome, claim: JudgedClaim) -> BriefLine:
        why = shorten_text(shorten_paths(claim.why), self._limits.cause).rstrip(".: ")
        values = {
            "text": quote_inside(shorten_text(claim.text, self._limits.title)).rstrip("."),
            "why": why,
            "who": self._describe_who(one),
        }
        return self._line("check_this", claim.verdict, values, [one], claim.evidence)

    def _describe_flags(self) -> Iterator[tuple[int, BriefLine]]:
        """Flags of one kind in a session are one line; so are equal ones of several sessions, and small ones of three or more."""
        groups: dict[tuple[str, ...], list[tuple[Outcome, list[RiskFlag]]]] = {}
        kinds = Counter(key for one in self._sessions for key in {(flag.flag, flag.executed) for flag in one.flags})
        for one in reversed(self._sessions):
            for flags in group_flags(one.flags):
                first = flags[0]
                is_small = first.flag not in SERIOUS and kinds[first.flag, first.executed] > 2
                key = (first.flag, str(first.executed)) if is_small else (first.flag, str(first.executed), name_repo(one), _flag_key(first))
                groups.setdefault(key, []).append((one, flags))
        for found in groups.values():
            first = found[0][1][0]
            rank = rank_flag(first)
            if len(found) == 1:
                yield rank, self._describe_flag(*found[0])
                continue
            people = _unique_names(name for one, _ in found if (name := self._name_person(one)))
            is_same = all(_flag_key(flag) == _flag_key(first) for _, flags in found for flag in flags)
            values = {
                "what": self._name_flag(first, is_short=True),
                "count": sum(len(flags) for _, flags in found),
                "sessions": count_things(len(found), "session"),
                "who": join_words(people) if self._has_people and len(people) <= 3 else "",
            }
            phrase = ("same" if is_same else "like") + ("" if first.executed else "_attempted")
            evidence = [source for _, flags in found for source in flags[0].evidence]
            yield rank, self._line("check_this", phrase, values, [one for one, _ in found], evidence)

    def _describe_flag(self, one: Outcome, flags: Sequence[RiskFlag]) -> BriefLine:
        same = sum(flag.what == flags[0].what for flag in flags)
        values = {
            "what": self._name_flag(flags[0]),
            "times": same if same > 1 else "",
            "others": len(flags) - same or "",
            "who": self._describe_who(one),
        }
        evidence = [source for flag in flags for source in flag.evidence]
        return self._line("check_this", "flag" if flags[0].executed else "attempted", values, [one], evidence)

    def _name_flag(self, flag: RiskFlag, *, is_short: bool = False) -> str:
        what = shorten_text(drop_message(_flag_name(flag) if is_short else flag.what), self._limits.cause)
        return what[:1].upper() + what[1:]

    # --- needs you, bill

    def list_waiting(self) -> Iterator[BriefLine]:
        """Sessions that wait for a permission, then open questions, then offers to do more; the newest first."""
        waiting = [one for one in reversed(self._sessions) if one.waiting_for in ("person", "permission")]
        waiting.sort(key=lambda one: 0 if one.waiting_for == "permission" else 2 if _offer.match(one.question or "") else 1)
        asked = [one for one in waiting if one.waiting_for == "permission"]
        if len(asked) > 2:
            named = [name_topic(one, self._limits.title - 10) for one in asked[: self._limits.named]]
            values = {"sessions": count_things(len(asked), "session"), "titles": "; ".join(named), "more": len(asked) - len(named)}
            evidence = [source for one in asked for source in one.evidence.get("status", ())]
            yield self._line("needs_you", "permissions", values, asked, evidence)
            waiting = [one for one in waiting if one not in asked]
        asked = [one for one in waiting if one.waiting_for == "permission"]
        if len(asked) > 1 and len({name_result(one, 200) for one in asked}) == 1:
            values = {"title": name_result(asked[0], self._limits.title), "sessions": count_things(len(asked), "session")}
            evidence = [source for one in asked for source in one.evidence.get("status", ())]
            yield self._line("needs_you", "same_permission", values, asked, evidence)
            waiting = [one for one in waiting if one not in asked]
        for one in waiting[: self._limits.waiting]:
            phrase = "question" if one.waiting_for == "person" else "permission"
            question = shorten_text(one.question or "", self._limits.cause)
            cited = one.evidence.get("question") or one.evidence.get("status", [])
            said = one.evidence.get("result", [])
            # What an earlier answer says is not what is asked now.
            name = name_topic if phrase == "question" and said and not any(source in cited for source in said) else name_result
            values = {"title": name(one, min(self._limits.title, 100)), "question": question, "who": self._describe_who(one)}
            yield self._line(
                "needs_you", phrase, values, [one], [*cited, *(said if name is name_result else one.evidence.get("asked", ()))]
            )
        refused = [one for one in reversed(self._sessions) if _is_plan_refused(one) and not self._is_followed(one)]
        for one in refused[: self._limits.waiting]:
            end = describe_end(one)
            title = "" if '"' in end else name_result(one, min(self._limits.title, 100))
            values = {"title": title, "end": end if title else capitalise_text(end), "who": self._describe_who(one)}
            yield self._line("needs_you", "plan_refused", values, [one], one.evidence.get("status", ()))
        stopped = [
            one for one in reversed(self._sessions) if find_part(one, STOPPED) and not self._is_followed(one) and not self._went_on(one)
        ]
        for one in stopped[: self._limits.waiting]:
            title = name_result(one, min(self._limits.title, 80))
            values = {"title": title, "end": find_part(one, STOPPED), "who": self._describe_who(one)}
            yield self._line("needs_you", "unanswered", values, [one], one.evidence.get("status", ()))
        yield from self._list_left_to_do()
        yield from self._list_open_requests()
        if rest := waiting[self._limits.waiting :]:
            yield self._line("needs_you", "more", {"sessions": count_things(len(rest), "more session")}, rest)

    def _list_left_to_do(self) -> Iterator[BriefLine]:
        """What agents say at their end is left to do; not of a session that another one in the same folder followed."""
        found = [one for one in reversed(self._sessions) if one.left_to_do and not one.waiting_for and not self._is_followed(one)]
        for one in found[: self._limits.waiting]:
            said = quote_inside(shorten_text(one.left_to_do, self._limits.cause))
            values = {"title": name_result(one, min(self._limits.title, 80)), "said": said, "who": self._describe_who(one)}
            yield self._line("needs_you", "left", values, [one], one.evidence.get("delivered.answer", ()))

    def _list_open_requests(self) -> Iterator[BriefLine]:
        """Pull requests that sessions opened and nobody is known to have merged, in one line."""
        merged = {
            number for one in self._sessions for part in one.headline.split("; ") if "merged" in part for number in _number.findall(part)
        }
        merged |= {number for task in self._tasks_with("merged") for number in _number.findall(task.task)}
        ready = [one for one in reversed(self._landed) if not find_part(one, "draft pull request")]
        found = [one for one in ready if any(_is_open(request, merged) for request in one.delivered.pull_requests)]
        requests = [request for one in found for request in one.delivered.pull_requests if _is_open(request, merged)]
        if requests:
            named = join_words([f"#{request.number}" for request in requests[: self._limits.waiting]])
            more = len(requests) - self._limits.waiting
            values = {"requests": count_things(len(requests), "pull request"), "numbers": named, "more": more if more > 0 else ""}
            evidence = [source for request in requests for source in request.evidence[-1:]]
            yield self._line("needs_you", "open_requests", values, found, evidence)

    def _is_followed(self, one: Outcome) -> bool:
        """Whether the person began another session in the same folder soon after: a plan is often carried out in a new one."""
        return any(
            other.started is not None and one.ended is not None and -AT_ONCE < other.started - one.ended <= SOON
            for other in self._sessions
            if other is not one and (other.folder, other.person) == (one.folder, one.person)
        )

    def sum_up(self) -> Bill:
        """Cost and counts of the whole period."""
        usd, tokens = _sum_usd(self._sessions), sum(one.tokens for one in self._sessions)
        commits = sum(len(one.delivered.commits) for one in self._sessions)
        requests = sum(len(one.delivered.pull_requests) for one in self._sessions)
        closed = sum(one.result in CLOSED for one in self._tasks)
        values = {
            "cost": format_usd(usd),
            "tokens": count_things(tokens, "token"),
            "sessions": count_things(len(self._sessions), "session"),
            "commits": count_things(commits, "commit"),
            "requests": count_things(requests, "pull request"),
            "tasks": count_things(closed, "task"),
        }
        phrase = (
            ("sum" if usd else "unpriced") if self._sessions else "tasks_only" if closed else "no_sessions" if self._tasks else "nothing"
        )
        return Bill(
            text=self._fill("bill", phrase, values),
            sessions=len(self._sessions),
            usd=usd,
            tokens=tokens,
            commits=commits,
            pull_requests=requests,
            tasks_closed=closed,
        )

    # --- parts of a line

    def _name_person(self, one: Outcome) -> str:
        return one.person or name_agent(one.agent)

    def _describe_who(self, one: Outcome, *, with_cost: bool = False) -> str:
        repo = name_repo(one) if name_repo(one) != self._main_repo else ""
        person = self._name_person(one) if self._has_people else ""
        return ", ".join(part for part in (person, repo, format_usd(one.usd) if with_cost else "") if part)

    def _fill(self, section: str, phrase: str, values: Mapping[str, object]) -> str:
        return fill_phrase(self._phrases[section][phrase], values)

    def _line(
        self,
        section: str,
        phrase: str,
        values: Mapping[str, object],
        sessions: Sequence[Outcome],
        evidence: Iterable[Source] = (),
    ) -> BriefLine:
        text = self._fill(section, phrase, values)
        cited = list(dict.fromkeys(evidence))[:MOST_EVIDENCE]
        return BriefLine(text=text, sessions=_unique_names(one.session for one in sessions), evidence=cited)

    def _task_line(self, section: str, phrase: str, values: Mapping[str, object], tasks: Sequence[TaskOutcome]) -> BriefLine:
        evidence = [source for one in tasks for source in one.evidence[-1:]]
        text = self._fill(section, phrase, values)
        return BriefLine(text=text, tasks=[one.task for one in tasks], evidence=evidence[:MOST_TASKS_CITED])


_number = re.compile(r"#(\d+)")


def _is_open(request: PullRequest, merged: Collection[str]) -> bool:
    return bool(request.number) and request.number not in merged


LONGEST_REASON = 90
MOST_TASKS_CITED = 500
"""Source events of a line that counts tasks."""
CLOSED: frozenset[TaskResult] = frozenset(["closed", "no_change", "dropped"])
CHECK_NAMES = {"tests": "tests", "lint": "lint", "types": "type check", "build": "build"}


def name_check(one: Outcome, kind: str) -> str:
    """`lint`; `selected tests` if only some were run."""
    return f"selected {CHECK_NAMES[kind]}" if kind == "tests" and one.checks.tests.selected else CHECK_NAMES[kind]


def kind_of_trouble(trouble: Trouble) -> str:
    """`Lint failed (2 issues): …` is of the kind `lint failed`."""
    kind = _times.sub("", trouble.what.partition(":")[0].partition(" (")[0].partition(", ")[0]).strip()
    return kind[:1].lower() + kind[1:]


def group_troubles(found: Iterable[tuple[Outcome, Trouble]]) -> list[list[tuple[Outcome, Trouble]]]:
    """Troubles of one kind with the same cause together, in the order of their first."""
    groups: dict[tuple[str, str], list[tuple[Outcome, Trouble]]] = {}
    for one, trouble in found:
        cause = _numbers.sub("", shorten_paths(trouble.what.partition(": ")[2])).casefold()[:60]
        key = (kind_of_trouble(trouble), cause) if cause else (trouble.what, one.session)
        groups.setdefault(key, []).append((one, trouble))
    return list(groups.values())


def is_clear_claim(claim: JudgedClaim) -> bool:
    """Whether the words of a claim say that the agent checked or delivered something, and not a plan, a wish or a condition."""
    if claim.text.rstrip().endswith(":") or _no_claim.search(claim.text) or _condition.match(claim.text):
        return False
    clauses = [clause for clause in _clause_end.split(claim.text) if not _planned.search(clause)]
    match claim.kind:
        case "committed" | "pushed" | "pr_opened":
            return any(_own_act.match(clause) for clause in clauses)
        case "tests_pass":
            return any(_tests_claim.search(clause) for clause in clauses)
        case "build_or_lint_ok":
            return any(_checks_claim.search(clause) for clause in clauses)
        case _:
            return len(clauses) > 0


def needs_proof(one: Outcome, claim: JudgedClaim) -> bool:
    """Whether a claim could be proven and is not. What became true by a later run or push needs no proof any more."""
    if claim.verdict != "unproven" or claim.kind not in PROVABLE or not is_clear_claim(claim):
        return False
    if "not recorded" in claim.why or "does not show" in claim.why or one.helpers or find_part(one, HELPERS_UNSEEN):
        return False  # it may well be true
    checks, delivered = one.checks, one.delivered
    match claim.kind:
        case "committed":
            return not delivered.commits
        case "pushed":
            return not delivered.pushed
        case "pr_opened":
            return not delivered.pull_requests
        case "tests_pass":
            return checks.tests.result != "pass" or "selection" in claim.why
        case _:
            results = {checks.lint.result, checks.types.result, checks.build.result}
            return "pass" not in results or "fail" in results or "selection" in claim.why


def is_refuted(claim: JudgedClaim) -> bool:
    """Whether the records contradict a claim that is clearly one."""
    return claim.verdict == "contradicted" and is_clear_claim(claim)


def _cite_checks(one: Outcome) -> list[Source]:
    """The results of the checks that a line names, and of CI."""
    checks = (getattr(one.checks, kind) for kind in CHECKS)
    return [*(source for check in checks if check.result in ("pass", "fail") for source in check.evidence), *one.evidence.get("ci", ())]


def _is_last_run(one: Outcome, trouble: Trouble) -> bool:
    """Whether a trouble is a check that failed in its last run, too: that has a line of its own."""
    failed = [CHECK_NAMES[kind] for kind in CHECKS if getattr(one.checks, kind).result == "fail"]
    return any(trouble.what.lower().startswith(f"{name} failed") for name in failed)


def name_end(one: Outcome, trouble: Trouble) -> str:
    """How a problem ended: `resolved` if a later call shows it, else `settled` or `open`; `bypassed`: committed without the hook."""
    is_bypassed = "hook" in trouble.what and any(flag.flag == "no_verify" and flag.executed for flag in one.flags)
    if is_bypassed or (trouble.fixed_by and _shows_success.match(trouble.what)):
        return "bypassed" if is_bypassed else "resolved"
    return "settled" if trouble.resolved else "retried" if trouble.retried else "open"


def count_attempts(trouble: Trouble) -> int:
    """How often the same thing failed."""
    found = _times.search(trouble.what.partition(":")[0])
    return int(found[1]) if found else 1


_message = re.compile(r" (?:-\w*m|--message)(?:[ =].{0,400})?$")


def drop_message(what: str) -> str:
    """What was done, without the message of a commit."""
    return _message.sub("", what) if "git commit" in what else what


def group_flags(flags: Sequence[RiskFlag]) -> list[list[RiskFlag]]:
    """Flags of one kind together: of the same class, and with the same words for what was done."""
    groups: dict[tuple[str, str, bool], list[RiskFlag]] = {}
    for flag in flags:
        groups.setdefault((flag.flag, flag.what.partition(": ")[0], flag.executed), []).append(flag)
    return list(groups.values())


def rank_flag(flag: RiskFlag) -> int:
    """The worst have the lowest rank."""
    rank = FLAG_ORDER.index(flag.flag) if flag.flag in FLAG_ORDER else len(FLAG_ORDER)
    return rank + (_FLAGS if flag.executed else _NOT_RUN)


def takes_over(later: Outcome, one: Outcome) -> bool:
    """Whether a later session edited all files of this one, or names them, and committed: then nothing of it is left to commit."""
    own = {file.path: file.last_at for file in list_work_files(one.files)}
    theirs = {file.path: file.last_at for file in later.files}
    if not later.delivered.commits or not own or (later.folder, later.repo) != (one.folder, one.repo):
        return False
    subjects = " ".join(commit.subject for commit in later.delivered.commits)

    def is_taken(path: str, edited: datetime | None) -> bool:
        if edited is None or later.ended is None or later.ended < edited:
            return False
        at = theirs.get(path)
        return (at is not None and at >= edited) or re.search(rf"(?<![\w.]){re.escape(_base_name(path))}(?!\w)", subjects) is not None

    return all(is_taken(path, edited) for path, edited in own.items())


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _is_plan_refused(one: Outcome) -> bool:
    return one.status != "running" and describe_end(one).startswith((PLAN_REFUSED, LAST_PLAN_REFUSED))


def _flag_key(flag: RiskFlag) -> str:
    """Equal for flags about the same file: `read: .env` and `read: cat /home/dana/app/.env`."""
    kind, _, what = flag.what.partition(": ")
    return f"{kind} {what.rpartition(' ')[2].rpartition('/')[2]}" if flag.flag == "secret_exposed" and what else _flag_name(flag)


def _flag_name(flag: RiskFlag) -> str:
    """What was done, without the folders of paths."""
    return shorten_paths(flag.what)


def _sum_usd(sessions: Iterable[Outcome]) -> float | None:
    known = [one.usd for one in sessions if one.usd is not None]
    return sum(known) if known else None


def _unique_names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
