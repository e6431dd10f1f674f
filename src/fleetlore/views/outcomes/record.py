"""The outcome record of a session: what was asked, what was delivered, which checks passed, what went wrong, with evidence.

`make_record` is a pure function of the session's facts and the time. Its struct is what `lore sessions --json` prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.views import cost_sums, session_status
from fleetlore.views.folders import find_main_folder, find_person
from fleetlore.views.outcomes.check_commands import find_package
from fleetlore.views.outcomes.check_problems import repeats_check
from fleetlore.views.outcomes.claims import ClaimFacts, judge_claims
from fleetlore.views.outcomes.closing import describe_closing
from fleetlore.views.outcomes.corrections import find_corrections
from fleetlore.views.outcomes.facts import PUSH_HOOK, CallStep, CheckRun, RiskFlag, Source, TroubleFact
from fleetlore.views.outcomes.file_edits import is_own_note, is_prose
from fleetlore.views.outcomes.flags import find_loops, name_risk
from fleetlore.views.outcomes.headline import write_headline as write_headline
from fleetlore.views.outcomes.reports import find_left_to_do
from fleetlore.views.outcomes.session import SessionState, Statement, find_request, make_statement
from fleetlore.views.outcomes.troubles import find_troubles
from fleetlore.views.outcomes.words import first_sentence, shorten_text
from fleetlore.views.patterns.model import Finding
from fleetlore.views.patterns.session_rules import find_session_patterns
from fleetlore.views.prices_table import CONTEXT_WINDOWS
from fleetlore.views.session_status import EPOCH, Status, WaitingFor

CheckOutcome = Literal["pass", "fail", "could_not_run", "not_run", "no_edit"]
CHECKS: tuple[Literal["tests", "lint", "types", "build"], ...] = ("tests", "lint", "types", "build")

MOST_EVIDENCE = 5
LONGEST_SUBJECT = 200

Evidence = list[Source]


class SessionCommit(Struct, kw_only=True):
    """A commit that the session made."""

    subject: str
    sha: str = ""
    evidence: Evidence = field(default_factory=list)


class PullRequest(Struct, kw_only=True):
    """A pull request that the session opened."""

    title: str = ""
    url: str = ""
    number: str = ""
    evidence: Evidence = field(default_factory=list)


class Delivered(Struct, kw_only=True):
    """What came out of a session."""

    commits: list[SessionCommit] = field(default_factory=list)
    pushed: bool = False
    unpushed: int = 0
    """Commits after the last push, if there was one."""
    push_unknown: bool = False
    """Whether the agent speaks of a push or a pull request that is not recorded: then nothing is said about whether commits were pushed."""
    pull_requests: list[PullRequest] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    answer: str = ""


class Check(Struct, kw_only=True):
    """The last run of a check after the last edit, and the last result before it."""

    result: CheckOutcome = "no_edit"
    counts: str = ""
    earlier: Literal["pass", "fail", "could_not_run"] | None = None
    selected: bool = False
    """Whether only some tests, files or packages were checked."""
    reason: str = ""
    evidence: Evidence = field(default_factory=list)


class Checks(Struct, kw_only=True):
    """The checks by kind."""

    tests: Check = field(default_factory=Check)
    lint: Check = field(default_factory=Check)
    types: Check = field(default_factory=Check)
    build: Check = field(default_factory=Check)


class Trouble(Struct, kw_only=True):
    """An unexpected failure that cost extra steps."""

    what: str
    cause: str = ""
    resolved: bool = False
    evidence: Evidence = field(default_factory=list)
    fixed_by: Evidence = field(default_factory=list)
    """The call that worked later."""
    retried: Evidence = field(default_factory=list)
    """If nothing shows that it was fixed: the last push after a failed CI run; after another failure that is no check, the last
    push, commit or check that worked."""


class Correction(Struct, kw_only=True):
    """A prompt in which the person corrects the agent."""

    prompt: str
    evidence: Evidence = field(default_factory=list)


class JudgedClaim(Struct, kw_only=True):
    """A claim of success and what the records say about it."""

    text: str
    kind: str
    where: Literal["answer", "commit", "pull_request", "task"]
    verdict: Literal["supported", "contradicted", "unproven"]
    why: str = ""
    evidence: Evidence = field(default_factory=list)


class ChangedFile(Struct, kw_only=True):
    """A file that the session edited, with the lines of all edits added up."""

    path: str
    added: int = 0
    removed: int = 0
    first_at: datetime | None = None
    """Its first edit."""
    last_at: datetime | None = None
    evidence: Evidence = field(default_factory=list)


class Helper(Struct, kw_only=True):
    """A sub-agent of the session."""

    agent: str
    role: str
    asked: str
    answer: str
    status: str
    started: datetime | None = None
    ended: datetime | None = None
    evidence: Evidence = field(default_factory=list)


class Outcome(Struct, kw_only=True):
    """What happened in one session."""

    session: str
    name: str
    program: str | None
    agent: str
    person: str | None
    repo: str | None
    branch: str | None
    title: str | None
    asked: str
    outcome: str
    headline: str
    status: Status
    waiting_for: WaitingFor | None
    question: str | None
    started: datetime | None
    ended: datetime | None
    active_seconds: int
    usd: float | None
    tokens: int
    delivered: Delivered
    checks: Checks
    troubles: list[Trouble]
    corrections: list[Correction]
    flags: list[RiskFlag]
    claims: list[JudgedClaim]
    files: list[ChangedFile]
    helpers: list[Helper]
    evidence: dict[str, Evidence]
    result: str = ""
    """What came of it: the headline without the closing state."""
    said: str = ""
    """The part of `result` that the agent said."""
    about: str = ""
    """What the work was about: the session's title, or the largest requests in few words."""
    left_to_do: str = ""
    """What the agent says at the end is left to do, or was not done."""
    folder: str = ""
    """The folder that the session works in; paths of `files` are relative to it."""
    context_tokens: int = 0
    """The tokens of the newest request to the model: how full its context window is."""
    context_window: int | None = None
    """How many tokens the model takes; `None` if that is not known."""
    patterns: list[Finding] = field(default_factory=list)
    """The patterns within the session (docs/patterns.md)."""


def make_record(state: SessionState, now: datetime) -> Outcome:
    """The outcome of a session as it is known now."""
    evidence: dict[str, Evidence] = {}
    status, waiting_for, question = session_status.decide_status(state.status, now)[:3]
    delivered = _collect_delivered(state, evidence)
    checks = judge_checks(state)
    amount = cost_sums.sum_total(state.spending)
    troubles = find_troubles(state.calls, state.failures, state.checks, state.edits, state.prompts, state.answers)
    asked = find_request(state)
    if asked is not None:
        evidence["asked"] = [asked.source]
    if state.turn_source is not None:
        evidence["status"] = [state.answers[-1].source if state.status.turn == "ended" and state.answers else state.turn_source]
    if question:
        evidence["question"] = evidence.get("status", [])
    record = Outcome(
        session=state.run,
        name="",
        program=state.program or None,
        agent=state.agent,
        person=find_person(state.person, state.cwd) or None,
        repo=find_repo(state) or None,
        branch=state.branch or None,
        title=shorten_text(state.name or state.title) or None,
        asked=first_sentence(asked.text) if asked is not None else "",
        outcome="",
        headline="",
        status=status,
        waiting_for=waiting_for,
        question=question or None,
        started=state.started,
        ended=state.ended,
        active_seconds=round(state.active),
        usd=amount.usd,
        tokens=amount.tokens,
        delivered=delivered,
        checks=checks,
        troubles=_list_troubles(troubles, state),
        corrections=_list_corrections(state),
        flags=_list_flags(state),
        claims=_judge_statements(state, is_over=status != "running"),
        files=_add_up_files(state),
        helpers=_list_helpers(state),
        evidence=evidence,
        folder=state.cwd,
        context_tokens=state.context_tokens,
        context_window=find_context_window(state.model, state.context_tokens),
        patterns=find_session_patterns(state, troubles),
    )
    if any(claim.kind in ("pushed", "pr_opened") and claim.verdict == "contradicted" for claim in record.claims):
        record.delivered.push_unknown = False
    if state.answers and (not state.prompts or state.answers[-1].turn >= state.prompts[-1].turn):  # nothing was asked since
        record.left_to_do = find_left_to_do(state.answers[-1].text)
    record.name = record.title or record.asked or state.project or state.run
    record.headline = write_headline(record, state)
    record.outcome = write_outcome(record, state)
    _cite_results(record, state)
    return record


class _Cites(Protocol):
    evidence: Evidence


def _cite_results(record: Outcome, state: SessionState) -> None:
    """Cite the event with the output behind each call that proves or disproves something: a reader of the evidence needs both."""
    results = {call.source.event: call.result for call in state.calls if call.result}
    delivered = record.delivered
    checks: list[Check] = [getattr(record.checks, kind) for kind in CHECKS]
    for trouble in record.troubles:
        trouble.fixed_by = _add_results(trouble.fixed_by, results)
    items: list[_Cites] = [*checks, *record.troubles, *record.flags, *record.claims, *delivered.commits, *delivered.pull_requests]
    for item in items:
        item.evidence = _add_results(item.evidence, results)
    if pushed := record.evidence.get("delivered.pushed"):
        record.evidence["delivered.pushed"] = _add_results(pushed, results)


def _add_results(evidence: Evidence, results: Mapping[str, str]) -> Evidence:
    """The calls with their results, at most five pieces in all. Where there is no room for both, the result, because it shows the end."""
    calls = list(dict.fromkeys(evidence))[:MOST_EVIDENCE]
    room = MOST_EVIDENCE - len(calls)
    cited: Evidence = []
    for source in calls:
        result = Source(results.get(source.event, ""), source.source)
        if not result.event or result in calls:
            cited.append(source)
        elif room:
            cited += (source, result)
            room -= 1
        else:
            cited.append(result)
    return cited


def find_context_window(model: str, used: int) -> int | None:
    """The size of a model's context window; the next larger one if more is used than the usual one holds."""
    sizes = next((sizes for start, sizes in CONTEXT_WINDOWS if model.startswith(start)), ())
    return next((size for size in sizes if size >= used), None)


def judge_checks(state: SessionState) -> Checks:
    """The result of each check after the last edit that it covers."""
    covered = [edit.step for edit in state.edits if edit.covered]
    if not covered:  # CI definitions and prose are work too, if there is no other; but a report does not outdate what it reports
        covered = [0 if is_prose(edit.path) else edit.step for edit in state.edits if not is_own_note(edit.path)]
    last_edit = max(covered, default=None)
    checks = Checks()
    for kind in CHECKS:
        runs = [run for run in state.checks if run.kind == kind and run.result != "unproven"]
        setattr(checks, kind, _judge_check(runs, last_edit))
    return checks


def _judge_check(runs: Sequence[CheckRun], last_edit: int | None) -> Check:
    after = [run for run in runs if last_edit is not None and run.step > last_edit]
    # A run that could not start says nothing against one that did.
    last = next((run for run in reversed(after) if run.result != "could_not_run"), after[-1] if after else None)
    before = runs[: runs.index(last)] if last is not None else runs
    earlier = before[-1].result if before else None
    assert earlier != "unproven"
    if last_edit is None:
        return Check(result="no_edit", earlier=earlier, evidence=[run.source for run in runs[-1:]])
    if last is None:
        return Check(result="not_run", earlier=earlier, evidence=[run.source for run in runs[-1:]])
    if last.result == "pass" and (package := find_package(last.command)):
        # Another package of the same repository that failed and was not run again still fails.
        newest = {find_package(run.command): run for run in after if run.result != "could_not_run"}
        last = next((run for name, run in newest.items() if name and name != package and run.result == "fail"), last)
    assert last.result != "unproven"
    # What a push hook runs is seldom shown: then nothing says that it is a selection.
    selected = not any((run.whole or run.command == PUSH_HOOK) and run.result == last.result for run in after)
    return Check(
        result=last.result,
        counts=last.counts,
        earlier=earlier,
        selected=selected,
        reason=shorten_text(last.reason),
        evidence=[last.source, *([last.shown_by] if last.shown_by is not None else [])],
    )


def _collect_delivered(state: SessionState, evidence: dict[str, Evidence]) -> Delivered:
    commits: list[SessionCommit] = []
    has_own = any(not commit.rewritten for commit in state.commits)
    for commit in state.commits:
        if commit.undone:
            continue
        if commit.amends and commits:
            commits[-1].subject = commit.subject or commits[-1].subject
            commits[-1].sha = commit.sha
            commits[-1].evidence = [*commits[-1].evidence, commit.source][-MOST_EVIDENCE:]
            continue
        same = next((known for known in commits if known.subject == commit.subject), None)
        if same is not None:  # rebased or cherry-picked
            same.sha = commit.sha or same.sha
            same.evidence = [*same.evidence, commit.source][-MOST_EVIDENCE:]
            continue
        if commit.rewritten and has_own:
            continue  # a rebase made an older commit again
        commits.append(SessionCommit(subject=commit.subject[:LONGEST_SUBJECT], sha=commit.sha, evidence=[commit.source]))
    requests = [
        PullRequest(title=found.title[:LONGEST_SUBJECT], url=found.url, number=found.number, evidence=[found.source])
        for found in state.pull_requests
    ]
    if state.pushes:
        evidence["delivered.pushed"] = [push.source for push in state.pushes[-MOST_EVIDENCE:]]
    if state.answers:
        evidence["delivered.answer"] = [state.answers[-1].source]
    answer = first_sentence(state.answers[-1].text, is_answer=True) if state.answers else ""
    tasks = find_delivered_tasks(state)
    last_push = max((push.step for push in state.pushes), default=None)
    later = {commit.source.event for commit in state.commits if last_push is not None and commit.step > last_push and not commit.rewritten}
    unpushed = sum(any(source.event in later for source in commit.evidence) for commit in commits)
    return Delivered(
        commits=commits,
        pushed=bool(state.pushes),
        unpushed=unpushed,
        push_unknown=bool(commits) and not state.pushes and not requests and _speaks_of_push(state),
        pull_requests=requests,
        tasks=tasks,
        answer=answer,
    )


_published = re.compile(r"(?i)/pull/\d|\bPR #?\d|\bpull requests? #?\d|\b(?:pushed|(?:re)?published)\b")
_unpublished = re.compile(
    r"(?i)(?:\b(?:not|never|nothing|without)\b|n't\b)(?: \w+){0,3} (?:push|publish)|\bno (?:commit, )?push|\bunpushed\b"
)


def _speaks_of_push(state: SessionState) -> bool:
    """Whether an answer after the first commit says that something was published. Programs publish in more ways than are known."""
    first = state.commits[0].step if state.commits else 0
    texts = [answer.text for answer in state.answers if answer.step > first]
    return any(_published.search(text) and not _unpublished.search(text) for text in texts)


_closing_command = re.compile(
    r"(?:^|[;&|]\s{0,9})(?:bd|br|beads)\s+(?:close|done)\s+(?P<beads>[\w.-]{1,60}(?:\s+[\w.-]{1,60}){0,9}?)(?=\s+-|\s*(?:$|[;&|\n]))"
    r"|(?:^|[;&|]\s{0,9})(?:gh|glab|tea)\s+issues?\s+close\s+#?(?P<issue>\d{1,9})\b",
    re.MULTILINE,
)
_closing_words = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s{1,3}(?P<task>#\d{1,9})\b", re.IGNORECASE)
MOST_TASKS = 20


def find_delivered_tasks(state: SessionState, start: int = 0) -> list[str]:
    """The tasks that the session closed by a command, or that its commits, pull requests or branch name, from a step on."""
    found: dict[str, None] = {}
    for call in state.calls:
        if call.step >= start and call.kind == "command" and call.state == "ok" and "close" in call.what:
            for closed in _closing_command.finditer(call.what):
                names = closed["beads"].split() if closed["beads"] else [f"#{closed['issue']}"]
                found.update(dict.fromkeys(names))
    texts = [commit.message or commit.subject for commit in state.commits if commit.step >= start]
    texts += [f"{request.title}\n{request.body}" for request in state.pull_requests if request.step >= start]
    for text in texts:
        found.update(dict.fromkeys(named["task"] for named in _closing_words.finditer(text[:4000])))
    if texts:  # work on a branch that names its task, or on a task by name
        said = "\n".join((*texts, state.branch))
        # A task that is called like its branch was only guessed from it.
        known = (task for task in state.tasks if task != state.branch and re.search(rf"(?<![\w-]){re.escape(task)}(?![\w-])", said))
        found.update(dict.fromkeys(known))
    return list(found)[:MOST_TASKS]


def _list_troubles(found: Iterable[TroubleFact], state: SessionState) -> list[Trouble]:
    calls = {call.step: call for call in state.calls}
    steps = {call.source.event: call.step for call in state.calls}
    return [
        Trouble(
            what=one.what,
            cause=one.cause,
            resolved=one.resolved,
            evidence=[*one.evidence],
            fixed_by=[calls[one.ended].source] if one.ended in calls and _is_same_work(one, calls[one.ended], state) else [],
            retried=_find_progress(one, max((steps.get(source.event, one.step) for source in one.evidence), default=one.step), state),
        )
        for one in found
    ]


def _find_progress(trouble: TroubleFact, last: int, state: SessionState) -> list[Source]:
    """The last push after a failed CI run; after another failure that is no check, the last push, commit or check that worked."""
    if trouble.resolved or trouble.name in CHECKS:
        return []
    later = [(push.step, push.source) for push in state.pushes]
    if trouble.name != "ci":
        later += [(commit.step, commit.source) for commit in state.commits]
        later += [(run.step, run.source) for run in state.checks if run.result == "pass"]
    return [source for step, source in sorted(later, key=lambda each: each[0])[-1:] if step > last]


def _is_same_work(trouble: TroubleFact, fix: CallStep, state: SessionState) -> bool:
    """Whether the call that worked is what had failed: the same check or more of it, or a command with most of the same words."""
    cited = {source.event for source in trouble.evidence}
    if trouble.name in CHECKS:
        runs = [run for run in state.checks if run.kind == trouble.name]
        failed = [run for run in runs if run.source.event in cited and run.result in ("fail", "could_not_run")]
        passed = [run for run in runs if run.step == fix.step and run.result == "pass"]
        return bool(failed) and any(all(repeats_check(run, again) for run in failed) for again in passed)
    if fix.kind != "command":
        return fix.kind == "edit"  # calls of another tool have only its name in common
    return any(fix.kind == call.kind and _are_alike(call.what, fix.what) for call in state.calls if call.source.event in cited)


def _are_alike(one: str, other: str) -> bool:
    words, others = (set(re.findall(r"[\w./-]{2,}", text.partition(" 2>&1")[0])) for text in (one, other))
    return bool(words) and len(words & others) * 2 > max(len(words), len(others))


def _list_corrections(state: SessionState) -> list[Correction]:
    found = find_corrections(state.prompts, state.answers, state.edits, state.calls)
    return [Correction(prompt=one.prompt, evidence=[*one.evidence]) for one in found]


def _list_flags(state: SessionState) -> list[RiskFlag]:
    flags = sorted((*state.flags, *find_loops(state.failures)), key=lambda flag: flag.step)
    found: dict[object, RiskFlag] = {}
    for flag in flags:
        same = found.setdefault(name_risk(flag) or flag, RiskFlag(flag=flag.flag, what=flag.what, executed=flag.executed))
        same.executed = same.executed or flag.executed
        if flag.source not in same.evidence and len(same.evidence) < MOST_EVIDENCE:
            same.evidence.append(flag.source)
    return list(found.values())


def _judge_statements(state: SessionState, *, is_over: bool) -> list[JudgedClaim]:
    facts = ClaimFacts(
        checks=state.checks,
        commits=state.commits,
        pushes=state.pushes,
        pull_requests=state.pull_requests,
        edits=state.edits,
        attempts=state.attempts,
        ci=state.ci,
        nearby=state.nearby,
    )
    claims = [
        claim
        for said in _list_statements(state, is_over=is_over)
        for claim in judge_claims(said.claims, said.where, said.source, said.step, replace(facts, turn_start=said.turn_start))
    ]
    return [
        JudgedClaim(text=claim.text, kind=claim.kind, where=claim.where, verdict=claim.verdict, why=claim.why, evidence=[*claim.evidence])
        for claim in claims
    ]


def _list_statements(state: SessionState, *, is_over: bool) -> list[Statement]:
    """The texts with claims; of a session that is over also the last text of a turn without an end."""
    cut = make_statement(state, state.text) if is_over and state.text is not None else None
    return [*state.statements, cut] if cut is not None else state.statements


def _add_up_files(state: SessionState) -> list[ChangedFile]:
    files: dict[str, ChangedFile] = {}
    folder = f"{state.cwd.rstrip('/')}/"
    commits = [commit.step for commit in state.commits]
    for edit in state.edits:
        path = edit.path.removeprefix(folder) if len(folder) > 1 else edit.path
        if edit.restored:
            _forget_restored(files, path, max((step for step in commits if step < edit.step), default=0))
            continue
        file = files.setdefault(path, ChangedFile(path=path))
        file.added += edit.added
        file.removed += edit.removed
        at = EPOCH + timedelta(microseconds=edit.step)
        file.first_at, file.last_at = file.first_at or at, at
        file.evidence = [*file.evidence, edit.source][-MOST_EVIDENCE:]
    return list(files.values())


def _forget_restored(files: dict[str, ChangedFile], path: str, committed: int) -> None:
    """Take out the files that were set back to their last commit, unless that commit has changes of the session."""
    last_commit = EPOCH + timedelta(microseconds=committed)
    for name, file in list(files.items()):
        if (path in (".", "./", "*") or name == path or name.startswith(f"{path.rstrip('/')}/")) and (file.first_at or EPOCH) > last_commit:
            del files[name]


def _list_helpers(state: SessionState) -> list[Helper]:
    return [
        Helper(
            agent=helper.agent,
            role=helper.role.rpartition(":")[2],
            asked=first_sentence(helper.asked),
            answer=first_sentence(helper.answer, is_answer=True),
            status=helper.status,
            started=helper.started,
            ended=helper.ended,
            evidence=helper.sources[:MOST_EVIDENCE],
        )
        for helper in state.helpers.values()
    ]


# --- who and where

_pull_request_url = re.compile(r"https?://[^/\s]{1,100}/([\w.-]{1,100}/[\w.-]{1,100})/(?:pull|-/merge_requests)/\d")


def find_repo(state: SessionState) -> str:
    """The repository: owner and name if a pull request shows them, else the folder's name; of a worktree, its main folder's."""
    for request in reversed(state.pull_requests):
        if found := _pull_request_url.match(request.url):
            return found[1]
    return find_main_folder(state.cwd) or state.project or state.cwd.replace("\\", "/").rstrip("/").rpartition("/")[2]


# --- one sentence


def write_outcome(record: Outcome, state: SessionState) -> str:
    """The headline as a sentence, with checks that were not run, the error and the whole question."""
    parts = [record.result, *describe_closing(record, state, is_long=True)]
    text = "; ".join(part for part in parts if part)
    return f"{text}." if text and text[-1] not in ".?!" else text
