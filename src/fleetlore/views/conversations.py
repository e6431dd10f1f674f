"""Sessions of conversational agents, each folded from its own events, so that the screen is the same after a restart.

A run is a session of ours if it starts with a `session.started` event of our program; the person in it owns the session. Later events
of others in its scope change neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.conversation_audit import compare_controls
from fleetlore.views.conversation_state import Conversation, Entry, EntryRole, Machine

VERSION = 2
GRAPH_PROGRAM = "fleetlore.graph"
"""The `program` field of our `session.started` events."""
MAX_SESSIONS = 200
MAX_ENTRIES = 200
MAX_CHARACTERS = 400_000
"""Length of the history of one session."""
MAX_ROLES = 64
FAILURE_REASONS = ("error", "interrupted")
"""Reasons for which a turn ended without an answer."""


class Conversations(Struct, kw_only=True):
    """The newest sessions, least recently active first."""

    version: int = VERSION
    sessions: dict[str, Conversation] = field(default_factory=dict)
    let_go: int = 0
    """How many were dropped; the log still has them."""


def initial() -> Conversations:
    """The state without sessions."""
    return Conversations()


def apply(state: Conversations, event: Event) -> Conversations:
    """The sessions after one more event. Never raises. Modifies `state`: continue with the returned one."""
    if event.run is None or event.kind not in EVENT_HANDLERS:
        return state
    session = state.sessions.pop(event.run, None)
    if session is None:
        if not is_session_start(event):
            return state
        session = Conversation(id=event.run)
    apply_to_session(session, event)
    state.sessions[event.run] = session
    if len(state.sessions) > MAX_SESSIONS:
        del state.sessions[next(iter(state.sessions))]
        state.let_go += 1
    return state


def is_session_start(event: Event) -> bool:
    """Whether an event starts a session of ours."""
    return event.kind == "session.started" and event.data.get("program") == GRAPH_PROGRAM


def apply_to_session(session: Conversation, event: Event) -> None:
    """Apply one event to a session. Never raises."""
    session.position = event.position or session.position
    handle = EVENT_HANDLERS.get(event.kind)
    if handle is not None:
        handle(session, event)


def _on_session_started(session: Conversation, event: Event) -> None:
    if not is_session_start(event):
        return
    if event.data.get("source") == "clear":
        _clear_session(session)
    if session.identity is None:
        session.identity = _text_or_empty(event.data.get("person"))
        session.channel = _text_or_empty(event.data.get("channel"))
    session.agent = event.agent or session.agent
    session.graph = _text_or_empty(event.data.get("graph")) or session.graph


def _clear_session(session: Conversation) -> None:
    empty = Conversation(id=session.id)
    for name in ("history", "controls", "state", "machines", "kept", "characters", "flags", "reported", "audited"):
        setattr(session, name, getattr(empty, name))


def _on_prompt(session: Conversation, event: Event) -> None:
    _begin_turn(session, event, _text_or_empty(event.data.get("prompt")) or event.text or "")


def _on_ui_action(session: Conversation, event: Event) -> None:
    _begin_turn(session, event, event.text or f"[pressed {_text_or_empty(event.data.get('action'))}]")


def _begin_turn(session: Conversation, event: Event, text: str) -> None:
    session.turn += 1
    session.open, session.active_at, session.idle = event.id, event.at, False
    _append_entry(session, event, "user", text)


def _on_agent_spoke(session: Conversation, event: Event) -> None:
    _append_entry(session, event, "assistant", event.text or "")
    if event.data.get("local") is True:
        return
    answered = event.data.get("answered")
    answered_flags = answered if isinstance(answered, list | tuple) else tuple(session.flags)
    session.flags = {name: flag for name, flag in session.flags.items() if name not in answered_flags}


def _on_turn_ended(session: Conversation, event: Event) -> None:
    session.open = None
    if event.data.get("reason") in FAILURE_REASONS:
        _append_entry(session, event, "error", event.text or "the turn failed")


def _append_entry(session: Conversation, event: Event, role: EntryRole, text: str) -> None:
    session.history.append(Entry(role=role, text=text, turn=session.turn, at=event.at))
    session.characters += len(text)
    if len(session.history) > MAX_ENTRIES or session.characters > MAX_CHARACTERS:
        session.history = _keep_newest_entries(session.history)
        session.characters = sum(len(entry.text) for entry in session.history)


def _keep_newest_entries(history: list[Entry]) -> list[Entry]:
    """The newest entries, with room to grow; they start with a user message."""
    characters, first = 0, len(history)
    for index in range(len(history) - 1, len(history) - 3 * MAX_ENTRIES // 4, -1):
        characters += len(history[index].text)
        if characters > MAX_CHARACTERS * 3 // 4:
            break
        if history[index].role == "user":
            first = index
    return history[first:] or history[-1:]


def _on_ui_controls(session: Conversation, event: Event) -> None:
    controls, state = event.data.get("controls"), event.data.get("state")
    if isinstance(controls, list | tuple):
        session.controls = [control for control in controls if isinstance(control, dict)]
        session.reported = session.audited = None  # the report was about the previous screen
    if isinstance(state, dict):
        session.state = state


def _on_ui_reported(session: Conversation, event: Event) -> None:
    controls = event.data.get("controls")
    if isinstance(controls, list | tuple):
        session.reported = [control for control in controls if isinstance(control, dict)]
        if compare_controls(session.controls, session.reported) is None:
            session.audited = None
            session.flags.pop("mismatch", None)


def _on_machine_created(session: Conversation, event: Event) -> None:
    """Also emitted when a machine gets another state; `new_state` then has the current one."""
    id, initial, states = (event.data.get(key) for key in ("machine", "initial", "states"))
    if isinstance(id, str) and isinstance(initial, str) and isinstance(states, dict):
        session.machines[id] = Machine(initial=initial, current=event.new_state or initial, states=states)


def _on_machine_moved(session: Conversation, event: Event) -> None:
    if (machine := session.machines.get(_text_or_empty(event.data.get("machine")))) is not None:
        machine.current = event.new_state or machine.initial


def _on_machine_destroyed(session: Conversation, event: Event) -> None:
    session.machines.pop(_text_or_empty(event.data.get("machine")), None)


def _on_node_finished(session: Conversation, event: Event) -> None:
    role, output = _text_or_empty(event.data.get("node")), event.data.get("output")
    if output is not None and (role in session.kept or len(session.kept) < MAX_ROLES):
        session.kept[role] = output


def _on_sensor_idle(session: Conversation, event: Event) -> None:
    session.idle = True


def _on_sensor_returned(session: Conversation, event: Event) -> None:
    session.flags["returned"] = dict(event.data)


def _on_audit_mismatch(session: Conversation, event: Event) -> None:
    session.audited = event.data.get("retried") is True
    session.flags["mismatch"] = dict(event.data)


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


EVENT_HANDLERS: Mapping[str, Callable[[Conversation, Event], None]] = {
    "session.started": _on_session_started,
    "prompt.submitted": _on_prompt,
    "ui.action": _on_ui_action,
    "agent.spoke": _on_agent_spoke,
    "session.turn_ended": _on_turn_ended,
    "ui.controls": _on_ui_controls,
    "ui.reported": _on_ui_reported,
    "machine.created": _on_machine_created,
    "machine.moved": _on_machine_moved,
    "machine.reset": _on_machine_moved,
    "machine.destroyed": _on_machine_destroyed,
    "node.finished": _on_node_finished,
    "sensor.idle": _on_sensor_idle,
    "sensor.returned": _on_sensor_returned,
    "audit.mismatch": _on_audit_mismatch,
}
