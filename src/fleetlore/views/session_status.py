"""Whether a session is running or over, and whom it waits for: the one rule for status, pages, records and API.

`apply` follows the turns of a session; `decide_status` says what they come to at a time. The fleet view keeps one `SessionStatus` for
each run, the outcome fold keeps the same inside its facts, so both always give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.programs.tool_calls import read_question
from fleetlore.views.outcomes.words import is_announcement, last_question, shorten_text

Status = Literal["running", "finished", "failed", "interrupted"]
WaitingFor = Literal["person", "permission", "helpers"]
TurnState = Literal["none", "running", "ended", "interrupted", "failed"]

RECENT = timedelta(hours=1)
"""A turn without an end counts as running for so long after its last event."""
PATIENT = timedelta(hours=24)
"""The same while a call is open, or while it waits for a person's answer, a permission or helpers."""
DISAGREEING = timedelta(seconds=30)
"""So long after the program's own report, hooks that say something else are shown as a disagreement."""
CLOCK_SKEW = timedelta(minutes=5)
"""Events that are further ahead of our clock come from a machine whose clock is wrong."""
LOOP = 3
"""So many equal failures in a row are a loop."""
MOST_OPEN = 500
"""Open calls and helpers that are remembered."""
LONGEST_TEXT = 16_000
LONGEST_QUESTION = 400
ANSWER_HEAD = 200
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FINAL_STOPS = frozenset((None, "end_turn", "stop", "stop_sequence"))
_ACTIONS = frozenset(("session.started", "prompt.submitted", "model.replied", "tool.called", "tool.returned", "tool.failed", "tool.denied"))


class SessionStatus(Struct, kw_only=True, omit_defaults=True):
    """What is known of a session's turns."""

    agent: str = ""
    """The session's own agent; others are its helpers."""
    turn: TurnState = "none"
    turn_at: datetime | None = None
    """When the turn began, or ended."""
    last: datetime | None = None
    """The time of the newest event."""
    closed_at: datetime | None = None
    """When the program said that the session is over."""
    error: str = ""
    waiting: Literal["", "person", "permission"] = ""
    """As the program says."""
    waiting_at: datetime | None = None
    requests: dict[str, str] = field(default_factory=dict)
    """Permissions that were asked for and whose end will be reported, by their event; with the call that each is for, if known."""
    moved_at: datetime | None = None
    """When it last worked, ended a turn, or got a prompt or an answer: an older notification or report is ignored."""
    text: str = ""
    """The newest text of the running turn."""
    question: str = ""
    """The question at the end of the last answer, or the one that the program shows."""
    is_announced: bool = False
    """The last answer only says what the agent does next: the recording was cut off."""
    is_said: bool = False
    """The last thing in the turn is a text after which the model was done."""
    is_refused: bool = False
    """The last call was refused for lack of a permission, and nothing was done after it."""
    answer_head: str = ""
    """The beginning of the turn's answer."""
    open_calls: dict[str, str] = field(default_factory=dict)
    """Calls without a result, by their event; with the question that the call asks the person."""
    helpers: dict[str, Literal["foreground", "background", "returned"]] = field(default_factory=dict)
    has_background: bool = False
    """Whether tasks went on in the background when the turn ended."""
    failure: str = ""
    """The newest call, if it failed."""
    failures: int = 0
    """How often it failed in the same way, in a row."""
    observed: str = ""
    """What the program itself reports: `busy`, `waiting`, `idle`, or `gone` if its process has ended."""
    observed_wait: WaitingFor | None = None
    observed_at: datetime | None = None


class SessionView(NamedTuple):
    """A session's status at a time."""

    status: Status
    waiting_for: WaitingFor | None = None
    question: str = ""
    reason: str = ""
    """What it is known by."""
    disagreement: str = ""
    """What another source says, if it says something else."""
    is_looping: bool = False
    """Whether it fails in the same way again and again."""
    is_clock_ahead: bool = False
    """Whether its newest event is from the future: the clock of its machine is wrong."""


def decide_status(state: SessionStatus, now: datetime) -> SessionView:
    """Whether the session is over, whom it waits for, and by which source; with the text of an open question.

    The program's own report counts most, then hooks and transcript, then silence.
    """
    found = _decide_by_events(state, now)
    found = found._replace(
        reason=_explain_status(state, found, now),
        is_looping=found.status == "running" and state.failures >= LOOP,
        is_clock_ahead=state.last is not None and state.last - now > CLOCK_SKEW,
    )
    return _compare_with_report(state, found, now)


def _explain_status(state: SessionStatus, found: SessionView, now: datetime) -> str:
    if found.waiting_for == "permission":
        return "asks for a permission"
    if found.waiting_for == "person":
        return "asks a question"
    if found.waiting_for == "helpers":
        return "helpers or background tasks are running"
    if state.closed_at is not None and found.status != "running":
        return "the session ended"
    if state.turn == "ended" and found.status == "running":
        return "the answer says what comes next"
    if state.turn == "running" and found.status == "finished":
        return "nothing followed the answer"
    if state.turn in ("failed", "interrupted") or (state.turn == "ended" and found.status == "finished"):
        return {"ended": "the turn ended", "failed": "the turn failed", "interrupted": "the turn was interrupted"}[state.turn]
    return "no event for too long" if found.status == "interrupted" else "the turn is running" if state.turn == "running" else ""


def _compare_with_report(state: SessionStatus, found: SessionView, now: datetime) -> SessionView:
    """The status with what the program itself reports, if that is newer than the last step and not older than a day."""
    at = state.observed_at
    if at is None or state.closed_at is not None:
        return found
    has_moved = state.moved_at is not None and state.moved_at > at  # also one that was gone: another process has resumed it
    if has_moved or (now - at >= PATIENT and state.observed != "gone"):
        return found
    match state.observed:
        case "waiting" if found.waiting_for in (None, "helpers"):
            said = found._replace(status="running", waiting_for=state.observed_wait, reason="the program says that it waits")
        case "busy" if found.status != "running":
            said = found._replace(status="running", waiting_for=None, reason="the program says that it works")
        case "idle" if found.status == "running" and found.waiting_for is None:
            said = found._replace(status="finished", reason="the program says that it is idle")
        case "gone" if found.status == "running":
            return found._replace(status="interrupted", waiting_for=None, question="", reason="its process has ended")
        case _:
            return found
    differs = found.reason if now - at > DISAGREEING and found.reason else ""
    return said._replace(disagreement=f"its events say: {differs}" if differs else "")


def _decide_by_events(state: SessionStatus, now: datetime) -> SessionView:
    age = now - state.last if state.last is not None else PATIENT
    match state.turn:
        case "failed" | "interrupted":
            return SessionView(state.turn)
        case "ended" if has_open_helpers(state):
            return SessionView("running", "helpers") if age < PATIENT and not state.closed_at else SessionView("interrupted")
        case "ended" if state.is_announced:
            return SessionView("running") if age < RECENT and not state.closed_at else SessionView("interrupted")
        case "ended":
            return SessionView("finished", "person" if state.question else "permission" if state.is_refused else None, state.question)
        case "none":
            return SessionView("running") if age < RECENT and not state.closed_at else SessionView("finished")
    # The recording ends with the answer, before the program's mark for the end of the turn.
    has_unmarked_answer = state.is_said and not state.open_calls and not has_open_helpers(state) and not is_announcement(state.text)
    if state.closed_at is not None:
        return _view_unmarked_answer(state) if has_unmarked_answer else SessionView("interrupted")
    question = next((asked for asked in reversed(state.open_calls.values()) if asked), "") or state.question
    if question or state.waiting:
        waits = "person" if question else state.waiting or None
        return SessionView("running", waits, question) if age < PATIENT else SessionView("interrupted")
    if has_unmarked_answer and age >= RECENT:
        return _view_unmarked_answer(state)
    return SessionView("running") if age < (PATIENT if state.open_calls else RECENT) else SessionView("interrupted")


def _view_unmarked_answer(state: SessionStatus) -> SessionView:
    asked = last_question(state.text)
    return SessionView("finished", "person" if asked else None, asked)


def is_settled(state: SessionStatus) -> bool:
    """Whether the status stays the same however late it is asked for."""
    if state.observed in ("busy", "waiting") and state.closed_at is None:  # counts for a day
        return False
    if state.turn == "ended":
        return not state.is_announced and not has_open_helpers(state)
    return state.turn in ("failed", "interrupted")


def has_open_helpers(state: SessionStatus) -> bool:
    """Whether a helper or another task works in the background."""
    return state.has_background or "background" in state.helpers.values()


def is_late(state: SessionStatus, at: datetime) -> bool:
    """Whether something happened before the newest prompt or end of a turn: it comes from a file that was read later."""
    return state.turn_at is not None and at < state.turn_at


def is_answered(state: SessionStatus, text: str) -> bool:
    """Whether the end of a turn repeats the answer that is already known, or the beginning of it."""
    head = text.rstrip("… ")[:ANSWER_HEAD]
    return bool(head) and state.answer_head.startswith(head)


def find_helper(state: SessionStatus, event: Event) -> str:
    """The sub-agent that an event is by; nothing for the session's own agent."""
    agent = event.agent
    if not agent or agent == state.agent or not (state.agent or event.parent):
        return ""
    return "" if is_named_after(agent, event.run) else agent


def is_named_after(agent: str, run: str | None) -> bool:
    """Whether an agent has the name that programs give to a session: `claude-code/0b5e1111`. A goal's agent has another."""
    return run is not None and len(run) > 8 and agent.rpartition("/")[2] in (run[:8], run[-8:])


def get_event_time(state: SessionStatus, event: Event) -> datetime:
    """When an event happened; if it does not say so, with the one before."""
    at = event.at or state.last or EPOCH
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def apply(state: SessionStatus, event: Event) -> None:
    """Take in one more event of the session. Changes the state in place; never raises."""
    if event.kind not in KINDS:
        return
    at = get_event_time(state, event)
    if state.last is None or at > state.last:
        state.last = at
    if not can_see(event, PUBLIC):
        return
    if event.kind == "session.started":
        state.agent = event.agent or state.agent
    if (note := _NOTES.get(event.kind)) is not None:
        note(state, event)
    if find_helper(state, event):
        return
    if event.kind in _ACTIONS and state.closed_at is not None and at > state.closed_at:
        state.closed_at = None
    follow = _TURNS.get(event.kind)
    # A prompt may be older than the end of the turn in which it was queued. Not one of a span: spans arrive in any order.
    is_never_late = event.kind in _NEVER_LATE and not (event.kind == "prompt.submitted" and event.trace is not None)
    if follow is not None and (is_never_late or not is_late(state, at)):
        follow(state, event, at)


# --- the turn of the session's own agent


def _on_prompt(state: SessionStatus, event: Event, at: datetime) -> None:
    text = event.data.get("prompt") or event.text
    if isinstance(text, str) and text.startswith("!"):  # the person ran a command; the agent is asked nothing
        return
    state.agent = state.agent or event.agent or ""
    if state.turn != "running":
        state.text, state.answer_head = "", ""
        state.open_calls.clear()
    state.turn, state.turn_at = "running", at
    _set_moved_at(state, at)
    state.error = ""
    if state.waiting_at is None or at >= state.waiting_at:  # the hook that asks for a permission is faster than the transcript
        state.waiting, state.question = "", ""
        state.requests.clear()
    state.is_announced, state.is_refused, state.is_said = False, False, False
    state.has_background, state.failures = False, 0


def _on_reply(state: SessionStatus, event: Event, at: datetime) -> None:
    _go_on(state, event, at)
    state.error = ""  # the model answers again
    said = event.data.get("said")
    if isinstance(said, str) and said.strip():
        state.text = said[:LONGEST_TEXT]
        state.is_said = event.data.get("stop_reason") in _FINAL_STOPS


def _on_error(state: SessionStatus, event: Event, at: datetime) -> None:
    state.error = _get_text(event.data.get("error")) or _get_text(event.text)


def _on_wait(state: SessionStatus, event: Event, at: datetime) -> None:
    if state.moved_at is not None and at < state.moved_at:
        return
    if event.data.get("why") == "helpers":
        state.has_background = True
        return
    state.waiting, state.waiting_at = read_wait(event.data.get("why")), at
    if state.waiting == "person":
        state.question = shorten_text(_get_text(event.text), LONGEST_QUESTION)


def _on_request(state: SessionStatus, event: Event, at: datetime) -> None:
    if state.turn == "none":
        state.turn, state.agent = "running", state.agent or event.agent or ""
    state.waiting, state.waiting_at = "permission", at
    if event.id and len(state.requests) < MOST_OPEN:
        state.requests[event.id] = _get_text(event.data.get("call_id"))


def _on_answer(state: SessionStatus, event: Event, at: datetime) -> None:
    """One request was answered; others may be open. One that timed out still waits, in the program's own window."""
    state.requests.pop(_get_text(event.data.get("of")), None)
    if event.data.get("action") == "decide" or event.data.get("reason") == "terminal":
        state.waiting = "permission" if state.requests else ""
        _set_moved_at(state, at)


def _set_moved_at(state: SessionStatus, at: datetime) -> None:
    if state.moved_at is None or at > state.moved_at:
        state.moved_at = at


def _on_close(state: SessionStatus, event: Event, at: datetime) -> None:
    state.waiting = ""
    state.requests.clear()
    if state.closed_at is None or at > state.closed_at:
        state.closed_at = at


def _go_on(state: SessionStatus, event: Event, at: datetime) -> None:
    """The agent works. Its turn may have ended before: a background task has reported, and the agent was woken."""
    state.is_said = False
    _set_moved_at(state, at)
    if state.turn != "running":
        state.has_background = False
        state.turn, state.error, state.text = "running", "", ""
        state.question, state.is_announced = "", False
    # The hook that asks for a permission is faster than the transcript of the call.
    if state.waiting and (state.waiting_at is None or at > state.waiting_at):
        _end_requests(state, event)
        if not state.requests:
            state.waiting, state.question = "", ""


def _end_requests(state: SessionStatus, event: Event) -> None:
    """Forget the requests that a step ends: a result ends that of its call, the next reply of the model all. Other calls may run."""
    if event.kind == "model.replied":
        state.requests.clear()
    elif event.kind != "tool.called" and (call := event.data.get("call_id")):
        state.requests = {id: of for id, of in state.requests.items() if of != call}


def _on_refusal(state: SessionStatus, event: Event, at: datetime) -> None:
    """A call that the program does not allow. What a person or a hook refuses is decided already."""
    _go_on(state, event, at)
    state.is_refused = not event.data.get("by")


def _on_result(state: SessionStatus, event: Event, at: datetime) -> None:
    _go_on(state, event, at)
    state.is_refused, state.failure, state.failures = False, "", 0


def _on_failure(state: SessionStatus, event: Event, at: datetime) -> None:
    _go_on(state, event, at)
    what = _get_text(event.text)
    state.failures = state.failures + 1 if what and what == state.failure else 1
    state.failure = what


def _on_report(state: SessionStatus, event: Event, at: datetime) -> None:
    """What the program itself reports of the session."""
    if state.observed_at is None or at >= state.observed_at:
        waits = event.data.get("waiting_for")
        state.agent = state.agent or event.agent or ""
        state.observed, state.observed_at = _get_text(event.data.get("status")), at
        state.observed_wait = "permission" if waits in ("permission prompt", "sandbox request", "worker request") else "person"


def _end_turn(state: SessionStatus, event: Event, at: datetime) -> None:
    state.turn_at, state.waiting, state.has_background = at, "", False
    state.requests.clear()
    state.turn = end_of_turn(event)
    _set_moved_at(state, at)
    state.open_calls.clear()
    if state.turn == "failed":
        state.error = _get_text(event.text)
    if state.turn != "ended":
        state.question, state.is_announced = "", False
        return
    text = state.text or ("" if event.text is None or is_answered(state, event.text) else event.text)
    state.text = ""
    if text:
        state.question, state.is_announced = last_question(text), is_announcement(text)
        state.answer_head = text[:ANSWER_HEAD]


def end_of_turn(event: Event) -> Literal["ended", "interrupted", "failed"]:
    """How a turn ended."""
    reason = event.data.get("reason")
    return "interrupted" if reason == "interrupted" else "failed" if reason else "ended"


# --- calls and helpers


def _note_call(state: SessionStatus, event: Event) -> None:
    if event.id and len(state.open_calls) < MOST_OPEN:
        asked = read_question(event.data.get("tool"), event.data.get("input"))
        state.open_calls[event.id] = shorten_text(asked[:2000], LONGEST_QUESTION)


def _note_result(state: SessionStatus, event: Event) -> None:
    state.open_calls.pop(event.cause or "", None)


def _note_launch(state: SessionStatus, event: Event) -> None:
    child = event.child or ""
    if child and (child in state.helpers or len(state.helpers) < MOST_OPEN) and state.helpers.get(child) != "returned":
        is_background = event.data.get("background") is True or state.helpers.get(child) == "background"
        state.helpers[child] = "background" if is_background else "foreground"


def _note_return(state: SessionStatus, event: Event) -> None:
    child = event.child or ""
    if child and (child in state.helpers or len(state.helpers) < MOST_OPEN):
        state.helpers[child] = "returned"


def read_wait(why: object) -> Literal["", "person", "permission"]:
    """Whom a session waits for, by the program's word or sentence: `permission_prompt`, "Claude needs your permission to use Bash"."""
    words = why.lower() if isinstance(why, str) else ""
    if "permission" in words or "approval" in words:
        return "permission"
    return "person" if words.startswith(("question", "elicitation")) else ""


def _get_text(value: object) -> str:
    return value[:300] if isinstance(value, str) else ""


_NOTES: Mapping[str, Callable[[SessionStatus, Event], None]] = {
    "tool.called": _note_call,
    "tool.returned": _note_result,
    "tool.failed": _note_result,
    "tool.denied": _note_result,
    "agent.launched": _note_launch,
    "agent.returned": _note_return,
}
"""By whichever agent of the session."""
_TURNS: Mapping[str, Callable[[SessionStatus, Event, datetime], None]] = {
    "prompt.submitted": _on_prompt,
    "model.replied": _on_reply,
    "model.failed": _on_error,
    "tool.called": _go_on,
    "tool.returned": _on_result,
    "tool.failed": _on_failure,
    "tool.denied": _on_refusal,
    "session.turn_ended": _end_turn,
    "session.waiting": _on_wait,
    "approval.requested": _on_request,
    "approval.closed": _on_answer,
    "control.requested": _on_answer,
    "session.ended": _on_close,
    "session.observed": _on_report,
}
_NEVER_LATE = frozenset(("prompt.submitted", "model.failed", "session.ended", "session.observed"))
KINDS = frozenset((*_NOTES, *_TURNS, "session.started", "agent.named"))
"""The kinds of events that say something about the status of a session."""
