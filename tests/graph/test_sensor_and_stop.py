"""The sensor's tick, the stop button, the time limit, and what prompts and HUD say of screen and tools."""

from __future__ import annotations

import asyncio

import pytest

from fleetlore.graph import scripted
from fleetlore.graph.files import load_graph
from fleetlore.graph.settings import GraphSettings
from fleetlore.graph.sink import CollectingSink
from fleetlore.models.base import ModelReply, ModelRequest
from fleetlore.models.scripted import Calls, ScriptedModel
from tests.graph.talking import Chat, ManualSleep, open_chat, sleep_forever

ANCESTOR_WORDS = [
    *("daten", "data", "database", "db", "tabelle", "table", "query", "abfrage", "untersuche", "investigate", "explore", "analyse"),
    *("analyze", "umsatz", "revenue", "billing", "abrechnung", "customer", "kunde", "geraete", "device", "objekt", "object"),
    *("how many", "wieviele", "welche"),
]


class Page(CollectingSink):
    """A connected browser."""

    reports_screen = True


def asked(chat: Chat, role: str) -> list[ModelRequest]:
    return [request for request in chat.model.asked if request.role == role]


ANALYSIS = {"language": "en", "intent": "request", "topic": "t", "tone": "casual", "complexity": "simple"}


@pytest.mark.parametrize("word", ANCESTOR_WORDS)
async def test_every_planning_word_leads_to_a_plan(word: str) -> None:
    text = f"please {word} the thing for me now and then tell me"
    assert len(ANCESTOR_WORDS) == 26
    async with open_chat({"input": ANALYSIS}) as chat:
        await chat.say(text)
        assert len(asked(chat, "director:plan")) == 1
        await chat.say("short: " + word)
        assert len(asked(chat, "director:plan")) == 1, "eight words or fewer are not planned"


@pytest.mark.parametrize("text", ["I have some feedback for you about the way this all works today"])
async def test_parts_of_words_do_not(text: str) -> None:
    async with open_chat({"input": ANALYSIS}) as chat:
        await chat.say(text)
        assert not asked(chat, "director:plan")


async def test_actions_can_plan() -> None:
    button = Calls([("emit_actions", {"actions": [{"label": "Show revenue by customer", "action": "report", "payload": {"year": 2026}}]})])
    async with open_chat({"input": ANALYSIS, "thinker": [button, "There."]}) as chat:
        await chat.say("make a button")
        await chat.press("report")
        [plan] = asked(chat, "director:plan")
        assert "Show revenue by customer" in plan.prompt
    async with open_chat({"input": ANALYSIS | {"intent": "action"}}) as chat:
        await chat.say("compare the revenue of all our customers by region this year")
        assert len(asked(chat, "director:plan")) == 1


def test_users_extend_the_words_in_a_graph_of_their_own() -> None:
    assert "customer*" in load_graph("seven").words["data"]


# --- the tick


async def test_the_tick_notices_that_sending_again_did_not_help() -> None:
    """The page reports the same screen once; no turn and no other report follows."""
    sleep = ManualSleep()
    async with open_chat(sleep=sleep, settings=GraphSettings(turn_seconds=0)) as chat:
        await chat.say("make me a counter")
        controls = chat.session.build_screen().controls
        await chat.session.report_dashboard(controls[:-1])
        await sleep.advance(1)
        assert [event.data["retried"] for event in await chat.events("audit.mismatch")] == [True]
        await sleep.advance(2)
        assert [event.data["retried"] for event in await chat.events("audit.mismatch")] == [True, False]
        await sleep.advance(5)
        assert len(await chat.events("audit.mismatch")) == 2


async def test_a_browser_that_never_reports_is_noticed_and_reported_to_the_model() -> None:
    sleep = ManualSleep()
    async with open_chat(sleep=sleep, settings=GraphSettings(turn_seconds=0)) as chat:
        await chat.say("make me a counter")
        await sleep.advance(9)
        assert not await chat.events("audit.mismatch"), "nobody looks: there is no page"
        page = Page()
        chat.session.attach_sink(page)
        await sleep.advance(2)
        assert not await chat.events("audit.mismatch")
        await sleep.advance(1)
        [silent] = await chat.events("audit.mismatch")
        assert (silent.data["silent"], silent.data["retried"]) == (True, True)
        assert page.select_messages("controls"), "the screen is sent again"
        await sleep.advance(9)
        assert [event.data["retried"] for event in await chat.events("audit.mismatch")] == [True, False]
        await chat.say("what is on my screen")
        assert "has not confirmed" in (asked(chat, "thinker")[-1].system or "")


# --- prompts and HUD


async def test_the_prompt_says_what_the_browser_shows() -> None:
    async with open_chat() as chat:
        await chat.say("make me a counter")
        controls = chat.session.build_screen().controls
        await chat.say("what is there now", dashboard=controls)
        assert "The user's browser shows exactly this." in (asked(chat, "thinker")[-1].system or "")
        await chat.say("and what is there now", dashboard=[{"type": "button", "label": "Old", "action": "old"}])
        assert "What the user sees instead\n> Button: Old" in (asked(chat, "thinker")[-1].system or "")


async def test_tool_calls_and_results_are_in_the_hud() -> None:
    wrong, right = (Calls([("reset_machine", {"id": "m"})]), Calls([("set_state", {"key": "x", "value": 7})]))
    async with open_chat({"thinker": [wrong, right, "It is seven."]}) as chat:
        await chat.say("set x to seven")
        seen = [message for message in chat.sink.select_messages("hud") if message["event"].startswith("tool_")]
        assert [(message["event"], message["tool"], message.get("ok")) for message in seen] == [
            ("tool_call", "reset_machine", None),
            ("tool_result", "reset_machine", False),
            ("tool_call", "set_state", None),
            ("tool_result", "set_state", True),
        ]
        assert (seen[2]["detail"], seen[3]["detail"]) == ('{"key":"x","value":7}', "x = 7")
        assert seen[2]["call_id"] == seen[3]["call_id"]


# --- stop and time limit


class StalledModel(ScriptedModel):
    """The shipped script, with a thinker that never answers its first request."""

    def __init__(self) -> None:
        super().__init__(scripted.answer_request)
        self.stalled = asyncio.Event()

    async def reply(self, request: ModelRequest) -> ModelReply:
        if request.role == "thinker" and not self.stalled.is_set():
            self.stalled.set()
            await sleep_forever(0)
        return await super().reply(request)


async def test_a_turn_is_stopped_and_the_next_one_works() -> None:
    model = StalledModel()
    async with open_chat(models={"default": model}) as chat:
        turn = asyncio.ensure_future(chat.session.handle_text("set x to seven"))
        await model.stalled.wait()
        assert chat.session.stop_turn()
        result = await turn
        assert result.error == chat.sink.error == "the turn was stopped"
        assert chat.sink.messages[-1] == {"type": "done"}
        assert not chat.session.stop_turn(), "nothing runs"
        await chat.say("who are you")
        assert chat.sink.error is None
        ended = await chat.events("session.turn_ended")
        assert [event.data["reason"] for event in ended] == ["interrupted", "done"]


async def test_a_turn_that_takes_too_long_is_stopped() -> None:
    model = StalledModel()

    async def sleep(seconds: float) -> None:
        if seconds != 30.0:
            await sleep_forever(seconds)
        await model.stalled.wait()

    async with open_chat(models={"default": model}, sleep=sleep, settings=GraphSettings(turn_seconds=30)) as chat:
        result = await chat.session.handle_text("set x to seven")
        assert result.error == "the turn took longer than 30 s and was stopped"
