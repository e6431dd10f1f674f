"""The sentences of agents' lives: every kind has them, and each of them keeps to the rules of the house."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from string import Formatter
from typing import get_type_hints

import msgspec
import pytest

from fleetlore.chronicle.phrases_life import MANY, PHRASES, UNKNOWN, UNKNOWN_MANY
from fleetlore.events.catalog import find, known_kinds

THEIRS = frozenset(("fleet", "town", "work", "driver"))
"""Families that are told elsewhere."""
OURS = tuple(kind for kind in known_kinds() if kind.partition(".")[0] not in THEIRS)

COMMON = frozenset(("agent", "actor", "text", "task", "goal", "run", "mission", "parent", "child", "old_state", "new_state"))
OF_A_RUN = frozenset(("agent", "count", "count_times", "when"))
ALWAYS = frozenset(("agent",))
SPOKEN = ("agent.spoke", "oracle.spoke", "user.injected", "commentary.posted", "prompt.submitted", "judge.verdict")
"""Kinds whose text is somebody's speech, and is quoted."""
THOUGHT = ("agent.thought", "agent.reflected")
NEVER_TOLD = frozenset(("thought", "secret", "mood", "seed", "sample", "prompt", "input", "output", "summary", "result", "id_hashes"))
"""What is private, or what a log may withhold."""
RAW = frozenset(("duration_ms", "latency_ms", "idle_ms", "away_ms", "retry_after_ms", "until", "expires", "usd"))
"""What a person would not say like this."""
FREE = ("text", "why", "error", "reason", "purpose", "command", "request", "deed", "trigger", "action")
"""Fields that may hold any phrase."""

FORBIDDEN = (
    "successfully successful leverage leveraging leveraged seamless seamlessly robust delve delved utilise utilised utilize utilized "
    "finally again unfortunately fortunately luckily sadly happily proudly gladly simply just very really quite amazing impressive "
    "brilliant clever stupid foolish lazy poor bad great nice heroic epic journey tapestry realm testament magic "
    "battle battled fought fight attack attacked war weapon siege army troops victory defeat defeated conquered ambush fired shot "
    "dead died killed kill heal healed cure cured wound wounded sick ill patient symptom diagnosis surgery suffered bled "
    "struggled struggle managed because therefore hence thus color favor judgment whom"
)
PHRASES_FORBIDDEN = ("due to", "thanks to", "in order to", "as a result", "at last", "in the end")
PRONOUNS = "he she his her hers him they them their theirs himself herself themselves itself i we our us you your"
PRESENT = "is are has says reads names holds stands notes goes starts asks belongs sees lies stays does shows closes"

SAMPLE = {
    "agent": "ada",
    "text": "The migration locked the table for 41 s",
    "count": "400",
    "count_times": "400 times",
    "when": "between 09:10 and 11:40",
    "paths": "src/a.py and src/b.py",
}


def _single() -> Iterator[tuple[str, tuple[str, ...]]]:
    for kind, groups in PHRASES.items():
        for group in groups:
            yield kind, group
    for group in UNKNOWN:
        yield "unknown", group


def _templates() -> list[str]:
    of_one = [template for _, group in _single() for template in group]
    return [*of_one, *(template for variants in MANY.values() for template in variants), *UNKNOWN_MANY]


def _fields(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def _words(template: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", template).replace("'s", "").lower())


def _declared(kind: str) -> frozenset[str]:
    payload = find(kind)
    assert payload is not None
    return frozenset(field.name for field in msgspec.structs.fields(payload))


GROUPS = list(_single())
TEMPLATES = _templates()


def test_every_kind_of_ours_is_told_and_no_other() -> None:
    assert tuple(sorted(PHRASES)) == tuple(sorted(OURS))
    assert tuple(sorted(MANY)) == tuple(sorted(OURS))
    assert not THEIRS & {kind.partition(".")[0] for kind in PHRASES}


@pytest.mark.parametrize("kind", OURS)
def test_a_kind_has_a_telling_group_and_a_fallback(kind: str) -> None:
    groups = PHRASES[kind]
    assert len(groups) >= 2
    assert set(_fields(groups[-1][0])) <= ALWAYS
    for group in groups[:-1]:
        assert not set(_fields(group[0])) <= ALWAYS


def test_the_unknown_always_finds_a_group() -> None:
    assert set(_fields(UNKNOWN[-1][0])) == {"agent", "deed"}


def test_there_are_enough_variants() -> None:
    assert all(len(group) >= 5 for _, group in GROUPS)
    assert all(len(variants) >= 3 for variants in (*MANY.values(), UNKNOWN_MANY))


def test_all_variants_of_a_group_need_the_same_fields() -> None:
    assert [group for _, group in GROUPS if len({frozenset(_fields(template)) for template in group}) != 1] == []


def test_no_group_hides_behind_one_that_needs_less() -> None:
    """A group after one whose fields it has, too, would never be used."""
    for kind, groups in (*PHRASES.items(), ("unknown", UNKNOWN)):
        needs = [frozenset(_fields(group[0])) for group in groups]
        for place, later in enumerate(needs):
            assert not any(earlier <= later for earlier in needs[:place]), (kind, sorted(later))


def test_nothing_is_said_twice() -> None:
    assert [template for template, count in Counter(template.lower() for template in TEMPLATES).items() if count > 1] == []


@pytest.mark.parametrize("kind", OURS)
def test_only_fields_that_the_kind_has(kind: str) -> None:
    used = {name for group in PHRASES[kind] for template in group for name in _fields(template)}
    assert used <= COMMON | _declared(kind)
    assert not used & (NEVER_TOLD | RAW)


@pytest.mark.parametrize("kind", OURS)
def test_only_fields_that_can_be_written(kind: str) -> None:
    payload = find(kind)
    hints = get_type_hints(payload)
    for name in {name for group in PHRASES[kind] for template in group for name in _fields(template)} - COMMON - {"paths"}:
        assert re.search(r"\b(str|int|float)\b", str(hints[name])), (kind, name)


def test_fields_of_a_run_of_events() -> None:
    for template in (template for variants in MANY.values() for template in variants):
        fields = set(_fields(template))
        assert fields <= OF_A_RUN, template
        assert {"agent", "when"} < fields, template
    for template in UNKNOWN_MANY:
        assert {"agent", "deed", "when"} < set(_fields(template)) <= OF_A_RUN | {"deed"}, template
    assert {name for group in UNKNOWN for template in group for name in _fields(template)} <= COMMON | {"deed"}


@pytest.mark.parametrize("kind", THOUGHT)
def test_what_an_agent_thought_is_not_told(kind: str) -> None:
    assert {name for group in PHRASES[kind] for template in group for name in _fields(template)} <= {"agent", "turn", "task"}


@pytest.mark.parametrize("kind", SPOKEN)
def test_speech_is_quoted(kind: str) -> None:
    spoken = [template for group in PHRASES[kind] for template in group if "text" in _fields(template)]
    assert spoken
    assert all(template.endswith(": “{text}”") for template in spoken)


@pytest.mark.parametrize("name", FREE)
def test_any_words_stand_after_a_colon_or_in_quotation_marks(name: str) -> None:
    for template in TEMPLATES:
        if name in _fields(template):
            assert re.search(rf"(: |“){{{name}}}(”|$)", template), template


def test_words_of_any_length_come_last() -> None:
    assert [template for template in TEMPLATES if "{text}" in template and not template.endswith(("{text}", "{text}”"))] == []


def test_form() -> None:
    for template in TEMPLATES:
        assert re.match(r"[A-Z]|\{", template), template
        assert not template.startswith(("{count", "{when", "{text", "{deed")), template
        assert template == template.strip(), template
        assert "  " not in template, template
        assert not template.endswith((".", "!", "?", "…", ",", ":", ";")), template
        assert "!" not in template, template
        assert template.count(": ") <= 1, template
        assert template.count("“") == template.count("”"), template
        assert '"' not in template, template


def test_length() -> None:
    for template in TEMPLATES:
        assert 1 <= len(_words(template)) <= 14, template
        assert len(_words(template)) + len(_fields(template)) >= 3, template


def test_words_that_are_not_ours() -> None:
    forbidden = frozenset(f"{FORBIDDEN} {PRONOUNS} {PRESENT}".split())
    found = {template: forbidden & set(_words(template)) for template in TEMPLATES}
    assert {template: words for template, words in found.items() if words} == {}
    assert [template for template in TEMPLATES for phrase in PHRASES_FORBIDDEN if phrase in template.lower()] == []


def test_no_group_opens_always_in_the_same_way() -> None:
    for kind, group in GROUPS:
        openings = Counter(" ".join(template.split()[:2]) for template in group)
        assert openings.most_common(1)[0][1] <= 2, (kind, openings)


@pytest.mark.parametrize("words", ["May I run `flagctl set webhooks.outbox 5%`?", "{agent} {0} %s", "33 passed"])
def test_every_template_can_be_filled(words: str) -> None:
    for template in TEMPLATES:
        names = _fields(template)
        sentence = template.format_map({name: SAMPLE.get(name, name) for name in names})
        assert "ada" in sentence or "agent" not in names
        assert words in template.format_map(dict.fromkeys(names, words)) or not names
