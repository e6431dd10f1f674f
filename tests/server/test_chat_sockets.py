"""Talking to an agent over a WebSocket, from a real server to a real client."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from fleetlore.graph.settings import GraphSettings
from fleetlore.log.coordination import open_shared
from fleetlore.log.tokens import hash_secret
from fleetlore.server.live import chat
from fleetlore.server.live.chat import PROTOCOL, ClientQueue
from fleetlore.server.security.limits import RequestLimits
from tests.patience import PATIENCE
from tests.server.serving import Served, serve
from tests.server.test_chat_api import look, say, token_of


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as running:
        yield running


def talk(served: Served, session: str | None = None, *, token: str | None = "", **options: Any) -> ClientConnection:
    """A socket as a page opens it: the token beside the protocol."""
    words = [PROTOCOL, *([] if token is None else [token or served.token])]
    address = f"ws://127.0.0.1:{served.port}/ws/chat{'' if session is None else f'?session={session}'}"
    given: dict[str, Any] = {"subprotocols": [Subprotocol(word) for word in words], "proxy": None, "open_timeout": PATIENCE} | options
    made: ClientConnection = connect(address, **given)
    return made


def receive_message(client: ClientConnection) -> dict[str, Any]:
    recorded: dict[str, Any] = msgspec.json.decode(client.recv(timeout=PATIENCE))
    return recorded


def send_message(client: ClientConnection, **said: Any) -> None:
    client.send(msgspec.json.encode(said).decode())


def until(client: ClientConnection, kind: str) -> list[dict[str, Any]]:
    """All messages received up to the first of a kind, that one included."""
    received = [receive_message(client)]
    while received[-1]["type"] != kind:
        received.append(receive_message(client))
    return received


def turn(client: ClientConnection, text: str) -> list[dict[str, Any]]:
    send_message(client, type="text", text=text)
    return until(client, "done")


def refused(served: Served, session: str | None = None, **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught, talk(served, session, **options):
        pass
    recorded = msgspec.json.decode(caught.value.response.body)
    return recorded["status"], recorded["detail"]


# --- what is said


def test_the_screen_comes_first_and_then_the_words_as_they_are_made(served: Served) -> None:
    with talk(served) as client:
        screen = receive_message(client)
        assert (screen["type"], screen["graph"], screen["controls"], screen["busy"], screen["n"]) == ("screen", "seven", [], False, 1)
        received = turn(client, "Hello")
        words = [message["content"] for message in received if message["type"] == "delta"]
        assert len(words) > 1
        assert "".join(words) == look(served, screen["session"])["screen"]["history"][-1]["text"]
        assert [message["node"] for message in received if message.get("event") == "started"] == ["sensor", "input", "output"]


def test_controls_come_and_a_press_changes_them(served: Served) -> None:
    with talk(served) as client:
        receive_message(client)
        [controls] = [message for message in turn(client, "Make a counter") if message["type"] == "controls"]
        assert (controls["state"], controls["n"]) == ({"count": 0}, 2)
        send_message(client, type="action", action="count_up")
        assert until(client, "controls")[-1]["state"] == {"count": 1}


def test_a_node_that_fails_ends_the_turn_with_error_and_done_and_the_next_one_works(served: Served) -> None:
    with talk(served) as client:
        receive_message(client)
        failed = turn(client, "please fail")
        assert [message["type"] for message in failed][-2:] == ["error", "done"]
        assert "error" not in [message["type"] for message in turn(client, "Hello")]


@pytest.mark.parametrize(
    "frame", ["{", '{"type": "shout"}', '{"type": "text", "text": ""}', '{"type": "text", "text": "a", "to": "b"}', "[" * 3000]
)
def test_what_makes_no_sense_is_answered_so_and_the_conversation_goes_on(served: Served, frame: str) -> None:
    with talk(served) as client:
        receive_message(client)
        client.send(frame)
        assert [message["type"] for message in until(client, "done")] == ["error", "done"]
        assert turn(client, "Hello")[-1] == {"type": "done"}


def test_who_says_too_much_at_once_is_asked_to_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "MOST_TURNS", 1)
    with talk(served) as client:
        receive_message(client)
        send_message(client, type="text", text="Hello")
        send_message(client, type="text", text="Hello again")
        assert any("wait for the answer" in message["message"] for message in until(client, "error") if message["type"] == "error")


def test_a_turn_is_taken_to_its_end_though_its_client_has_gone(served: Served) -> None:
    with talk(served) as client:
        session = receive_message(client)["session"]
        send_message(client, type="text", text="Make a counter")
    assert say(served, "Hello", session)["state"] == {"count": 0}  # waits for the one before
    recorded = [(entry["role"], entry["turn"]) for entry in look(served, session)["screen"]["history"]]
    assert recorded == [("user", 1), ("assistant", 1), ("user", 2), ("assistant", 2)]


# --- what is shown


def test_a_control_that_the_page_does_not_show_is_noticed_and_sent_again(served: Served) -> None:
    with talk(served) as client:
        session = receive_message(client)["session"]
        turn(client, "Make a counter")
        send_message(client, type="report", dashboard=[{"type": "label", "id": "count", "text": "Count", "value": 0}], seen=2)
        again = until(client, "controls")[-1]
        assert (again["n"], len(again["controls"])) == (3, 4)
    audit = next(event for event in served.log.follow(f"run:{session}") if event.kind == "audit.mismatch")
    assert [control["label"] for control in audit.data["missing"]] == ["+1", "-1", "Zero"]


def test_what_is_recorded_of_a_screen_that_has_changed_since_is_no_news(served: Served) -> None:
    with talk(served) as client:
        session = receive_message(client)["session"]
        turn(client, "Make a counter")
        send_message(client, type="report", dashboard=[], seen=1)
        send_message(client, type="action", action="count_up", dashboard=[], seen=1)
        until(client, "done")
    assert list(served.log.read(f"run:{session}", kinds=["audit.*", "ui.reported"])) == []


# --- who receives whose messages


def test_two_windows_of_one_session_get_the_same_and_another_session_gets_nothing(served: Served) -> None:
    with talk(served) as one, talk(served) as other:
        session = receive_message(one)["session"]
        assert receive_message(other)["session"] != session
        with talk(served, session) as second:
            receive_message(second)
            received = turn(one, "Make a counter")
            assert until(second, "done") == received
        with pytest.raises(TimeoutError):
            other.recv(timeout=0)


def test_somebody_elses_session_is_not_told_apart_from_none(served: Served, tmp_path: Path) -> None:
    session = say(served, "Hello", token=token_of(tmp_path, "ada"))["session"]
    status, detail = refused(served, session, token=token_of(tmp_path, "bob"))
    assert (status, detail) == (404, f"there is no session '{session}' of yours; start a new one")


# --- who may


def test_the_token_comes_beside_the_protocol_or_in_the_header_and_never_goes_back(served: Served, tmp_path: Path) -> None:
    with talk(served) as client:
        assert client.subprotocol == PROTOCOL
        assert client.response is not None
        assert served.token not in str(client.response.headers)
    with talk(served, token=None, additional_headers={"Authorization": f"Bearer {served.token}"}) as client:
        assert receive_message(client)["type"] == "screen"
    assert refused(served, token=None)[0] == 401
    assert refused(served, token="lore_" + "x" * 43)[0] == 401
    assert refused(served, token=token_of(tmp_path, "ada", "read"))[0] == 403


def test_a_page_of_another_origin_is_refused(served: Served) -> None:
    assert refused(served, origin="http://elsewhere.example")[0] == 403


def test_a_token_that_is_revoked_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr("fleetlore.server.security.authorization.REMEMBERED", 0.0)
    with serve(tmp_path) as served:
        secret = token_of(tmp_path, "ada")
        with talk(served, token=secret) as client:
            receive_message(client)
            with open_shared(f"sqlite:{tmp_path}/fleet.db") as shared:
                [token] = [each for each in shared.list_tokens() if each.hash == hash_secret(secret)]
                shared.delete_token(token.id)
            with pytest.raises(ConnectionClosed):
                client.recv(timeout=PATIENCE)
            assert client.close_code == 1008


def test_sockets_are_counted_as_streams_and_given_back(tmp_path: Path) -> None:
    with serve(tmp_path, limits=RequestLimits(rate=1e6, burst=10**6, streams=1)) as served:
        with talk(served) as client:
            receive_message(client)
            assert refused(served)[0] == 503
        with talk(served) as client:
            assert receive_message(client)["type"] == "screen"


def test_a_server_that_ends_lets_everybody_go(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with serve(tmp_path) as served:
            client = stack.enter_context(talk(served))
            receive_message(client)
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=PATIENCE)
        assert client.close_code == 1012


async def test_a_reader_that_cannot_keep_up_is_let_go_and_nobody_waits_for_it() -> None:
    wire, cuts = ClientQueue(), []
    wire.cut = lambda: cuts.append(1)
    for _ in range(50):
        wire.send({"type": "delta", "content": "x" * 100_000})
    assert cuts
    wire = ClientQueue()
    wire.cut = lambda: cuts.append(2)
    for _ in range(chat.MOST_WAITING + 1):
        wire.send({"type": "done"})
    assert cuts[-1] == 2


async def test_a_reader_of_what_cannot_be_written_is_let_go_and_not_left_waiting() -> None:
    wire, cuts = ClientQueue(), []
    wire.cut = lambda: cuts.append(1)
    wire.send({"type": "delta", "content": "\ud83d"})
    assert cuts == [1]


def test_a_turn_is_stopped_over_the_socket(tmp_path: Path) -> None:
    """The model's port takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"openai:m?base_url=http://127.0.0.1:{mute.getsockname()[1]}/v1"
        with serve(tmp_path, graph=GraphSettings(minds={"default": address})) as served, talk(served) as client:
            receive_message(client)
            send_message(client, type="text", text="Make a counter")
            until(client, "hud")
            send_message(client, type="stop")
            *_, error, _done = until(client, "done")
            assert error == {"type": "error", "message": "the turn was stopped"}
