"""Conditions of edges: written as data in the graph and parsed once, or functions registered under a name.

    [conditions.reflex]                 every key must hold
    intent = "social"                   a field of the source's output, or of the `analysis` in it
    complexity = ["trivial", "simple"]  one of several values

    [conditions.plan]
    any = [{ complexity = "complex" }, { intent = "request", words = "data", longer = 8 }]

`words` names a word list of the graph and holds if the user said one of its words. `longer` holds if the user said more words
than that. For a press, the words are those that describe it, with its payload. `came` is `text` or `action`. `not` takes a
condition, `any` a list of conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fleetlore.graph.turn import GraphTurn
from fleetlore.graph.word_match import WordList, split_words

Test: TypeAlias = Callable[[Any, GraphTurn], bool]
"""Whether the condition holds, given the source's output and the turn."""


class InvalidCondition(Exception):
    """A condition that cannot be parsed; the message says why."""


def parse_condition(definition: Mapping[str, Any], words: Mapping[str, Sequence[str]]) -> Test:
    """The test that the data describes; raises `InvalidCondition`."""
    if not isinstance(definition, Mapping) or not definition:
        raise InvalidCondition('it must hold at least one key, as in { intent = "social" }')
    tests = [_parse_key(key, value, words) for key, value in definition.items()]
    if len(tests) == 1:
        return tests[0]
    return lambda output, turn: all(test(output, turn) for test in tests)


def _parse_key(key: str, value: Any, words: Mapping[str, Sequence[str]]) -> Test:
    match key:
        case "any":
            return _parse_any(value, words)
        case "not":
            test = parse_condition(value, words)
            return lambda output, turn: not test(output, turn)
        case "words":
            return _parse_words(value, words)
        case "longer":
            return _parse_longer(value)
        case "came":
            return _parse_came(value)
        case _:
            return _parse_field(key, value)


def _parse_any(value: Any, words: Mapping[str, Sequence[str]]) -> Test:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise InvalidCondition("`any` takes a list of conditions")
    tests = [parse_condition(each, words) for each in value]
    return lambda output, turn: any(test(output, turn) for test in tests)


def _parse_words(value: Any, words: Mapping[str, Sequence[str]]) -> Test:
    if not isinstance(value, str) or value not in words:
        raise InvalidCondition(f"unknown word list {value!r}; known: {', '.join(words) or 'none'}: write one under [words]")
    is_found_in = WordList(words[value]).is_found_in
    return lambda output, turn: is_found_in(_read_words(output, turn))


def _parse_longer(value: Any) -> Test:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidCondition("`longer` takes a number of words")
    return lambda output, turn: len(split_words(_read_words(output, turn))) > value


def _read_words(output: Any, turn: GraphTurn) -> str:
    text = turn.text or getattr(output, "text", "")
    return text if isinstance(text, str) else ""


def _parse_came(value: Any) -> Test:
    if value not in ("text", "action"):
        raise InvalidCondition("`came` is either text or action")
    return lambda output, turn: (turn.action is not None) == (value == "action")


def _parse_field(key: str, value: Any) -> Test:
    accepted = value if isinstance(value, list | tuple) else [value]
    return lambda output, turn: any(type(actual := read_field(output, key)) is type(each) and actual == each for each in accepted)


def read_field(output: Any, key: str) -> Any:
    """A field of a node's output, or of the analysis in it; `None` if there is none."""
    for holder in (output, getattr(output, "analysis", None)):
        if isinstance(holder, Mapping) and key in holder:
            return holder[key]
        if holder is not None and hasattr(holder, key):
            return getattr(holder, key)
    return None
