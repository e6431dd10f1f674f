"""Sessions folded: the same events make the same screen, whoever folds them, and nothing that was stored can make it raise."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given as with_any
from hypothesis import settings
from hypothesis import strategies as st

from fleetlore import Event
from fleetlore.testing import given
from fleetlore.views import conversations, stage
from fleetlore.views.conversation_audit import compare_controls
from fleetlore.views.conversation_state import Conversation
from fleetlore.views.conversations import (
    EVENT_HANDLERS,
    GRAPH_PROGRAM,
    MAX_CHARACTERS,
    MAX_ENTRIES,
    MAX_SESSIONS,
    Conversations,
    apply_to_session,
)


def began(run: str = "s", **data: Any) -> Event:
    said = {"program": GRAPH_PROGRAM, "person": "ann", "channel": "web", "graph": "seven", "source": "startup"} | data
    return Event(kind="session.started", actor="ann", agent="guide", run=run, data=said)


def fact(kind: str, run: str = "s", **fields: Any) -> Event:
    data = fields.pop("data", {})
    return Event(kind=kind, actor="ann", agent="guide", run=run, data=data, **fields)


def said(text: str, run: str = "s") -> Event:
    return fact("prompt.submitted", run, data={"prompt": text}, text=text[:20], id=f"00000000-0000-7000-8000-{len(text):012x}")


def spoke(text: str, run: str = "s", **data: Any) -> Event:
    return fact("agent.spoke", run, text=text, data=data)


def of(state: Conversations) -> Conversation:
    return state.sessions["s"]


def test_what_was_said_is_kept_turn_by_turn() -> None:
    recorded = given(conversations, began()).when(said("hello"), spoke("Hi."), fact("session.turn_ended", data={"reason": "done"}))
    recorded.then(
        lambda state: (
            [(entry.role, entry.text, entry.turn) for entry in of(state).history] == [("user", "hello", 1), ("assistant", "Hi.", 1)]
        )
    )
    recorded.then(lambda state: (of(state).identity, of(state).graph, of(state).open) == ("ann", "seven", None))


def test_a_run_of_somebody_else_is_no_session() -> None:
    other = Event(kind="session.started", actor="codex", agent="codex", run="s", data={"program": "codex"})
    given(conversations, other).when(said("hello"), spoke("Hi.")).then(lambda state: state.sessions == {})


def test_a_session_is_no_run_of_a_stage() -> None:
    recorded = [began(), said("hello"), spoke("Hi.", graph="seven")]
    given(stage, *recorded).when().then(lambda state: state.runs == {})
    given(stage).when(spoke("To be, or not to be.")).then(lambda state: set(state.runs) == {"s"})


def test_anybody_who_began_it_owns_it() -> None:
    given(conversations, began()).when(began(person="bob", source="resume")).then(lambda state: of(state).identity == "ann")


def test_a_turn_that_failed_leaves_its_reason() -> None:
    failed = fact("session.turn_ended", data={"reason": "error"}, text="thinker: no answer")
    given(conversations, began(), said("hello")).when(failed).then(
        lambda state: of(state).history[-1].role == "error" and of(state).open is None
    )


def test_switching_keeps_and_clearing_wipes() -> None:
    before = [began(), said("hello"), spoke("Hi."), fact("ui.controls", data={"controls": [{"type": "button"}], "state": {"n": 1}})]
    switched = given(conversations, *before).when(began(source="switch", graph="reflex"))
    switched.then(lambda state: (of(state).graph, len(of(state).history), of(state).state) == ("reflex", 2, {"n": 1}))
    cleared = given(conversations, *before).when(began(source="clear"))
    cleared.then(lambda state: (of(state).history, of(state).controls, of(state).state, of(state).turn) == ([], [], {}, 1))


def test_empty_controls_clear_the_screen() -> None:
    shown = fact("ui.controls", data={"controls": [{"type": "button", "label": "x"}]})
    given(conversations, began(), shown).when(fact("ui.controls", data={"controls": []})).then(lambda state: of(state).controls == [])


def test_machines_are_made_moved_grown_reset_and_gone() -> None:
    made = fact("machine.created", data={"machine": "m", "initial": "a", "states": {"a": {}, "b": {}}}, new_state="a")
    moved = fact("machine.moved", data={"machine": "m"}, old_state="a", new_state="b")
    grown = fact("machine.created", data={"machine": "m", "initial": "a", "states": {"a": {}, "b": {}, "c": {}}}, new_state="b")
    reset = fact("machine.reset", data={"machine": "m"}, new_state="a")
    given(conversations, began(), made).when(moved).then(lambda state: of(state).machines["m"].current == "b")
    grew = given(conversations, began(), made, moved).when(grown)
    grew.then(lambda state: (of(state).machines["m"].current, len(of(state).machines["m"].states)) == ("b", 3))
    given(conversations, began(), made, moved).when(reset).then(lambda state: of(state).machines["m"].current == "a")
    given(conversations, began(), made).when(fact("machine.destroyed", data={"machine": "m"})).then(lambda state: of(state).machines == {})


def test_flags_stay_until_a_mind_has_answered() -> None:
    back = fact("sensor.returned", data={"away_ms": 1})
    given(conversations, began(), back).when(spoke("count = 1", local=True)).then(lambda state: "returned" in of(state).flags)
    given(conversations, began(), back).when(spoke("Welcome back.")).then(lambda state: of(state).flags == {})


def test_a_screen_that_fits_again_is_amiss_no_more() -> None:
    shown = fact("ui.controls", data={"controls": [{"type": "button", "label": "x", "action": "x"}]})
    amiss = [began(), shown, fact("ui.reported", data={"controls": []}), fact("audit.mismatch", data={"retried": True})]
    given(conversations, *amiss).when().then(lambda state: of(state).audited is True and "mismatch" in of(state).flags)
    fits = fact("ui.reported", data={"controls": [{"type": "button", "label": "x", "action": "x"}]})
    given(conversations, *amiss).when(fits).then(lambda state: of(state).audited is None and of(state).flags == {})


def test_history_is_bounded_and_begins_with_the_user() -> None:
    session = Conversation(id="s")
    for number in range(5 * MAX_ENTRIES):
        apply_to_session(session, said(f"question {number}"))
        apply_to_session(session, spoke("answer " * 30))
        assert len(session.history) <= MAX_ENTRIES
        assert session.history[0].role == "user"
    for _ in range(10):
        apply_to_session(session, said("x" * (MAX_CHARACTERS // 4)))
    assert sum(len(entry.text) for entry in session.history) <= MAX_CHARACTERS


def test_of_many_sessions_the_longest_silent_are_let_go() -> None:
    state = conversations.initial()
    for number in range(MAX_SESSIONS + 3):
        state = conversations.apply(state, began(f"s{number}"))
        state = conversations.apply(state, said("still here", "s0"))
    assert (len(state.sessions), state.let_go) == (MAX_SESSIONS, 3)
    assert "s0" in state.sessions
    assert "s1" not in state.sessions


def test_the_state_is_written_and_read_again() -> None:
    state = conversations.initial()
    for event in (began(), said("hello"), spoke("Hi."), fact("sensor.idle")):
        state = conversations.apply(state, event)
    assert msgspec.json.decode(msgspec.json.encode(state), type=Conversations) == state


def hostile() -> st.SearchStrategy[Event]:
    """Events of every kind that is heard, with data of any shape."""
    keys = (
        "controls",
        "state",
        "machine",
        "initial",
        "states",
        "node",
        "output",
        "prompt",
        "action",
        "reason",
        "source",
        "person",
        "graph",
    )
    odd: st.SearchStrategy[Any] = st.sampled_from(
        [None, True, 7, 1e308, "", "s", "clear", "\u202e", [], [1], [{}], [{"type": []}], {}, {"a": {"buttons": 1}}, [["x"]]]
    )
    data = st.dictionaries(st.sampled_from(keys), odd, max_size=5)
    return st.builds(
        lambda kind, data, text, new: Event(kind=kind, actor="x", run="s", data=data, text=text, new_state=new),
        st.sampled_from(sorted(EVENT_HANDLERS)),
        data,
        st.sampled_from([None, "", "x\ny"]),
        st.sampled_from([None, "a"]),
    )


@settings(max_examples=100, deadline=None)
@with_any(st.lists(hostile(), max_size=8))
def test_nothing_that_was_stored_makes_it_raise(stored: list[Event]) -> None:
    state = conversations.apply(conversations.initial(), began())
    for event in stored:
        state = conversations.apply(state, event)
    msgspec.json.encode(state)
    assert of(state).identity == "ann"


BUTTON = {"type": "button", "label": "Go", "action": "go", "payload": {"op": "inc", "var": "n"}}
LABEL = {"type": "label", "id": "n", "text": "N", "value": 1}
TABLE = {"type": "table", "columns": ["a", "b"], "data": [[1, 2], [3, 4]]}


@pytest.mark.parametrize(
    "shown",
    [
        [TABLE, LABEL, BUTTON],
        [{"type": "button", "label": "Go", "action": "go"}, {**LABEL, "value": "1"}, {"type": "table", "columns": ["a", "b"], "rows": 2}],
        [BUTTON, {**LABEL, "value": 1.0}, TABLE],
    ],
)
def test_what_looks_the_same_is_the_same(shown: list[dict[str, Any]]) -> None:
    assert compare_controls([BUTTON, LABEL, TABLE], shown) is None


@pytest.mark.parametrize(
    ("shown", "missing", "unexpected"),
    [
        ([], 3, 0),
        ([BUTTON, LABEL], 1, 0),
        ([BUTTON, BUTTON, LABEL, TABLE], 0, 1),
        ([{**BUTTON, "action": "stop"}, LABEL, TABLE], 1, 1),
        ([BUTTON, {**LABEL, "value": 2}, TABLE], 1, 1),
        ([BUTTON, LABEL, {**TABLE, "data": [[1, 2]]}], 1, 1),
    ],
)
def test_what_is_missing_and_what_is_too_much_are_told_apart(shown: list[dict[str, Any]], missing: int, unexpected: int) -> None:
    found = compare_controls([BUTTON, LABEL, TABLE], shown)
    assert found is not None
    assert (len(found.missing), len(found.unexpected)) == (missing, unexpected)
