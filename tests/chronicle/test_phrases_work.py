"""The phrase tables of fleets, towns, boards, drivers and arcs: complete, plain, and true to what an event can say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from string import Formatter

import pytest
from msgspec.structs import fields as struct_fields

from fleetlore.chronicle.arcs import KINDS as ARC_KINDS
from fleetlore.chronicle.phrases_arcs import ARCS, OPEN_ARCS
from fleetlore.chronicle.phrases_work import MANY, PHRASES
from fleetlore.events.catalog import known_kinds

FAMILIES = ("fleet", "town", "work", "driver")
KINDS = [kind for kind in known_kinds() if kind.partition(".")[0] in FAMILIES]
RETRY = "abandon_then_retry"
CAN_BE_OPEN = {
    "struggle_and_recovery",
    "solo_sprint",
    "silent_grind",
    "handoff_chain",
    "review_ping_pong",
    "budget_death",
    "cascade",
    "stall",
}

ENVELOPE = {"agent", "text", "task", "goal", "run", "mission", "parent", "child", "old_state", "new_state", "actor"}
DRIVER = {"outcome", "axis", "choice", "met"}
NESTED = {"goal", "outcome", "result", "decision", "verdict", "usage", "trigger"}
RUN = {"agent", "count", "count_times", "when"}
ARC = {"agents", "agent", "thread", "count", "count_times", "span"}
PAIRS = {"abandon_then_retry:other", "fleet_convergence", "rescue", "collision", "cascade"}
"""Arcs that have at least two agents."""

FREE = {"text", "reason", "error", "error_message", "title", "result", "answer", "body", "item", "scope", "field", "old", "new"}
FREE |= {"watch", "target", "action", "outcome", "outcome_kind", "choice", "status", "spawn_mode"}
"""Words of others: they stand at the end after a colon, or in quotation marks."""
NAMES = {"agent", "agents", "other", "parent", "child"}
"""Fields with which a sentence may begin; any other would begin in lower case."""

PRONOUNS = """
    he she his her hers him they them their theirs himself herself themselves itself it its we us our ours you your yours i me my
"""
JARGON = """
    successfully successful leverage leveraging leveraged utilise utilised seamless seamlessly robust delve journey testament empower
"""
WAR = """
    war battle battled fight fought fighting attack attacked army troop troops soldier conquer conquered defeat defeated victory
    weapon enemy foe siege forces duty struggle struggled kill killed death died dead rescue rescued survive survived
"""
MEDICINE = "heal healed wound wounded cure cured sick ill patient surgery pain painful symptom diagnose diagnosed pulse"
CLAIMS = """
    finally unfortunately fortunately luckily sadly happily eventually because therefore thus hence quickly slowly easily hard bravely
    heroic proudly gladly managed simply just merely obviously very really great excellent brilliant poor badly never always still
"""
FORBIDDEN = frozenset(" ".join((PRONOUNS, JARGON, WAR, MEDICINE, CLAIMS)).split())
AMERICAN = re.compile(r"\b\w+(?:ized|izing|ize|yzed)\b|\b(?:color|canceled|canceling|behavior|favor|center|fulfill)\b")
MAY_SAY_AGAIN = {"work.reopened", "abandon_then_retry:same"}

SAMPLE = {
    "agent": "ada",
    "actor": "mira",
    "agents": "ada, bo and cy",
    "other": "bo",
    "parent": "mira",
    "child": "bo",
    "text": "Retry after 1, 2, 4 … minutes: {braces} and 100 %",
    "thread": "task t7",
    "span": "2 h 5 min",
    "count": "three",
    "count_times": "three times",
    "when": "between 09:10 and 11:40",
    "setbacks": "three setbacks",
    "note": "src/outbox.py",
}


def fields_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def everything() -> Iterator[tuple[str, str, str]]:
    """Table, key, template."""
    for kind, groups in PHRASES.items():
        for group in groups:
            yield from (("PHRASES", kind, template) for template in group)
    for name, table in (("MANY", MANY), ("ARCS", ARCS), ("OPEN_ARCS", OPEN_ARCS)):
        for kind, variants in table.items():
            yield from ((name, kind, template) for template in variants)


ALL = list(everything())


def test_every_kind_of_the_families_is_there_and_no_other() -> None:
    assert set(PHRASES) == set(KINDS)
    assert set(MANY) == set(KINDS)


def test_every_arc_is_there_and_no_other() -> None:
    assert set(ARCS) == (set(ARC_KINDS) - {RETRY}) | {f"{RETRY}:same", f"{RETRY}:other"}
    assert set(OPEN_ARCS) == CAN_BE_OPEN


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_enough_variants(kind: str) -> None:
    assert all(len(group) >= 5 for group in PHRASES[kind])
    assert len(MANY[kind]) >= 3


def test_there_are_enough_variants_of_arcs() -> None:
    assert all(len(variants) >= 5 for table in (ARCS, OPEN_ARCS) for variants in table.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_group_has_the_words_of_the_event_and_the_last_needs_nothing(kind: str) -> None:
    groups = [fields_of(group[0]) for group in PHRASES[kind]]
    assert "text" in groups[0]
    assert groups[-1] == {"agent"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_has_one_set_of_fields_and_none_hides_behind_an_earlier_one(kind: str) -> None:
    groups = [[fields_of(template) for template in group] for group in PHRASES[kind]]
    for group in groups:
        assert all(fields == group[0] for fields in group)
    for place, group in enumerate(groups):
        # What an earlier group needs beyond `agent` must not be part of what this one needs, or this one is never used.
        assert not any(earlier[0] - {"agent"} <= group[0] for earlier in groups[:place])


@pytest.mark.parametrize("kind", KINDS)
def test_only_fields_that_the_kind_can_have(kind: str) -> None:
    declared = {field.name for field in struct_fields(known_kinds()[kind])}
    is_driver = kind.startswith("driver.")
    allowed = ENVELOPE | (declared - NESTED | DRIVER if is_driver else declared)
    for group in PHRASES[kind]:
        for template in group:
            assert fields_of(template) <= allowed, template
    for template in MANY[kind]:
        assert fields_of(template) <= RUN, template
        assert {"agent", "when"} <= fields_of(template), template
        assert fields_of(template) & {"count", "count_times"}, template


@pytest.mark.parametrize("table", [ARCS, OPEN_ARCS], ids=["closed", "open"])
def test_only_fields_that_the_arc_can_have(table: dict[str, tuple[str, ...]]) -> None:
    for kind, variants in table.items():
        allowed = ARC | ({"other"} if kind in PAIRS else set())
        allowed |= {"note"} if kind == "collision" else set()
        allowed |= {"setbacks"} if kind in ("comeback", "cascade") else set()
        if table is OPEN_ARCS and kind != "stall":
            allowed.discard("span")
        for template in variants:
            assert fields_of(template) <= allowed, template


def test_nothing_is_said_twice() -> None:
    assert [template for template, times in Counter(template for _, _, template in ALL).items() if times > 1] == []


def faults_of(kind: str, template: str) -> Iterator[str]:
    """What is wrong with a template as a sentence."""
    spoken = re.sub(r"\{\w+\}", " ", template)
    words = [word.lower() for word in re.findall(r"[A-Za-z]+", re.sub(r"'s\b", "", spoken))]
    if template != template.strip() or "  " in template:
        yield "blanks"
    if template.endswith((".", "…", ":", ",", ";")) or set("!?") & set(template):
        yield "its end"
    if template.count("“") != template.count("”") or '"' in template:
        yield "quotation marks"
    first = re.match(r"\{(\w+)\}", template)
    if not (first[1] in NAMES if first else template[0].isupper()):
        yield "its beginning"
    if found := FORBIDDEN & set(words):
        yield f"the words {found}"
    if AMERICAN.search(spoken):
        yield "spelling"
    if "again" in words and kind not in MAY_SAY_AGAIN:
        yield "again"
    if not 1 <= len(words) <= 14:
        yield f"{len(words)} words"


def test_every_template_is_a_plain_sentence() -> None:
    assert [(template, fault) for _, kind, template in ALL for fault in faults_of(kind, template)] == []


def test_a_bad_sentence_is_found() -> None:
    bad = (
        "{task} went",
        "{agent} finally won.",
        "{agent} did  more",
        "{agent} said “{text}",
        "{agent} organized all",
        "{agent} began again",
    )
    assert all(list(faults_of("fleet.commit", template)) for template in bad)


def test_templates_have_plain_fields_and_no_other_syntax() -> None:
    for _, _, template in ALL:
        for _, name, spec, conversion in Formatter().parse(template):
            assert name is None or (re.fullmatch(r"[a-z_]+", name) and not spec and not conversion), template


def test_the_words_of_others_stand_where_any_phrase_fits() -> None:
    for table, _, template in ALL:
        for name in fields_of(template) & FREE if table == "PHRASES" else ():
            assert f"“{{{name}}}”" in template or template.endswith(f": {{{name}}}"), template


def test_every_template_formats() -> None:
    for _, _, template in ALL:
        said = template.format_map({name: SAMPLE.get(name, "x1") for name in fields_of(template)})
        assert "{" not in said.replace(SAMPLE["text"], ""), template
