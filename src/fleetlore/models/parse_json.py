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

DEEPEST = 64
"""How deep an object may be nested."""
_SHOWN = 400
"""So much of an answer is told with an error."""

# From every brace on, the text may have to be read to its end. There is an end to that, far behind anything honest.
_PASSES, _SPARE = 2, 500_000

TAGS = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad"
TAG = re.compile(rf"<(?P<end>/?)(?P<name>{TAGS})(?:\s[^<>]{{0,80}})?>", re.IGNORECASE)
_OUTSIDE = re.compile(rf"\{{|{TAG.pattern}", re.IGNORECASE)
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_INSIDE = re.compile(rf"{_STRING}|[{{}}\[\]\"]", re.DOTALL)
_LAST_COMMA = re.compile(rf"(?P<string>{_STRING})|,(?=\s*[}}\]])", re.DOTALL)


class Found(NamedTuple):
    """An object, and the JSON in which it was written."""

    data: dict[str, Any]
    text: str


def find_object(text: str) -> Found:
    """The last JSON object in a text, an empty one only if there is no other; `MindNonsense` if there is none."""
    found = list(_objects(text))
    if not found:
        raise MindNonsense(_nothing_in(text), text=text[:_SHOWN])
    last = next((each for each in reversed(found) if each.data), found[-1])
    if not _is_sound(last.data):
        raise MindNonsense(f"the object is nested more than {DEEPEST} deep", text=text[:_SHOWN])
    return last._replace(data=_readable(last.data))


def without_thoughts(text: str) -> str:
    """Prose without what stands in reasoning tags; a tag that is not closed takes everything behind it, one not opened all before."""
    kept: list[str] = []
    start, depth = 0, 0
    for tag in TAG.finditer(text):
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


def whole_object(text: str) -> dict[str, Any] | None:
    """A text that is one JSON object and nothing else; `None` if it is not, or is nested too deep."""
    data = _decoded(text)
    return _readable(data) if data is not None and _is_sound(data) else None


def _objects(text: str) -> Iterator[Found]:
    """Every outermost object, in order, those in reasoning tags not counted."""
    found: list[Found] = []
    place, left = 0, _PASSES * len(text) + _SPARE
    while left > 0 and (mark := _OUTSIDE.search(text, place)):
        place = mark.end()
        if mark[0] != "{":
            if mark["end"]:
                found.clear()  # it was all reasoning, whose beginning was not written
            else:
                place = _end_of_thoughts(text, mark)
            continue
        end = _balanced(text, mark.start())
        left -= (end or len(text)) - mark.start()
        if end and (data := _decoded(text[mark.start() : end])) is not None:
            found.append(Found(data, text[mark.start() : end]))
            place = end
    return iter(found)


def _end_of_thoughts(text: str, opened: re.Match[str]) -> int:
    for tag in TAG.finditer(text, opened.end()):
        if tag["end"] and tag["name"].lower() == opened["name"].lower():
            return tag.end()
    return len(text)


def _balanced(text: str, start: int) -> int | None:
    """Where the bracket that opens at `start` is closed; `None` if it is not."""
    depth = 0
    for mark in _INSIDE.finditer(text, start):
        if mark[0] in "{[":
            depth += 1
        elif mark[0] in "}]":
            depth -= 1
            if depth == 0:
                return mark.end()
        elif mark[0] == '"':
            return None  # a string without an end
    return None


def _decoded(source: str) -> dict[str, Any] | None:
    for attempt in (source, _LAST_COMMA.sub(lambda match: match["string"] or "", source)):
        try:
            value = json.loads(attempt, parse_constant=_no_number, parse_float=_finite, strict=False)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if abs(number) != float("inf") else _no_number(digits)


def _is_sound(value: Any) -> bool:
    """Whether it is not nested too deep for whoever walks through it next."""
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            return False
        depth += 1
        level = [item for each in level for item in _items(each) if isinstance(item, dict | list)]
    return True


def _items(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _readable(value: Any) -> Any:
    """The same without halves of characters, which no file can hold."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_readable(key): _readable(item) for key, item in value.items()}
        case list():
            return [_readable(item) for item in value]
        case _:
            return value


def _nothing_in(text: str) -> str:
    if not text.strip():
        return "it is empty where a JSON object was wanted"
    if not without_thoughts(text):
        return "it holds nothing but reasoning; more max_tokens may be needed"
    return "there is no JSON object in it" if "{" not in text else "there is no whole JSON object in it"
