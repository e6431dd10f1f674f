"""What is told is made to fit the log: a fact of the driver always does, and what an agent tells stands in nobody's way."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from fleetlore.events.driver_types import Failure, Verdict
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

MAX_VERDICT_BYTES = 64 * 1024
"""Bytes of JSON; a turn's end tells it twice, and an event holds 256 KiB."""
MAX_TEXT_BYTES = 32 * 1024
SAMPLE = 2048


def replace_unencodable(value: Any) -> Any:
    """The same as it can be written: bytes that are no text, as in names of files, become question marks."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _replace_in_value(value)
    return value


def _replace_in_value(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_replace_in_value(name): _replace_in_value(each) for name, each in value.items()}
        case list() | tuple():
            return [_replace_in_value(each) for each in value]
    return value


def truncate_text(text: str, most: int = MAX_TEXT_BYTES) -> str:
    """Its beginning, as much as takes so many bytes as JSON, where a control character takes six."""
    text = text[:most].encode("utf-8", "replace").decode()
    while (size := len(msgspec.json.encode(text))) > most:
        text = text[: max(1, len(text) * most // size - 1)] if len(text) > 1 else ""
    return text


def truncate_verdict(verdict: Verdict, most: int = MAX_VERDICT_BYTES) -> Verdict:
    """A verdict with as much of its evidence as there is room for, the same for each criterion."""
    share = most // max(1, len(verdict.failures))
    failures = tuple(_truncate_failure(each, share) for each in verdict.failures)
    return verdict if failures == verdict.failures else replace(verdict, failures=failures)


def _truncate_failure(failure: Failure, share: int) -> Failure:
    label, message = truncate_text(failure.criterion_label, max(8, share // 4)), truncate_text(failure.message, max(8, share // 4))
    seen = None if failure.evidence is None else _truncate_start(failure.evidence, share // 2)
    return replace(failure, criterion_label=label, message=message, evidence=seen)


def _truncate_start(text: str, most: int) -> str:
    """The end tells more than the beginning, of what a program printed."""
    return truncate_text(text[-most:][::-1], most)[::-1]


def make_rejected_event(event: Event, reason: str) -> Event:
    """What is told in place of an event that the log does not take."""
    sample = repr(event.data)[:SAMPLE]
    return Event(
        id=derive_id("log.rejected", f"{event.id}".encode()),
        at=event.at,
        kind="log.rejected",
        actor="driver",
        goal=event.goal,
        text=f"{event.kind}: {reason}"[:300],
        visibility="system",
        data={"reason": replace_unencodable(reason[:SAMPLE]), "source": "agent", "sample": replace_unencodable(sample)},
    )
