"""Streamed text: each word is passed on once, and together they are the reply's text."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleetlore.errors import ModelBusy, UnusableAnswer
from fleetlore.models.base import ModelRequest
from fleetlore.models.parse_json import REASONING_TAG, strip_reasoning
from fleetlore.models.text_stream import TextStream
from fleetlore.testing import BreaksOff, Calls, ScriptedModel
from tests.models.conftest import OPENAI, Protocol
from tests.models.stub import Stub, Wire, answers, breaks_off, refuses
from tests.models.test_calls import CLEAR, QUERY, WANTED, calling
from tests.patience import PATIENCE


async def test_each_piece_is_received_as_it_comes(protocol: Protocol) -> None:
    received: list[str] = []
    first_word = asyncio.Event()

    def receive(words: str) -> None:
        received.append(words)
        first_word.set()

    async def hesitates(wire: Wire) -> None:
        pieces = protocol.says("Hel", "lo,", " you.")
        cut = next(number for number, piece in enumerate(pieces) if "lo," in piece)
        await wire.head()
        for piece in pieces[:cut]:
            await wire.part(piece)
        await asyncio.wait_for(first_word.wait(), PATIENCE)  # no more before the first word arrived
        for piece in pieces[cut:]:
            await wire.part(piece)
        await wire.end()

    async with Stub(hesitates) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(ModelRequest(prompt="?", on_text=receive))
    assert received == ["Hel", "lo,", " you."]
    assert reply.text == "Hello, you."


async def test_words_beside_a_call_are_received_and_its_arguments_are_not(protocol: Protocol) -> None:
    received: list[str] = []
    async with Stub(answers(*calling(protocol, WANTED, words=("Let me", " look.")))) as stub, protocol.at(stub) as mind:
        await mind.reply(ModelRequest(prompt="?", tools=(QUERY,), on_text=received.append))
    assert received == ["Let me", " look."]


async def test_an_object_is_not_prose_and_not_received(protocol: Protocol) -> None:
    received: list[str] = []
    async with Stub(answers(*protocol.says('{"a": 1}'))) as stub, protocol.at(stub) as mind:
        await mind.reply(ModelRequest(prompt="?", schema={"type": "object"}, on_text=received.append))
    assert received == []


async def test_what_was_not_received_is_asked_for_again(protocol: Protocol) -> None:
    received: list[str] = []
    acts = [refuses(503, {}), breaks_off(*protocol.cut("<think>Hm", " ")), answers(*protocol.says("All of it."))]
    async with Stub(*acts) as stub, protocol.at(stub, pauses=[]) as mind:
        reply = await mind.reply(ModelRequest(prompt="?", on_text=received.append))
    assert (received, reply.attempts) == (["All of it."], 3)


@pytest.mark.parametrize("politely", [False, True])
async def test_after_the_first_word_nothing_is_asked_for_again(protocol: Protocol, politely: bool) -> None:
    received: list[str] = []
    acts = [breaks_off(*protocol.cut("Half an"), politely=politely), answers(*protocol.says("Half an answer."))]
    async with Stub(*acts) as stub, protocol.at(stub, pauses=[]) as mind:
        with pytest.raises(ModelBusy) as caught:
            await mind.reply(ModelRequest(prompt="?", on_text=received.append))
    assert (received, caught.value.attempts, len(stub.asked)) == (["Half an"], 1, 1)


async def test_a_hearer_that_fails_ends_the_question_with_its_own_error(protocol: Protocol) -> None:
    def failing(words: str) -> None:
        raise ValueError(f"cannot hear {words}")

    async with Stub(answers(*protocol.says("Hello."))) as stub, protocol.at(stub) as mind:
        with pytest.raises(ValueError, match="cannot hear Hello"):
            await mind.reply(ModelRequest(prompt="?", on_text=failing))
        await stub.nobody_left()
    assert len(stub.asked) == 1


async def test_an_endpoint_that_does_not_stream_is_received_at_once() -> None:
    whole = {"id": "c", "model": "m", "choices": [{"message": {"content": " Yes. "}, "finish_reason": "stop"}]}
    received: list[str] = []
    async with Stub(refuses(200, whole)) as stub, OPENAI.at(stub) as mind:
        reply = await mind.reply(ModelRequest(prompt="?", on_text=received.append))
    assert received == [reply.text] == ["Yes."]


PARTS = st.sampled_from(
    ["Hello", " ", "\n", "<think>", "</think>", "<b>", "<", ">", "a < b", "<reasoning why>", "</reasoning>", "<thi", "é"]
)


@given(st.lists(PARTS, max_size=12).map("".join), st.data())
def test_however_it_is_cut_the_pieces_are_the_text_of_the_reply(text: str, data: st.DataObject) -> None:
    depth = 0
    for tag in REASONING_TAG.finditer(text):
        depth += -1 if tag["end"] else 1
        assume(depth >= 0)  # without its beginning, reasoning is streamed as text until its end mark
    received: list[str] = []
    speech, place = TextStream(received.append), 0
    while place < len(text):
        size = data.draw(st.integers(1, 8))
        speech.feed(text[place : place + size])
        place += size
    speech.flush()
    assert "".join(received) == strip_reasoning(text)
    assert all(received)


async def test_a_script_speaks_word_by_word() -> None:
    received: list[str] = []
    mind = ScriptedModel(["It was the butler.", Calls([("clear", {})], text="One moment."), BreaksOff("It was", ModelBusy("gone"))])
    ask = ModelRequest(prompt="Who?", tools=(CLEAR,), on_text=received.append)
    reply = await mind.reply(ask)
    assert len(received) == 4
    assert "".join(received) == reply.text
    received.clear()
    await mind.reply(ask)
    assert "".join(received) == "One moment."
    received.clear()
    with pytest.raises(ModelBusy, match="gone"):
        await mind.reply(ask)
    assert "".join(received) == "It was"


async def test_a_script_that_says_nothing_is_no_answer_and_nothing_is_received() -> None:
    received: list[str] = []
    with pytest.raises(UnusableAnswer, match="empty"):
        await ScriptedModel([" "]).reply(ModelRequest(prompt="?", on_text=received.append))
    assert received == []
