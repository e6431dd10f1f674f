"""When an edge is followed: conditions as data, read once, and functions registered under a name.

    [conditions.reflex]                 every key must hold
    intent = "social"                   a field of what the edge's source made, or of the `analysis` in it
    complexity = ["trivial", "simple"]  one of several

    [conditions.plan]
    any = [{ complexity = "complex" }, { intent = "request", words = "data", longer = 8 }]

`words` names a list of the graph's, one of whose words the user has said; `longer`: the user said more words than that;
`came` is `text` or `action`; `not` and `any` take conditions, `any` a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fleetlore.graph.turn import GraphTurn
from fleetlore.graph.word_match import WordList, split_words

Test: TypeAlias = Callable[[Any, GraphTurn], bool]
"""Whether it holds, of what the source made, in this turn."""


class InvalidCondition(Exception):
    """A condition that says nothing sensible; the message says what is wrong."""


def parse_condition(said: Mapping[str, Any], words: Mapping[str, Sequence[str]]) -> Test:
    """The test that some data describes; `BadCondition` where it does not."""
    if not isinstance(said, Mapping) or not said:
        raise InvalidCondition('it must hold at least one key, as in { intent = "social" }')
    tests = [_parse_key(key, value, words) for key, value in said.items()]
    if len(tests) == 1:
        return tests[0]
    return lambda made, turn: all(test(made, turn) for test in tests)


def _parse_key(key: str, value: Any, words: Mapping[str, Sequence[str]]) -> Test:
    match key:
        case "any":
            return _parse_any(value, words)
        case "not":
            test = parse_condition(value, words)
            return lambda made, turn: not test(made, turn)
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
    return lambda made, turn: any(test(made, turn) for test in tests)


def _parse_words(value: Any, words: Mapping[str, Sequence[str]]) -> Test:
    if not isinstance(value, str) or value not in words:
        raise InvalidCondition(f"no list of words is called {value!r}; there are {', '.join(words) or 'none'}: write one under [words]")
    found_in = WordList(words[value]).is_found_in
    return lambda made, turn: found_in(turn.text)


def _parse_longer(value: Any) -> Test:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidCondition("`longer` takes a number of words")
    return lambda made, turn: len(split_words(turn.text)) > value


def _parse_came(value: Any) -> Test:
    if value not in ("text", "action"):
        raise InvalidCondition("`came` is either text or action")
    return lambda made, turn: (turn.action is not None) == (value == "action")


def _parse_field(key: str, value: Any) -> Test:
    wanted = value if isinstance(value, list | tuple) else [value]
    return lambda made, turn: any(type(has := read_field(made, key)) is type(each) and has == each for each in wanted)


def read_field(made: Any, key: str) -> Any:
    """A field of what a node made, or of the analysis in it; `None` where there is none of that name."""
    for holder in (made, getattr(made, "analysis", None)):
        if isinstance(holder, Mapping) and key in holder:
            return holder[key]
        if holder is not None and hasattr(holder, key):
            return getattr(holder, key)
    return None
