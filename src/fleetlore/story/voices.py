"""Voices: the phrases in which events are described. `plain` is the default; a voice may replace any of its phrases.

A voice is a TOML file:

    [phrases]
    "fleet.commit" = "{agent} committed[ {text:quote}]."
    "fleet.push" = ["{agent} pushed.", "{agent} sent its commits upstream."]   # used in turn
    "tool.failed/test" = "{agent}: tests failed[: {error:error}]."             # a variant of a kind

    [variants]
    "tool.failed" = ["deed"]          # which fields of the data choose the variant

A phrase of a kind without a variant replaces all variants that the plain voice has of that kind.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.events.catalog import find_payload, is_kind_or_family, payload_keys
from fleetlore.story.event_values import ENVELOPE_FIELDS, FORMATS, SECRET_FIELDS
from fleetlore.story.phrases import parse_phrase

BUILT_IN = ("plain", "nexus")
LARGEST_FILE = 1 << 20
FIELDS_OF_DIALECTS = frozenset(("title", "number", "url", "branch", "base", "sha", "commits", "check", "summary", "comment", "type"))
"""Data that our dialects add to kinds whose payload does not list it."""


class Voice(Struct, frozen=True, kw_only=True):
    """Phrases by kind, or kind and variant (`tool.failed/test`). Several phrases of a key are used in turn."""

    name: str
    phrases: Mapping[str, tuple[str, ...]]
    variants: Mapping[str, tuple[str, ...]] = {}
    """Kind → the fields whose values name a variant, first match wins. `a+b` joins two values; `a?` is `a` if it is there."""


@cache
def load_voice(name_or_path: str | os.PathLike[str]) -> Voice:
    """The voice `plain` or `nexus`, or that of a TOML file. `Invalid` names the file, the key and the reason."""
    name = os.fspath(name_or_path)
    if name == "plain":
        return _join_voices("plain", (_read_resource("events", file) for file in _list_event_files()))
    if name == "nexus":
        return _join_voices(name, [_read_resource("voices", "nexus.toml")])
    path = Path(name).expanduser()
    if not path.is_file():
        near = get_close_matches(name, BUILT_IN, n=1)
        suggestion = f"; did you mean {near[0]!r}?" if near else ""
        raise Invalid(f"voice {name!r}: there is no such file; choose {' or '.join(BUILT_IN)}, or name a TOML file{suggestion}")
    if path.stat().st_size > LARGEST_FILE:
        raise Invalid(f"{path}: a voice has at most {LARGEST_FILE:,} bytes")
    try:
        return parse_voice(path.read_text("utf-8"), name=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: {error}") from error


def parse_voice(text: str, *, name: str) -> Voice:
    """A voice from the text of a TOML file; `name` is what errors call it."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{name}: {error}") from error
    for section in document:
        if section not in ("phrases", "variants"):
            raise Invalid(f"{name}: [{section}]: unknown section; a voice has [phrases] and [variants]")
    phrases, variants = document.get("phrases", {}), document.get("variants", {})
    if not isinstance(phrases, dict) or not isinstance(variants, dict):
        raise Invalid(f"{name}: [phrases] and [variants] are tables")
    return Voice(
        name=name,
        phrases={key: check_templates(name, key, value) for key, value in phrases.items()},
        variants={key: _check_variants(name, key, value) for key, value in variants.items()},
    )


def check_templates(name: str, key: str, value: Any) -> tuple[str, ...]:
    """The phrases of a key, each checked; `Invalid` names `name`, the key and the reason."""
    templates = (value,) if isinstance(value, str) else value
    if not isinstance(templates, list | tuple) or not templates or not all(isinstance(each, str) and each.strip() for each in templates):
        hint = ". Kinds contain dots: write them in quotes" if isinstance(value, dict) else ""
        raise Invalid(f"{name}: {key}: a phrase or a list of phrases is needed{hint}")
    kind = key.partition("/")[0]
    if not is_kind_or_family(kind) or kind.endswith(".*"):
        raise Invalid(f"{name}: {key}: {kind!r} is not a kind of event, such as 'fleet.commit'")
    for template in templates:
        for placeholder in parse_phrase(template).placeholders():
            _check_placeholder(f"{name}: {key}", kind, placeholder)
    return tuple(templates)


def _check_placeholder(where: str, kind: str, placeholder: str) -> None:
    field, _, form = placeholder.partition(":")
    word, _, argument = form.partition(" ")
    if word not in FORMATS or (word == "count") != bool(argument.strip()):
        raise Invalid(f"{where}: {{{placeholder}}}: unknown format {form!r}{_suggest_word(word, FORMATS)}; there are {_format_names()}")
    names = field.removeprefix("data.").split(".")
    if hidden := SECRET_FIELDS.intersection(names):
        raise Invalid(f"{where}: {{{placeholder}}}: {min(hidden)!r} is private and cannot be shown")
    payload = find_payload(kind)
    if payload is None or field in ENVELOPE_FIELDS or field == "beat" or names[0] == "fleetlore":  # extras of our driver
        return
    known = ENVELOPE_FIELDS | payload_keys(kind) | FIELDS_OF_DIALECTS
    unknown = next((one for one in names if one not in known), None)
    # Lenient kinds keep whatever foreign programs write: only what looks like a typing error is refused.
    if unknown is not None and field not in known and (not payload.lenient or get_close_matches(unknown, known, n=1, cutoff=0.75)):
        raise Invalid(f"{where}: {{{placeholder}}}: {kind} has no field {unknown!r}{_suggest_word(unknown, known)}")


def _check_variants(name: str, key: str, value: Any) -> tuple[str, ...]:
    fields = (value,) if isinstance(value, str) else value
    if not isinstance(fields, list | tuple) or not all(isinstance(each, str) for each in fields):
        raise Invalid(f"{name}: variants of {key}: a field or a list of fields is needed")
    if hidden := SECRET_FIELDS.intersection(part for each in fields for part in each.rstrip("?").split(".")):
        raise Invalid(f"{name}: variants of {key}: {min(hidden)!r} is private")
    return tuple(fields)


def _suggest_word(word: str, known: Iterable[str]) -> str:
    return f" (did you mean {close[0]!r}?)" if (close := get_close_matches(word, sorted(known), n=1)) else ""


def _format_names() -> str:
    return ", ".join("count THING" if each == "count" else each for each in FORMATS if each)


def _list_event_files() -> list[str]:
    folder = files(__package__).joinpath("words", "events")
    return sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _read_resource(folder: str, file: str) -> Voice:
    """Our own files are checked by the tests, not at every start."""
    document = tomllib.loads(files(__package__).joinpath("words", folder, file).read_text("utf-8"))
    phrases = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in document["phrases"].items()}
    return Voice(name=file, phrases=phrases, variants={key: tuple(value) for key, value in document.get("variants", {}).items()})


def _join_voices(name: str, parts: Iterable[Voice]) -> Voice:
    phrases: dict[str, tuple[str, ...]] = {}
    variants: dict[str, tuple[str, ...]] = {}
    for part in parts:
        phrases |= part.phrases
        variants |= part.variants
    return Voice(name=name, phrases=phrases, variants=variants)
