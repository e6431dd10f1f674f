"""The stream accumulator accepts any pieces, and its result is always valid."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore.errors import ModelError
from fleetlore.models import anthropic, openai
from fleetlore.models.base import ModelRequest
from fleetlore.models.endpoint import parse_error_body
from fleetlore.models.parse_reply import build_reply
from fleetlore.models.retry import parse_retry_after
from fleetlore.models.stream_accumulator import StreamAccumulator
from fleetlore.models.text_stream import TextStream
from fleetlore.testing import START

NAMES = st.sampled_from(
    ["choices", "delta", "message", "content", "usage", "type", "text", "finish_reason", "stop_reason", "prompt_tokens", "output_tokens",
     "input_tokens", "cost", "model", "id", "error", "code", "input", "refusal", "partial_json"]
)  # fmt: skip
WORDS = st.sampled_from(["stop", "message_start", "content_block_delta", "message_delta", "length", "", "429", "x" * 300])
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=10,
)


@settings(max_examples=3 * settings().max_examples // 5)
@given(st.lists(ANYTHING, max_size=3), ANYTHING)
def test_no_piece_is_stumbled_over_and_counts_are_counts(pieces: list[Any], whole: Any) -> None:
    for module in (openai, anthropic):
        received = StreamAccumulator()
        for piece in pieces:
            assert _take(module, received, piece) in (True, False)
        module._accept_body(received, whole)
        assert received.usage is None or (received.usage.input >= 0 and received.usage.output >= 0 and received.usage.total > 0)
        assert received.usd is None or 0 <= received.usd < 10**6
        try:
            assert build_reply(ModelRequest(prompt="?"), received, model="m", latency_ms=0).text
        except ModelError:
            continue


def _take(module: Any, received: StreamAccumulator, piece: Any) -> bool:
    taken = module._accept_piece(received, piece, "delta") if module is openai else module._accept_piece(received, piece)
    assert isinstance(taken, bool)
    return taken


@given(ANYTHING)
def test_any_body_of_an_error_can_be_reported(body: Any) -> None:
    status, words = parse_error_body(body)
    assert status is None or 400 <= status < 600
    assert isinstance(words, str)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "12"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 09:01:30 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 2026 10:01:30 +0100"}, 90.0),
        ({"retry-after": "Wed, 31 Dec 2025 09:00:00 GMT"}, 0.0),
    ],
)
def test_an_endpoint_may_ask_for_patience_in_several_ways(said: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(said, START) == seconds


@given(st.text())
def test_no_header_is_stumbled_over(said: str) -> None:
    found = parse_retry_after({"retry-after": said}, START)
    assert found is None or found >= 0


def test_a_character_that_comes_in_two_halves_is_received_whole_and_half_a_one_not_at_all() -> None:
    received, said = StreamAccumulator(), list[str]()
    received.text_stream = TextStream(said.append)
    for piece in ("Hi \ud83d", "\ude00 there \ud83d", "you \ude00", "\ud83d"):
        received.add_text(piece)
    received.text_stream.flush()
    assert received.text == "".join(said) == "Hi 😀 there �you �"
