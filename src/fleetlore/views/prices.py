"""Looks up what a model's tokens cost on a day. docs/costs.md describes the rules.

Money is counted in integer units of 10⁻¹² dollars: sums of floats would depend on the order of adding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Literal, NamedTuple

from fleetlore.settings import PRICE_KEYS
from fleetlore.views.prices_table import PRICE_ROWS, PRICES_DATE

PICO = 1_000_000_000_000
"""Units per dollar."""

_DEFAULT_CACHE_FACTORS = (0.1, 1.25, 2.0)
"""Default prices of cache read, cache write and 1-hour cache write, relative to input."""
_UNITS_PER_TOKEN = 1_000_000
"""A dollar per million tokens is this many units per token."""
_MAX_CACHED_MODELS = 4096

_PROVIDER_PREFIX = re.compile(r"(?:(us|eu|au|jp|apac)\.|global\.)?(?:anthropic|openai|google|xai|moonshotai|deepseek|mistral|qwen|zai)\.")
_VERSION_SUFFIX = re.compile(r"(?:\[1m\]|@[a-z0-9]+|-[0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2}|-v[0-9]+(?::[0-9]+)?|-latest)$")
_FAST_SUFFIX = "-fast"


class TokenCounts(NamedTuple):
    """Tokens of one reply. `cache_write_1h` is part of `cache_write`."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0


class TokenRates(NamedTuple):
    """Units per token, by sort."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int


class PriceTier(NamedTuple):
    """Prices of long requests."""

    above: int
    """In tokens."""
    of: Literal["each", "all"]
    """`each`: only the tokens above, for each sort separately. `all`: the whole request, if it reads more tokens."""
    rates: TokenRates


class ModelPrice(NamedTuple):
    """The price of a model from a day on."""

    since: str
    rates: TokenRates
    tier: PriceTier | None = None
    fast: float = 1.0
    regional: float = 1.0

    def compute_cost(self, counts: TokenCounts) -> int:
        """The cost of a reply in units."""
        counts_by_sort = (*counts[:3], counts.cache_write - counts.cache_write_1h, counts.cache_write_1h)
        tier = self.tier
        if tier is None:
            return _sum_cost(counts_by_sort, self.rates)
        if tier.of == "all":
            read = counts.input + counts.cache_read + counts.cache_write
            return _sum_cost(counts_by_sort, tier.rates if read > tier.above else self.rates)
        above = tuple(max(0, count - tier.above) for count in counts_by_sort)
        under = tuple(count - excess for count, excess in zip(counts_by_sort, above, strict=True))
        return _sum_cost(under, self.rates) + _sum_cost(above, tier.rates)

    def scale(self, factor: float) -> ModelPrice:
        """Multiply the price by a factor."""
        if factor == 1.0:
            return self
        tier = None if self.tier is None else self.tier._replace(rates=_scale_rates(self.tier.rates, factor))
        return self._replace(rates=_scale_rates(self.rates, factor), tier=tier)


class Prices:
    """The price table, overridden by the user's own prices."""

    def __init__(self, own: Mapping[str, Mapping[str, float]] | None = None, *, rows: str = PRICE_ROWS, date: str = PRICES_DATE) -> None:
        self.date = date
        self._user_prices = {name.lower(): (_parse_user_price(figures),) for name, figures in (own or {}).items()}
        self._table = _parse_rows(rows) | self._user_prices
        self._price_cache: dict[str, tuple[ModelPrice, ...]] = {}
        content = repr((rows, sorted((name, sorted(figures.items())) for name, figures in (own or {}).items())))
        self.key = sha256(content.encode(errors="surrogatepass")).hexdigest()[:12]
        """Differs if any price differs."""

    def find_price(self, model: str, day: str) -> ModelPrice | None:
        """The price of a model on a day (`2026-11-15`); `None` if unknown."""
        prices = self._price_cache.get(model)
        if prices is None:
            if len(self._price_cache) >= _MAX_CACHED_MODELS:
                self._price_cache.clear()
            prices = self._price_cache[model] = self._find_prices(model.lower())
        current = None
        for price in prices:
            if current is None or price.since <= day:
                current = price
        return current

    def _find_prices(self, name: str) -> tuple[ModelPrice, ...]:
        """Look up the full name, else the name without provider and date, else its longest known prefix."""
        if name in self._user_prices:
            return self._user_prices[name]
        base, region = _strip_provider(name)
        base, is_fast = _strip_version(base), False
        if base not in self._table and base.endswith(_FAST_SUFFIX):
            base, is_fast = _strip_version(base.removesuffix(_FAST_SUFFIX)), True
        match = next((start for start in _name_prefixes(base) if start in self._table), None)
        if match is None:
            return ()
        return tuple(price.scale((price.fast if is_fast else 1.0) * (price.regional if region else 1.0)) for price in self._table[match])


def _strip_provider(name: str) -> tuple[str, bool]:
    """Strip the provider: `us.anthropic.claude-x` and `openrouter/anthropic/claude-x` become `claude-x`.

    Also returns whether a region was named.
    """
    name = name.rpartition("/")[2]
    match = _PROVIDER_PREFIX.match(name)
    name = name[match.end() :] if match else name
    return (name.replace(".", "-") if name.startswith("claude") else name), bool(match and match[1])


def _strip_version(name: str) -> str:
    while (shorter := _VERSION_SUFFIX.sub("", name)) != name:
        name = shorter
    return name


def _name_prefixes(name: str) -> Iterable[str]:
    """The name and its prefixes without the last words; a number is a version, so it is not cut."""
    yield name
    while (cut := name.rfind("-")) > 0:
        if name[cut + 1 : cut + 2].isdigit():
            return
        name = name[:cut]
        yield name


@cache
def _parse_rows(rows: str) -> dict[str, tuple[ModelPrice, ...]]:
    table: dict[str, tuple[ModelPrice, ...]] = {}
    for row in rows.split("\n"):
        cells = row.split()
        if not cells:
            continue
        _, model, since, *figures = cells
        price = _parse_price("" if since == "-" else since, figures)
        table[model] = tuple(sorted((*table.get(model, ()), price), key=lambda each: each.since))
    return table


def _parse_price(since: str, cells: list[str]) -> ModelPrice:
    price = ModelPrice(since, _parse_rates(cells[:5]))
    words = iter(cells[5:])
    for word in words:
        name, _, value = word.partition("=")
        if name == "fast":
            price = price._replace(fast=float(value))
        elif name == "regional":
            price = price._replace(regional=float(value))
        elif name in ("each", "all"):
            price = price._replace(
                tier=PriceTier(int(value), "each" if name == "each" else "all", _parse_rates([next(words) for _ in PRICE_KEYS]))
            )
    return price


def _parse_user_price(figures: Mapping[str, float]) -> ModelPrice:
    return ModelPrice("", _parse_rates([str(figures.get(key, "-")) for key in PRICE_KEYS]))


def _parse_rates(cells: list[str]) -> TokenRates:
    """Parse five figures in dollars per million tokens, or dashes, to units per token."""
    input, output = float(cells[0]), float(cells[1])
    cache_prices = [input * factor if cell == "-" else float(cell) for cell, factor in zip(cells[2:], _DEFAULT_CACHE_FACTORS, strict=True)]
    return TokenRates(*(round(figure * _UNITS_PER_TOKEN) for figure in (input, output, *cache_prices)))


def _scale_rates(rates: TokenRates, factor: float) -> TokenRates:
    return TokenRates(*(round(rate * factor) for rate in rates))


def _sum_cost(counts: tuple[int, ...], rates: TokenRates) -> int:
    return sum(count * rate for count, rate in zip(counts, rates, strict=True))
