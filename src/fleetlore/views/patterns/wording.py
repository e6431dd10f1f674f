"""A finding as a sentence, with the words of `patterns.toml` or of the package that adds the kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol
from zlib import crc32

from fleetlore.views.patterns.kinds import all_kinds
from fleetlore.views.patterns.model import Finding

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
MOST_AGENTS = 5


class DisplayNames(Protocol):
    """How agents and threads are called."""

    def agent(self, name: str) -> str:
        """An agent."""

    def label(self, thread: str) -> str:
        """A thread, inside a sentence."""


def describe_finding(finding: Finding, names: DisplayNames) -> str:
    """One sentence without a full stop; names and notes in it are untrusted."""
    kind = all_kinds().get(finding.kind)
    templates = () if kind is None else (kind.open if finding.state == "open" else kind.closed) or kind.closed
    if not templates:
        return f"{finding.kind.replace('_', ' ').capitalize()} on {names.label(finding.thread)}"
    template = templates[crc32(finding.first.encode()) % len(templates)]
    agents = [names.agent(agent) for agent in finding.agents if agent] or ["somebody"]
    values = {
        "agents": join_names(agents),
        "agent": agents[0],
        "other": agents[-1],
        "thread": names.label(finding.thread),
        "count": f"{finding.count:,}",
        "count_times": f"{finding.count:,} times",
        "span": describe_span(finding.last_at - finding.first_at),
        "note": finding.note,
        "setbacks": f"{finding.count:,} setbacks",
    }
    text = _OPTIONAL.sub(lambda part: part[1] if finding.note else "", template)
    text = re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], ""), text)
    return text[:1].upper() + text[1:] if template.startswith("{thread}") else text


def join_names(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of many, the first and how many more."""
    if len(names) > MOST_AGENTS:
        return f"{', '.join(names[: MOST_AGENTS - 1])} and {len(names) - MOST_AGENTS + 1} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def describe_span(span: timedelta) -> str:
    """`6 s`, `4 min`, `1 h 5 min`, `2 d 3 h`."""
    seconds = max(0, round(span.total_seconds()))
    parts: list[str] = []
    for size, unit in _UNITS:
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount} {unit}")
        if parts and (len(parts) == 2 or unit in ("min", "s")):
            break
    return " ".join(parts) or "0 s"
