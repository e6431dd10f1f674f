"""Controls described by models are validated or sent back with a reason; presses work on them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleetlore.graph import controls
from fleetlore.graph.controls import InvalidControl
from fleetlore.graph.screen import apply_binding, arrange_controls, is_local_action, machine_controls, update_variables
from fleetlore.graph.turn import ThinkerResult
from fleetlore.views.conversation_state import Conversation, Machine


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("x", "actions is a list"),
        ([{"label": "x"}], "needs a label and an action"),
        ([{"label": 1, "action": "a"}], "needs a label and an action"),
        ([{"label": "x", "action": "a", "payload": {"op": "explode", "var": "n"}}], "op one of inc, dec, set, toggle"),
        ([{"label": "x", "action": "a", "payload": {"op": "inc"}}], "needs var"),
        ([{"label": "x", "action": "a", "payload": "y" * 5000}], "at most 4096 bytes"),
        ([{"label": "x", "action": "a"}] * 41, "at most 40 entries"),
    ],
)
def test_a_button_that_is_none_is_sent_back(said: Any, reason: str) -> None:
    with pytest.raises(InvalidControl, match=reason):
        controls.parse_buttons(said)


@pytest.mark.parametrize("said", [[{"type": "script"}], [{"type": "table", "columns": "a", "data": []}], [{"type": "label"}], ["x"]])
def test_an_item_that_is_none_is_sent_back(said: Any) -> None:
    with pytest.raises(InvalidControl):
        controls.parse_display(said)


def test_long_texts_and_odd_cells_are_made_plain() -> None:
    (label,) = controls.parse_display([{"type": "label", "id": "x", "text": "y" * 999, "value": {"a": 1}}])
    assert len(label["text"]) == controls.MAX_TEXT_LENGTH
    assert label["value"] == ""
    table = controls.build_table(["a", "b"], [{"a": 1, "b": [2]}, [3], 4])
    assert table["data"] == [[1, "[2]"], [3], [4]]


def test_a_screen_fits_into_one_event() -> None:
    wide = controls.build_table([f"c{n}" for n in range(40)], [["x" * 500] * 40] * 200)
    made = controls.truncate_controls([wide, {"type": "button", "label": "b", "action": "b"}])
    assert len(msgspec.json.encode(made)) <= controls.MAX_CONTROLS_BYTES
    assert made[0]["cut"] is True
    assert made[-1]["type"] == "button"


@pytest.mark.parametrize("said", [None, "x", 7, [1, "x", None], [{"type": {"a": 1}, "value": [1], "columns": [{}], "rows": "many"}]])
def test_what_a_browser_reports_may_be_anything(said: Any) -> None:
    msgspec.json.encode(controls.parse_reported_controls(said))


@pytest.mark.parametrize(
    ("payload", "state", "data", "value"),
    [
        ({"op": "inc", "var": "n"}, {}, None, 1),
        ({"op": "inc", "var": "n", "initial": 5, "step": 2}, {}, None, 7),
        ({"op": "dec", "var": "n"}, {"n": 3}, None, 2),
        ({"op": "inc", "var": "n"}, {"n": "text"}, None, 1),
        ({"op": "inc", "var": "n", "step": "far"}, {"n": True}, None, 1),
        ({"op": "toggle", "var": "n"}, {"n": True}, None, False),
        ({"op": "set", "var": "n", "value": 9}, {"n": 1}, 4, 9),
        ({"op": "set", "var": "n"}, {}, "typed", "typed"),
        ({"op": "set", "var": "n"}, {}, {"odd": 1}, "{'odd': 1}"),
    ],
)
def test_a_press_sets_its_variable(payload: dict[str, Any], state: dict[str, Any], data: Any, value: Any) -> None:
    assert apply_binding(state, payload, data) == ("n", value)


def test_only_what_is_on_the_screen_is_done_here() -> None:
    button = {"type": "button", "label": "x", "action": "x", "payload": {"op": "inc", "var": "n"}}
    assert is_local_action(Conversation(id="s", controls=[button]), "x")
    assert not is_local_action(Conversation(id="s"), "x")
    assert not is_local_action(Conversation(id="s", controls=[{**button, "payload": {"item": 1}}]), "x")
    assert not is_local_action(Conversation(id="s", controls=[{**button, "machine_id": "gone"}]), "x")


def test_two_machines_may_have_buttons_of_one_name() -> None:
    states = {"a": {"buttons": [{"label": "Next", "action": "next", "go": "a"}]}}
    machines = {name: Machine(initial="a", current="a", states=states) for name in ("one", "two")}
    actions = [control["action"] for control in machine_controls(machines) if control["type"] == "button"]
    assert actions == ["one.next", "two.next"]


def test_a_machine_whose_states_are_nonsense_shows_what_it_can() -> None:
    machine = Machine(initial="a", current="gone", states={"a": {"buttons": "no"}})
    assert machine_controls({"m": machine}) == [{"type": "label", "id": "m", "text": "m", "value": "gone", "machine_id": "m"}]


def test_what_a_thought_does_not_mention_stays() -> None:
    shown: list[dict[str, Any]] = [{"type": "label", "id": "n", "text": "N", "value": 1}, {"type": "button", "label": "b", "action": "b"}]
    session = Conversation(id="s", controls=shown, state={"n": 1})
    assert arrange_controls(session, ThinkerResult(), {"n": 2})[0]["value"] == 2
    assert arrange_controls(session, ThinkerResult(actions=()), {"n": 1}) == shown[:1]
    assert arrange_controls(session, ThinkerResult(actions=(), display=()), {"n": 1}) == []
    bound_ones = ThinkerResult(
        actions=tuple(controls.parse_buttons([{"label": "x", "action": "x", "payload": {"op": "inc", "var": "m", "initial": 4}}]))
    )
    assert update_variables(session, bound_ones) == {"n": 1, "m": 4}


def test_the_name_of_a_variable_is_made_short_like_any_text() -> None:
    made = controls.parse_button({"label": "+1", "action": "up", "payload": {"op": "inc", "var": " " + "v" * 600, "step": 2}})
    assert made["payload"] == {"op": "inc", "var": "v" * 200, "step": 2}


def test_what_a_browser_reports_fits_into_one_event_and_no_screen_of_ours_is_cut() -> None:
    wide = {"type": "table", "columns": ["ä" * 200] * 40, "data": []}
    assert 0 < len(msgspec.json.encode(controls.parse_reported_controls([wide] * 500))) <= controls.MAX_CONTROLS_BYTES
    buttons = [{"type": "button", "label": "Next", "action": f"light-{number}.next"} for number in range(450)]
    assert len(controls.parse_reported_controls(buttons)) == 450


def test_what_a_press_brings_is_made_plain_and_short() -> None:
    assert apply_binding({}, {"op": "set", "var": "x"}, "y" * 9000) == ("x", "y" * 500)
    assert apply_binding({}, {"op": "set", "var": "x"}, {"a": 1}) == ("x", "{'a': 1}")
