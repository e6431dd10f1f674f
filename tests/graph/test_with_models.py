"""A conversation with models over HTTP: one that is strict about schemas, one that answers prose, one that fails every third call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleetlore.models.open import open_model
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
