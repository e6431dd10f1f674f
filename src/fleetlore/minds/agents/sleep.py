"""An agent that has nothing to do for now asks to be woken later: its last words are a JSON object that says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from fleetlore.dialects.fields import as_count, as_text

SENTINEL = "__nexo_sleep__"
"""How agents that were driven by nexo say it; the time then stands under `duration_ms`."""
_LONGEST = 4096
_fenced = re.compile(r"```(?:json)?\s*(\{.*\})\s*```\s*\Z", re.DOTALL)


class Sleep(NamedTuple):
    """For how long, and why."""

    ms: int
    reason: str


def asks_to_sleep(words: str) -> Sleep | None:
    """What the last words ask for: `{"sleep_ms": 60000, "reason": "the build runs"}`, alone, on the last line, or in a block of code."""
    for text in _candidates(words.strip()):
        asked = _parse(text)
        ms = as_count(asked.get("duration_ms") if asked.get(SENTINEL) is True else asked.get("sleep_ms"))
        if ms:
            return Sleep(ms, as_text(asked.get("reason")) or "")
    return None


def _candidates(words: str) -> Iterator[str]:
    end = words[-_LONGEST:]
    if len(words) <= _LONGEST:
        yield words
    yield end.rpartition("\n")[2]
    if match := _fenced.search(end):
        yield match[1]


def _parse(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
