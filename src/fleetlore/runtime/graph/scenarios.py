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

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from fleetlore.errors import Invalid
from fleetlore.runtime.graph.expecting import Expectation, Seen, read_expectation
from fleetlore.runtime.graph.session import Session
from fleetlore.runtime.graph.sessions import Sessions
from fleetlore.runtime.graph.sink import Heard

DEEDS = ("send", "action", "report", "switch", "clear")
EXPECTATIONS = ("expect_response", "expect_actions", "expect_state", "expect_trace", "expect_error")
_ITEM = re.compile(r"\s*[-*]\s+(?P<word>[a-z_]+)(?:\s*:\s*(?P<rest>.*))?$")
_HEADING = re.compile(r"(?P<level>#{1,3})\s+(?P<text>.+)")
IDENTITY = "tester"


class Line(NamedTuple):
    """One line that does something or expects something."""

    number: int
    word: str
    rest: str
    expects: Expectation | None = None


class Part(NamedTuple):
    """One step: its name, and its lines."""

    name: str
    lines: list[Line]


class Scenario(NamedTuple):
    """A file of steps."""

    source: str
    title: str
    graph: str | None
    parts: list[Part]


class Finding(NamedTuple):
    """What became of one expectation."""

    source: str
    line: int
    step: str
    wanted: str
    wrong: str | None
    """What was found instead; `None`: it holds."""


def read(text: str, source: str) -> Scenario:
    """The scenario of a file; `Invalid` says what is wrong with it, line by line."""
    title, graph, parts, problems = source, None, list[Part](), list[str]()
    in_steps = False
    for number, row in enumerate(text.splitlines(), 1):
        if (heading := _HEADING.match(row)) is not None:
            level, words = len(heading["level"]), heading["text"].strip()
            title = words if level == 1 else title
            in_steps = words.casefold() == "steps" if level == 2 else in_steps
            if level == 3 and in_steps:
                parts.append(Part(words, []))
        elif (item := _ITEM.match(row)) is not None:
            word, rest = item["word"], (item["rest"] or "").strip()
            if not in_steps:
                graph = rest if word == "graph" else graph
            else:
                _add(parts, number, word, rest, problems)
    if not parts:
        problems.append("1: no steps; write them under `## Steps`, each under a heading of its own (`### 1. …`)")
    if problems:
        raise Invalid("\n".join(f"{source}:{problem}" for problem in problems))
    return Scenario(source, title, graph, parts)


def _add(parts: list[Part], number: int, word: str, rest: str, problems: list[str]) -> None:
    if word not in (*DEEDS, *EXPECTATIONS):
        problems.append(f"{number}: no such word: {word}; known are {', '.join((*DEEDS, *EXPECTATIONS))}")
        return
    if not parts:
        problems.append(f"{number}: a step needs a heading before its lines, as in `### 1. Ask`")
        return
    expects = None
    if word in EXPECTATIONS:
        try:
            expects = read_expectation(word.removeprefix("expect_"), rest)
        except ValueError as error:
            problems.append(f"{number}: {error}")
            return
    parts[-1].lines.append(Line(number, word, rest, expects))


async def play(scenario: Scenario, sessions: Sessions) -> list[Finding]:
    """Every step, in a session of its own; what is expected of a step is asked once everything that it led to is over."""
    session = await sessions.open(sessions.new_id(), identity=IDENTITY, channel="test")
    heard, findings, seen, place = Heard(), list[Finding](), Seen(), ""
    session.attach(heard)
    if scenario.graph is not None:
        await session.switch(scenario.graph)
    for part in scenario.parts:
        for line in part.lines:
            if line.expects is not None:
                findings.append(Finding(scenario.source, line.number, part.name, f"{line.word}: {line.rest}", line.expects(seen)))
                continue
            heard.messages.clear()
            await _do(session, line)
            await session.settled()
            trace = [event async for event in sessions.events(session.id, after=place)]
            place = (trace[-1].position or place) if trace else place
            seen = Seen(response=heard.text, error=heard.error, screen=session.screen(), trace=trace)
    await session.close()
    return findings


async def _do(session: Session, line: Line) -> None:
    match line.word:
        case "send":
            await session.handle_text(line.rest)
        case "action":
            action, _, data = line.rest.partition(" ")
            await session.handle_action(action, _json(data, line) if data.strip() else None)
        case "report":
            await session.report(_json(line.rest or "[]", line))
        case "switch":
            await session.switch(line.rest)
        case "clear":
            await session.clear()


def _json(text: str, line: Line) -> Any:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"line {line.number}: {line.word}: not JSON: {error}") from error


def failures(findings: Sequence[Finding]) -> list[Finding]:
    """Those that do not hold."""
    return [finding for finding in findings if finding.wrong is not None]


def as_json(finding: Finding) -> Mapping[str, Any]:
    """For programs."""
    return {**finding._asdict(), "ok": finding.wrong is None}
