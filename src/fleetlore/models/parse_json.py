"""From what a model wrote to the object that was wanted.

The last balanced JSON object counts, whatever stands around it: prose, code fences, reasoning in tags. What stands in an object's
strings is left alone. Commas behind the last item are forgiven, nothing else is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from fleetlore.errors import MindNonsense

MAX_DEPTH = 64
"""How deep an object may be nested."""
_MAX_SHOWN_CHARS = 400
"""So much of an answer is told with an error."""

# From every brace on, the text may have to be read to its end. There is an end to that, far behind anything honest.
_SCAN_FACTOR, _SCAN_ALLOWANCE = 2, 500_000

REASONING_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad"
REASONING_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{REASONING_TAGS})(?:\s[^<>]{{0,80}})?>", re.IGNORECASE)
_OBJECT_OR_TAG = re.compile(rf"\{{|{REASONING_TAG.pattern}", re.IGNORECASE)
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_STRING_OR_BRACKET = re.compile(rf"{_STRING}|[{{}}\[\]\"]", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"(?P<string>{_STRING})|,(?=\s*[}}\]])", re.DOTALL)


class FoundObject(NamedTuple):
    """An object, and the JSON in which it was written."""

    data: dict[str, Any]
    text: str


def find_object(text: str) -> FoundObject:
    """The last JSON object in a text, an empty one only if there is no other; `MindNonsense` if there is none."""
    found = list(_find_objects(text))
    if not found:
        raise MindNonsense(_explain_missing_object(text), text=text[:_MAX_SHOWN_CHARS])
    last = next((each for each in reversed(found) if each.data), found[-1])
    if not _is_depth_allowed(last.data):
        raise MindNonsense(f"the object is nested more than {MAX_DEPTH} deep", text=text[:_MAX_SHOWN_CHARS])
    return last._replace(data=_replace_surrogates(last.data))


def strip_reasoning(text: str) -> str:
    """Prose without what stands in reasoning tags; a tag that is not closed takes everything behind it, one not opened all before."""
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
    """Every outermost object, in order, those in reasoning tags not counted."""
    found: list[FoundObject] = []
    place, left = 0, _SCAN_FACTOR * len(text) + _SCAN_ALLOWANCE
    while left > 0 and (mark := _OBJECT_OR_TAG.search(text, place)):
        place = mark.end()
        if mark[0] != "{":
            if mark["end"]:
                found.clear()  # it was all reasoning, whose beginning was not written
            else:
                place = _find_reasoning_end(text, mark)
            continue
        end = _find_closing_bracket(text, mark.start())
        left -= (end or len(text)) - mark.start()
        if end and (data := _decode_lenient(text[mark.start() : end])) is not None:
            found.append(FoundObject(data, text[mark.start() : end]))
            place = end
    return iter(found)


def _find_reasoning_end(text: str, opened: re.Match[str]) -> int:
    for tag in REASONING_TAG.finditer(text, opened.end()):
        if tag["end"] and tag["name"].lower() == opened["name"].lower():
            return tag.end()
    return len(text)


def _find_closing_bracket(text: str, start: int) -> int | None:
    """Where the bracket that opens at `start` is closed; `None` if it is not."""
    depth = 0
    for mark in _STRING_OR_BRACKET.finditer(text, start):
        if mark[0] in "{[":
            depth += 1
        elif mark[0] in "}]":
            depth -= 1
            if depth == 0:
                return mark.end()
        elif mark[0] == '"':
            return None  # a string without an end
    return None


def _decode_lenient(source: str) -> dict[str, Any] | None:
    for attempt in (source, _TRAILING_COMMA.sub(lambda match: match["string"] or "", source)):
        try:
            value = json.loads(attempt, parse_constant=_reject_constant, parse_float=_parse_finite, strict=False)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _reject_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    return number if abs(number) != float("inf") else _reject_constant(digits)


def _is_depth_allowed(value: Any) -> bool:
    """Whether it is not nested too deep for whoever walks through it next."""
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            return False
        depth += 1
        level = [item for each in level for item in _child_values(each) if isinstance(item, dict | list)]
    return True


def _child_values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _replace_surrogates(value: Any) -> Any:
    """The same without halves of characters, which no file can hold."""
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
        return "it is empty where a JSON object was wanted"
    if not strip_reasoning(text):
        return "it holds nothing but reasoning; more max_tokens may be needed"
    return "there is no JSON object in it" if "{" not in text else "there is no whole JSON object in it"
