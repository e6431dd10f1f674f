"""Phrases as data: templates with placeholders and optional clauses, filled from facts.

    "{title}[ ({person})][, {cost}]"

A clause in brackets is left out if one of its placeholders is empty; of `[{a} asked|Asked]` the first alternative that can be
filled is taken. `[[` and `]]` stand for brackets. A placeholder may name a format, as in `{text:quote}`: the values decide what
it means.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

Phrases = Mapping[str, Mapping[str, str]]

_parts = re.compile(r"\[\[|\]\]|\[([^\[\]]*)\]|([^\[\]]+)|[\[\]]")
_placeholder = re.compile(r"\{([\w.]+(?::[\w ]+)?)\}")


@cache
def load_phrases(name: str) -> Phrases:
    """The phrases of `words/NAME.toml`, by section and key."""
    return tomllib.loads(files(__package__).joinpath("words", f"{name}.toml").read_text("utf-8"))


class Clause(NamedTuple):
    """A piece of text with placeholders: `pieces` has one more entry than `names`."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]

    def fill(self, value_of: Callable[[str], Any]) -> tuple[str, bool]:
        """The text, and whether every placeholder had a value."""
        written, is_complete = [self.pieces[0]], True
        for name, piece in zip(self.names, self.pieces[1:], strict=True):
            value = value_of(name)
            is_complete = is_complete and bool(value)
            written += (str(value or ""), piece)
        return "".join(written), is_complete


class Phrase(NamedTuple):
    """A parsed template: parts that are always written (one clause), and optional ones (alternatives)."""

    parts: tuple[tuple[bool, tuple[Clause, ...]], ...]

    def fill(self, value_of: Callable[[str], Any]) -> tuple[str, bool]:
        """The text, and whether every placeholder outside of brackets had a value."""
        written, is_complete = [], True
        for is_optional, clauses in self.parts:
            for clause in clauses:
                text, has_values = clause.fill(value_of)
                if has_values or not is_optional:
                    written.append(text)
                    is_complete = is_complete and has_values
                    break
        return "".join(written), is_complete

    def placeholders(self) -> Iterator[str]:
        """Every placeholder, with its format."""
        return (name for _, clauses in self.parts for clause in clauses for name in clause.names)


@lru_cache(maxsize=4096)
def parse_phrase(template: str) -> Phrase:
    """The parsed template. Brackets and braces that belong to no clause or placeholder are plain text."""
    parts: list[tuple[bool, tuple[Clause, ...]]] = []
    for found in _parts.finditer(template):
        if found[0] in ("[[", "]]", "[", "]"):
            parts.append((False, (Clause((found[0][0],), ()),)))
        elif found[1] is None:
            parts.append((False, (_parse_clause(found[2]),)))
        else:
            parts.append((True, tuple(_parse_clause(option) for option in found[1].split("|"))))
    return Phrase(tuple(parts))


def _parse_clause(text: str) -> Clause:
    pieces = _placeholder.split(text)
    return Clause(tuple(pieces[::2]), tuple(pieces[1::2]))


def fill_phrase(template: str, values: Mapping[str, object]) -> str:
    """The template with its placeholders filled; values are inserted as they are and never read as a template."""
    return parse_phrase(template).fill(values.get)[0]


def join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def list_words(words: Sequence[str], most: int, noun: str = "") -> str:
    """`a, b and c`; of more than `most`: `a, b and 4 more`, or `a, b and 4 more files` with a noun."""
    if len(words) <= most:
        return join_words(words)
    more = len(words) - most
    return join_words([*words[:most], count_things(more, f"more {noun}") if noun else f"{more:,} more"])


def count_things(count: int, thing: str) -> str:
    """`1 commit`, `3 commits`, `2 branches`; empty for none."""
    if not count:
        return ""
    plural = thing[:-1] + "ies" if thing.endswith("y") else thing + ("es" if thing.endswith(("ch", "sh", "s", "x")) else "s")
    return f"{count:,} {thing if count == 1 else plural}"


_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def spell_number(count: int) -> str:
    """Up to twelve in words, others with commas."""
    return _NUMBERS[count] if 0 <= count < len(_NUMBERS) else f"{count:,}"


def count_times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def format_span(length: timedelta) -> str:
    """`a moment`, `45 s`, `38 min`, `2 h 5 min`, `3 days`."""
    seconds = max(0, round(length.total_seconds()))
    if seconds < 2:
        return "a moment"
    if seconds < 120:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{round(hours / 24):,} days"


def clean_text(text: str, longest: int) -> str:
    """Untrusted text for the inside of a sentence: one line, no control characters, cut at a word, no period or colon at the end."""
    text = text[: longest * 8]  # nobody reads more, and events may hold megabytes
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    text = " ".join(text.split())
    if len(text) > longest:
        cut = text[: longest - 1]
        return (cut.rsplit(" ", 1)[0] if " " in cut[longest // 2 :] else cut).rstrip(" ,;:.-(") + "…"
    return text if text.endswith("..") else text.rstrip(".:;, ")


def end_sentence(text: str) -> str:
    """The text with exactly one period at its end."""
    text = text.strip()
    return text if text.endswith(".") and not text.endswith("..") else f"{text.rstrip('.')}."
