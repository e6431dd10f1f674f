"""Counts tokens in rollouts of Codex like `ccusage`: each response once, however often its numbers are repeated.

A rollout repeats the thread's totals and the last response's usage. A response is new if the totals have changed; its own usage counts,
or else the growth of the totals. `input_tokens` includes cached tokens, `output_tokens` includes reasoning.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from fleetlore.dialects.fields import as_count, as_object, as_text

_INPUT_KEYS = ("input_tokens", "prompt_tokens", "input")
_CACHED_KEYS = ("cached_input_tokens", "cache_read_input_tokens", "cached_tokens")
_CACHE_WRITE_KEYS = ("cache_write_input_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
_OUTPUT_KEYS = ("output_tokens", "completion_tokens", "output")
_REASONING_KEYS = ("reasoning_output_tokens", "reasoning_tokens")


class CodexUsage(NamedTuple):
    """Tokens of a response, or of a whole thread."""

    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    reasoning: int = 0
    total: int = 0

    @property
    def is_nonzero(self) -> bool:
        """Whether anything was used; a total alone is only the size of the context."""
        return any(self[:5])

    def clamp_cached(self) -> CodexUsage:
        """The same, with cached tokens limited to the input."""
        cached = min(self.cached, self.input)
        return self._replace(cached=cached, written=min(self.written, self.input - cached))

    def subtract_usage(self, before: CodexUsage | None) -> CodexUsage:
        """The difference of two totals, never negative."""
        return CodexUsage(*(max(now - then, 0) for now, then in zip(self, before or CodexUsage(), strict=True)))

    def to_event_data(self) -> dict[str, int]:
        """The fields of `model.replied`."""
        fields = {"input": self.input - self.cached - self.written, "output": self.output, "cache_read": self.cached}
        return fields | ({"cache_write": self.written} if self.written else {}) | ({"reasoning": self.reasoning} if self.reasoning else {})


class NotedResponse(Struct, kw_only=True):
    """A response that was recorded when it arrived; the totals follow."""

    response: str
    usage: CodexUsage
    thread_totals: CodexUsage | None = None
    at: datetime | None = None


class UsageMeter(Struct, kw_only=True):
    """The usage of a thread that was already counted."""

    totals: CodexUsage | None = None
    noted: NotedResponse | None = None


class CountedResponse(NamedTuple):
    """One response."""

    usage: CodexUsage
    response: str | None = None
    at: datetime | None = None
    """When it arrived, if recorded before the totals."""


def read_usage(value: object) -> CodexUsage | None:
    """The numbers of a usage record in any spelling; `None` if there are none."""
    if not isinstance(value, dict):
        return None
    given, output, reasoning = _first_number(value, _INPUT_KEYS), _first_number(value, _OUTPUT_KEYS), _first_number(value, _REASONING_KEYS)
    total = _parse_count(value.get("total_tokens"))
    if not total:
        total = given + output + reasoning
    return CodexUsage(given, _first_number(value, _CACHED_KEYS), _first_number(value, _CACHE_WRITE_KEYS), output, reasoning, total)


def _first_number(value: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((number for key in keys if (number := _parse_count(value.get(key))) is not None), 0)


def _parse_count(value: object) -> int | None:
    if isinstance(value, str):
        return int(text) if (text := value.strip()).isascii() and text.isdigit() and len(text) < 16 else None
    return as_count(value)


def count_response(meter: UsageMeter, info: dict[str, Any]) -> CountedResponse | None:
    """The response that a `token_count` reports, if it is new."""
    totals = read_usage(info.get("total_token_usage"))
    moved_on = totals is None or totals != meter.totals
    usage = read_usage(info.get("last_token_usage")) if moved_on else None
    if usage is None and totals is not None:
        usage = totals.subtract_usage(meter.totals)
    meter.totals = totals or meter.totals
    if usage is None or not usage.is_nonzero:
        return None
    noted, usage = meter.noted, usage.clamp_cached()
    if noted is None or not (noted.usage == usage or (totals is not None and noted.thread_totals == totals)):
        return CountedResponse(usage)
    meter.noted = None
    return CountedResponse(usage, noted.response, noted.at)


def note_response(meter: UsageMeter, payload: dict[str, Any], at: datetime | None) -> None:
    """Remember a `token_usage_record`: it names the response of the next totals."""
    response, usage = as_text(payload.get("response_id")), read_usage(payload.get("usage"))
    if response is not None and usage is not None:
        totals = read_usage(payload.get("thread_token_usage"))
        meter.noted = NotedResponse(response=response, usage=usage.clamp_cached(), thread_totals=totals, at=at)


def count_compaction(meter: UsageMeter, response: str | None) -> CountedResponse | None:
    """The response of a compaction, which totals do not include."""
    noted = meter.noted
    if noted is None or noted.response != response or not noted.usage.is_nonzero:
        return None
    meter.noted = None
    return CountedResponse(noted.usage, noted.response, noted.at)


def find_model(*places: dict[str, Any]) -> str | None:
    """The model named in a record, under any of its keys."""
    for place in places:
        for value in (place.get("model"), place.get("model_name"), as_object(place.get("metadata")).get("model")):
            if isinstance(value, str) and value.strip():
                return value.strip()
    return None
