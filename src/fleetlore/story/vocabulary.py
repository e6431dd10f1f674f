"""Phrases for kinds of installed packages, under the entry point `fleetlore.chronicle`: a `Vocabulary`.

    VOCABULARY = Vocabulary(phrases={"kanban.card_moved": "{agent} moved the card {task}[ to {column:quote}]."})

Phrases are written as in a voice (`voices.py`). The form of 0.1 still works: groups of variants, best first, without optional
clauses; a group is used if the event has every field that it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Any

from msgspec import Struct, field

from fleetlore.events.installed_kinds import check_kind
from fleetlore.plugins import ExtensionPoint
from fleetlore.story.voices import check_templates
from fleetlore.views.patterns.installed import InstalledPatterns, check_patterns

PhraseGroups = tuple[tuple[str, ...], ...]
"""Groups of templates, best first; the templates of a group are used in turn."""
_FIELD = re.compile(r"[a-z][a-z0-9_]*")


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What a package adds to stories: phrases for its kinds, and patterns (docs/extending.md)."""

    phrases: Mapping[str, str | tuple[str | tuple[str, ...], ...]] = field(default_factory=dict)
    """Kind → a phrase, or several that are used in turn, or groups of variants as in 0.1."""
    many: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """No longer used."""
    arcs: tuple[Any, ...] = ()
    """Patterns: `Pattern` objects."""
    arcs_told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pattern → sentences."""
    open_arcs_told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same for a pattern that is still open."""


def check_phrases(thing: Any) -> Mapping[str, PhraseGroups]:
    """The phrases of a vocabulary, by kind; `TypeError` or `ValueError` (`Invalid` among them) if they cannot be used."""
    phrases = getattr(thing, "phrases", None)
    if not isinstance(phrases, Mapping):
        raise TypeError(f"a Vocabulary is needed, not {type(thing).__name__}")
    return {check_kind(kind): _check_groups(kind, value) for kind, value in phrases.items()}


def _check_groups(kind: str, value: Any) -> PhraseGroups:
    if not isinstance(value, list | tuple) or all(isinstance(each, str) for each in value):
        return (check_templates("phrases", kind, value),)
    return tuple(_convert_group(kind, group) for group in value)


def _convert_group(kind: str, group: Any) -> tuple[str, ...]:
    if not isinstance(group, list | tuple) or not group or not all(isinstance(each, str) for each in group):
        raise ValueError(f"{kind}: a group has at least one variant")
    fields = [_convert_template(kind, template) for template in group]
    if any(names != fields[0][1] for _, names in fields):
        raise ValueError(f"{kind}: all variants of a group name the same fields; those of {group[0]!r} do not")
    return tuple(template for template, _ in fields)


def _convert_template(kind: str, template: str) -> tuple[str, frozenset[str]]:
    """A template of 0.1 in the syntax of phrases, and its fields."""
    written, names = [], set()
    for text, name, form, conversion in Formatter().parse(template):
        written.append(text.replace("[", "[[").replace("]", "]]"))
        if name is None:
            continue
        if form or conversion or not _FIELD.fullmatch(name):
            raise ValueError(f"{kind}: a field is a plain name in braces, as in {{agent}}; {template!r} has another")
        names.add(name)
        written.append(f"{{{name}}}")
    return "".join(written), frozenset(names)


def check_vocabulary_parts(thing: Any) -> tuple[Mapping[str, PhraseGroups], InstalledPatterns]:
    """Both parts of a vocabulary, its phrases and its patterns, or the error that says why it cannot be used."""
    return check_phrases(thing), check_patterns(thing)


VOCABULARIES: ExtensionPoint[Any] = ExtensionPoint("fleetlore.chronicle", lambda name, thing: check_vocabulary_parts(thing))
"""For `lore doctor`: the whole vocabulary. Phrases and patterns are loaded where they are used."""
PHRASES: ExtensionPoint[Mapping[str, PhraseGroups]] = ExtensionPoint(
    "fleetlore.chronicle", lambda name, thing: check_phrases(thing), claims=lambda phrases: phrases
)


@cache
def installed_phrases() -> Mapping[str, PhraseGroups]:
    """Kind → groups of templates, of all installed packages."""
    return {kind: groups for phrases in PHRASES.load_all() for kind, groups in phrases.items()}
