"""Sessions of conversational agents: each as its own events tell it, so that after a restart the screen is the same.

A run is a session of ours if it began with a `session.started` of our program; whoever began it owns it. What others tell in its scope
changes neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.conversation_audit import difference
from fleetlore.views.conversation_state import Conversation, Entry, Machine, Speaker

VERSION = 2
PROGRAM = "fleetlore.graph"
"""What `session.started` names as its program."""
SESSIONS_KEPT = 200
ENTRIES_KEPT = 200
CHARACTERS_KEPT = 400_000
"""Of what was said in one session."""
ROLES_KEPT = 64
FAILED = ("error", "interrupted")
"""Reasons for which a turn ended without an answer."""


class Sessions(Struct, kw_only=True):
    """The newest sessions, the longest silent first."""

    version: int = VERSION
    sessions: dict[str, Conversation] = field(default_factory=dict)
    let_go: int = 0
    """How many are not kept any more; the log still has them."""


def initial() -> Sessions:
    """Nobody has said anything yet."""
    return Sessions()


def apply(state: Sessions, event: Event) -> Sessions:
    """The sessions after one more event. Never raises. Consumes them: go on with those that are returned."""
    if event.run is None or event.kind not in HEARD:
        return state
    session = state.sessions.pop(event.run, None)
    if session is None:
        if not begins(event):
            return state
        session = Conversation(id=event.run)
    take(session, event)
    state.sessions[event.run] = session
    if len(state.sessions) > SESSIONS_KEPT:
        del state.sessions[next(iter(state.sessions))]
        state.let_go += 1
    return state


def begins(event: Event) -> bool:
    """Whether an event begins a session of ours."""
    return event.kind == "session.started" and event.data.get("program") == PROGRAM


def take(session: Conversation, event: Event) -> None:
    """Let one session know one more event of its scope. Never raises."""
    session.position = event.position or session.position
    hear = HEARD.get(event.kind)
    if hear is not None:
        hear(session, event)


def _started(session: Conversation, event: Event) -> None:
    if not begins(event):
        return
    if event.data.get("source") == "clear":
        _wipe(session)
    if session.identity is None:
        session.identity = _text(event.data.get("person"))
        session.channel = _text(event.data.get("channel"))
    session.agent = event.agent or session.agent
    session.graph = _text(event.data.get("graph")) or session.graph


def _wipe(session: Conversation) -> None:
    fresh = Conversation(id=session.id)
    for name in ("history", "controls", "state", "machines", "kept", "characters", "flags", "reported", "audited"):
        setattr(session, name, getattr(fresh, name))


def _prompted(session: Conversation, event: Event) -> None:
    _begin(session, event, _text(event.data.get("prompt")) or event.text or "")


def _pressed(session: Conversation, event: Event) -> None:
    _begin(session, event, event.text or f"[pressed {_text(event.data.get('action'))}]")


def _begin(session: Conversation, event: Event, words: str) -> None:
    session.turn += 1
    session.open, session.active_at, session.idle = event.id, event.at, False
    _say(session, event, "user", words)


def _spoke(session: Conversation, event: Event) -> None:
    _say(session, event, "assistant", event.text or "")
    if event.data.get("local") is True:
        return
    answered = event.data.get("answered")
    heard = answered if isinstance(answered, list | tuple) else tuple(session.flags)
    session.flags = {name: flag for name, flag in session.flags.items() if name not in heard}


def _turn_ended(session: Conversation, event: Event) -> None:
    session.open = None
    if event.data.get("reason") in FAILED:
        _say(session, event, "error", event.text or "the turn failed")


def _say(session: Conversation, event: Event, role: Speaker, words: str) -> None:
    session.history.append(Entry(role=role, text=words, turn=session.turn, at=event.at))
    session.characters += len(words)
    if len(session.history) > ENTRIES_KEPT or session.characters > CHARACTERS_KEPT:
        session.history = _newest(session.history)
        session.characters = sum(len(entry.text) for entry in session.history)


def _newest(history: list[Entry]) -> list[Entry]:
    """The newest, with some room to grow; they begin with something that the user said."""
    characters, first = 0, len(history)
    for index in range(len(history) - 1, len(history) - 3 * ENTRIES_KEPT // 4, -1):
        characters += len(history[index].text)
        if characters > CHARACTERS_KEPT * 3 // 4:
            break
        if history[index].role == "user":
            first = index
    return history[first:] or history[-1:]


def _controls(session: Conversation, event: Event) -> None:
    controls, state = event.data.get("controls"), event.data.get("state")
    if isinstance(controls, list | tuple):
        session.controls = [control for control in controls if isinstance(control, dict)]
        session.reported = session.audited = None  # what the browser said was of the screen before
    if isinstance(state, dict):
        session.state = state


def _reported(session: Conversation, event: Event) -> None:
    controls = event.data.get("controls")
    if isinstance(controls, list | tuple):
        session.reported = [control for control in controls if isinstance(control, dict)]
        if difference(session.controls, session.reported) is None:
            session.audited = None
            session.flags.pop("mismatch", None)


def _machine_created(session: Conversation, event: Event) -> None:
    """Also tells of one that was given a further state: then the event says in which it is."""
    id, initial, states = (event.data.get(key) for key in ("machine", "initial", "states"))
    if isinstance(id, str) and isinstance(initial, str) and isinstance(states, dict):
        session.machines[id] = Machine(initial=initial, current=event.new_state or initial, states=states)


def _machine_moved(session: Conversation, event: Event) -> None:
    if (machine := session.machines.get(_text(event.data.get("machine")))) is not None:
        machine.current = event.new_state or machine.initial


def _machine_destroyed(session: Conversation, event: Event) -> None:
    session.machines.pop(_text(event.data.get("machine")), None)


def _finished(session: Conversation, event: Event) -> None:
    role, output = _text(event.data.get("node")), event.data.get("output")
    if output is not None and (role in session.kept or len(session.kept) < ROLES_KEPT):
        session.kept[role] = output


def _idle(session: Conversation, event: Event) -> None:
    session.idle = True


def _returned(session: Conversation, event: Event) -> None:
    session.flags["returned"] = dict(event.data)


def _mismatched(session: Conversation, event: Event) -> None:
    session.audited = event.data.get("retried") is True
    session.flags["mismatch"] = dict(event.data)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


HEARD: Mapping[str, Callable[[Conversation, Event], None]] = {
    "session.started": _started,
    "prompt.submitted": _prompted,
    "ui.action": _pressed,
    "agent.spoke": _spoke,
    "session.turn_ended": _turn_ended,
    "ui.controls": _controls,
    "ui.reported": _reported,
    "machine.created": _machine_created,
    "machine.moved": _machine_moved,
    "machine.reset": _machine_moved,
    "machine.destroyed": _machine_destroyed,
    "node.finished": _finished,
    "sensor.idle": _idle,
    "sensor.returned": _returned,
    "audit.mismatch": _mismatched,
}
