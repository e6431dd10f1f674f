"""Phrases as data: templates with placeholders and optional clauses, filled from facts.

    "{title}[ ({person})][, {cost}]"

A clause in brackets is left out if one of its placeholders is empty; of `[{a} asked|Asked]` the first alternative that can be
filled is taken. `[[` and `]]` stand for brackets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

Phrases = Mapping[str, Mapping[str, str]]

_parts = re.compile(r"\[\[|\]\]|\[([^\[\]]*)\]|([^\[\]]+)")
_placeholder = re.compile(r"\{(\w+)\}")


@cache
def load_phrases(name: str) -> Phrases:
    """The phrases of `words/NAME.toml`, by section and key."""
    return tomllib.loads(files(__package__).joinpath("words", f"{name}.toml").read_text("utf-8"))


def fill_phrase(template: str, values: Mapping[str, object]) -> str:
    """The template with its placeholders filled; values are inserted as they are and never read as a template."""

    def fill(part: str) -> str:
        return _placeholder.sub(lambda found: str(values.get(found[1]) or ""), part)

    written = []
    for found in _parts.finditer(template):
        if found[0] in ("[[", "]]"):
            written.append(found[0][0])
        elif found[1] is None:
            written.append(fill(found[2]))
        else:
            options = (part for part in found[1].split("|") if all(values.get(name) for name in _placeholder.findall(part)))
            written.append(fill(next(options, "")))
    return "".join(written)


def join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def count_things(count: int, thing: str) -> str:
    """`1 commit`, `3 commits`, `2 branches`; empty for none."""
    if not count:
        return ""
    plural = thing[:-1] + "ies" if thing.endswith("y") else thing + ("es" if thing.endswith(("ch", "sh", "s", "x")) else "s")
    return f"{count:,} {thing if count == 1 else plural}"
