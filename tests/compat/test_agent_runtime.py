"""The agent runtime: messages to the client, actions, history, trace, graphs and identity, as a program written for it expects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.compat import agent_runtime
from fleetlore.compat.agent_runtime import MAX_HISTORY, NODE_REGISTRY, Runtime, append_trace, find_identity, parse_action
from fleetlore.errors import Invalid, MindError
from fleetlore.graph import scripted
from fleetlore.models.base import ModelRequest
from fleetlore.models.scripted import Answer, ScriptedModel


class Socket:
    """A client that keeps what it gets, until it goes away."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.is_gone = False

    async def send_text(self, text: str) -> None:
        if self.is_gone:
            raise RuntimeError("the socket is closed")
        self.messages.append(json.loads(text))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    @property
    def text(self) -> str:
        return "".join(message["content"] for message in self.of("delta"))


@asynccontextmanager
async def opened(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Runtime, Socket]]:
    socket = Socket()
    runtime = Runtime(socket, {"name": "Ann"}, "web", trace_file=tmp_path / "trace.jsonl", **options)
    try:
        yield runtime, socket
    finally:
        await runtime.close()


def trace(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text("utf-8").splitlines()]


async def test_a_message_gives_hud_controls_delta_and_done(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, socket):
        reply = await runtime.handle_message("make me a counter", dashboard=[])
        assert reply == socket.text != ""
        assert socket.of("done") == [{"type": "done"}]
        assert {message["node"] for message in socket.of("hud")} >= {"input", "thinker", "output", "ui"}
        assert [control["action"] for control in socket.of("controls")[-1]["controls"] if control["type"] == "button"] == [
            control["action"] for control in runtime.current_controls if control["type"] == "button"
        ]
        assert runtime.history == [{"role": "user", "content": "make me a counter"}, {"role": "assistant", "content": reply}]


async def test_an_action_is_handled_without_a_model_and_may_come_as_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, socket):
        await runtime.handle_message("make me a counter")
        await runtime.wait_until_settled()
        before = len(socket.messages)
        first = await runtime.handle_action("count_up")
        second = await runtime.handle_message("ACTION: count_up")
        nodes = {message["node"] for message in socket.messages[before:] if message["type"] == "hud"}
        assert "thinker" not in nodes
        assert ("1" in first, "2" in second) == (True, True)
        assert [entry["role"] for entry in runtime.history] == ["user", "assistant"] * 3
        assert [entry["content"] for entry in runtime.history[2::2]] == ["[clicked count_up]"] * 2
        assert "reflex_path" not in {message["event"] for message in socket.of("hud")}, "only small talk takes it"


async def test_an_action_that_nothing_handles_goes_to_the_model(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, _):
        await runtime.handle_message('ACTION: export | data: {"as": "csv"}')
        await runtime.handle_action("export")
        assert [entry["content"] for entry in runtime.history[::2]] == ['ACTION: export | data: {"as": "csv"}', "ACTION: export"]


async def test_the_move_of_a_machine_is_in_the_hud_before_its_controls(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, socket):
        await runtime.handle_message("make me a traffic light")
        await runtime.wait_until_settled()
        before = len(socket.messages)
        reply = await runtime.handle_action("light.next")
        messages = [message for message in socket.messages[before:] if message["type"] != "hud" or message["node"] == "ui"]
        shown = [message for message in messages if message.get("event") not in ("started", "finished")]
        assert [message.get("event", message["type"]) for message in shown] == [
            "machine_transition",
            "controls",
            "controls",
            "delta",
            "done",
        ]
        assert shown[0] == {"type": "hud", "node": "ui", "event": "machine_transition", "action": "light.next", "detail": reply}
        assert shown[1]["controls"] == shown[2]["controls"] == runtime.current_controls
        assert runtime.history[-2] == {"role": "user", "content": "[clicked light.next]"}


async def test_the_memory_begins_with_the_name_and_where_the_user_comes_from(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, _):
        assert runtime.memory == {"user_name": "Ann", "situation": "authenticated on web"}
    assert Runtime(None).memory == {"user_name": "unknown", "situation": "local session"}


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("ACTION: pick", ("pick", None)),
        ('ACTION: pick | data: {"a": "data: b"}', ("pick", {"a": "data: b"})),
        ("ACTION: pick | data: {bad", ("pick", None)),
        ("ACTION: pick | nothing", ("pick", None)),
    ],
)
def test_an_action_in_a_text(text: str, action: tuple[str, Any]) -> None:
    assert parse_action(text) == action


async def test_small_talk_takes_the_reflex_path(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, socket):
        await runtime.handle_message("hello")
        path = [message for message in socket.of("hud") if message["event"] == "reflex_path"]
        assert path == [{"type": "hud", "node": "runtime", "event": "reflex_path", "detail": "social/trivial"}]
        await runtime.handle_message("make me a counter")
        assert sum(message["event"] == "reflex_path" for message in socket.of("hud")) == 1


async def test_a_complex_request_is_planned(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: ModelRequest) -> Answer:
        asked.append(request.prompt)
        if request.role == "input":
            return {"language": "en", "intent": "request", "topic": "x", "tone": "casual", "complexity": "complex"}
        return scripted.answer_request(request)

    async with opened(tmp_path, models={"default": ScriptedModel(answer)}) as (runtime, socket):
        await runtime.handle_message("investigate the revenue of every customer in the database by month and region")
        nodes = [message["node"] for message in socket.of("hud") if message["event"] == "started"]
    assert "director" in nodes[: nodes.index("thinker")]


async def test_history_has_at_most_forty_entries(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, _):
        await runtime.handle_message("make me a counter")
        for _ in range(25):
            await runtime.handle_action("count_up")
        assert len(runtime.history) == MAX_HISTORY == 40


async def test_hud_events_are_traced_and_broadcast(tmp_path: Path) -> None:
    received: list[dict[str, Any]] = []
    async with opened(tmp_path, broadcast=received.append) as (runtime, socket):
        await runtime.handle_message("hello")
        await runtime.wait_until_settled()
    entries = trace(tmp_path)
    assert entries == received
    assert [{key: entry[key] for key in entry if key != "ts"} for entry in entries] == [
        {key: message[key] for key in message if key != "type"} for message in socket.of("hud")
    ]
    assert all(len(entry["ts"]) == 23 for entry in entries)


def test_a_trace_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    for number in range(1200):
        append_trace(path, json.dumps({"n": number, "text": "x" * 1000}))
        assert path.stat().st_size <= 510_000
    assert json.loads(path.read_text().splitlines()[-1])["n"] == 1199


async def test_a_client_that_is_gone_stops_no_turn(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, socket):
        socket.is_gone = True
        await runtime.handle_message("make me a counter")
        assert runtime.current_controls
        assert socket.messages == []
    async with opened(tmp_path) as (runtime, _):
        runtime._client._ws = None
        assert await runtime.handle_message("hello")


async def test_a_failed_turn_says_so_and_the_next_one_works(tmp_path: Path) -> None:
    is_down = True

    def answer(request: ModelRequest) -> Answer:
        if is_down:
            raise MindError("the model is down")
        return scripted.answer_request(request)

    async with opened(tmp_path, models={"default": ScriptedModel(answer)}) as (runtime, socket):
        await runtime.handle_message("make me a counter")
        assert [message["type"] for message in socket.messages if message["type"] in ("error", "done")] == ["error", "done"]
        is_down = False
        await runtime.handle_message("make me a counter")
        assert runtime.current_controls


@pytest.mark.parametrize("text", ["", "   ", "ACTION:", "ACTION: | data: {}", "x" * 100_000, f"ACTION: {'x' * 1000}"])
async def test_a_text_that_is_no_message_is_an_error_for_the_client_and_not_for_the_server(tmp_path: Path, text: str) -> None:
    async with opened(tmp_path) as (runtime, socket):
        await runtime.handle_action("press")
        history = runtime.history
        socket.messages.clear()
        assert await runtime.handle_message(text) == ""
        assert [message["type"] for message in socket.messages if message["type"] != "hud"] == ["error", "done"]
        assert runtime.history == history


async def test_what_the_dashboard_shows_is_in_the_prompt(tmp_path: Path) -> None:
    """Whatever a browser sends: nothing of it makes the turn fail."""
    prompts = []

    def answer(request: ModelRequest) -> Answer:
        if request.role == "thinker":
            prompts.append(request.system or "")
        return scripted.answer_request(request)

    shown: list[Any] = [
        {"type": "button", "label": "Old", "action": "old"},
        {"type": "label", "id": "n", "text": "Count", "value": 3},
        {"type": "table", "columns": ["a", "b"], "data": [[1, 2], [3, 4]]},
        {"type": "slider", "label": "Size"},
        {"type": "table", "columns": 5, "data": 7},
        {"note": "x"},
        "no control",
    ]
    async with opened(tmp_path, models={"default": ScriptedModel(answer)}) as (runtime, socket):
        await runtime.handle_message("make me a counter", dashboard=shown)
        assert not socket.of("error")
    lines = prompts[0].split("## What the user sees instead\n")[1].splitlines()[:6]
    assert lines == [
        "> Button: Old (action old)",
        "> Label: Count = 3",
        "> Table: a, b (2 rows)",
        "> slider: Size",
        "> Table:  (0 rows)",
        "> control: ?",
    ]


async def test_messages_that_come_at_once_have_their_own_replies(tmp_path: Path) -> None:
    async with opened(tmp_path) as (runtime, socket):
        counter, press, hello = await asyncio.gather(
            runtime.handle_message("make me a counter"), runtime.handle_message("ACTION: count_up"), runtime.handle_message("hello there")
        )
        assert counter + press + hello == socket.text
        assert [entry["content"] for entry in runtime.history] == [
            "make me a counter",
            counter,
            "[clicked count_up]",
            press,
            "hello there",
            hello,
        ]
        assert all((counter, press, hello))


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"name": "Ann", "username": "ann1"}, "Ann"),
        ({"preferred_username": "ann.lee"}, "ann.lee"),
        ({"username": "ann1"}, "ann1"),
        ({"name": "", "username": "ann1"}, "ann1"),
        ({"name": "x" * 500}, "unknown"),
        ({"name": 5}, "5"),
        ({}, "unknown"),
        (None, "unknown"),
    ],
)
def test_the_identity_comes_from_claims(claims: dict[str, Any] | None, name: str) -> None:
    assert find_identity(claims) == name


async def test_the_conversation_is_on_the_log_under_the_identity_and_goes_on_later(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/log.db"
    async with opened(tmp_path, log=url, session_id="s1") as (runtime, _):
        await runtime.handle_message("make me a counter")
        await runtime.handle_action("count_up")
        await runtime.wait_until_settled()
        shown = runtime.current_controls
    with connect(url).blocking() as log:
        started = next(iter(log.read("run:s1")))
        assert (started.actor, started.data["channel"]) == ("Ann", "web")
    async with opened(tmp_path, log=url, session_id="s1") as (runtime, _):
        await runtime.start()
        assert runtime.current_controls == shown
        assert len(runtime.history) == 4


def test_nodes_are_registered_by_versioned_names() -> None:
    assert {f"{role}_v1" for role in ("input", "thinker", "output", "ui", "memorizer", "director", "sensor")} <= set(NODE_REGISTRY)
    assert len(NODE_REGISTRY) == len(list(NODE_REGISTRY))
    assert NODE_REGISTRY["thinker_v1"].__name__
    with pytest.raises(KeyError):
        NODE_REGISTRY["thinker_v99"]


async def test_graphs_can_be_listed_and_switched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(agent_runtime._active, "graph", "seven")
    assert {graph["name"] for graph in agent_runtime.list_graphs()} >= {"seven", "reflex"}
    assert agent_runtime.get_active_graph() == "seven"
    with pytest.raises(Invalid, match="no graph is called"):
        agent_runtime.switch_graph("nine hundred")
    async with opened(tmp_path, graph_name="v1-current") as (runtime, _):
        assert runtime.graph_name == "seven"
        await runtime.handle_message("hello")
        await runtime.switch_graph("reflex")
        await runtime.handle_message("hello again")
        assert len(runtime.history) == 4
    agent_runtime.switch_graph("reflex")
    async with opened(tmp_path) as (runtime, _):
        assert runtime.graph_name == "reflex"
