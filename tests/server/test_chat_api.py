"""Talking to an agent over HTTP: a turn and its answer, whose session is whose, and what the log makes of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event, clock, connect
from fleetlore import settings as config
from fleetlore.graph.settings import GraphSettings
from fleetlore.ingest.anonymise import make_anonymiser
from fleetlore.log.coordination import open_shared
from fleetlore.log.tokens import TokenScope, create_token
from fleetlore.server.open_context import open_context
from fleetlore.server.serve import bind_socket, browser_url, serve_in_thread
from tests.server.serving import HOST, Served, homely, serve


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as running:
        yield running


def token_of(folder: Path, label: str, scope: TokenScope = "write") -> str:
    """A token of somebody's own."""
    secret, token = create_token(scope, label=label, now=clock.now())
    with open_shared(f"sqlite:{folder}/fleet.db") as shared:
        shared.save_token(token)
    return secret


def say(served: Served, text: str, session: str | None = None, token: str = "", **more: Any) -> dict[str, Any]:
    answer = served.post("/api/chat", {"text": text, **({} if session is None else {"session": session}), **more}, token=token)
    assert answer.status == 200, answer.body
    recorded: dict[str, Any] = answer.json
    return recorded


def press(served: Served, action: str, session: str) -> dict[str, Any]:
    answer = served.post("/api/chat", {"action": action, "session": session})
    assert answer.status == 200, answer.body
    recorded: dict[str, Any] = answer.json
    return recorded


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def look(served: Served, session: str | None = None, token: str = "", **query: Any) -> dict[str, Any]:
    answer = served.get("/api/chat", headers=bearing(token or served.token), session=session, **query)
    assert answer.status == 200, answer.body
    recorded: dict[str, Any] = answer.json
    return recorded


def shown(served: Served, session: str) -> dict[str, Any]:
    """What the page shows of it; what comes after the reply, memory and course, may still be on its way."""
    screen = look(served, session)["screen"]
    return {name: screen[name] for name in ("graph", "turn", "busy", "history", "controls", "state", "machines")}


def kinds(served: Served, session: str) -> list[str]:
    return [event.kind for event in served.log.read(f"run:{session}")]


# --- turns


def test_a_turn_is_answered_with_words_and_what_is_on_the_screen_and_the_session_goes_on(served: Served) -> None:
    first = say(served, "Hello")
    assert "Good to see you" in first["text"]
    assert (first["controls"], first["error"]) == ([], None)
    second = say(served, "Make a counter", first["session"])
    assert second["session"] == first["session"]
    assert [control["type"] for control in second["controls"]] == ["label", "button", "button", "button"]
    assert second["state"] == {"count": 0}


def test_a_press_is_done_without_asking_any_model(served: Served) -> None:
    session = say(served, "Make a counter")["session"]
    assert press(served, "count_up", session)["state"] == {"count": 1}
    assert press(served, "count_up", session)["state"] == {"count": 2}
    asked = [event.data["turn"] for event in served.log.read(f"run:{session}", kinds=["model.called"])]
    assert set(asked) == {1}


def test_a_turn_that_fails_says_so_and_the_next_one_works(served: Served) -> None:
    failed = say(served, "please fail")
    assert "fails on request" in failed["error"]
    assert failed["text"] == ""
    assert say(served, "Hello", failed["session"])["error"] is None


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({}, 422, "either"),
        ({"text": "a", "action": "b"}, 422, "not both"),
        ({"text": " \n"}, 422, "matching regex"),
        ({"text": "x" * 8001}, 422, "length <= 8000"),
        ({"txt": "a"}, 422, "unknown field"),
        ({"text": "a", "dashboard": [1]}, 422, "dashboard"),
        ({"text": "a", "session": "no/such id"}, 404, "no session"),
        ({"action": "a", "data": "x" * 200_000}, 413, "shorten it"),
        (b"{", 400, "not JSON"),
        (b"\xff", 400, "UTF-8"),
    ],
)
def test_what_cannot_be_a_turn_is_refused_with_a_reason_and_begins_no_session(
    served: Served, body: object, status: int, reason: str
) -> None:
    answer = served.post("/api/chat", body)
    assert (answer.status, reason in answer.detail) == (status, True), answer.body
    assert list(served.log.read()) == []


def test_settings_that_cannot_be_are_reported_to_who_wants_to_talk_and_everything_else_is_served(tmp_path: Path) -> None:
    with serve(tmp_path, graph=GraphSettings(minds={"default": "openai:m?key_env=NO_SUCH_KEY"})) as served:
        answer = served.post("/api/chat", {"text": "Hello"})
        assert (answer.status, "export NO_SUCH_KEY" in answer.detail) == (503, True)
        assert served.view("fleet")["live"]
    with serve(tmp_path, graph=GraphSettings(default="no-such")) as served:
        assert "no-such" in served.get("/api/graph/list").detail


def test_clearing_forgets_what_was_said_and_leaves_it_on_the_log(served: Served) -> None:
    session = say(served, "Make a counter")["session"]
    cleared = served.post("/api/clear", {"session": session}).json
    assert (cleared["screen"]["history"], cleared["screen"]["controls"]) == ([], [])
    assert look(served, session)["screen"]["history"] == []
    assert "prompt.submitted" in kinds(served, session)


def test_a_log_that_is_not_kept_can_be_talked_to_as_well(tmp_path: Path) -> None:
    with serve(tmp_path, "memory:") as served:
        session = say(served, "Make a counter")["session"]
        assert look(served, session)["screen"]["state"] == {"count": 0}


# --- whose is whose


def test_talking_needs_a_token_that_may_write_and_looking_one_of_ones_own_even_on_this_machine(served: Served, tmp_path: Path) -> None:
    assert served.post("/api/chat", {"text": "Hello"}, token=None).status == 401
    assert served.get("/api/chat", signed_in=False).status == 401
    reader = token_of(tmp_path, "ada", "read")
    assert served.post("/api/chat", {"text": "Hello"}, token=reader).status == 403
    assert look(served, token=reader)["identity"] == "ada"
    assert list(served.log.read()) == []


def test_a_session_belongs_to_who_began_it_and_to_nobody_else(served: Served, tmp_path: Path) -> None:
    ada, bob = token_of(tmp_path, "ada"), token_of(tmp_path, "bob")
    hers = say(served, "Make a counter", token=ada)["session"]
    assert look(served, hers, token=bob) | {"as_of": None, "at": None} == {
        "as_of": None, "at": None, "live": True, "caught_up": True, "identity": "bob", "screen": None, "sessions": [],
    }  # fmt: skip
    nobodys = served.post("/api/chat", {"text": "Hello", "session": hers}, token=bob)
    assert nobodys.status == 404
    assert served.post("/api/clear", {"session": hers}, token=bob).status == 404
    assert served.post("/api/graph/switch", {"session": hers, "graph": "reflex"}, token=bob).status == 404
    assert served.get("/api/graph/active", headers=bearing(bob), session=hers).status == 404
    assert look(served, hers, token=ada)["screen"]["state"] == {"count": 0}


def test_a_run_that_is_no_session_is_nobodys(served: Served) -> None:
    served.log.append([Event(kind="run.started", actor="stage", run="the-tin-1", text="The Tin")])
    assert served.post("/api/chat", {"text": "Hello", "session": "the-tin-1"}).status == 404
    assert look(served, "the-tin-1")["screen"] is None


def test_a_trusted_proxy_says_who_it_is_and_nobody_else_does(tmp_path: Path) -> None:
    headers = {"x-remote-user": "carla"}
    with serve(tmp_path) as served:
        assert look(served)["identity"] == "lore up"
        answer = served.get("/api/chat", headers=bearing(served.token) | headers)
        assert answer.json["identity"] == "lore up"
    with serve(tmp_path, graph=GraphSettings(proxy_header="X-Remote-User")) as served:
        assert served.get("/api/chat", headers=bearing(served.token) | headers).json["identity"] == "carla"
        assert served.get("/api/chat", headers=headers, signed_in=False).status == 401
        assert served.get("/api/chat", headers=bearing(served.token) | {"x-remote-user": "a\tb"}).status == 400


def test_where_names_are_not_kept_a_session_is_still_its_owners(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path}/fleet.db"
    with homely(tmp_path), connect(address, anonymise=make_anonymiser(["names"])).blocking() as log:
        settings = config.load_settings(log=address, environ={}, folder=str(tmp_path))
        for turns in (1, 2):
            with bind_socket(HOST, 0) as opened, open_context(log, settings, host=HOST) as rooms, serve_in_thread(rooms.context, opened):
                served = Served(rooms.context, rooms.token, browser_url(opened, HOST))
                session = look(served)["sessions"][0]["session"] if turns == 2 else None
                session = say(served, "Make a counter", session)["session"]
                assert look(served, session)["screen"]["turn"] == turns
        assert "lore up" not in str(list(log.read()))


# --- as the log has it


def test_ones_own_sessions_are_listed_the_newest_first(served: Served) -> None:
    first = say(served, "Make a counter")["session"]
    second = say(served, "Hello")["session"]
    say(served, "Once more", first)
    rows = look(served)["sessions"]
    assert [(row["session"], row["title"], row["turns"]) for row in rows] == [(first, "Make a counter", 2), (second, "Hello", 1)]


def test_a_moment_of_the_past_shows_the_session_as_known_then(served: Served) -> None:
    session = say(served, "Make a counter")["session"]
    then = served.log.head()
    press(served, "count_up", session)
    assert look(served, session)["screen"]["state"] == {"count": 1}
    past = look(served, session, as_of=then)
    assert (past["live"], past["screen"]["state"], past["screen"]["turn"]) == (False, {"count": 0}, 1)


def test_after_a_restart_the_screen_is_the_same(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        session = say(served, "Make a counter")["session"]
        press(served, "count_up", session)
        say(served, "Now a traffic light", session)
        before = shown(served, session)
    with serve(tmp_path) as served:
        assert shown(served, session) == before
        assert press(served, "count_up", session)["state"] == {"count": 2}


def test_nothing_of_the_graphs_is_loaded_before_somebody_talks() -> None:
    code = "import sys, fleetlore.server.serve, fleetlore.server.open_context; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "fleetlore.server.chat_sessions" in loaded
    assert [name for name in loaded if name.startswith("fleetlore.graph")] == []
