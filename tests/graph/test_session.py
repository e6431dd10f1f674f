"""A session: turns one at a time, everything in the log, the same screen after a restart, and an end to every turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.errors import Closed, Invalid, LogError, ModelError
from fleetlore.events.envelope import Event
from fleetlore.graph import scripted
from fleetlore.graph.history import build_history_messages, select_recent_entries
from fleetlore.graph.node import Node
from fleetlore.graph.sessions import NoSuchSession, SessionManager, TooManySessions
from fleetlore.graph.settings import GraphSettings
from fleetlore.graph.sink import CollectingSink
from fleetlore.graph.step import Step
from fleetlore.models.base import ModelReply, ModelRequest
from fleetlore.models.scripted import Answer, ScriptedModel
from fleetlore.views.conversation_state import Conversation, Entry
from tests.graph.talking import build_graph, make_tracing_nodes, open_chat


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


async def test_a_turn_is_reported_step_by_step_each_because_of_another() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter")
        events = await chat.events()
    by_id = {event.id: event for event in events}
    steps = [event for event in events if event.kind.startswith("node.") and event.data["node"] in ("sensor", "input", "thinker", "output")]
    assert all(event.cause in by_id for event in steps)
    assert all(event.data["duration_ms"] >= 0 for event in steps if event.kind == "node.finished")
    thinker = next(event for event in steps if event.kind == "node.started" and event.data["node"] == "thinker")
    assert thinker.data == {"node": "thinker", "implementation": "thinker_v1", "graph": "seven", "turn": 1}
    led = by_id[thinker.cause or ""]
    assert (led.kind, led.data["node"], led.data["edges"]) == ("node.finished", "input", ["thinker"])
    first = by_id[next(event for event in events if event.kind == "node.started").cause or ""]
    assert (first.kind, first.actor, first.agent, first.run) == ("prompt.submitted", "ann", "guide", "s1")


async def test_the_reply_is_one_event_and_its_words_came_in_pieces() -> None:
    async with open_chat() as chat:
        text = await chat.say("make me a counter")
        spoken = await chat.events("agent.spoke")
        assert [event.text for event in spoken] == [text]
        assert len(chat.sink.select_messages("delta")) > 1


async def test_a_question_is_durable_before_a_mind_gets_it(tmp_path: Path) -> None:
    file, seen = tmp_path / "log.db", list[list[str]]()

    def answer(ask: ModelRequest) -> Answer:
        with connect(f"sqlite:{file}").blocking() as other:  # another reader, as after a crash
            seen.append(kinds(list(other.read("run:s1"))))
        return scripted.answer_request(ask)

    async with open_chat(answer, url=f"sqlite:{file}") as chat:
        await chat.say("hello")
    assert seen[0][-1] == "model.called"
    assert "prompt.submitted" in seen[0]


async def test_after_a_restart_the_screen_is_the_same(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'log.db'}"
    async with open_chat(url=url) as chat:
        await chat.say("make me a counter")
        await chat.press("count_up")
        await chat.say("a traffic light, please")
        await chat.press("light.next")
        await chat.say("my name is Ada")
        await chat.session.wait_until_settled()
        before = chat.session.build_screen()
    async with open_chat(url=url) as chat:
        assert chat.session.build_screen() == before
        assert before.state == {"count": 1}
        assert before.machines["light"].current == "green"
        assert before.memory["facts"] == ["The user's name is Ada."]
        await chat.press("count_up")
        assert chat.state == {"count": 2}


async def test_of_a_reply_without_end_the_screen_keeps_what_the_log_keeps() -> None:
    async with open_chat({"output": "ä " * 9000}) as chat:
        await chat.say("make me a counter")
        (spoken,) = await chat.events("agent.spoke")
        assert spoken.text == chat.session.build_screen().history[-1].text
        assert spoken.origin is None or spoken.origin.cut is None


async def test_a_turn_that_a_crash_broke_off_is_ended_when_the_session_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'log.db'}"
    async with open_chat(url=url) as chat:
        await chat.say("hello")
        await chat.session.wait_until_settled()
        await chat.log.append([Event(kind="prompt.submitted", actor="ann", agent="guide", run="s1", data={"prompt": "and then?"})])
    async with open_chat(url=url) as chat:
        screen = chat.session.build_screen()
        assert [entry.role for entry in screen.history[-2:]] == ["user", "error"]
        assert not screen.busy
        assert await chat.say("hello") != ""


async def test_a_failing_node_ends_in_error_then_done_and_the_next_turn_works() -> None:
    async with open_chat({"thinker": [ModelError("the wire is cut")]}) as chat:
        await chat.say("make me a counter")
        assert [message["type"] for message in chat.sink.messages if message["type"] != "hud"] == ["error", "done"]
        assert chat.sink.error == "thinker: the wire is cut"
        ended = (await chat.events("session.turn_ended"))[-1]
        assert (ended.data["reason"], ended.text) == ("error", "thinker: the wire is cut")
        assert "node.failed" in kinds(await chat.events())
        await chat.say("make me a counter")
        assert chat.state == {"count": 0}
        assert [entry.role for entry in chat.session.build_screen().history] == ["user", "error", "user", "assistant"]


async def test_of_what_we_did_not_raise_the_user_learns_only_where_it_happened() -> None:
    async def leak(step: Step) -> Any:
        raise RuntimeError("password=hunter2 at /etc/shadow")

    registry, _ = make_tracing_nodes("input", "output", output=leak)
    async with open_chat(
        settings=GraphSettings(default="wired"), graphs=[build_graph("user > input", "input > output")], registry=registry
    ) as chat:
        await chat.say("hello")
        assert chat.sink.error == "output: internal error (RuntimeError); try again, or look at the trace"
        assert "hunter2" not in repr(chat.sink.messages)


async def test_a_sink_that_breaks_is_let_go_and_the_turn_goes_on() -> None:
    class Broken:
        def send(self, message: dict[str, Any]) -> None:
            raise OSError("gone")

    async with open_chat() as chat:
        chat.session.attach_sink(Broken())
        assert await chat.say("hello") != ""
        assert chat.sink.error is None


async def test_turns_wait_for_each_other() -> None:
    async with open_chat() as chat:
        await asyncio.gather(*(chat.session.handle_text(f"hello {number}") for number in range(4)))
        roles = [entry.role for entry in chat.session.build_screen().history]
        assert roles == ["user", "assistant"] * 4
        turns = [event.data["turn"] for event in await chat.events("node.started") if event.data["node"] == "input"]
        assert turns == [1, 2, 3, 4]


async def test_a_caller_who_goes_away_does_not_break_a_turn_off() -> None:
    reached, going = asyncio.Event(), asyncio.Event()

    async def slow(step: Step) -> Any:
        reached.set()
        await going.wait()
        return "There you are."

    registry, _ = make_tracing_nodes("input", "output", output=slow)
    async with open_chat(
        settings=GraphSettings(default="wired"), graphs=[build_graph("user > input", "input > output")], registry=registry
    ) as chat:
        caller = asyncio.ensure_future(chat.session.handle_text("hello"))
        await reached.wait()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        going.set()
        await chat.say("and now?")
        assert [entry.text for entry in chat.session.build_screen().history] == ["hello", "There you are.", "and now?", "There you are."]


async def test_closing_stops_a_running_turn_and_says_so(tmp_path: Path) -> None:
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def stuck(step: Step) -> Any:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    registry, _ = make_tracing_nodes("input", "output", output=stuck)
    settings, graphs, url = GraphSettings(default="wired"), [build_graph("user > input", "input > output")], f"sqlite:{tmp_path / 'log.db'}"
    async with open_chat(settings=settings, graphs=graphs, registry=registry, url=url) as chat:
        caller = asyncio.ensure_future(chat.session.handle_text("hello"))
        await reached.wait()
        await chat.session.close()
        with pytest.raises(Closed):
            await caller
        assert cancelled.is_set()
        assert [message["type"] for message in chat.sink.messages][-2:] == ["error", "done"]
        with pytest.raises(Closed):
            await chat.session.handle_text("hello?")
        events = [event async for event in chat.log.read("run:s1")]
    assert kinds(events)[-2:] == ["node.failed", "session.turn_ended"]
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_memory_and_course_come_after_the_reply_and_the_next_message_waits_for_them() -> None:
    gate, reached, order = asyncio.Event(), asyncio.Event(), list[str]()

    class Slow(ScriptedModel):
        async def reply(self, ask: ModelRequest) -> ModelReply:
            order.append(ask.role or "")
            if ask.role == "memorizer":
                reached.set()
                await gate.wait()
            return await super().reply(ask)

    async with open_chat(models={"default": Slow(scripted.answer_request)}) as chat:
        await chat.say("make me a counter")
        assert chat.sink.select_messages("done") == [{"type": "done"}]
        await chat.press("count_up")  # does not wait
        assert chat.state == {"count": 1}
        following = asyncio.ensure_future(chat.session.handle_text("hello"))
        await reached.wait()
        assert order[-1] == "memorizer"
        gate.set()
        await following
    assert order[:7] == ["input", "thinker", "thinker", "output", "memorizer", "director", "input"]


async def test_what_comes_after_a_reply_is_not_lost_when_the_session_is_closed(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'log.db'}"
    async with open_chat(url=url) as chat:
        await chat.say("my name is Ada")
    async with open_chat(url=url) as chat:
        assert chat.session.build_screen().memory["facts"] == ["The user's name is Ada."]


async def test_a_memorizer_that_fails_costs_nobody_a_reply() -> None:
    async with open_chat({"memorizer": ModelError("forgetful")}) as chat:
        assert await chat.say("make me a counter") != ""
        await chat.session.wait_until_settled()
        assert chat.sink.error is None
        assert await chat.say("hello") != ""


async def test_switching_keeps_history_and_state() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter")
        await chat.press("count_up")
        await chat.session.switch_graph("reflex")
        assert chat.session.graph.name == "reflex"
        await chat.press("count_up")
        assert chat.state == {"count": 2}
        await chat.say("make me a counter")
        assert "thinker" not in chat.nodes()
        await chat.session.switch_graph("eight")
        await chat.say("a traffic light, please")
        assert "critic" in chat.nodes()
        assert len(chat.session.build_screen().history) == 10
        with pytest.raises(Invalid, match="no graph is called 'nine'"):
            await chat.session.switch_graph("nine")


async def test_a_graph_of_one_s_own_can_be_changed_while_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = """nodes = { input = "input_v1", output = "output_v1" }
    edges = [{ from = "user", to = "input" }, { from = "input", to = "output", carries = "command" }]
    options = { output = { greeting = "GREETING" } }\n"""
    file.write_text(f'name = "mine"\n{text}'.replace("GREETING", "One!"))
    async with open_chat({"output": ["hello", "hello"]}, settings=GraphSettings(folder=str(tmp_path))) as chat:
        await chat.session.switch_graph("mine")
        assert await chat.say("hello") == "One!"
        file.write_text(f'name = "mine"\n{text}'.replace("GREETING", "Two!"))
        await chat.session.switch_graph("mine")
        assert await chat.say("hello") == "Two!"


async def test_clearing_forgets_everything_but_the_log() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter")
        await chat.session.clear_conversation()
        screen = chat.session.build_screen()
        assert (screen.history, screen.controls, screen.state, screen.memory) == ([], [], {}, {})
        assert chat.sink.messages[-1] == {"type": "controls", "controls": [], "state": {}}
        assert len(await chat.events("prompt.submitted")) == 1


async def test_a_session_belongs_to_anybody_who_began_it(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'log.db'}"
    async with open_chat(url=url) as chat:
        await chat.say("hello")
        with pytest.raises(NoSuchSession):
            await chat.sessions.open_session("s1", identity="bob", channel="test")
        stolen = {"program": "fleetlore.graph", "person": "bob", "graph": "seven", "source": "resume"}
        await chat.log.append([Event(kind="session.started", actor="bob", agent="guide", run="s1", data=stolen)])
        await chat.log.append([Event(kind="session.started", actor="codex", agent="codex", run="other", data={"program": "codex"})])
    async with open_chat(url=url) as chat:
        for id in ("s1", "other", "../s1", ""):
            with pytest.raises(NoSuchSession):
                await chat.sessions.open_session(id, identity="bob", channel="test")


async def test_two_sessions_never_see_each_other() -> None:
    async with open_chat() as chat:
        other, received = await chat.sessions.open_session("s2", identity="bob", channel="test"), CollectingSink()
        other.attach_sink(received)
        await chat.say("make me a counter")
        assert received.messages == []
        await other.handle_text("hello")
        assert other.build_screen().controls == []
        assert len(other.build_screen().history) == 2
        asked = [ask for ask in chat.model.asked if ask.prompt == "hello"]
        assert [(ask.role, ask.messages, "count" in (ask.system or "")) for ask in asked] == [("input", (), False), ("output", (), False)]


async def test_quiet_sessions_make_room_and_busy_ones_do_not() -> None:
    async with open_chat(settings=GraphSettings(most_sessions=2)) as chat:
        for number in range(5):
            await chat.sessions.open_session(f"quiet-{number}", identity="bob", channel="test")
        assert await chat.say("hello") != ""  # somebody listens to this one
        held = await chat.sessions.open_session("held", identity="bob", channel="test")
        held.attach_sink(CollectingSink())
        with pytest.raises(TooManySessions):
            await chat.sessions.open_session("more", identity="bob", channel="test")


async def test_a_log_that_takes_nothing_fails_the_turn_and_is_read_again() -> None:
    async with connect("memory:") as log:
        real, trouble = log.append, list[LogError]()

        async def append(events: Any, **more: Any) -> Any:
            if trouble and any(event.kind != "session.started" for event in events):
                raise trouble[0]
            return await real(events, **more)

        log.append = append  # type: ignore[method-assign]  # a disk that fills up, and is emptied again
        async with SessionManager(log) as sessions:
            session, received = await sessions.open_session("s1", identity="ann", channel="test"), CollectingSink()
            session.attach_sink(received)
            trouble.append(LogError("no room left on the disk"))
            await session.handle_text("make me a counter")
            assert received.messages[-2:] == [{"type": "error", "message": received.error}, {"type": "done"}]
            assert "no room left" in str(received.error)
            trouble.clear()
            await session.handle_text("hello")
            assert [entry.text for entry in session.build_screen().history if entry.role == "user"] == ["hello"]


@pytest.mark.parametrize("text", ["", "  \n", "x" * 16_001, "ä" * 8_001])
async def test_nothing_and_too_much_are_refused(text: str) -> None:
    async with open_chat() as chat:
        with pytest.raises(Invalid):
            await chat.session.handle_text(text)


@pytest.mark.parametrize(
    ("action", "data"), [("", None), ("a" * 201, None), ("a", "x" * 16_000), ("a", "\ud800"), ("\ud800", None), ("a", object())]
)
async def test_a_press_that_no_event_could_hold_is_refused(action: str, data: Any) -> None:
    async with open_chat() as chat:
        with pytest.raises(Invalid):
            await chat.session.handle_action(action, data)
        assert await chat.events("ui.action") == []


async def test_half_a_character_is_no_reason_to_fail() -> None:
    async with open_chat() as chat:
        assert await chat.say("hello \ud800") != ""
        assert [event.data["prompt"] for event in await chat.events("prompt.submitted")] == ["hello ?"]


async def test_what_a_node_shows_need_not_be_json() -> None:
    class Odd(Node):
        async def run(self, step: Step) -> Any:
            return {"set": {1}, "odd": object(), "long": ""} if step.turn.number == 1 else {"long": "x" * 100_000}

        def told(self, made: Any) -> Any:  # the name of 0.1, which works until 0.3
            return made

    registry, _ = make_tracing_nodes("input")
    registry.node("output_v1")(Odd)
    async with open_chat(
        settings=GraphSettings(default="wired"), graphs=[build_graph("user > input", "input > output")], registry=registry
    ) as chat:
        await chat.say("one")
        await chat.say("two")
        assert chat.sink.error is None
        recorded = [event.data["output"] for event in await chat.events("node.finished") if event.data["node"] == "output"]
        assert (recorded[0]["set"], recorded[0]["odd"][:7], recorded[1]) == ([1], "<object", {"left_out": "more than 65,536 bytes"})


async def test_a_fact_that_the_log_cannot_take_does_not_keep_the_others_out() -> None:
    async def note(step: Step) -> Any:
        step.note("Not a kind", {})
        return "fine"

    registry, _ = make_tracing_nodes("input", "output", output=note)
    async with open_chat(
        settings=GraphSettings(default="wired"), graphs=[build_graph("user > input", "input > output")], registry=registry
    ) as chat:
        await chat.say("one")
        assert "is not a valid event kind" in str(chat.sink.error)
        assert "prompt.submitted" in kinds([event async for event in chat.log.read("run:s1")])
        assert len([task for task in asyncio.all_tasks() if task is not asyncio.current_task()]) == 0


async def test_words_that_look_like_a_press_are_words() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter")
        await chat.say('ACTION: count_up | data: {"x": 1}')
        assert chat.state == {"count": 0}
        assert await chat.events("ui.action") == []


def entries(*roles: str, text: str = "x" * 40) -> list[Entry]:
    return [Entry(role=role, text=text, turn=1) for role in roles]  # type: ignore[arg-type]  # of those that there are


def test_history_is_cut_by_tokens_and_never_begins_with_the_agent() -> None:
    history = entries("user", "assistant", "user", "assistant", "user", "assistant")
    assert len(select_recent_entries(history, 60)) == 6
    assert [entry.role for entry in select_recent_entries(history, 45)] == ["user", "assistant"] * 2
    assert [entry.role for entry in select_recent_entries(history, 39)] == ["user", "assistant"]
    assert select_recent_entries(history, 5) == []


def test_a_turn_that_failed_is_reported_to_the_mind_as_one() -> None:
    session = Conversation(id="s", turn=2, history=entries("user", "error"))
    assert [message.role for message in build_history_messages(session, 100)] == ["user", "assistant"]
