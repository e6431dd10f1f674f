"""Graphs over HTTP: which there are, which one a session has, and switching in the middle of a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetlore.graph.settings import GraphSettings
from tests.server.serving import Served, serve
from tests.server.test_chat_api import bearing, look, press, say, shown

MINE = """
name = "echo"
description = "Only reflexes."
[nodes]
input = "input_v1"
output = "output_v1"
[[edges]]
from = "user"
to = "input"
carries = "message"
[[edges]]
from = "input"
to = "output"
carries = "command"
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as running:
        yield running


def test_every_graph_is_listed_with_all_that_can_be_drawn_and_the_default_comes_first(served: Served) -> None:
    recorded = served.view("graph/list")
    assert recorded["default"] == recorded["graphs"][0]["name"] == "seven"
    assert "reflex" in [graph["name"] for graph in recorded["graphs"]]
    for graph in recorded["graphs"]:
        names = {node["name"] for node in graph["nodes"]}
        assert {edge[end] for edge in graph["edges"] for end in ("source", "target")} <= names
        assert "user" in names


def test_a_new_session_has_the_default_and_one_of_ones_own_keeps_what_it_was_switched_to(served: Served) -> None:
    assert served.view("graph/active")["graph"]["name"] == "seven"
    session = say(served, "Make a counter")["session"]
    switched = served.post("/api/graph/switch", {"session": session, "graph": "reflex"})
    assert switched.json["screen"]["graph"] == "reflex"
    active = served.get("/api/graph/active", headers=bearing(served.token), session=session).json
    assert (active["session"], active["graph"]["name"]) == (session, "reflex")
    assert served.view("graph/active")["graph"]["name"] == "seven"
    assert say(served, "Hello")["session"] != session


def test_history_and_state_stay_through_a_switch(served: Served) -> None:
    session = say(served, "Make a counter")["session"]
    press(served, "count_up", session)
    before = shown(served, session)
    served.post("/api/graph/switch", {"session": session, "graph": "reflex"})
    assert shown(served, session) == before | {"graph": "reflex"}
    served.post("/api/graph/switch", {"session": session, "graph": "seven"})
    assert press(served, "count_up", session)["state"] == {"count": 2}


def test_switching_without_a_session_begins_one(served: Served) -> None:
    recorded = served.post("/api/graph/switch", {"graph": "reflex"}).json
    assert look(served, recorded["session"])["screen"]["graph"] == "reflex"


@pytest.mark.parametrize(
    ("body", "status"), [({"graph": "no-such"}, 422), ({"graph": "../seven"}, 422), ({"graf": "seven"}, 422), ({}, 422)]
)
def test_a_graph_that_is_not_there_is_refused(served: Served, body: dict[str, Any], status: int) -> None:
    session = say(served, "Hello")["session"]
    answer = served.post("/api/graph/switch", {"session": session, **body})
    assert answer.status == status, answer.body
    assert look(served, session)["screen"]["graph"] == "seven"


def test_graphs_of_ones_own_and_another_default_come_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "echo.toml").write_text(MINE)
    with serve(tmp_path, graph=GraphSettings(default="echo", folder=str(tmp_path / "graphs"))) as served:
        recorded = served.view("graph/list")
        assert (recorded["default"], recorded["graphs"][0]["description"]) == ("echo", "Only reflexes.")
        assert look(served, say(served, "Hello")["session"])["screen"]["graph"] == "echo"


def test_a_session_whose_graph_is_gone_says_so_and_can_go_on_by_another(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "echo.toml").write_text(MINE)
    with serve(tmp_path, graph=GraphSettings(folder=str(folder))) as served:
        session = say(served, "Hello")["session"]
        assert served.post("/api/graph/switch", {"session": session, "graph": "echo"}).status == 200
    with serve(tmp_path) as served:
        answer = served.get("/api/graph/active", headers=bearing(served.token), session=session)
        assert (answer.status, "not here any more" in answer.detail) == (409, True)
        assert say(served, "Hello again", session)["error"] is None
