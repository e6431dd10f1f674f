"""A conversation with models over HTTP: one that is strict about schemas, one that answers prose, one that fails every third call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleetlore.errors import ModelRefused
from fleetlore.graph import scripted
from fleetlore.graph.step_runner import SHORTEST_CUT, shorten_request
from fleetlore.models.base import ChatMessage, ModelReply, ModelRequest
from fleetlore.models.open import open_model
from fleetlore.models.scripted import ScriptedModel
from tests.graph.talking import open_chat
from tests.models.function_stub import PROSE, FunctionStub, Mode, count_results

BUTTON = {"actions": [{"label": "Add", "action": "add", "payload": {"var": "n", "op": "inc"}}]}


def choose(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]] | str:
    """First a button, then words; a message is asked about once."""
    is_request = "button" in json.dumps(body["messages"][-1])
    return [("emit_actions", BUTTON)] if count_results(body) == 0 and is_request else "The button is there."


@pytest.mark.parametrize("mode", ["strict", "prose", "fails_third"])
async def test_a_conversation_goes_on_whatever_the_model_does(mode: Mode) -> None:
    async with FunctionStub(mode, choose) as stub:
        address = f"openai:small?base_url={stub.url}/v1&attempts=3"
        async with open_model(address) as model, open_chat(models={"default": model}) as chat:
            replies = [await chat.say(text) for text in ("make me a button", "thank you for this", "and make me one more button")]
            assert all(replies)
            assert chat.sink.error is None
            labels = [control["label"] for control in chat.session.build_screen().controls]
            assert labels == ([] if mode == "prose" else ["Add"])
            assert (PROSE in replies[0]) == (mode == "prose")
            if mode == "prose":
                assert await chat.events("audit.talk_without_action"), "talk where a tool was due is recorded"
            else:
                await chat.press("add")
                assert chat.state == {"n": 1}
            failed = [event for event in await chat.events("node.failed") if event.data["node"] in ("input", "thinker", "output")]
            assert not failed
    assert not stub.refusals


class SmallModel(ScriptedModel):
    """The shipped script in a context that has room for one earlier message."""

    def __init__(self) -> None:
        super().__init__(scripted.answer_request)
        self.refused = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        if len(request.messages) > 1:
            self.refused += 1
            raise ModelRefused("openai:small: 400: request (2334 tokens) exceeds the available context size (2048 tokens)", status=400)
        return await super().reply(request)


async def test_a_history_that_is_too_long_for_the_model_is_shortened() -> None:
    model = SmallModel()
    async with open_chat(models={"default": model}) as chat:
        for text in ("hello there", "who are you", "what can you do for me"):
            assert await chat.say(text)
            assert chat.sink.error is None
        assert model.refused, "the history was too long at first"


def test_what_is_to_be_answered_is_kept() -> None:
    said = [ChatMessage(role="user", text=str(number)) for number in range(4)]
    result = ChatMessage(role="tool", call="c1", text="7")
    asked = ModelRequest(prompt="", messages=(*said, result))
    shorter = shorten_request(asked)
    assert shorter is not None
    assert shorter.messages == (*said[2:], result)
    assert shorten_request(ModelRequest(prompt="", messages=(said[3], result))) is None
    assert shorten_request(ModelRequest(prompt="now", messages=tuple(said))) == ModelRequest(prompt="now", messages=tuple(said[2:]))
    assert shorten_request(ModelRequest(prompt="now")) is None


def test_without_a_history_the_longest_text_is_cut_in_the_middle() -> None:
    long = "begin " + "x" * 2000 + " end"
    in_prompt = shorten_request(ModelRequest(prompt=long, system="s" * 9000))
    assert in_prompt is not None
    assert len(in_prompt.prompt) == len(long) // 2
    assert (in_prompt.prompt[:6], in_prompt.prompt[-4:]) == ("begin ", " end")
    question = ChatMessage(role="user", text="what is it?")
    with_result = shorten_request(ModelRequest(prompt="", messages=(question, ChatMessage(role="tool", call="c1", text=long))))
    assert with_result is not None
    assert (with_result.messages[0], with_result.messages[1].call) == (question, "c1")
    assert len(with_result.messages[1].text) == len(long) // 2
    assert shorten_request(ModelRequest(prompt="x" * SHORTEST_CUT)) is None


async def test_notes_that_are_too_long_for_the_model_are_shortened() -> None:
    """A small model can write more notes than fit into its next request."""

    def think_long(body: dict[str, Any]) -> str:
        return "It is a lighthouse. " * 300

    async with FunctionStub("strict", think_long, max_context=4000) as stub:
        address = f"openai:small?base_url={stub.url}/v1"
        async with open_model(address) as model, open_chat(models={"default": model}) as chat:
            assert await chat.say("what is that tower out there")
            assert chat.sink.error is None
    assert any("exceeds the available context size" in refusal for refusal in stub.refusals)


async def test_an_answer_that_is_no_object_is_corrected_once() -> None:
    """Otherwise the memory of a turn is lost with the first slip of a small model."""
    async with FunctionStub("slips_once") as stub:
        address = f"openai:small?base_url={stub.url}/v1"
        async with open_model(address) as model, open_chat(models={"default": model}) as chat:
            assert await chat.say("what is that tower out there")
            assert not await chat.events("node.failed")
    corrections = [one for one in stub.asked if "could not be used" in str(one.body["messages"][-1])]
    assert len(corrections) == 3, "input, memorizer and director"
