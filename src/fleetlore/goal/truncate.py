"""Makes events fit the log: replaces unencodable text, truncates long text, and substitutes events that the log rejects."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from fleetlore.events.driver_types import Failure, Verdict
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

MAX_VERDICT_BYTES = 64 * 1024
"""Size as JSON. A turn's end stores the verdict twice, and an event holds at most 256 KiB."""
MAX_TEXT_BYTES = 32 * 1024
SAMPLE = 2048


def replace_unencodable(value: Any) -> Any:
    """The same value with lone surrogates (as from undecodable file names) replaced by question marks."""
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


def truncate_text(text: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The beginning of the text that takes at most `max_bytes` as JSON, where a control character takes six bytes."""
    text = text[:max_bytes].encode("utf-8", "replace").decode()
    while (size := len(msgspec.json.encode(text))) > max_bytes:
        text = text[: max(1, len(text) * max_bytes // size - 1)] if len(text) > 1 else ""
    return text


def truncate_verdict(verdict: Verdict, max_bytes: int = MAX_VERDICT_BYTES) -> Verdict:
    """Shorten the failures of a verdict so that all fit, each with the same share of `max_bytes`."""
    bytes_per_failure = max_bytes // max(1, len(verdict.failures))
    failures = tuple(_truncate_failure(each, bytes_per_failure) for each in verdict.failures)
    return verdict if failures == verdict.failures else replace(verdict, failures=failures)


def _truncate_failure(failure: Failure, max_bytes: int) -> Failure:
    label, message = truncate_text(failure.criterion_label, max(8, max_bytes // 4)), truncate_text(failure.message, max(8, max_bytes // 4))
    evidence = None if failure.evidence is None else _truncate_start(failure.evidence, max_bytes // 2)
    return replace(failure, criterion_label=label, message=message, evidence=evidence)


def _truncate_start(text: str, max_bytes: int) -> str:
    """Keep the end: in a program's output it says more than the beginning."""
    return truncate_text(text[-max_bytes:][::-1], max_bytes)[::-1]


def make_rejected_event(event: Event, reason: str) -> Event:
    """The `log.rejected` event that is stored in place of an event that the log does not accept."""
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
