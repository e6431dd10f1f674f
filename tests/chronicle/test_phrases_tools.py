"""The sentences of deeds done with tools: each deed has them, each keeps to the rules of the house, and the right one is found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from string import Formatter

import pytest

from fleetlore.chronicle import work
from fleetlore.chronicle.phrases_life import DEEDS, DEEDS_MANY, MANY, PHRASES
from fleetlore.chronicle.telling_deeds import key_of, say_the_same, words_of
from fleetlore.events.catalog import find
from fleetlore.events.envelope import Event
from fleetlore.events.tools import DEEDS as KNOWN_DEEDS
from fleetlore.views.recent_calls import BeatReason
from tests.chronicle.test_phrases_life import FORBIDDEN, PHRASES_FORBIDDEN, PRESENT, PRONOUNS

QUOTED = ("subject", "reason", "error", "text")
"""Words of others: they stand at the end after a colon, or in quotation marks."""
MAY_SAY_AGAIN = "/mended"


def fields_of(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def words_in(template: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", template).lower())


def everything() -> Iterator[tuple[str, str]]:
    for key, groups in DEEDS.items():
        for group in groups:
            yield from ((key, template) for template in group)
    for key, variants in DEEDS_MANY.items():
        yield from ((key, template) for template in variants)


ALL = list(everything())


def test_every_deed_can_be_told_when_it_begins_and_when_it_is_done() -> None:
    for deed in KNOWN_DEEDS:
        assert f"tool.called/{deed}" in DEEDS
        assert f"tool.returned/{deed}" in DEEDS


def test_every_key_has_words_for_one_and_for_many() -> None:
    assert set(DEEDS) == set(DEEDS_MANY) - {work.KEY}  # a stretch of work is never a single deed
    assert all(find(key.partition("/")[0]) is not None for key in DEEDS)


@pytest.mark.parametrize("key", DEEDS)
def test_there_are_enough_variants_and_the_last_group_needs_nothing(key: str) -> None:
    assert all(len(group) >= 5 for group in DEEDS[key])
    assert len(DEEDS_MANY[key]) >= 3
    assert set(fields_of(DEEDS[key][-1][0])) == {"agent"}


@pytest.mark.parametrize("key", DEEDS)
def test_a_group_has_one_set_of_fields_and_none_hides_behind_an_earlier_one(key: str) -> None:
    needs = []
    for group in DEEDS[key]:
        assert len({frozenset(fields_of(template)) for template in group}) == 1
        needs.append(frozenset(fields_of(group[0])))
        openings = Counter(" ".join(template.split()[:2]) for template in group)
        assert openings.most_common(1)[0][1] <= 2, openings
    for place, later in enumerate(needs):
        assert not any(earlier <= later for earlier in needs[:place])


@pytest.mark.parametrize("key", DEEDS)
def test_only_fields_that_the_kind_has(key: str) -> None:
    payload = find(key.partition("/")[0])
    assert payload is not None
    used = {name for group in DEEDS[key] for template in group for name in fields_of(template)}
    assert used - {"agent", "text"} <= set(payload.__struct_fields__)
    for template in DEEDS_MANY[key]:
        assert {"agent", "when"} < set(fields_of(template)) <= {"agent", "when", "count", "count_times"}, template


def test_nothing_is_said_twice() -> None:
    others = [template for groups in PHRASES.values() for group in groups for template in group]
    others += [template for variants in MANY.values() for template in variants]
    said = Counter(template.lower() for template in (*others, *(template for _, template in ALL)))
    assert [template for template, count in said.items() if count > 1] == []


def test_the_words_of_others_stand_where_any_phrase_fits() -> None:
    for _, template in ALL:
        for name in set(fields_of(template)) & set(QUOTED):
            assert f"“{{{name}}}”" in template or template.endswith(f": {{{name}}}"), template


def test_every_template_is_a_plain_sentence() -> None:
    forbidden = frozenset(f"{FORBIDDEN} {PRONOUNS} {PRESENT}".split())
    for key, template in ALL:
        assert re.match(r"[A-Z]|\{agent\}", template), template
        assert template == " ".join(template.split()), template
        assert not template.endswith((".", "!", "?", "…", ",", ":", ";")), template
        assert template.count("“") == template.count("”"), template
        assert 1 <= len(words_in(template)) <= 14, template
        found = forbidden & set(words_in(template))
        assert not found - ({"again"} if key.endswith(MAY_SAY_AGAIN) else set()), (template, found)
        assert not any(phrase in template.lower() for phrase in PHRASES_FORBIDDEN), template


def test_every_template_can_be_filled() -> None:
    for _, template in ALL:
        said = template.format_map(dict.fromkeys(fields_of(template), "{x} 100 %"))
        assert "{x} 100 %" in said


def event(kind: str, **data: object) -> Event:
    return Event(id="e", kind=kind, agent="ada", text="Bash: words", data=data)


@pytest.mark.parametrize(
    ("kind", "data", "beat", "note", "key"),
    [
        ("tool.returned", {"deed": "commit"}, "progress", None, "tool.returned/commit"),
        ("tool.returned", {"deed": "commit"}, "recovery", "mended", "tool.returned/commit/mended"),
        ("tool.returned", {"deed": "run"}, "recovery", "mended", "tool.returned/mended"),
        ("tool.returned", {"deed": "push"}, "recovery", "allowed", "tool.returned/allowed"),
        ("tool.returned", {"deed": "edit"}, "setback", "undone", "tool.returned/undone"),
        ("tool.returned", {"deed": "test"}, "setback", None, "tool.failed/test"),
        ("tool.returned", {"deed": "revert"}, "setback", None, "tool.returned/revert"),
        ("tool.returned", {"deed": "unheard"}, "progress", None, "tool.returned"),
        ("tool.returned", {"deed": ["odd"]}, "progress", None, "tool.returned"),
        ("tool.returned", {}, "progress", None, "tool.returned"),
        ("tool.failed", {"deed": "test"}, "setback", None, "tool.failed/test"),
        ("tool.failed", {"deed": "test", "interrupted": True}, "pulse", None, "tool.failed/interrupted"),
        ("tool.called", {"deed": "look"}, "setback", "loop", "tool.called/loop"),
        ("tool.called", {}, "setback", "loop", "tool.called/loop"),
        ("tool.denied", {"deed": "push"}, "setback", None, "tool.denied/push"),
        ("tool.denied", {"deed": "ask"}, "setback", None, "tool.denied"),
        ("prompt.submitted", {}, "setback", None, "prompt.submitted/correction"),
        ("prompt.submitted", {}, "claim", None, "prompt.submitted"),
        ("fleet.commit", {"deed": "commit"}, "progress", None, "fleet.commit"),
    ],
)
def test_the_most_telling_words_are_found(kind: str, data: dict[str, object], beat: str, note: BeatReason | None, key: str) -> None:
    assert key_of(event(kind, **data), beat, note) == key


def test_of_a_deed_its_subject_is_quoted_and_of_the_rest_its_text() -> None:
    assert words_of(event("tool.returned", subject="Mend the parser")) == "Mend the parser"
    assert words_of(event("tool.returned", subject=7)) == "Bash: words"
    assert words_of(event("fleet.commit", subject="x")) == "Bash: words"
    assert words_of(Event(kind="fleet.commit")) == ""


def test_deeds_say_the_same_if_they_were_about_the_same() -> None:
    one, other = event("tool.returned", subject="a.py"), event("tool.returned", subject="b.py")
    assert say_the_same(one, one)
    assert not say_the_same(one, other)
    assert say_the_same(event("fleet.commit", subject="a.py"), event("fleet.commit", subject="b.py"))
