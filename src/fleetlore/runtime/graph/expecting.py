"""What a scenario expects: read once from its line, asked of what was seen."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from fleetlore.events.envelope import Event
from fleetlore.views.session_state import Screen


class Seen(Struct, kw_only=True):
    """What the last deed of a scenario came to."""

    response: str = ""
    error: str | None = None
    screen: Screen | None = None
    trace: Sequence[Event] = ()


Expectation: TypeAlias = Callable[[Seen], "str | None"]
"""What is wrong; `None` if it holds."""

_COMPARES: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON = re.compile(r"(?P<what>.+?)\s*(?P<sign>==|!=|>=|<=|>|<)\s*(?P<value>.+)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TEXTS = re.compile(r'(?P<verb>contains not|contains)\s+(?P<words>"(?:[^"\\]|\\.)*"(?:\s+or\s+"(?:[^"\\]|\\.)*")*)')
_ACTION = re.compile(r"(?P<which>any|no) action contains\s+(?P<words>\".+\")")
_TRACE = re.compile(r"has (?P<no>not )?(?P<kind>[a-z_.]+)(?:\s+(?P<node>\S+))?")


def read_expectation(what: str, rest: str) -> Expectation:
    """The expectation of a line; `ValueError` says how to write one."""
    return {"response": _response, "error": _error, "actions": _actions, "state": _state, "trace": _trace}[what](rest)


def _response(rest: str) -> Expectation:
    return _text_or_length(rest, lambda seen: seen.response, "the response")


def _error(rest: str) -> Expectation:
    if rest == "none":
        return lambda seen: None if seen.error is None else f"there was one: {seen.error}"
    return _text_or_length(rest, lambda seen: seen.error or "", "the error")


def _text_or_length(rest: str, text_of: Callable[[Seen], str], name: str) -> Expectation:
    if (match := _TEXTS.fullmatch(rest)) is not None:
        return _contains(_words(match["words"]), match["verb"] == "contains", text_of, name)
    return _length(rest, lambda seen: len(text_of(seen)), f'{name} takes `contains "a" or "b"`, `contains not "a"` or `length > 5`')


def _contains(words: list[str], wanted: bool, text_of: Callable[[Seen], str], name: str) -> Expectation:
    def check(seen: Seen) -> str | None:
        found = any(word.casefold() in text_of(seen).casefold() for word in words)
        return None if found is wanted else f"{name} was: {text_of(seen)!r}"

    return check


def _length(rest: str, length_of: Callable[[Seen], int], usage: str) -> Expectation:
    match = _COMPARISON.fullmatch(rest)
    if match is None or match["what"] != "length" or not match["value"].isdecimal():
        raise ValueError(f"{rest!r} says nothing; {usage}")
    compare, wanted = _COMPARES[match["sign"]], int(match["value"])
    return lambda seen: None if compare(length_of(seen), wanted) else f"it has {length_of(seen)}"


def _actions(rest: str) -> Expectation:
    if (match := _ACTION.fullmatch(rest)) is None:
        usage = 'the actions take `length >= 2`, `any action contains "x"` or `no action contains "x"`'
        return _length(rest, lambda seen: len(_buttons(seen)), usage)
    words, wanted = _words(match["words"]), match["which"] == "any"

    def check(seen: Seen) -> str | None:
        names = _buttons(seen)
        found = any(word.casefold() in name.casefold() for word in words for name in names)
        return None if found is wanted else f"there are {', '.join(names) or 'none'}"

    return check


def _buttons(seen: Seen) -> list[str]:
    controls = seen.screen.controls if seen.screen is not None else []
    return [f"{each.get('action')} ({each.get('label')})" for each in controls if each.get("type") == "button"]


def _state(rest: str) -> Expectation:
    match = _COMPARISON.fullmatch(rest)
    if match is None:
        raise ValueError(f'{rest!r} says nothing; the state takes `count == 1`, `machine light == "green"` or `tables >= 1`')
    wanted, compare, what = _value(match["value"]), _COMPARES[match["sign"]], match["what"]

    def check(seen: Seen) -> str | None:
        has = _looked_up(seen, what)
        try:
            return None if compare(has, wanted) else f"it is {has!r}"
        except TypeError:
            return f"it is {has!r}"

    return check


def _looked_up(seen: Seen, what: str) -> Any:
    screen = seen.screen
    if screen is None:
        return None
    kind, _, name = what.partition(" ")
    if kind == "machine" and name:
        machine = screen.machines.get(name)
        return None if machine is None else machine.current
    if kind in ("memory", "mode") and name:
        return (screen.memory if kind == "memory" else screen.mode).get(name)
    if what == "tables":
        return sum(each.get("type") == "table" for each in screen.controls)
    return screen.graph if what == "graph" else screen.state.get(what)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return text


def _trace(rest: str) -> Expectation:
    """Kinds as they are; `machine_created` means `machine.created`, and a second word is a node, a tool or an audit."""
    match = _TRACE.fullmatch(rest)
    if match is None:
        raise ValueError(
            f"{rest!r} says nothing; the trace takes `has machine.created`, `has not model.called` or `has node.finished thinker`"
        )
    kind, node, wanted = match["kind"].replace(".", "_"), match["node"], match["no"] is None

    def check(seen: Seen) -> str | None:
        found = any(event.kind.replace(".", "_") == kind and _is_about(event, node) for event in seen.trace)
        kinds = ", ".join(dict.fromkeys(event.kind for event in seen.trace))
        return None if found is wanted else f"there were {kinds or 'no events'}"

    return check


def _is_about(event: Event, name: str | None) -> bool:
    return name is None or name in (event.data.get("node"), event.data.get("tool"), event.data.get("machine"))


def _words(text: str) -> list[str]:
    return [match.replace('\\"', '"') for match in _QUOTED.findall(text)]
