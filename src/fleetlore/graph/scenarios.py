"""Test scenarios in Markdown: what a user sends and presses, and what is expected.

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

docs/graph.md describes all commands. Any other text in the file is ignored.
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

# --- Expectations: parsed from a line, checked against what was observed


class ScenarioObservation(Struct, kw_only=True):
    """The effects of the last command of a scenario."""

    response: str = ""
    error: str | None = None
    screen: Screen | None = None
    trace: Sequence[Event] = ()


Expectation: TypeAlias = Callable[[ScenarioObservation], "str | None"]
"""Returns what is wrong; `None` if the expectation holds."""

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
_QUOTED_WORDS = r'(?P<words>"(?:[^"\\]|\\.)*"(?:\s+or\s+"(?:[^"\\]|\\.)*")*)'
_CONTAINS = re.compile(rf"(?P<verb>contains not|contains)\s+{_QUOTED_WORDS}")
_ACTION_CONTAINS = re.compile(rf"(?P<which>any|no) action contains\s+{_QUOTED_WORDS}")
_TRACE_HAS = re.compile(r"has (?P<no>not )?(?P<kind>[a-z_.]+)(?:\s+(?P<node>\S+))?")


def parse_expectation(subject: str, text: str) -> Expectation:
    """Parse an expectation; `ValueError` says how to write one."""
    return {
        "response": _expect_response,
        "error": _expect_error,
        "actions": _expect_actions,
        "state": _expect_state,
        "trace": _expect_trace,
    }[subject](text)


def _expect_response(text: str) -> Expectation:
    return _expect_text_or_length(text, lambda observed: observed.response, "the response")


def _expect_error(text: str) -> Expectation:
    if text == "none":
        return lambda observed: None if observed.error is None else f"there was an error: {observed.error}"
    return _expect_text_or_length(text, lambda observed: observed.error or "", "the error")


def _expect_text_or_length(text: str, text_of: Callable[[ScenarioObservation], str], name: str) -> Expectation:
    if (match := _CONTAINS.fullmatch(text)) is not None:
        return _expect_contains(_parse_quoted_words(match["words"]), match["verb"] == "contains", text_of, name)
    return _expect_length(
        text, lambda observed: len(text_of(observed)), f'write `contains "a" or "b"`, `contains not "a"` or `length > 5` for {name}'
    )


def _expect_contains(words: list[str], is_expected: bool, text_of: Callable[[ScenarioObservation], str], name: str) -> Expectation:
    def check(observed: ScenarioObservation) -> str | None:
        found = any(word.casefold() in text_of(observed).casefold() for word in words)
        return None if found is is_expected else f"{name} was: {text_of(observed)!r}"

    return check


def _expect_length(text: str, length_of: Callable[[ScenarioObservation], int], usage: str) -> Expectation:
    match = _COMPARISON.fullmatch(text)
    if match is None or match["what"] != "length" or not match["value"].isdecimal():
        raise ValueError(f"cannot read {text!r}; {usage}")
    compare, expected = _OPERATORS[match["sign"]], int(match["value"])
    return lambda observed: None if compare(length_of(observed), expected) else f"it has {length_of(observed)}"


def _expect_actions(text: str) -> Expectation:
    if (match := _ACTION_CONTAINS.fullmatch(text)) is None:
        usage = 'write `length >= 2`, `any action contains "x"` or `no action contains "x"`'
        return _expect_length(text, lambda observed: len(_button_names(observed)), usage)
    words, is_expected = _parse_quoted_words(match["words"]), match["which"] == "any"

    def check(observed: ScenarioObservation) -> str | None:
        names = _button_names(observed)
        found = any(word.casefold() in name.casefold() for word in words for name in names)
        return None if found is is_expected else f"there are {', '.join(names) or 'none'}"

    return check


def _button_names(observed: ScenarioObservation) -> list[str]:
    controls = observed.screen.controls if observed.screen is not None else []
    return [f"{each.get('action')} ({each.get('label')})" for each in controls if each.get("type") == "button"]


def _expect_state(text: str) -> Expectation:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise ValueError(f'cannot read {text!r}; write `count == 1`, `machine light == "green"` or `tables >= 1`')
    expected, compare, path = _parse_value(match["value"]), _OPERATORS[match["sign"]], match["what"]

    def check(observed: ScenarioObservation) -> str | None:
        actual = _look_up_state(observed, path)
        try:
            return None if compare(actual, expected) else f"it is {actual!r}"
        except TypeError:
            return f"it is {actual!r}"

    return check


def _look_up_state(observed: ScenarioObservation, path: str) -> Any:
    screen = observed.screen
    if screen is None:
        return None
    kind, _, name = path.partition(" ")
    if kind == "machine" and name:
        machine = screen.machines.get(name)
        return None if machine is None else machine.current
    if kind in ("memory", "mode") and name:
        return (screen.memory if kind == "memory" else screen.mode).get(name)
    if path == "tables":
        return sum(each.get("type") == "table" for each in screen.controls)
    return screen.graph if path == "graph" else screen.state.get(path)


def _parse_value(text: str) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        return text


def _expect_trace(text: str) -> Expectation:
    """Event kinds; `machine_created` means `machine.created`, and a second word is a node, tool or machine."""
    match = _TRACE_HAS.fullmatch(text)
    if match is None:
        raise ValueError(f"cannot read {text!r}; write `has machine.created`, `has not model.called` or `has node.finished thinker`")
    kind, node, is_expected = match["kind"].replace(".", "_"), match["node"], match["no"] is None

    def check(observed: ScenarioObservation) -> str | None:
        found = any(event.kind.replace(".", "_") == kind and _has_name(event, node) for event in observed.trace)
        kinds = ", ".join(dict.fromkeys(event.kind for event in observed.trace))
        return None if found is is_expected else f"there were {kinds or 'no events'}"

    return check


def _has_name(event: Event, name: str | None) -> bool:
    """Whether the event is about this node, tool or machine."""
    return name is None or name in (event.data.get("node"), event.data.get("tool"), event.data.get("machine"))


def _parse_quoted_words(text: str) -> list[str]:
    return [match.replace('\\"', '"') for match in _QUOTED.findall(text)]


# --- Parsing and running

STEP_COMMANDS = ("send", "action", "report", "switch", "clear")
EXPECTATIONS = ("expect_response", "expect_actions", "expect_state", "expect_trace", "expect_error")
_LIST_ITEM = re.compile(r"\s*[-*]\s+(?P<word>[a-z_]+)(?:\s*:\s*(?P<rest>.*))?$")
_HEADING = re.compile(r"(?P<level>#{1,3})\s+(?P<text>.+)")
TEST_IDENTITY = "tester"


class ScenarioLine(NamedTuple):
    """A command or an expectation."""

    number: int
    command: str
    argument: str
    expectation: Expectation | None = None


class ScenarioStep(NamedTuple):
    """A step: its name and its lines."""

    name: str
    lines: list[ScenarioLine]


class GraphScenario(NamedTuple):
    """A parsed scenario file."""

    source: str
    title: str
    graph: str | None
    steps: list[ScenarioStep]


class ExpectationResult(NamedTuple):
    """The result of one expectation."""

    source: str
    line: int
    step: str
    wanted: str
    wrong: str | None
    """What was found instead; `None` if the expectation holds."""


def parse_scenario(text: str, source: str) -> GraphScenario:
    """Parse a scenario; `Invalid` lists all problems with their lines."""
    title, graph, steps, problems = source, None, list[ScenarioStep](), list[str]()
    in_steps = in_setup = False
    for number, line in enumerate(text.splitlines(), 1):
        if (heading := _HEADING.match(line)) is not None:
            level, heading_text = len(heading["level"]), heading["text"].strip()
            if level == 1:
                title = heading_text
            elif level == 2:
                in_steps, in_setup = heading_text.casefold() == "steps", heading_text.casefold() == "setup"
            elif in_steps:
                steps.append(ScenarioStep(heading_text, []))
        elif (item := _LIST_ITEM.match(line)) is not None:
            command, argument = item["word"], (item["rest"] or "").strip()
            if in_steps:
                _add_line(steps, number, command, argument, problems)
            elif command == "graph":
                graph = argument
            elif in_setup:
                problems.append(f"{number}: unknown setting: {command}; `## Setup` knows only `graph`")
    if not steps:
        problems.append("1: no steps; write them under `## Steps`, each under a heading of its own (`### 1. …`)")
    if problems:
        raise Invalid("\n".join(f"{source}:{problem}" for problem in problems))
    return GraphScenario(source, title, graph, steps)


def _add_line(steps: list[ScenarioStep], number: int, command: str, argument: str, problems: list[str]) -> None:
    if command not in (*STEP_COMMANDS, *EXPECTATIONS):
        problems.append(f"{number}: unknown command: {command}; choose from {', '.join((*STEP_COMMANDS, *EXPECTATIONS))}")
        return
    if not steps:
        problems.append(f"{number}: a step needs a heading before its lines, as in `### 1. Ask`")
        return
    expectation = None
    if command in EXPECTATIONS:
        try:
            expectation = parse_expectation(command.removeprefix("expect_"), argument)
        except ValueError as error:
            problems.append(f"{number}: {error}")
            return
    steps[-1].lines.append(ScenarioLine(number, command, argument, expectation))


async def run_scenario(scenario: GraphScenario, sessions: SessionManager) -> list[ExpectationResult]:
    """Run all steps in a new session. Expectations are checked once everything that a command caused is finished."""
    session = await sessions.open_session(sessions.new_id(), identity=TEST_IDENTITY, channel="test")
    try:
        return await _run_steps(scenario, session, sessions)
    finally:
        await session.close()


async def _run_steps(scenario: GraphScenario, session: Session, sessions: SessionManager) -> list[ExpectationResult]:
    sink, observed, position = CollectingSink(), ScenarioObservation(), ""
    session.attach_sink(sink)
    if scenario.graph is not None:
        await session.switch_graph(scenario.graph)
    results = list[ExpectationResult]()
    for step in scenario.steps:
        for line in step.lines:
            if line.expectation is not None:
                expected = f"{line.command}: {line.argument}"
                results.append(ExpectationResult(scenario.source, line.number, step.name, expected, line.expectation(observed)))
                continue
            sink.messages.clear()
            await _run_line(session, line)
            await session.wait_until_settled()
            trace = [event async for event in sessions.read_events(session.id, after=position)]
            position = (trace[-1].position or position) if trace else position
            observed = ScenarioObservation(response=sink.text, error=sink.error, screen=session.build_screen(), trace=trace)
    return results


async def _run_line(session: Session, line: ScenarioLine) -> None:
    match line.command:
        case "send":
            await session.handle_text(line.argument)
        case "action":
            action, _, data = line.argument.partition(" ")
            await session.handle_action(action, _parse_json(data, line) if data.strip() else None)
        case "report":
            await session.report_dashboard(_parse_json(line.argument or "[]", line))
        case "switch":
            await session.switch_graph(line.argument)
        case "clear":
            await session.clear_conversation()


def _parse_json(text: str, line: ScenarioLine) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"line {line.number}: {line.command}: not JSON: {error}") from error


def select_failures(results: Sequence[ExpectationResult]) -> list[ExpectationResult]:
    """The expectations that do not hold."""
    return [result for result in results if result.wrong is not None]


def result_to_dict(result: ExpectationResult) -> Mapping[str, Any]:
    """A result as a JSON object."""
    return {**result._asdict(), "ok": result.wrong is None}
