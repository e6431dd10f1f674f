"""How it is told: turns of a session that did not end by themselves. Data only; `phrases/__init__.py` tells the rules.

A key is a kind and the reason that the event gives.
"""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "session.turn_ended/failed": (
        (
            "{agent} broke off with an error: {text}",
            "The turn of {agent} ended in an error: {text}",
            "An error ended the turn of {agent}: {text}",
            "{agent} could not finish the turn: {text}",
            "{agent} stopped on an error: {text}",
        ),
        (
            "{agent} broke off with an error",
            "The turn of {agent} ended in an error",
            "An error ended the turn of {agent}",
            "{agent} could not finish the turn",
            "{agent} stopped on an error",
        ),
    ),
    "session.turn_ended/interrupted": (
        (
            "Somebody interrupted {agent}",
            "{agent} was interrupted by a person",
            "A person stopped {agent} before the turn was over",
            "The turn of {agent} was cut short by a person",
            "{agent} was told to stop",
        ),
    ),
}
"""Key → groups of variants, best first."""

MANY: Mapping[str, tuple[str, ...]] = {
    "session.turn_ended/failed": (
        "{agent} broke off with an error {count_times} {when}",
        "The turns of {agent} ended in an error {count_times} {when}",
        "{agent} stopped on errors {count_times} {when}",
    ),
    "session.turn_ended/interrupted": (
        "Somebody interrupted {agent} {count_times} {when}",
        "{agent} was interrupted by a person {count_times} {when}",
        "A person stopped {agent} {count_times} {when}",
    ),
}
"""Key → how a run of like events is told."""
