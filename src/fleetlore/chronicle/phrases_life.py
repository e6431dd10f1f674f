"""The life of agents: stage, sessions, tools, models, goals, nodes and the record itself; and kinds that nobody knows."""

from __future__ import annotations

from collections.abc import Mapping

from fleetlore.chronicle.phrases import (
    agents,
    deeds,
    deeds_amiss,
    deeds_begun,
    deeds_mended,
    goals,
    graph,
    models,
    records,
    stage,
    tools,
    turns,
)

_FAMILIES = (agents, goals, graph, models, records, stage, tools)

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {kind: groups for family in _FAMILIES for kind, groups in family.PHRASES.items()}
MANY: Mapping[str, tuple[str, ...]] = {kind: variants for family in _FAMILIES for kind, variants in family.MANY.items()}

_DEEDS = (deeds, deeds_amiss, deeds_begun, deeds_mended, turns)
DEEDS: Mapping[str, tuple[tuple[str, ...], ...]] = {key: groups for part in _DEEDS for key, groups in part.PHRASES.items()}
"""Key of a deed → groups of variants: where a kind alone does not tell what was done. `telling_deeds.py` finds the key."""
DEEDS_MANY: Mapping[str, tuple[str, ...]] = {key: variants for part in _DEEDS for key, variants in part.MANY.items()}

UNKNOWN: tuple[tuple[str, ...], ...] = (
    (
        "{agent} recorded “{deed}”: {text}",
        "From {agent} came an entry of “{deed}”: {text}",
        "The record of {agent} said “{deed}”: {text}",
        "Under the name of {agent} came “{deed}”: {text}",
        "An entry marked “{deed}” named {agent}: {text}",
        "The log noted “{deed}” for {agent}: {text}",
    ),
    (
        "On {task}, the record of {agent} said: {deed}",
        "An entry marked “{deed}” named {agent} and {task}",
        "The log noted “{deed}” for {agent} on {task}",
        "Under {task}, {agent} had this to record: {deed}",
        "For {task}, an entry of “{deed}” came from {agent}",
    ),
    (
        "The record of {agent} said: {deed}",
        "An entry marked “{deed}” named {agent}",
        "The log noted “{deed}” for {agent}",
        "{agent} had this to record: {deed}",
        "From {agent} came an entry of “{deed}”",
    ),
)
"""Groups for kinds that nobody knows; `{deed}` is the kind in words."""

UNKNOWN_MANY: tuple[str, ...] = (
    "The record of {agent} said “{deed}” {count_times} {when}",
    "There were {count} entries of “{deed}” from {agent} {when}",
    "The log noted “{deed}” for {agent} {count_times} {when}",
    "An entry marked “{deed}” named {agent} {count_times} {when}",
)
"""Variants for a run of events of a kind that nobody knows."""
