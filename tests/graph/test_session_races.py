"""Concurrency in a session: presses that wait for each other, flags during a reply, all ways to close."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.errors import LogError
from fleetlore.graph import scripted
from fleetlore.graph.session import Session
from fleetlore.graph.sessions import SessionManager
from fleetlore.graph.settings import GraphSettings
from fleetlore.graph.sink import CollectingSink
from fleetlore.graph.step import Step
from fleetlore.models.base import ModelReply, ModelRequest
from fleetlore.models.scripted import ScriptedModel
from tests.graph.talking import build_graph, make_tracing_nodes, open_chat, sleep_forever


class Gated(ScriptedModel):
    """Follows the shipped script; one role waits at a gate."""

    def __init__(self, role: str) -> None:
        super().__init__(scripted.answer_request)
        self.role, self.reached, self.gate = role, asyncio.Event(), asyncio.Event()

    async def reply(self, ask: ModelRequest) -> ModelReply:
        if ask.role == self.role:
            self.reached.set()
            await self.gate.wait()
        return await super().reply(ask)


async def test_presses_in_a_row_mention_the_screen_as_it_was_and_nothing_is_amiss() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter")
        seen = chat.session.build_screen().controls
        await asyncio.gather(*(chat.session.handle_action("count_up", dashboard=seen) for _ in range(5)))
        assert chat.state == {"count": 5}
        assert await chat.events("audit.mismatch") == []


async def test_what_a_browser_said_of_an_earlier_screen_is_not_held_against_it() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter", dashboard=[])
        await chat.say("show a table")
        assert await chat.events("audit.mismatch") == []
        await chat.session.report_dashboard([])
        assert len(await chat.events("audit.mismatch")) == 1


async def test_what_is_noticed_in_the_middle_of_a_reply_waits_for_the_next_one() -> None:
    mind = Gated("output")
    mind.gate.set()
    async with open_chat(models={"default": mind}) as chat:
        await chat.say("make me a counter")
        mind.gate.clear()
        mind.reached.clear()
        saying = asyncio.ensure_future(chat.say("what is this?"))
        await mind.reached.wait()
        await chat.session.report_dashboard([])
        await chat.session.report_dashboard(chat.session.build_screen().controls[:1])  # it was sent again, and that did not help
        mind.gate.set()
        await saying
        await chat.say("and what is that?")
        prompts = ["something else than expected" in (ask.system or "") for ask in mind.asked if ask.role == "output"]
        assert prompts == [False, False, True]
        assert chat.session.session.flags == {}


async def test_closing_ends_all_that_comes_after_earlier_replies() -> None:
    closing = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await closing.wait()

    mind = Gated("memorizer")
    async with open_chat(models={"default": mind}, sleep=sleep) as chat:
        await chat.say("make me a counter")
        await mind.reached.wait()
        await chat.press("unknown")  # does not wait for what comes after the first; what comes after this one does
        closing.set()
        await chat.session.close()
        names = [task.get_coro().__qualname__ for task in asyncio.all_tasks() if "Session" in task.get_coro().__qualname__]  # type: ignore[union-attr]
        assert names == []


async def test_many_may_make_room_at_once() -> None:
    async with connect("memory:") as log, SessionManager(log, GraphSettings(idle_seconds=0.0), sleep=sleep_forever) as sessions:
        received, old = CollectingSink(), list[Session]()
        for number in range(4):
            old.append(await sessions.open_session(f"old-{number}", identity="bob", channel="test"))
            old[-1].attach_sink(received)
        for each in old:
            each.detach_sink(received)
        opened = await asyncio.gather(*(sessions.open_session(f"new-{number}", identity="bob", channel="test") for number in range(4)))
        assert [each.id for each in opened] == ["new-0", "new-1", "new-2", "new-3"]


@pytest.mark.parametrize("edges", [("user > input", "input > output"), ("user > input", "input > output", "input > other")])
async def test_a_node_that_is_cancelled_from_within_fails_and_is_not_taken_for_the_end_of_the_session(edges: tuple[str, ...]) -> None:
    async def gives_up(step: Step) -> Any:
        raise asyncio.CancelledError

    registry, _ = make_tracing_nodes("input", "output", "other", output=gives_up)
    async with open_chat(settings=GraphSettings(default="wired"), graphs=[build_graph(*edges)], registry=registry) as chat:
        ended = await chat.session.handle_text("hello")
        assert ended == (1, chat.sink.error)
        assert str(ended.error).startswith("output: ")
        assert [message["type"] for message in chat.sink.messages][-2:] == ["error", "done"]


async def test_who_waits_for_a_turn_learns_that_it_failed_though_the_log_takes_nothing() -> None:
    async with connect("memory:") as log, SessionManager(log, sleep=sleep_forever) as sessions:
        chat = await sessions.open_session("s1", identity="ann", channel="test")

        async def append(events: Any, **more: Any) -> Any:
            raise LogError("no room left on the disk")

        real, log.append = log.append, append  # type: ignore[method-assign]  # a disk that is full for a while
        assert "no room left" in str((await chat.handle_text("hello")).error)
        log.append = real  # type: ignore[method-assign]
        assert (await chat.handle_text("hello")).error is None


async def test_messages_a_switch_and_a_clear_at_once_are_done_one_after_the_other() -> None:
    async with open_chat() as chat:
        said = [chat.session.handle_text(f"message {number}") for number in range(5)]
        await asyncio.gather(
            *said, chat.session.switch_graph("reflex"), chat.session.handle_text("by reflex"), chat.session.clear_conversation()
        )
        starts = [event.data["source"] for event in await chat.events("session.started")]
        assert starts == ["startup", "switch", "clear"]
        ends = [event.data["reason"] for event in await chat.events("session.turn_ended")]
        assert ends == ["done"] * 6
        assert chat.session.build_screen().history == []
        assert chat.session.graph.name == "reflex"


async def test_a_session_that_was_closed_is_opened_again_where_the_log_ends() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter")
        await chat.session.close()
        again = await chat.sessions.open_session("s1", identity="ann", channel="test")
        await again.handle_action("count_up")
        assert again.build_screen().state == {"count": 1}
