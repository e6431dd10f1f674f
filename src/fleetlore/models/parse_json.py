"""Finds the JSON object in a model's text.

The last complete JSON object is used, whatever surrounds it: prose, code fences, reasoning in tags. The content of its
strings is not changed. Trailing commas are accepted, but no other errors. Used by `parse_reply.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from fleetlore.errors import UnusableAnswer

MAX_DEPTH = 64
"""Deepest nesting of an object."""
_MAX_SHOWN_CHARS = 400
"""How much of an answer an error shows."""

# Each brace may need a scan to the end of the text. The limit prevents quadratic time; ordinary answers stay far below it.
_SCAN_FACTOR, _SCAN_ALLOWANCE = 2, 500_000

REASONING_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad"
REASONING_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{REASONING_TAGS})(?:\s[^<>]{{0,80}})?>", re.IGNORECASE)
_OBJECT_OR_TAG = re.compile(rf"\{{|{REASONING_TAG.pattern}", re.IGNORECASE)
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_STRING_OR_BRACKET = re.compile(rf"{_STRING}|[{{}}\[\]\"]", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"(?P<string>{_STRING})|,(?=\s*[}}\]])", re.DOTALL)


class FoundObject(NamedTuple):
    """An object, and the JSON text that it was parsed from."""

    data: dict[str, Any]
    text: str


def find_object(text: str) -> FoundObject:
    """The last JSON object in a text; an empty one only if there is no other. Raises `UnusableAnswer` if there is none."""
    objects = list(_find_objects(text))
    if not objects:
        raise UnusableAnswer(_explain_missing_object(text), text=text[:_MAX_SHOWN_CHARS])
    chosen = next((item for item in reversed(objects) if item.data), objects[-1])
    if not _is_depth_allowed(chosen.data):
        raise UnusableAnswer(f"the object is nested more than {MAX_DEPTH} deep", text=text[:_MAX_SHOWN_CHARS])
    return chosen._replace(data=_replace_surrogates(chosen.data))


def strip_reasoning(text: str) -> str:
    """The text without reasoning tags and their content.

    An unclosed tag removes everything after it, a closing tag without an opening one everything before it.
    """
    kept: list[str] = []
    start, depth = 0, 0
    for tag in REASONING_TAG.finditer(text):
        if tag["end"]:
            if not depth:
                kept.clear()
            depth = max(0, depth - 1)
            start = tag.end()
        else:
            if not depth:
                kept.append(text[start : tag.start()])
            depth += 1
    if not depth:
        kept.append(text[start:])
    return "".join(kept).strip()


def parse_whole_object(text: str) -> dict[str, Any] | None:
    """A text that is one JSON object and nothing else; `None` if it is not, or is nested too deep."""
    data = _decode_lenient(text)
    return _replace_surrogates(data) if data is not None and _is_depth_allowed(data) else None


def _find_objects(text: str) -> Iterator[FoundObject]:
    """All outermost objects in order, except for those in reasoning tags."""
    objects: list[FoundObject] = []
    position, scan_budget = 0, _SCAN_FACTOR * len(text) + _SCAN_ALLOWANCE
    while scan_budget > 0 and (match := _OBJECT_OR_TAG.search(text, position)):
        position = match.end()
        if match[0] != "{":
            if match["end"]:
                objects.clear()  # everything so far was reasoning: some endpoints leave out the opening tag
            else:
                position = _find_reasoning_end(text, match)
            continue
        end = _find_closing_bracket(text, match.start())
        scan_budget -= (end or len(text)) - match.start()
        if end and (data := _decode_lenient(text[match.start() : end])) is not None:
            objects.append(FoundObject(data, text[match.start() : end]))
            position = end
    return iter(objects)


def _find_reasoning_end(text: str, opening_tag: re.Match[str]) -> int:
    for tag in REASONING_TAG.finditer(text, opening_tag.end()):
        if tag["end"] and tag["name"].lower() == opening_tag["name"].lower():
            return tag.end()
    return len(text)


def _find_closing_bracket(text: str, start: int) -> int | None:
    """The position after the bracket that closes the one at `start`; `None` if there is none."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text, start):
        if match[0] in "{[":
            depth += 1
        elif match[0] in "}]":
            depth -= 1
            if depth == 0:
                return match.end()
        elif match[0] == '"':
            return None  # an unterminated string
    return None


def _decode_lenient(source: str) -> dict[str, Any] | None:
    for attempt in (source, _TRAILING_COMMA.sub(lambda match: match["string"] or "", source)):
        try:
            value = json.loads(attempt, parse_constant=_reject_constant, parse_float=_parse_finite, strict=False)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _reject_constant(literal: str) -> float:
    raise ValueError(f"{literal} is not valid JSON")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    return number if abs(number) != float("inf") else _reject_constant(digits)


def _is_depth_allowed(value: Any) -> bool:
    """Whether the value is nested at most `MAX_DEPTH` deep, so that recursive code can walk it."""
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            return False
        depth += 1
        level = [item for parent in level for item in _child_values(parent) if isinstance(item, dict | list)]
    return True


def _child_values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _replace_surrogates(value: Any) -> Any:
    """The same value without lone surrogates, which cannot be encoded as UTF-8."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
        case list():
            return [_replace_surrogates(item) for item in value]
        case _:
            return value


def _explain_missing_object(text: str) -> str:
    if not text.strip():
        return "it is empty; a JSON object is needed"
    if not strip_reasoning(text):
        return "it holds nothing but reasoning; more max_tokens may be needed"
    return "there is no JSON object in it" if "{" not in text else "there is no whole JSON object in it"
