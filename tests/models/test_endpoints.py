"""Models behind HTTP, through their real client libraries: what is sent, what is parsed, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from fleetlore import clock
from fleetlore.errors import ModelBusy, ModelError, ModelRefused, ModelTimeout, UnusableAnswer
from fleetlore.models.base import ModelRequest, TokenUsage
from fleetlore.models.stream_accumulator import MAX_ANSWER_CHARS
from tests.models.conftest import ANTHROPIC, KEY, OPENAI, Protocol
from tests.models.stub import Stub, answers, breaks_off, message, refuses, says_nothing, stalls

HELLO = ModelRequest(prompt="Say hello.")
VOTE = {
    "type": "object",
    "properties": {"winner": {"enum": ["ada", "bob"]}, "text": {"type": "string"}},
    "required": ["winner", "text"],
    "additionalProperties": False,
}
VOTED = '{"winner": "ada", "text": "clear"}'


async def test_an_answer_is_put_together_from_its_tokens(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("Hel", "lo", "."))) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(HELLO)
    assert (reply.text, reply.data, reply.finish, reply.attempts, reply.model) == ("Hello.", None, "stop", 1, "small-1")
    assert reply.message_id in ("chatcmpl-7", "msg_7")
    assert reply.latency_ms >= 0


async def test_what_is_asked_for_is_sent_and_the_role_is_not(protocol: Protocol) -> None:
    ask = ModelRequest(prompt="Speak.", system="Be brief.", max_tokens=77, temperature=0.3, stop=("END",), seed=5, role="spy")
    async with Stub(answers(*protocol.says("Yes."))) as stub, protocol.at(stub) as mind:
        await mind.reply(ask)
    sent = stub.asked[0].body
    assert (sent["model"], sent["max_tokens"], sent["stream"]) == ("small", 77, True)
    assert sent.get("temperature") == (0.3 if protocol is OPENAI else None)  # Anthropic's refuses it
    assert sent["messages"][-1] == {"role": "user", "content": "Speak."}
    assert "Be brief." in json.dumps(sent)
    assert sent.get("stop", sent.get("stop_sequences")) == ["END"]
    assert "spy" not in json.dumps(sent)


async def test_the_key_goes_into_a_header_and_nowhere_else(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("Yes."))) as stub, protocol.at(stub) as mind:
        await mind.reply(HELLO)
    asked = stub.asked[0]
    assert KEY in (asked.headers.get("x-api-key"), asked.headers.get("authorization", "").removeprefix("Bearer "))
    assert KEY not in asked.path + json.dumps(asked.body)


async def test_to_other_endpoints_goes_nothing_of_what_the_environment_says_for_the_providers_own(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "of-the-environment")
    async with Stub(answers(*protocol.says("Yes."))) as stub, protocol.at(stub) as mind:
        await mind.reply(HELLO)
    assert "of-the-environment" not in json.dumps(stub.asked[0].headers)


@pytest.mark.parametrize(
    ("protocol", "usage", "expected"),
    [
        (
            OPENAI,
            {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60}},
            TokenUsage(input=40, output=20, cache_read=60),
        ),
        (
            ANTHROPIC,
            {"input_tokens": 40, "output_tokens": 20, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 5},
            TokenUsage(input=40, output=20, cache_read=60, cache_write=5),
        ),
    ],
)
async def test_usage_is_what_the_endpoint_says_the_cache_apart(protocol: Protocol, usage: dict[str, int], expected: TokenUsage) -> None:
    async with Stub(answers(*protocol.says("Yes.", usage=usage))) as stub, protocol.at(stub) as mind:
        assert (await mind.reply(HELLO)).usage == expected


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": -4, "input_tokens": "many", "completion_tokens": True, "output_tokens": None}])
async def test_usage_that_is_missing_or_cannot_be_is_reckoned_from_the_text(protocol: Protocol, usage: dict[str, int]) -> None:
    async with Stub(answers(*protocol.says("A" * 40, usage=usage))) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(HELLO)
    assert reply.usage == TokenUsage(input=3, output=10, estimated=True)


async def test_what_an_endpoint_says_that_it_cost_is_believed() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "cost": 0.0042}
    async with Stub(answers(*OPENAI.says("Yes.", usage=usage))) as stub, OPENAI.at(stub) as mind:
        assert (await mind.reply(HELLO)).usd == 0.0042


async def test_many_may_ask_at_once(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("Yes."))) as stub, protocol.at(stub) as mind:
        replies = await asyncio.gather(*(mind.reply(ModelRequest(prompt=f"Question {number}")) for number in range(20)))
    assert {reply.text for reply in replies} == {"Yes."}
    assert len({asked.body["messages"][-1]["content"] for asked in stub.asked}) == 20


# What is wanted as an object


async def test_an_endpoint_that_can_is_held_to_the_schema(protocol: Protocol) -> None:
    says = message(VOTED, tool=True, finish="tool_use") if protocol is ANTHROPIC else protocol.says(VOTED)
    async with Stub(answers(*says)) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(ModelRequest(prompt="Who?", schema=VOTE))
    assert reply.data == {"winner": "ada", "text": "clear"}
    sent = stub.asked[0].body
    if protocol is OPENAI:
        assert sent["response_format"]["json_schema"] == {"name": "answer", "schema": VOTE, "strict": True}
    else:
        assert sent["tools"][0]["input_schema"] == VOTE
        assert sent["tool_choice"] == {"type": "tool", "name": "answer"}


async def test_one_that_refuses_the_schema_is_given_it_in_words_and_never_asked_for_it_again(protocol: Protocol) -> None:
    named = "response_format is not supported" if protocol is OPENAI else "tool_choice: unknown field"
    acts = [refuses(400, protocol.error("invalid_request_error", named)), answers(*protocol.says("```json\n", VOTED, "\n```"))]
    async with Stub(*acts) as stub, protocol.at(stub) as mind:
        first = await mind.reply(ModelRequest(prompt="Who?", schema=VOTE))
        await mind.reply(ModelRequest(prompt="Who now?", schema=VOTE))
    assert (first.data, first.attempts) == ({"winner": "ada", "text": "clear"}, 1)
    assert len(stub.asked) == 3
    for asked in stub.asked[1:]:
        assert not {"response_format", "tools", "tool_choice"} & set(asked.body)
        assert '"enum": ["ada", "bob"]' in asked.body["messages"][-1]["content"]


async def test_a_refusal_that_says_nothing_is_tried_once_without_the_schema_and_then_believed(protocol: Protocol) -> None:
    async with Stub(refuses(400, {"error": "Bad Request"})) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelRefused, match="400: Bad Request"):
            await mind.reply(ModelRequest(prompt="Who?", schema=VOTE))
    assert len(stub.asked) == 2


@pytest.mark.parametrize(
    ("complaint", "gone", "there"),
    [
        ("Unsupported parameter: 'max_tokens', use 'max_completion_tokens'", "max_tokens", "max_completion_tokens"),
        ("Unsupported value: 'temperature' does not support 0.3", "temperature", "max_tokens"),
        ("stream_options: extra fields not permitted", "stream_options", "max_tokens"),
        ("Unknown parameter: 'seed'", "seed", "max_tokens"),
        ("'stop' is not supported with this model", "stop", "max_tokens"),
    ],
)
async def test_parameters_that_an_endpoint_does_not_know_are_left_out(complaint: str, gone: str, there: str) -> None:
    ask = ModelRequest(prompt="Speak.", temperature=0.3, seed=5, stop=("END",))
    acts = [refuses(400, {"error": {"message": complaint}}), answers(*OPENAI.says("Yes."))]
    async with Stub(*acts) as stub, OPENAI.at(stub) as mind:
        assert (await mind.reply(ask)).text == "Yes."
    assert gone not in stub.asked[1].body
    assert there in stub.asked[1].body


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I vote for Ada.", "there is no JSON object in it"),
        ('{"winner": "ada", "text": ', "there is no whole JSON object in it"),
        ('{"winner": "eve", "text": "x"}', 'winner: wants one of ada, bob; got "eve"'),
        ('{"winner": "ada"}', "text: is missing"),
        ("<think>Ada, surely.", "nothing but reasoning"),
        ("", "it is empty"),
    ],
)
async def test_an_answer_that_cannot_be_used_says_why_and_what_it_took(protocol: Protocol, text: str, reason: str) -> None:
    async with Stub(answers(*protocol.says(text))) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match=reason.replace("$", r"\$")) as caught:
            await mind.reply(ModelRequest(prompt="Who?", schema=VOTE))
    assert caught.value.reply is not None
    assert len(stub.asked) == 1  # to ask again, with a hint, is the caller's


async def test_an_object_that_was_cut_at_max_tokens_says_so(protocol: Protocol) -> None:
    finish = "length" if protocol is OPENAI else "max_tokens"
    async with Stub(answers(*protocol.says('{"winner": "a', finish=finish))) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match="cut off at max_tokens"):
            await mind.reply(ModelRequest(prompt="Who?", schema=VOTE))


async def test_reasoning_is_no_part_of_what_was_said(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("<think>He lies.", "</think>", "Good evening."))) as stub, protocol.at(stub) as mind:
        assert (await mind.reply(HELLO)).text == "Good evening."


async def test_an_answer_that_the_endpoint_withholds_is_refused(protocol: Protocol) -> None:
    finish = "content_filter" if protocol is OPENAI else "refusal"
    async with Stub(answers(*protocol.says("I", finish=finish))) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelRefused, match="withheld"):
            await mind.reply(HELLO)


async def test_prose_that_is_empty_is_no_answer(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says(" "))) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match="it is empty"):
            await mind.reply(HELLO)


# Stalls


async def test_reasoning_is_a_sign_of_life_and_no_part_of_the_answer() -> None:
    thoughts = [piece.replace('"content": "hm"', '"reasoning_content": "hm"') for piece in OPENAI.cut(*["hm"] * 3)]
    slow = answers(*thoughts, *OPENAI.says("Yes."))
    async with Stub(slow) as stub, OPENAI.at(stub) as mind:
        assert (await mind.reply(HELLO)).text == "Yes."
    async with Stub(stalls(*thoughts)) as stub, OPENAI.at(stub, first=10, between=0.05) as mind:
        with pytest.raises(ModelTimeout) as caught:
            await mind.reply(HELLO)
    assert caught.value.waiting_for == "the next token"


async def test_a_connection_that_does_not_come_about_is_tried_again_and_then_given_up(protocol: Protocol) -> None:
    # The stub waits for a request where a handshake is begun.
    async with Stub(says_nothing) as stub, protocol.at(stub, scheme="https", connect=0.05, most=2) as mind:
        with pytest.raises(ModelTimeout) as caught:
            await mind.reply(HELLO)
    assert (caught.value.waiting_for, caught.value.attempts, stub.made) == ("a connection", 2, 2)


@pytest.mark.parametrize("beginning", ["nothing", "a head", "signs of life"])
async def test_a_first_token_that_does_not_come_is_noticed(protocol: Protocol, beginning: str) -> None:
    acts = {"nothing": says_nothing, "a head": stalls(), "signs of life": stalls(*[protocol.alive] * 50, *protocol.cut())}
    async with Stub(acts[beginning]) as stub, protocol.at(stub, first=0.05) as mind:
        with pytest.raises(ModelTimeout) as caught:
            await mind.reply(HELLO)
        await stub.nobody_left()
    assert caught.value.waiting_for == "the first token"
    assert len(stub.asked) <= 1  # none, where the time was over before it arrived; never two


async def test_an_answer_that_stops_in_the_middle_is_noticed(protocol: Protocol) -> None:
    async with Stub(stalls(*protocol.cut("Once", " upon"))) as stub, protocol.at(stub, first=10, between=0.05) as mind:
        with pytest.raises(ModelTimeout) as caught:
            await mind.reply(HELLO)
        await stub.nobody_left()
    assert caught.value.waiting_for == "the next token"


async def test_the_time_that_was_given_is_the_end_of_it(protocol: Protocol) -> None:
    async with Stub(stalls(*protocol.cut("Once"))) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelTimeout, match=r"no answer within 0\.05 s") as caught:
            await mind.reply(ModelRequest(prompt="Go on.", timeout=0.05))
        await stub.nobody_left()
    assert caught.value.waiting_for == "the whole answer"


@pytest.mark.parametrize("moment", ["nothing", "a head", "a token"])
async def test_cancelling_at_any_moment_leaves_nothing_behind(protocol: Protocol, moment: str) -> None:
    acts = {"nothing": says_nothing, "a head": stalls(), "a token": stalls(*protocol.cut("Once"))}
    async with Stub(acts[moment]) as stub, protocol.at(stub) as mind:
        before = asyncio.all_tasks()
        task = asyncio.create_task(mind.reply(HELLO))
        await stub.received.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stub.nobody_left()
        assert asyncio.all_tasks() <= before


async def test_connections_are_used_again_and_closed_with_the_mind(protocol: Protocol) -> None:
    async with Stub(answers(*protocol.says("Yes."))) as stub:
        async with protocol.at(stub) as mind:
            for _ in range(5):
                await mind.reply(HELLO)
            assert stub.connections == 1
        await stub.nobody_left()
        assert stub.made == 1


# What passes, and what does not


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_an_endpoint_that_is_busy_is_asked_again(protocol: Protocol, status: int) -> None:
    pauses: list[float] = []
    acts = [refuses(status, protocol.error("overloaded_error", "too much")), answers(*protocol.says("Now."))]
    async with Stub(*acts) as stub, protocol.at(stub, pauses=pauses) as mind:
        reply = await mind.reply(HELLO)
    assert (reply.text, reply.attempts, len(pauses)) == ("Now.", 2, 1)
    assert 0.25 <= pauses[0] <= 0.5


async def test_pauses_grow_and_end(protocol: Protocol) -> None:
    pauses: list[float] = []
    async with Stub(refuses(503, {"error": {"message": "later"}})) as stub, protocol.at(stub, pauses=pauses, most=4) as mind:
        with pytest.raises(ModelBusy, match="503: later") as caught:
            await mind.reply(HELLO)
    assert (caught.value.status, caught.value.attempts, len(stub.asked)) == (503, 4, 4)
    assert [0.25, 0.5, 1.0] <= pauses <= [0.5, 1.0, 2.0]
    assert len({pause / 2**number for number, pause in enumerate(pauses)}) == 3  # by chance


@pytest.mark.parametrize("header", [{"retry_after": "7"}, {"retry_after_ms": "7000"}, {"retry_after": "date"}])
async def test_retry_after_is_honoured(protocol: Protocol, header: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: now)
    at = (now + timedelta(seconds=7)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {name: at if value == "date" else value for name, value in header.items()}
    pauses: list[float] = []
    acts = [refuses(429, protocol.error("rate_limit_error", "slow down"), **headers), answers(*protocol.says("Now."))]
    async with Stub(*acts) as stub, protocol.at(stub, pauses=pauses) as mind:
        await mind.reply(HELLO)
    assert 7 <= pauses[0] <= 7.5


@pytest.mark.parametrize("patience", ["3600", "100"])
async def test_anybody_who_asks_for_too_much_patience_is_not_waited_for(protocol: Protocol, patience: str) -> None:
    pauses: list[float] = []
    async with Stub(refuses(429, {}, retry_after=patience)) as stub, protocol.at(stub, pauses=pauses) as mind:
        with pytest.raises(ModelBusy) as caught:
            await mind.reply(HELLO)
    assert (caught.value.retry_after, caught.value.attempts, pauses) == (float(patience), 1, [])


async def test_no_pause_is_made_for_which_there_is_no_time(protocol: Protocol) -> None:
    pauses: list[float] = []
    async with Stub(refuses(429, {}, retry_after="30")) as stub, protocol.at(stub, pauses=pauses) as mind:
        with pytest.raises(ModelBusy):
            await mind.reply(ModelRequest(prompt="Quickly.", timeout=20))
    assert pauses == []


@pytest.mark.parametrize(("status", "advice"), [(401, "key"), (403, "key"), (404, "model's name"), (408, ""), (413, "shorter"), (418, "")])
async def test_what_will_not_pass_is_not_tried_again(protocol: Protocol, status: int, advice: str) -> None:
    async with Stub(refuses(status, protocol.error("some_error", "no"))) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelRefused, match=f"small: {status}: no.*{advice}") as caught:
            await mind.reply(HELLO)
    assert (caught.value.status, len(stub.asked)) == (status, 1)


async def test_credit_that_is_used_up_does_not_come_back_by_waiting() -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    async with Stub(refuses(429, body)) as stub, OPENAI.at(stub) as mind:
        with pytest.raises(ModelRefused, match="no credit left"):
            await mind.reply(HELLO)
    assert len(stub.asked) == 1


async def test_nobody_is_followed_to_another_place(protocol: Protocol) -> None:
    async with Stub(refuses(307, {}, location="http://127.0.0.1:1/elsewhere")) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelRefused, match=r"points to http://127\.0\.0\.1:1/elsewhere; name that in base_url"):
            await mind.reply(HELLO)


async def test_an_endpoint_that_is_not_there_is_busy(protocol: Protocol) -> None:
    async with Stub(says_nothing) as stub:
        pass
    async with protocol.at(stub) as mind:
        with pytest.raises(ModelBusy, match="the connection failed") as caught:
            await mind.reply(HELLO)
    assert caught.value.attempts == 3


@pytest.mark.parametrize("politely", [False, True])
async def test_an_answer_that_breaks_off_is_asked_for_again_and_never_taken_for_whole(protocol: Protocol, politely: bool) -> None:
    acts = [breaks_off(*protocol.cut("Half an"), politely=politely), answers(*protocol.says("All of it."))]
    async with Stub(*acts) as stub, protocol.at(stub, pauses=[]) as mind:
        reply = await mind.reply(HELLO)
    assert (reply.text, reply.attempts) == ("All of it.", 2)


# Lies


async def test_an_error_with_status_200_is_an_error(protocol: Protocol) -> None:
    acts = [refuses(200, protocol.error("overloaded_error", "too much")), answers(*protocol.says("Now."))]
    async with Stub(*acts) as stub, protocol.at(stub, pauses=[]) as mind:
        assert (await mind.reply(HELLO)).attempts == 2
    async with Stub(refuses(200, protocol.error("invalid_request_error", "no such thing"))) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelRefused, match="no such thing"):
            await mind.reply(HELLO)


async def test_an_error_in_the_middle_of_a_stream_is_an_error(protocol: Protocol) -> None:
    recorded = json.dumps(protocol.error("overloaded_error", "too much"))
    acts = [answers(*protocol.cut("Half"), f"event: error\ndata: {recorded}\n\n"), answers(*protocol.says("Whole."))]
    async with Stub(*acts) as stub, protocol.at(stub, pauses=[]) as mind:
        reply = await mind.reply(HELLO)
    assert (reply.text, reply.attempts) == ("Whole.", 2)


async def test_an_endpoint_that_does_not_stream_is_received_all_the_same(protocol: Protocol) -> None:
    whole = {
        "id": "chatcmpl-7",
        "model": "small-1",
        "choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}],
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": {"prompt_tokens": 4, "completion_tokens": 2, "input_tokens": 4, "output_tokens": 2},
    }
    async with Stub(refuses(200, whole)) as stub, protocol.at(stub) as mind:
        reply = await mind.reply(HELLO)
    assert (reply.text, reply.usage) == ("Yes.", TokenUsage(input=4, output=2))


async def test_a_page_instead_of_an_answer_says_what_to_look_at(protocol: Protocol) -> None:
    async with Stub(answers("<html>Welcome!</html>", kind="text/html")) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match=r"text/html where a stream was wanted; see to base_url"):
            await mind.reply(HELLO)


@pytest.mark.parametrize(
    "lie",
    [
        "data: {not json\n\n",
        "data: 5\n\n",
        "data: []\n\n",
        'data: "words"\n\n',
        "data: {}\n\n",
        'data: {"choices": 7, "type": 7}\n\n',
        'data: {"choices": [null], "type": "message_start"}\n\n',
        'data: {"choices": [{"delta": []}], "type": "content_block_delta", "delta": 3}\n\n',
        'data: {"choices": [{"delta": {"content": {"a": 1}}}], "type": "content_block_delta", "delta": {"text": [1]}}\n\n',
        "\xff\xfe\x00",
    ],
)
async def test_whatever_a_stream_holds_only_our_own_errors_come_of_it(protocol: Protocol, lie: str) -> None:
    part = f"event: message_delta\n{lie}"
    async with Stub(answers(part)) as stub, protocol.at(stub, most=1) as mind:
        with pytest.raises(ModelError):
            await mind.reply(HELLO)


async def test_an_answer_without_end_is_ended(protocol: Protocol) -> None:
    token = "A" * 65536
    async with Stub(answers(*protocol.says(*[token] * (MAX_ANSWER_CHARS // 65536 + 2)))) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match="longer than"):
            await mind.reply(HELLO)
        await stub.nobody_left()


async def test_a_line_without_end_is_ended(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetlore.models.http_client.MAX_RESPONSE_BYTES", 1 << 20)
    async with Stub(answers("data: ", *["A" * 65536] * 40)) as stub, protocol.at(stub) as mind:
        with pytest.raises(UnusableAnswer, match="more than 1048576 bytes"):
            await mind.reply(HELLO)
        await stub.nobody_left()


async def test_no_error_shows_the_key(protocol: Protocol) -> None:
    recorded = protocol.error("authentication_error", f"Incorrect key provided: {KEY}. And sk-abcdefghijklmnopqrstuvwx neither.")
    async with Stub(refuses(401, recorded)) as stub, protocol.at(stub) as mind:
        with pytest.raises(ModelRefused) as caught:
            await mind.reply(HELLO)
    assert str(caught.value).count("[redacted]") == 2
    assert KEY not in str(caught.value)


async def test_a_mind_that_is_closed_says_so(protocol: Protocol) -> None:
    async with Stub(says_nothing) as stub:
        with pytest.raises(ModelRefused, match="is not open"):
            await protocol.at(stub).reply(HELLO)
