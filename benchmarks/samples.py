"""The events that every library stores: tool calls, results and chronicle entries of about 500 bytes.

Three scopes each: one of 20 agents, one of 200 tasks, the one mission. The text is put together from words,
paths and numbers, so that no page, cache or search is helped by repetition; none of it looks like a secret.
The peers are given finished bytes. Ours are given events as a caller makes them, and have to stamp, check,
redact, encode and index them inside the measured time: every comparison leans towards the peer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import cycle, islice
from random import Random
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from fleetlore import Event, clock
from fleetlore.events import codec

AGENTS, TASKS, MISSION = 20, 200, "parser-rewrite"
VARIETY = 4000
SIZE = 500
"""What the canonical JSON comes to, in bytes, within a few."""

_NAMES = ("ada", "grace", "edsger", "barbara", "donald", "tony", "frances", "alan", "margaret", "niklaus")
_VERBS = ("rewrites", "reads", "splits", "renames", "tests", "reverts", "measures", "documents", "untangles", "reviews")
_NOUNS = ("the scanner", "a flaky fixture", "the retry loop", "the cache layer", "an import cycle", "the schema", "the event reader")
_REASONS = ("because the build broke", "as the review asked", "after the merge", "before the release", "while the queue is short")
_FOLDERS = ("src/parser", "src/reader", "tests/unit", "docs/guide", "tools/release", "src/storage/pages")
_TOOLS = ("Bash", "Edit", "Read", "Grep", "WebFetch")

_Item = TypeVar("_Item")


class Supply(Generic[_Item]):
    """Hands out items without end, a list at a time, so that nothing is made inside a measured span."""

    def __init__(self, items: Sequence[_Item]) -> None:
        self._items = cycle(items)

    def take(self, count: int) -> list[_Item]:
        return list(islice(self._items, count))


@cache
def events() -> tuple[Event, ...]:
    """Events as a caller makes them: without id and time."""
    rng = Random(20261115)
    return tuple(_event(rng, n) for n in range(VARIETY))


@cache
def payloads() -> tuple[bytes, ...]:
    """The canonical JSON of the same events, as the log would store them."""
    return tuple(codec.encode_event(replace(event, id=clock.uuid7(), at=clock.now())) for event in events())


def agent(n: int) -> str:
    return f"{_NAMES[n % len(_NAMES)]}-{n % AGENTS:02d}"


def _event(rng: Random, n: int) -> Event:
    make = (_called, _returned, _committed)[n % 3]
    kind, data = make(rng)
    who = agent(rng.randrange(AGENTS))
    event = Event(kind=kind, actor=who, agent=who, task=f"task-{rng.randrange(TASKS):04d}", mission=MISSION, text=_line(rng), data=data)
    return _grown(rng, event)


def _grown(rng: Random, event: Event) -> Event:
    """The event with a text as long as it takes to come near the size."""
    stamped = 36 + 27 + len('"id":"","at":"",')
    while len(codec.encode_event(event)) + stamped < SIZE - 20:
        event = replace(event, text=f"{event.text}; {_line(rng)}")
    excess = max(0, len(codec.encode_event(event)) + stamped - SIZE)
    return replace(event, text=(event.text or "")[: len(event.text or "") - excess])


def _called(rng: Random) -> tuple[str, dict[str, Any]]:
    command = f"python -m pytest {_path(rng)} -k {rng.choice(_NOUNS).split()[-1]} --maxfail={rng.randrange(1, 9)}"
    return "tool.called", {
        "tool": rng.choice(_TOOLS),
        "call_id": _call(rng),
        "input": {"command": command},
        "turn": rng.randrange(400),
    }


def _returned(rng: Random) -> tuple[str, dict[str, Any]]:
    output = f"{rng.randrange(900)} passed, {rng.randrange(9)} skipped in {rng.randrange(9000) / 100}s"
    return "tool.returned", {
        "tool": rng.choice(_TOOLS),
        "call_id": _call(rng),
        "output": output,
        "exit_code": 0,
        "paths": [_path(rng)],
        "duration_ms": rng.randrange(90_000) / 10,
    }


def _committed(rng: Random) -> tuple[str, dict[str, Any]]:
    return "fleet.commit", {
        "sha": f"{rng.getrandbits(160):040x}",
        "branch": f"fix/{rng.randrange(9999)}",
        "files": [_path(rng), _path(rng)],
    }


def _call(rng: Random) -> str:
    return f"call_{rng.getrandbits(48):012x}"


def _path(rng: Random) -> str:
    return f"{rng.choice(_FOLDERS)}/{rng.choice(_NOUNS).split()[-1]}_{rng.randrange(300)}.py"


def _line(rng: Random) -> str:
    action = " ".join(rng.choice(words) for words in (_NAMES, _VERBS, _NOUNS, _REASONS))
    return f"{action} (step {rng.randrange(10_000)})"
