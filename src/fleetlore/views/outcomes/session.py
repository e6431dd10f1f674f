"""Fold the events of one session into facts.

The state holds facts only, never outputs: it is small, and it encodes to JSON for checkpoints. `record` makes the outcome
record from it. Events of sub-agents belong to the session that launched them.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.programs.tool_calls import (
    CallInput,
    PlanStep,
    find_output_file,
    is_success_implied,
    normalise_input,
    normalise_output,
    notification_kinds,
    read_notification,
)
from fleetlore.views import session_status
from fleetlore.views.costs import Spending
from fleetlore.views.outcomes.claims import ClaimPlace, ClaimText, extract_claims, read_attempts, read_ci_results
from fleetlore.views.outcomes.commands import NO_FACTS, read_call
from fleetlore.views.outcomes.facts import (
    Answer,
    Attempt,
    CallFacts,
    CallFailure,
    CallState,
    CallStep,
    CheckRun,
    CommitMade,
    FileEdit,
    Flag,
    Prompt,
    PullRequestOpened,
    PushMade,
    Source,
    TextEdit,
    ToolCall,
    WorkspaceFact,
)
from fleetlore.views.outcomes.failures import JOINED_WORDS, STOPPED_CODES, TURN_BROKEN
from fleetlore.views.outcomes.flag_checks import FlagContext
from fleetlore.views.outcomes.flags import find_flags
from fleetlore.views.outcomes.rules import OutcomeRules
from fleetlore.views.outcomes.words import first_sentence, is_whole_request
from fleetlore.views.session_status import EPOCH, SessionStatus, end_of_turn, find_helper, is_answered, is_late

VERSION = 35
"""Raised with every change of the state's shape or rules: stored states of another version are folded again."""

MOST_FACTS = 2000
"""Of each kind of fact, the newest are kept. A session of some thousand steps has fewer."""
MOST_PENDING = 500
LONGEST_PROMPT = 4000
LONGEST_ANSWER = 16_000
SHORT_REQUEST = 8
"""Words of a first prompt that may be small talk."""
LONGEST_WHAT = 300
LONGEST_OLD_ANSWER = 1500
LONGEST_OLD_END = 400
LONGEST_OUTPUT = 24_000
DISORDER = 2_000_000
"""Microseconds."""
IDLE_AFTER = timedelta(minutes=10)
"""A longer pause between two events of a turn is not counted as activity."""
LINE_NUMBERS = re.compile(r"^[ \t]{0,8}\d{1,6}→", re.MULTILINE)
"""Before every line of a file that a tool shows."""
_PULL_NUMBER = re.compile(r"^(?:PR|pull request) #\d+:? *", re.IGNORECASE)


class PendingCall(Struct, kw_only=True):
    """A call without a result."""

    step: int
    turn: int
    at: datetime
    tool: str
    source: Source
    call: CallInput
    dialect: str | None = None
    cwd: str = ""
    helper: str = ""


class HelperState(Struct, kw_only=True):
    """A sub-agent."""

    agent: str
    role: str = ""
    asked: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    status: Literal["running", "finished", "failed"] = "running"
    background: bool = False
    answer: str = ""
    sources: list[Source] = field(default_factory=list)


class PlanFact(Struct, kw_only=True):
    """A step of the agent's own plan. `source` is the call that marked it as done, or added it."""

    text: str
    source: Source
    is_done: bool = False


class Statement(Struct, kw_only=True):
    """A text with claims: they are judged when the record is made."""

    step: int
    turn_start: int
    where: ClaimPlace
    source: Source
    claims: tuple[ClaimText, ...]


class SessionState(Struct, kw_only=True):
    """Everything that is known of one session."""

    version: int = VERSION
    run: str
    status: SessionStatus = field(default_factory=SessionStatus)
    parent: str = ""
    program: str = ""
    model: str = ""
    cwd: str = ""
    person: str = ""
    project: str = ""
    branch: str = ""
    title: str = ""
    name: str = ""
    tasks: list[str] = field(default_factory=list)
    started: datetime | None = None
    ended: datetime | None = None
    active: float = 0.0
    steps: dict[str, int] = field(default_factory=dict)
    """The newest step of the session's agent ("") and of each helper."""
    turn: int = 0
    turn_start: int = 0
    """The step of the prompt that began the turn."""
    turn_source: Source | None = None
    """The newest prompt or end of a turn."""
    prompts: list[Prompt] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    """The last text of every turn; only the newest keeps more than its beginning."""
    text: Answer | None = None
    """The newest text of the running turn."""
    pending: dict[str, PendingCall] = field(default_factory=dict)
    background: dict[str, PendingCall] = field(default_factory=dict)
    """Commands that run in the background, by the program's id."""
    calls: list[CallStep] = field(default_factory=list)
    checks: list[CheckRun] = field(default_factory=list)
    ci: list[CheckRun] = field(default_factory=list)
    """Results of CI that the agent looked at."""
    nearby: list[WorkspaceFact] = field(default_factory=list)
    """What other sessions did in the same folder."""
    published: int = 0
    """How many facts other sessions of the folder have been given."""
    commits: list[CommitMade] = field(default_factory=list)
    pushes: list[PushMade] = field(default_factory=list)
    pull_requests: list[PullRequestOpened] = field(default_factory=list)
    edits: list[FileEdit] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    flag_context: FlagContext = field(default_factory=FlagContext)
    failures: list[CallFailure] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    helpers: dict[str, HelperState] = field(default_factory=dict)
    plan: dict[str, PlanFact] = field(default_factory=dict)
    """The steps of the agent's own plan."""
    spending: Spending = field(default_factory=Spending)
    context_tokens: int = 0
    """The tokens of the newest request of the session's own agent."""

    @property
    def agent(self) -> str:
        """The session's own agent; others are its helpers."""
        return self.status.agent


def begin_session(run: str) -> SessionState:
    """A session of which nothing is known yet."""
    return SessionState(run=run)


def apply(state: SessionState, event: Event, rules: OutcomeRules) -> SessionState:
    """The session after one more event of its run. Changes the state in place; never raises."""
    handle = _HANDLERS.get(event.kind) or _REPORTED.get(event.kind)
    if handle is None:
        return state
    at = session_status.get_event_time(state.status, event)
    _note_time(state, at)
    if event.task is not None and event.task not in state.tasks and len(state.tasks) < 20:
        state.tasks.append(event.task)
    if event.kind == "model.replied":
        state.spending = rules.costs.apply(state.spending, event)
    if event.visibility == "public" or event.kind in _NOTIFICATIONS:  # nobody else's thoughts are in a record
        ended = handle(state, event, at)
        if ended is not None:
            keep_in_order(state.flags, find_flags(ended, rules.flags, state.flag_context))
    session_status.apply(state.status, event)
    return state


def _note_time(state: SessionState, at: datetime) -> None:
    if state.started is None or at < state.started:
        state.started = at
    if state.ended is None:
        state.ended = at
    elif at > state.ended:
        if state.status.turn == "running":
            state.active += min(at - state.ended, IDLE_AFTER).total_seconds()
        state.ended = at


def to_microseconds(at: datetime) -> int:
    """The time since 1970."""
    return (at - EPOCH) // timedelta(microseconds=1)


def _make_source(event: Event, key: object = None) -> Source:
    return Source(event.id or "", key if isinstance(key, str) and key else event.id or "")


def _get_text(value: object, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:LONGEST_WHAT]


def keep_in_order(facts: list[Any], more: Sequence[Any]) -> None:
    """Add facts in the order of their steps: those of a background command come late."""
    if not more:
        return
    for fact in more:
        if facts and facts[-1].step > fact.step:
            insort(facts, fact, key=_step_of)
        else:
            facts.append(fact)
    if len(facts) > MOST_FACTS:
        del facts[: len(facts) - MOST_FACTS]


_step_of = attrgetter("step")


def _next_step(state: SessionState, at: datetime, helper: str = "") -> int:
    """A number that orders steps: the time in microseconds.

    The files of helpers may be read after the session's own, so the order of arrival does not say what came first. Within
    one file it does: times that are equal or a little out of order are moved behind the step before.
    """
    step = to_microseconds(at)
    last = state.steps.get(helper, 0)
    if 0 <= last - step < DISORDER:
        step = last + 1
    if helper in state.steps or len(state.steps) < MOST_PENDING:
        state.steps[helper] = step
    return step


def _turn_at(state: SessionState, at: datetime) -> int:
    """The turn in which a helper acted."""
    return next((prompt.turn for prompt in reversed(state.prompts) if prompt.at <= at), state.turn)


# --- what the session is


def _on_start(state: SessionState, event: Event, at: datetime) -> None:
    data = event.data
    state.parent = event.parent or state.parent
    for name in ("program", "project", "branch", "person", "cwd", "model", "title"):
        value = _get_text(data.get(name), 500)
        if value:
            setattr(state, name, value)


def _on_name(state: SessionState, event: Event, at: datetime) -> None:
    if event.agent is not None and state.agent and event.agent != state.agent:
        return
    state.name = _get_text(event.data.get("name"), 200) or state.name
    state.title = _get_text(event.data.get("title"), 200) or state.title


# --- turns


def _note_prompt(state: SessionState, event: Event, at: datetime) -> None:
    if find_helper(state.status, event):
        return
    text = _get_text(event.data.get("prompt"), LONGEST_PROMPT) or _get_text(event.text, LONGEST_PROMPT)
    if text.startswith("!"):  # the person ran a command; the agent is asked nothing
        return
    is_mid_turn = state.status.turn == "running"
    step = _next_step(state, at)
    if not is_mid_turn:
        state.turn += 1
        state.turn_start = step
        state.text = None
    source = _make_source(event, event.data.get("row") or event.data.get("prompt_id"))
    prompt = Prompt(step, state.turn, at, source, text, state.status.turn == "interrupted", is_mid_turn)
    keep_in_order(state.prompts, (prompt,))
    state.turn_source = source


def _note_reply(state: SessionState, event: Event, at: datetime) -> None:
    said = event.data.get("said")
    if find_helper(state.status, event) or is_late(state.status, at):
        return
    _go_on(state)
    state.model = _get_text(event.data.get("model"), 100) or state.model
    counts = [event.data.get(name) for name in ("input", "cache_read", "cache_write")]
    tokens = sum(count for count in counts if isinstance(count, int) and not isinstance(count, bool) and count > 0)
    state.context_tokens = tokens or state.context_tokens
    if isinstance(said, str) and said.strip():
        source = _make_source(event, event.data.get("row") or event.data.get("message_id"))
        state.text = Answer(_next_step(state, at), state.turn, at, source, said[:LONGEST_ANSWER])


def _go_on(state: SessionState) -> None:
    """The agent works. Its turn may have ended before: a background task has reported, and the agent was woken."""
    if state.status.turn != "running":
        state.text = None


def _end_turn(state: SessionState, event: Event, at: datetime) -> None:
    if find_helper(state.status, event) or is_late(state.status, at):
        return
    state.branch = _get_text(event.data.get("branch"), 200) or state.branch
    state.turn_source = _make_source(event)
    end = end_of_turn(event)
    error = _get_text(event.text, LONGEST_WHAT) if end == "failed" else state.status.error
    if error and end != "interrupted":
        cause = JOINED_WORDS.sub(" ", error)
        keep_in_order(state.failures, (CallFailure(_next_step(state, at), state.turn_source, TURN_BROKEN, cause, TURN_BROKEN),))
    if end != "ended":
        return
    text = state.text
    if text is None and event.text and not is_answered(state.status, event.text):
        text = Answer(_next_step(state, at), state.turn, at, state.turn_source, event.text)
    if text is not None:
        if state.answers:
            state.answers[-1] = _shorten_answer(state.answers[-1])
        keep_in_order(state.answers, (text,))
        state.text = None
        _note_claims(state, text.text, "answer", text.source, _next_step(state, at))


def make_statement(state: SessionState, said: Answer) -> Statement | None:
    """The claims of a text that the agent wrote without ending its turn; `None` if there are none."""
    claims = extract_claims(said.text, "answer")
    return Statement(step=said.step, turn_start=state.turn_start, where="answer", source=said.source, claims=claims) if claims else None


def _note_claims(state: SessionState, text: str, where: ClaimPlace, source: Source, step: int) -> None:
    claims = extract_claims(text, where)
    if claims:
        keep_in_order(state.statements, (Statement(step=step, turn_start=state.turn_start, where=where, source=source, claims=claims),))


def _shorten_answer(answer: Answer) -> Answer:
    if len(answer.text) <= LONGEST_OLD_ANSWER + LONGEST_OLD_END + 1:
        return answer
    start, end = answer.text[:LONGEST_OLD_ANSWER], answer.text[-LONGEST_OLD_END:]  # a question stands at the end
    # Half a sentence would be read as a whole one.
    start = start[: max(start.rfind("\n"), start.rfind(". ") + 1)] or start.rpartition(" ")[0] + "…"
    first = min((place for mark in ("\n", ". ") if (place := end.find(mark)) >= 0), default=end.find(" "))
    text = f"{start}\n{end[first + 1 :].lstrip()}"
    return Answer(answer.step, answer.turn, answer.at, answer.source, text, answer.helper)


def _note_nothing(state: SessionState, event: Event, at: datetime) -> None:
    """The event says something about the status only."""


# --- tool calls


def _note_call(state: SessionState, event: Event, at: datetime) -> None:
    data = event.data
    helper = find_helper(state.status, event)
    if not helper and not is_late(state.status, at):
        _go_on(state)
    call_id = data.get("call_id")
    dialect = event.origin.dialect if event.origin is not None else None
    tool = _get_text(data.get("tool"), 200)
    pending = PendingCall(
        step=_next_step(state, at, helper),
        turn=_turn_at(state, at) if helper else state.turn,
        at=at,
        tool=tool,
        source=_make_source(event, call_id),
        call=normalise_input(dialect, tool, data.get("input")),
        dialect=dialect,
        cwd=_get_text(data.get("cwd"), 500) or state.cwd,
        helper=helper,
    )
    state.cwd = state.cwd or pending.cwd
    if len(state.pending) >= MOST_PENDING:
        del state.pending[next(iter(state.pending))]
    state.pending[event.id or pending.source.source] = pending


def _note_result(state: SessionState, event: Event, at: datetime) -> ToolCall | None:
    if not find_helper(state.status, event) and not is_late(state.status, at):
        _go_on(state)
    pending = state.pending.pop(event.cause or "", None)
    if pending is None:
        return None
    data = event.data
    output = _read_output(data)
    told = normalise_output(pending.dialect, pending.call, output, data)
    is_running = told.state == "running" or data.get("running") is True
    code = data.get("exit_code")
    call_state = _read_call_state(event)
    if call_state == "ok" and told.state == "unknown":
        call_state = "unknown"
    if pending.call.polls and not is_running:
        _finish_background(state, told.task or "", call_state, told.exit_code, told.text or "", shown_by=pending.source)
    elif (task := find_output_file(pending.call)) and call_state == "ok":
        _finish_background(state, task, call_state, None, LINE_NUMBERS.sub("", output), is_over=False)
    elif told.text is not None and not pending.call.polls:
        output = told.text
    if call_state == "denied" and data.get("by") == "user":
        _note_refusal(state, event, pending, at)
    if code is None and call_state == "ok" and pending.call.kind == "command" and not is_running and is_success_implied(pending.dialect):
        code = 0
    if is_running and told.task and len(state.background) < MOST_PENDING:
        state.background[told.task] = pending
    if call_state == "ok" and not pending.helper:
        _note_plan(state, (*pending.call.plan, *told.plan), pending.source)
    call = _make_call(pending, call_state, code if isinstance(code, int) else None, output, is_running=is_running)
    _read_facts(state, call, event.id or "")
    return call


def _note_plan(state: SessionState, steps: Sequence[PlanStep], source: Source) -> None:
    for step in steps:
        known = state.plan.get(step.key)
        if known is None:
            if len(state.plan) < MOST_PENDING:
                state.plan[step.key] = PlanFact(text=step.text, source=source, is_done=step.is_done)
            continue
        known.text = step.text or known.text
        if step.is_done != known.is_done:
            known.is_done, known.source = step.is_done, source


def _note_refusal(state: SessionState, event: Event, refused: PendingCall, at: datetime) -> None:
    """What a person says when they refuse a call is a prompt in mid-turn."""
    reason = _get_text(event.data.get("reason"), LONGEST_PROMPT)
    if not reason.strip():
        return
    source = _make_source(event, event.data.get("row") or refused.source.source)
    prompt = Prompt(_next_step(state, at), state.turn, at, source, reason, mid_turn=True, refuses=refused.call.kind)
    keep_in_order(state.prompts, (prompt,))


def _note_end_of_command(state: SessionState, event: Event, at: datetime) -> None:
    """A background command has ended; its output may be read later."""
    told = read_notification(event.data)
    if told is not None:
        task, is_failed, code = told
        _finish_background(state, task, "failed" if is_failed else "ok", code, "", is_over=False)


def _finish_background(
    state: SessionState,
    task: str,
    call_state: CallState,
    code: int | None,
    output: str,
    *,
    is_over: bool = True,
    shown_by: Source | None = None,
) -> None:
    """What became known of a background command counts as the result of the command. Its output may have been read before its end."""
    started = state.background.get(task)
    if started is None:
        return
    if is_over:
        del state.background[task]
    if code is not None and code != 0:
        call_state = "failed"
    started.call = started.call._replace(background=False)
    call = _make_call(started, call_state, code, output)
    found = read_call(call)
    if output:
        known_at = max(started.step, state.steps.get(started.helper, 0))
        keep_in_order(state.ci, [replace(run, step=known_at) for run in read_ci_results(call)])
    if any(run.result != "unproven" for run in found.checks):
        state.checks = [run for run in state.checks if run.step != started.step]
    keep_in_order(state.checks, tuple(replace(run, shown_by=shown_by) for run in found.checks))
    if not any(commit.step == started.step for commit in state.commits):
        keep_in_order(state.commits, found.commits)
    if not any(push.step == started.step for push in state.pushes):
        keep_in_order(state.pushes, found.pushes)
    if not any(request.step == started.step for request in state.pull_requests):
        keep_in_order(state.pull_requests, found.pull_requests)
    is_known = any(failure.step == started.step for failure in state.failures)
    if found.failure is not None and found.failure.cause and code not in STOPPED_CODES and not is_known:
        keep_in_order(state.failures, (replace(found.failure, shown_by=shown_by),))


def _make_call(pending: PendingCall, state: CallState, code: int | None, output: str, *, is_running: bool = False) -> ToolCall:
    given = pending.call
    return ToolCall(
        step=pending.step,
        turn=pending.turn,
        at=pending.at,
        source=pending.source,
        kind=given.kind,
        tool=pending.tool,
        state=state,
        command=given.command,
        description=given.description,
        cwd=given.cwd or pending.cwd,
        background=given.background or is_running,
        exit_code=code,
        output=output,
        paths=given.paths,
        edits=tuple(TextEdit(path, old, new) for path, old, new in given.edits),
        helper=pending.helper,
        unsandboxed=given.unsandboxed,
        unchecked_agent=given.unchecked_agent,
    )


def _read_output(data: Mapping[str, Any]) -> str:
    """The words of a result. Of a long one the log has the beginning and the end."""
    for key in ("output", "error", "reason"):
        output = data.get(key)
        if isinstance(output, str) and output:
            break
    else:
        return ""
    end = data.get("output_end")
    return f"{output[:LONGEST_OUTPUT]}\n{end}" if isinstance(end, str) else output[:LONGEST_OUTPUT]


def _read_call_state(event: Event) -> CallState:
    match event.kind:
        case "tool.returned":
            return "ok"
        case "tool.denied":
            return "denied"
        case _:
            return "interrupted" if event.data.get("interrupted") is True else "failed"


def _read_facts(state: SessionState, call: ToolCall, result: str) -> None:
    what = call.command or (call.paths[0] if call.paths else call.tool)
    step = CallStep(call.step, call.turn, call.at, call.kind, call.tool, call.state, call.source, what[:LONGEST_WHAT], call.helper, result)
    keep_in_order(state.calls, (step,))
    found = read_call(call)
    if found is not NO_FACTS:
        _keep_facts(state, found)
    if call.kind == "command":
        keep_in_order(state.ci, read_ci_results(call))
    keep_in_order(state.attempts, read_attempts(call))


def _keep_facts(state: SessionState, found: CallFacts) -> None:
    if found.undone:
        kept = [place for place, commit in enumerate(state.commits) if not commit.undone][-found.undone :]
        for place in kept:
            state.commits[place] = replace(state.commits[place], undone=True)
    keep_in_order(state.checks, found.checks)
    keep_in_order(state.commits, found.commits)
    # The remote has what the session committed, even if something else sent it there.
    keep_in_order(state.pushes, [push for push in found.pushes if not push.known or state.commits or found.commits])
    keep_in_order(state.pull_requests, found.pull_requests)
    keep_in_order(state.edits, found.edits)
    if found.failure is not None:
        keep_in_order(state.failures, (found.failure,))
    for commit in found.commits:
        _note_claims(state, commit.message or commit.subject, "commit", commit.source, commit.step)
    for request in found.pull_requests:
        _note_claims(state, f"{request.title}\n\n{request.body}", "pull_request", request.source, request.step)


# --- what a fleet reports of itself


def _on_commit(state: SessionState, event: Event, at: datetime) -> None:
    if subject := _first_line(event.text):
        keep_in_order(
            state.commits, (CommitMade(_next_step(state, at), _make_source(event), subject, _get_text(event.data.get("sha"), 64)),)
        )


def _on_push(state: SessionState, event: Event, at: datetime) -> None:
    keep_in_order(state.pushes, (PushMade(_next_step(state, at), _make_source(event), _get_text(event.data.get("branch"), 200)),))


def _on_pull_request(state: SessionState, event: Event, at: datetime) -> None:
    """A pull request that is reported as an event, unless a command showed it already. Its branch was pushed."""
    number, title = str(event.data.get("number") or ""), _PULL_NUMBER.sub("", _first_line(event.text))
    if (number or title) and not (number and any(known.number == number for known in state.pull_requests)):
        opened = PullRequestOpened(_next_step(state, at), _make_source(event), _get_text(event.data.get("url"), 300), number[:20], title)
        keep_in_order(state.pull_requests, (opened,))
        _on_push(state, event, at)


# --- helpers


def _on_launch(state: SessionState, event: Event, at: datetime) -> None:
    child = event.child or ""
    if not child:
        return
    helper = state.helpers.get(child) or HelperState(agent=child)
    data = event.data
    helper.role = _get_text(data.get("role"), 200) or helper.role
    helper.asked = _get_text(event.text, LONGEST_WHAT) or helper.asked
    helper.background = data.get("background") is True or helper.background
    helper.started = helper.started or at
    helper.sources = [*helper.sources, _make_source(event, data.get("call_id"))][:2]
    if len(state.helpers) < MOST_PENDING:
        state.helpers[child] = helper


def _on_return(state: SessionState, event: Event, at: datetime) -> None:
    child = event.child or ""
    if not child:
        return
    helper = state.helpers.setdefault(child, HelperState(agent=child, started=at))
    data = event.data
    helper.role = helper.role or _get_text(data.get("role"), 200)
    helper.ended = at
    helper.status = "failed" if data.get("status") in ("failed", "error", "killed") else "finished"
    helper.answer = _get_text(data.get("result"), 2000) or _get_text(event.text, 2000) or helper.answer
    helper.sources = [*helper.sources, _make_source(event, data.get("call_id"))][:5]


_NOTIFICATIONS = frozenset(notification_kinds())
_HANDLERS: Mapping[str, Callable[[SessionState, Event, datetime], ToolCall | None]] = {
    "session.started": _on_start,
    "agent.named": _on_name,
    "prompt.submitted": _note_prompt,
    "model.replied": _note_reply,
    "model.failed": _note_nothing,
    "session.turn_ended": _end_turn,
    "session.waiting": _note_nothing,
    "session.observed": _note_nothing,
    "approval.requested": _note_nothing,
    "approval.closed": _note_nothing,
    "control.requested": _note_nothing,
    "session.ended": _note_nothing,
    "tool.called": _note_call,
    "tool.returned": _note_result,
    "tool.failed": _note_result,
    "tool.denied": _note_result,
    "agent.launched": _on_launch,
    "agent.returned": _on_return,
    **dict.fromkeys(_NOTIFICATIONS, _note_end_of_command),
}
_REPORTED: Mapping[str, Callable[[SessionState, Event, datetime], None]] = {
    "fleet.commit": _on_commit,
    "fleet.push": _on_push,
    "fleet.pr_open": _on_pull_request,
}
KINDS = frozenset(_HANDLERS)
"""The kinds of events that a session consists of."""
FOLDED_KINDS = KINDS | _REPORTED.keys()
"""The kinds of events that say something about a session: also what a fleet reports of it."""


def find_request(state: SessionState) -> Prompt | None:
    """The prompt that says what the session is about: the first that can be understood alone.

    A short one that was answered without doing anything counts only if no other is near it.
    """
    worked = {call.turn for call in state.calls}
    asking = [prompt for prompt in state.prompts if prompt.refuses is None and first_sentence(prompt.text)]
    whole = [prompt for prompt in asking if is_whole_request(prompt.text)]
    for prompt in whole[:3]:
        if prompt.turn in worked or len(prompt.text.split()) > SHORT_REQUEST:
            return prompt
    asking = whole or [prompt for prompt in asking if not prompt.text.lstrip().startswith('{"')] or asking  # a program's own notice
    return asking[0] if asking else None
