"""Scenarios in Markdown: what a user sends and presses, and what must come of it.

    # A counter
    ## Setup
    - graph: seven
    ## Steps
    ### 1. Ask for it
    - send: make me a counter
    - expect_response: contains "counter" or "screen"
    - expect_actions: length >= 2
    - expect_actions: any action contains "count"
    - expect_state: count == 0
    - expect_trace: has ui.controls
    ### 2. Press it
    - action: count_up
    - expect_state: count == 1
    - expect_trace: has not model.called

docs/graph.md has every word of it. Anything else in the file is for people.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.graph.session import Session
from fleetlore.graph.sessions import SessionManager
from fleetlore.graph.sink import CollectingSink
from fleetlore.views.conversation_state import Screen

# --- What a scenario expects: read once from its line, asked of what was seen.


class ScenarioObservation(Struct, kw_only=True):
    """What the last deed of a scenario came to."""

    response: str = ""
    error: str | None = None
    screen: Screen | None = None
    trace: Sequence[Event] = ()


Expectation: TypeAlias = Callable[[ScenarioObservation], "str | None"]
"""What is wrong; `None` if it holds."""

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON = re.compile(r"(?P<what>.+?)\s*(?P<sign>==|!=|>=|<=|>|<)\s*(?P<value>.+)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CONTAINS = re.compile(r'(?P<verb>contains not|contains)\s+(?P<words>"(?:[^"\\]|\\.)*"(?:\s+or\s+"(?:[^"\\]|\\.)*")*)')
_ACTION_CONTAINS = re.compile(r"(?P<which>any|no) action contains\s+(?P<words>\".+\")")
_TRACE_HAS = re.compile(r"has (?P<no>not )?(?P<kind>[a-z_.]+)(?:\s+(?P<node>\S+))?")


def parse_expectation(what: str, rest: str) -> Expectation:
    """The expectation of a line; `ValueError` says how to write one."""
    return {
        "response": _expect_response,
        "error": _expect_error,
        "actions": _expect_actions,
        "state": _expect_state,
        "trace": _expect_trace,
    }[what](rest)


def _expect_response(rest: str) -> Expectation:
    return _expect_text_or_length(rest, lambda seen: seen.response, "the response")


def _expect_error(rest: str) -> Expectation:
    if rest == "none":
        return lambda seen: None if seen.error is None else f"there was one: {seen.error}"
    return _expect_text_or_length(rest, lambda seen: seen.error or "", "the error")


def _expect_text_or_length(rest: str, text_of: Callable[[ScenarioObservation], str], name: str) -> Expectation:
    if (match := _CONTAINS.fullmatch(rest)) is not None:
        return _expect_contains(_parse_quoted_words(match["words"]), match["verb"] == "contains", text_of, name)
    return _expect_length(rest, lambda seen: len(text_of(seen)), f'{name} takes `contains "a" or "b"`, `contains not "a"` or `length > 5`')


def _expect_contains(words: list[str], wanted: bool, text_of: Callable[[ScenarioObservation], str], name: str) -> Expectation:
    def check(seen: ScenarioObservation) -> str | None:
        found = any(word.casefold() in text_of(seen).casefold() for word in words)
        return None if found is wanted else f"{name} was: {text_of(seen)!r}"

    return check


def _expect_length(rest: str, length_of: Callable[[ScenarioObservation], int], usage: str) -> Expectation:
    match = _COMPARISON.fullmatch(rest)
    if match is None or match["what"] != "length" or not match["value"].isdecimal():
        raise ValueError(f"{rest!r} says nothing; {usage}")
    compare, wanted = _OPERATORS[match["sign"]], int(match["value"])
    return lambda seen: None if compare(length_of(seen), wanted) else f"it has {length_of(seen)}"


def _expect_actions(rest: str) -> Expectation:
    if (match := _ACTION_CONTAINS.fullmatch(rest)) is None:
        usage = 'the actions take `length >= 2`, `any action contains "x"` or `no action contains "x"`'
        return _expect_length(rest, lambda seen: len(_button_names(seen)), usage)
    words, wanted = _parse_quoted_words(match["words"]), match["which"] == "any"

    def check(seen: ScenarioObservation) -> str | None:
        names = _button_names(seen)
        found = any(word.casefold() in name.casefold() for word in words for name in names)
        return None if found is wanted else f"there are {', '.join(names) or 'none'}"

    return check


def _button_names(seen: ScenarioObservation) -> list[str]:
    controls = seen.screen.controls if seen.screen is not None else []
    return [f"{each.get('action')} ({each.get('label')})" for each in controls if each.get("type") == "button"]


def _expect_state(rest: str) -> Expectation:
    match = _COMPARISON.fullmatch(rest)
    if match is None:
        raise ValueError(f'{rest!r} says nothing; the state takes `count == 1`, `machine light == "green"` or `tables >= 1`')
    wanted, compare, what = _parse_value(match["value"]), _OPERATORS[match["sign"]], match["what"]

    def check(seen: ScenarioObservation) -> str | None:
        has = _look_up_state(seen, what)
        try:
            return None if compare(has, wanted) else f"it is {has!r}"
        except TypeError:
            return f"it is {has!r}"

    return check


def _look_up_state(seen: ScenarioObservation, what: str) -> Any:
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


def _parse_value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return text


def _expect_trace(rest: str) -> Expectation:
    """Kinds as they are; `machine_created` means `machine.created`, and a second word is a node, a tool or an audit."""
    match = _TRACE_HAS.fullmatch(rest)
    if match is None:
        raise ValueError(
            f"{rest!r} says nothing; the trace takes `has machine.created`, `has not model.called` or `has node.finished thinker`"
        )
    kind, node, wanted = match["kind"].replace(".", "_"), match["node"], match["no"] is None

    def check(seen: ScenarioObservation) -> str | None:
        found = any(event.kind.replace(".", "_") == kind and _is_about(event, node) for event in seen.trace)
        kinds = ", ".join(dict.fromkeys(event.kind for event in seen.trace))
        return None if found is wanted else f"there were {kinds or 'no events'}"

    return check


def _is_about(event: Event, name: str | None) -> bool:
    return name is None or name in (event.data.get("node"), event.data.get("tool"), event.data.get("machine"))


def _parse_quoted_words(text: str) -> list[str]:
    return [match.replace('\\"', '"') for match in _QUOTED.findall(text)]


# ---

STEP_COMMANDS = ("send", "action", "report", "switch", "clear")
EXPECTATIONS = ("expect_response", "expect_actions", "expect_state", "expect_trace", "expect_error")
_LIST_ITEM = re.compile(r"\s*[-*]\s+(?P<word>[a-z_]+)(?:\s*:\s*(?P<rest>.*))?$")
_HEADING = re.compile(r"(?P<level>#{1,3})\s+(?P<text>.+)")
TEST_IDENTITY = "tester"


class ScenarioLine(NamedTuple):
    """One line that does something or expects something."""

    number: int
    word: str
    rest: str
    expects: Expectation | None = None


class ScenarioStep(NamedTuple):
    """One step: its name, and its lines."""

    name: str
    lines: list[ScenarioLine]


class GraphScenario(NamedTuple):
    """A file of steps."""

    source: str
    title: str
    graph: str | None
    parts: list[ScenarioStep]


class ExpectationResult(NamedTuple):
    """What became of one expectation."""

    source: str
    line: int
    step: str
    wanted: str
    wrong: str | None
    """What was found instead; `None`: it holds."""


def parse_scenario(text: str, source: str) -> GraphScenario:
    """The scenario of a file; `Invalid` says what is wrong with it, line by line."""
    title, graph, parts, problems = source, None, list[ScenarioStep](), list[str]()
    in_steps = False
    for number, row in enumerate(text.splitlines(), 1):
        if (heading := _HEADING.match(row)) is not None:
            level, words = len(heading["level"]), heading["text"].strip()
            title = words if level == 1 else title
            in_steps = words.casefold() == "steps" if level == 2 else in_steps
            if level == 3 and in_steps:
                parts.append(ScenarioStep(words, []))
        elif (item := _LIST_ITEM.match(row)) is not None:
            word, rest = item["word"], (item["rest"] or "").strip()
            if not in_steps:
                graph = rest if word == "graph" else graph
            else:
                _add_line(parts, number, word, rest, problems)
    if not parts:
        problems.append("1: no steps; write them under `## Steps`, each under a heading of its own (`### 1. …`)")
    if problems:
        raise Invalid("\n".join(f"{source}:{problem}" for problem in problems))
    return GraphScenario(source, title, graph, parts)


def _add_line(parts: list[ScenarioStep], number: int, word: str, rest: str, problems: list[str]) -> None:
    if word not in (*STEP_COMMANDS, *EXPECTATIONS):
        problems.append(f"{number}: no such word: {word}; known are {', '.join((*STEP_COMMANDS, *EXPECTATIONS))}")
        return
    if not parts:
        problems.append(f"{number}: a step needs a heading before its lines, as in `### 1. Ask`")
        return
    expects = None
    if word in EXPECTATIONS:
        try:
            expects = parse_expectation(word.removeprefix("expect_"), rest)
        except ValueError as error:
            problems.append(f"{number}: {error}")
            return
    parts[-1].lines.append(ScenarioLine(number, word, rest, expects))


async def run_scenario(scenario: GraphScenario, sessions: SessionManager) -> list[ExpectationResult]:
    """Every step, in a session of its own; what is expected of a step is asked once everything that it led to is over."""
    session = await sessions.open_session(sessions.new_id(), identity=TEST_IDENTITY, channel="test")
    heard, findings, seen, place = CollectingSink(), list[ExpectationResult](), ScenarioObservation(), ""
    session.attach_sink(heard)
    if scenario.graph is not None:
        await session.switch_graph(scenario.graph)
    for part in scenario.parts:
        for line in part.lines:
            if line.expects is not None:
                findings.append(ExpectationResult(scenario.source, line.number, part.name, f"{line.word}: {line.rest}", line.expects(seen)))
                continue
            heard.messages.clear()
            await _run_line(session, line)
            await session.wait_until_settled()
            trace = [event async for event in sessions.read_events(session.id, after=place)]
            place = (trace[-1].position or place) if trace else place
            seen = ScenarioObservation(response=heard.text, error=heard.error, screen=session.build_screen(), trace=trace)
    await session.close()
    return findings


async def _run_line(session: Session, line: ScenarioLine) -> None:
    match line.word:
        case "send":
            await session.handle_text(line.rest)
        case "action":
            action, _, data = line.rest.partition(" ")
            await session.handle_action(action, _parse_json(data, line) if data.strip() else None)
        case "report":
            await session.report_dashboard(_parse_json(line.rest or "[]", line))
        case "switch":
            await session.switch_graph(line.rest)
        case "clear":
            await session.clear_conversation()


def _parse_json(text: str, line: ScenarioLine) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"line {line.number}: {line.word}: not JSON: {error}") from error


def select_failures(findings: Sequence[ExpectationResult]) -> list[ExpectationResult]:
    """Those that do not hold."""
    return [finding for finding in findings if finding.wrong is not None]


def as_json(finding: ExpectationResult) -> Mapping[str, Any]:
    """For programs."""
    return {**finding._asdict(), "ok": finding.wrong is None}
