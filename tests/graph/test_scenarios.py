"""Markdown scenarios: parsed, refused with line numbers, run; the shipped ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.errors import Invalid
from fleetlore.graph import scenarios
from fleetlore.graph.scenarios import ExpectationResult
from fleetlore.graph.sessions import SessionManager

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "graph").glob("*.md"))
TEXTS = {file: file.read_text() for file in EXAMPLES}


async def played(text: str) -> list[ExpectationResult]:
    async with connect("memory:") as log, SessionManager(log) as sessions:
        return await scenarios.run_scenario(scenarios.parse_scenario(text, "a.md"), sessions)


def steps(*lines: str) -> str:
    return "\n".join(("# A", "## Steps", "### 1. One", *(f"- {line}" for line in lines)))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
async def test_the_scenarios_that_come_along_hold(file: Path) -> None:
    findings = await played(TEXTS[file])
    assert findings
    assert scenarios.select_failures(findings) == []


@pytest.mark.parametrize(
    ("wanted", "wrong"),
    [
        ('expect_response: contains "never said"', "the response was: 'On the screen now: +1, -1, Zero.'"),
        ('expect_response: contains not "screen" or "page"', "the response was"),
        ("expect_response: length > 500", "it has 32"),
        ("expect_actions: length == 1", "it has 3"),
        ('expect_actions: any action contains "minus"', "there are count_up (+1), count_down (-1), count_zero (Zero)"),
        ('expect_actions: no action contains "count"', "there are count_up"),
        ("expect_state: count == 7", "it is 0"),
        ('expect_state: machine light == "red"', "it is None"),
        ("expect_state: nothing > 3", "it is None"),
        ("expect_trace: has machine.created", "there were session.started, prompt.submitted"),
        ("expect_trace: has not node.finished thinker", "there were"),
        ('expect_error: contains "x"', "the error was: ''"),
    ],
)
async def test_what_does_not_hold_is_reported_with_what_was_found(wanted: str, wrong: str) -> None:
    (finding,) = await played(steps("send: make me a counter", wanted))
    assert (finding.line, finding.wanted) == (5, wanted)
    assert wrong in (finding.wrong or "")


async def test_what_holds_is_reported_too() -> None:
    findings = await played(
        steps(
            "send: show a table",
            "expect_state: tables == 1",
            'expect_state: graph == "seven"',
            'expect_state: mode style == "brief"',
            'expect_state: memory language == "en"',
            "expect_error: none",
            "clear",
            "expect_actions: length == 0",
            'action: press_me {"with": "data"}',
            "expect_trace: has ui_action",
        )
    )
    assert [finding.wrong for finding in findings] == [None] * 7


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("shout: hello", "a.md:4: unknown command: shout; choose from send, action"),
        ("expect_response: is nice", "a.md:4: cannot read 'is nice'; write"),
        ("expect_state: count", "a.md:4: cannot read 'count'; write"),
        ("expect_trace: machine", "a.md:4: cannot read 'machine'; write"),
        ("expect_actions: many", "a.md:4: cannot read 'many'; write"),
    ],
)
def test_a_line_that_says_nothing_is_refused_with_its_number(line: str, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        scenarios.parse_scenario(steps(line), "a.md")
    assert reason in str(caught.value)


def test_a_file_without_steps_is_refused() -> None:
    with pytest.raises(Invalid, match="no steps"):
        scenarios.parse_scenario("# Nothing\n\nJust words.\n", "a.md")
    with pytest.raises(Invalid, match="a step needs a heading"):
        scenarios.parse_scenario("# A\n## Steps\n- send: x\n", "a.md")


async def test_data_that_is_no_json_is_refused() -> None:
    with pytest.raises(Invalid, match="line 4: action: not JSON"):
        await played(steps("action: x {"))
