"""Prices: how a model's name is understood, what long requests cost, and what a user may put in their place."""

from __future__ import annotations

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from fleetlore.views.prices import PICO, Prices, TokenCounts
from fleetlore.views.prices_table import PRICE_ROWS, PRICES_DATE

DAY = "2026-11-01"
MILLION = 1_000_000
PRICES = Prices()


def cost(model: str, counts: TokenCounts, *, prices: Prices = PRICES, day: str = DAY) -> float | None:
    price = prices.find_price(model, day)
    return None if price is None else price.compute_cost(counts) / PICO


def usd(model: str, *, prices: Prices = PRICES, day: str = DAY, **counts: int) -> float | None:
    return cost(model, TokenCounts(**counts), prices=prices, day=day)


def a_million_of(sort: str) -> TokenCounts:
    return TokenCounts(**{sort: MILLION})


def test_each_sort_of_token_has_its_price() -> None:
    model = "claude-opus-4-8"
    assert [cost(model, a_million_of(sort)) for sort in ("input", "output", "cache_read", "cache_write")] == [5.0, 25.0, 0.5, 6.25]
    assert usd(model, cache_write=MILLION, cache_write_1h=MILLION) == 10.0, "what is kept for an hour is part of what was written"
    assert usd(model, input=1, output=1) == 0.00003


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-4-6",
        "Claude-Sonnet-4-6",
        "claude-sonnet-4-6-20260217",
        "claude-sonnet-4-6@20260217",
        "claude-sonnet-4-6[1m]",
        "claude-sonnet-4-6-20260217-v1:0",
        "claude-sonnet-4.6",
        "claude-sonnet-4-6-thinking",
        "anthropic/claude-sonnet-4-6",
        "openrouter/anthropic/claude-sonnet-4.6",
        "anthropic.claude-sonnet-4-6-v1:0",
        "global.anthropic.claude-sonnet-4-6",
        "vertex_ai/claude-sonnet-4-6@default",
    ],
)
def test_a_model_is_known_in_whatever_way_providers_write_it(model: str) -> None:
    assert usd(model, input=MILLION) == 3.0


@pytest.mark.parametrize(
    ("model", "input"), [("gpt-5", 1.25), ("openai/gpt-5-2025-08-07", 1.25), ("gpt-5-mini", 0.25), ("gpt-5.1-codex-max", 1.25)]
)
def test_the_longest_known_name_decides(model: str, input: float) -> None:
    assert usd(model, input=MILLION) == input


@pytest.mark.parametrize(
    "model", ["claude-opus-4-9", "gpt-5.9", "gpt-50", "gpt", "claude", "mystery-1", "", "/", "-", "<synthetic>", "unknown"]
)
def test_another_version_is_another_model_and_has_no_price(model: str) -> None:
    assert usd(model, input=MILLION) is None


def test_a_clouds_region_and_the_fast_mode_cost_more() -> None:
    assert usd("us.anthropic.claude-opus-4-8", input=MILLION) == 5.5
    assert usd("us.anthropic.claude-opus-4-1-20250805-v1:0", input=MILLION) == 15.0, "where the region makes no difference"
    assert usd("claude-opus-4-7-fast", input=MILLION, output=MILLION) == 180.0
    assert usd("grok-4-fast", input=MILLION) == 0.2, "a model that is called so"


def test_above_a_threshold_sonnet_costs_more_for_what_lies_above_it() -> None:
    assert usd("claude-sonnet-4-5", input=200_000) == 0.6
    assert usd("claude-sonnet-4-5", input=300_000) == 0.6 + 0.6
    assert usd("claude-sonnet-4-5", input=100_000, cache_read=150_000) == 0.3 + 0.045


def test_above_a_threshold_others_cost_more_for_the_whole_request() -> None:
    assert usd("gemini-2.5-pro", input=200_000) == 0.25
    assert usd("gemini-2.5-pro", input=150_000, cache_read=100_000, output=1_000) == pytest.approx(0.375 + 0.025 + 0.015)
    assert usd("gemini-2.5-pro", input=100, output=300_000) == pytest.approx(3.000125), "long answers are no long requests"


def test_a_price_holds_from_its_day_on() -> None:
    rows = "x m 2026-03-01 2 4 - - -\nx m 2026-01-01 1 2 - - -\n"
    prices = Prices(rows=rows)
    days = ("2025-12-31", "2026-01-01", "2026-02-28", "2026-03-01", "2027-01-01")
    assert [usd("m", prices=prices, day=day, input=MILLION) for day in days] == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_what_a_user_says_takes_the_tables_place() -> None:
    prices = Prices({"claude-opus-4-8": {"input": 1.0, "output": 2.0}, "house/Model-7": {"input": 10.0, "output": 20.0, "cache_read": 0.0}})
    assert usd("anthropic/claude-opus-4-8", prices=prices, input=MILLION, output=MILLION) == 3.0
    caches = [cost("claude-opus-4-8", a_million_of(sort), prices=prices) for sort in ("cache_read", "cache_write")]
    assert caches == [0.1, 1.25], "what is not said follows from the input"
    assert usd("claude-opus-4-8", prices=prices, cache_write=MILLION, cache_write_1h=MILLION) == 2.0
    assert usd("house/model-7", prices=prices, input=MILLION, cache_read=MILLION) == 10.0
    assert usd("claude-opus-4-7", prices=prices, input=MILLION) == 5.0


def test_other_prices_have_another_key() -> None:
    own = {"m": {"input": 1.0, "output": 2.0}}
    keys = [Prices().key, Prices(own).key, Prices({"m": {"input": 1.0, "output": 3.0}}).key, Prices(rows="").key]
    assert len(set(keys)) == 4
    assert Prices(own).key == Prices({"m": {"output": 2.0, "input": 1.0}}).key


def test_every_row_of_the_table_can_be_found_by_its_name() -> None:
    rows = [row.split() for row in PRICE_ROWS.split("\n") if row]
    assert len({model for _, model, *_ in rows}) == len(rows) > 90
    assert [model for _, model, _, input, *_ in rows if usd(model, input=1_000) != pytest.approx(float(input) / 1_000)] == []
    assert PRICES.date == PRICES_DATE


@settings(max_examples=200)
@for_all(st.text(max_size=40) | st.sampled_from(["a/" * 50, "-" * 50, "claude-opus-4-8" + "-x" * 20]))
def test_no_name_breaks_it(model: str) -> None:
    price = PRICES.find_price(model, DAY)
    assert price is None or price.compute_cost(TokenCounts(input=1)) >= 0
