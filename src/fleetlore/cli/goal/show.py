"""`lore goal list` and `lore goal show`: a table of goals, and one goal in detail."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.goal.lines import BOLD, COMMAND, DIM, LOOKS, Line
from fleetlore.cli.terminal import display_width, format_ago, pad_columns, sanitise_text
from fleetlore.operations.goal_lists import NO_GOALS
from fleetlore.views.goal_state import GoalState, SettledTurn, first_paragraph, goal_status

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from fleetlore.goal.workspace.workspace import Handover
    from fleetlore.operations.goal_lists import GoalSummaries, GoalSummary, ShownGoal

TURNS_SHOWN = 12
DECISIONS_SHOWN = 8
EVIDENCE_LINES = 6
DESCRIPTION_LINES = 20


# --- list


def print_goals(response: GoalSummaries, args: Namespace) -> None:
    """List goals, newest first."""
    show_lines([*_format_table(response)])
    if not response.goals and not response.hidden:
        terminal.print_error(NO_GOALS)
    elif response.hidden:
        terminal.print_error(f"{response.hidden} more ended more than two days ago; --all shows {'it' if response.hidden == 1 else 'them'}")


def _format_table(response: GoalSummaries) -> Iterator[Line]:
    rows = [_format_row(goal, response.ids[goal.id]) for goal in response.goals]
    widths = [max(display_width(text) for text, _ in column) for column in zip(*rows, strict=True)]
    for *cells, title in rows:
        yield [*((pad_columns(text, width + 2), style) for (text, style), width in zip(cells, widths, strict=False)), title]


def _format_row(goal: GoalSummary, short: str) -> list[tuple[str, str]]:
    state = "stopped" if goal.is_stopped else goal.state
    symbol, style = LOOKS[state]
    checked = f"{goal.criteria.met}/{goal.criteria.all} met" if goal.criteria.all else "–"
    return [
        (short, DIM),
        (f"{symbol} {state}", style),
        (sanitise_text(goal.agent or "?"), BOLD),
        (f"turn {goal.turn}", ""),
        (checked, ""),
        (goal_lines.shorten_to_line(first_paragraph(goal.description)), ""),
    ]


# --- show


def print_goal(response: ShownGoal, args: Namespace) -> None:
    """Print one goal in detail, with where its work is on this machine."""
    goal = response.goal
    shown = format_goal(
        goal, clock.now(), driver=response.driver, short=response.short, is_sealed=response.is_sealed, work=_find_handover(goal)
    )
    show_lines([*shown])


def goal_fields(response: ShownGoal) -> dict[str, Any]:
    """A goal as JSON."""
    more = {"state": response.state, "seconds": response.seconds, "driver": response.driver}
    return {**msgspec.to_builtins(response.goal), **more}


def _find_handover(goal: GoalState) -> Handover | None:
    from fleetlore.goal.workspace.workspace import find_handover
    from fleetlore.operations.goal_runs import goal_data_folder

    source = goal.goal.workspace if goal.goal is not None else None
    return None if goal.plan is None else find_handover(goal_data_folder(), goal.id, source or "")


def format_goal(
    goal: GoalState, now: datetime, *, driver: str | None, short: str, is_sealed: bool = False, work: Handover | None = None
) -> Iterator[Line]:
    """The lines of the goal, by section."""
    yield goal_lines.format_headline(goal, now, is_driven=driver is not None)
    yield from ([(line, DIM)] for line in _describe_goal(goal, now, driver) if line)
    yield from _format_part("goal", ([(sanitise_text(line), "")] for line in goal.description.strip().splitlines()[:DESCRIPTION_LINES]))
    yield []
    yield from (_indent_line(line) for line in goal_lines.format_budget_bars(goal, now, columns=0))
    yield from _format_part("criteria", goal_lines.format_criteria(goal, evidence=EVIDENCE_LINES))
    yield from _format_part("turns", _format_turns(goal))
    yield from _format_part(f"decisions ({goal.allowed} allowed, {goal.denied} denied)", _format_decisions(goal))
    yield from _format_part("waits for you", _format_questions(goal))
    yield from _format_part(
        "messages for its next turn", ([(f"{sanitise_text(each.by)}: {sanitise_text(each.text)}", "")] for each in goal.messages)
    )
    yield from _format_part("last message", ([(sanitise_text(line), "")] for line in goal.words.strip().splitlines()[:8]))
    if work is not None:
        yield []
        yield from goal_lines.format_handover(work, is_over=driver is None)
    if goal.unsigned:
        yield []
        yield [(f"{goal.unsigned} unsigned control requests were ignored: this log is sealed", "yellow")]
    if is_sealed:
        yield [("signatures were not verified: that needs the passphrase", DIM)]
    yield []
    yield from _suggest_next(goal, now, driver, short)


def _describe_goal(goal: GoalState, now: datetime, driver: str | None) -> tuple[str, str]:
    """Two header lines: id, harness and folder; start, driver and parent."""
    workspace = sanitise_text(goal.goal.workspace or "") if goal.goal is not None else ""
    identity = (goal.id, goal.plan.harness if goal.plan else "run by another program", workspace)
    facts = (
        f"started {format_ago(now - goal.at)}" if goal.at else "",
        f"run by {goal_lines.describe_driver(driver)}" if driver else "",
        f"part of {goal.parent}" if goal.parent else "",
    )
    return " · ".join(filter(None, identity)), " · ".join(filter(None, facts))


def _format_part(title: str, lines: Iterator[Line]) -> Iterator[Line]:
    found = [_indent_line(line) for line in lines]
    if found:
        yield []
        yield [(title, BOLD)]
        yield from found


def _indent_line(line: Line) -> Line:
    return [("  ", ""), *line]


def _format_turns(goal: GoalState) -> Iterator[Line]:
    hidden = len(goal.turns) - TURNS_SHOWN
    if hidden > 0:
        yield [(f"… {hidden} earlier", DIM)]
    for turn in goal.turns[-TURNS_SHOWN:]:
        yield _format_turn(turn)
    if goal.attempt is not None:
        tool = sanitise_text(goal.attempt.last_tool)
        yield [(f"{goal.attempt.turn:>3}  ", BOLD), ("running" + (f": {tool}" if tool else ""), "green")]


def _format_turn(turn: SettledTurn) -> Line:
    took = "" if turn.at is None or turn.ended_at is None else goal_lines.format_seconds((turn.ended_at - turn.at).total_seconds())
    style = {"done": "green", "escalate": "bold yellow", "budget_exhausted": "red"}.get(turn.outcome, "")
    what = goal_lines.OUTCOMES.get(turn.outcome, sanitise_text(turn.outcome)) + ("" if turn.counts else ", not counted")
    if turn.failing:
        what += f", {turn.failing} not met"
    if turn.complaint:
        what += f" ({sanitise_text(turn.complaint).replace('_', ' ')})"
    costs = [took, f"{turn.tokens:,} tokens" if turn.tokens else "", f"${turn.usd:,.2f}" if turn.usd else ""]
    cost = ", ".join(part for part in costs if part)
    words = goal_lines.shorten_to_line(turn.words)
    return [(f"{turn.number:>3}  ", BOLD), (what, style), (f"  {cost}", DIM), (f"  {words}", "")]


def _format_decisions(goal: GoalState) -> Iterator[Line]:
    for each in goal.decisions[-DECISIONS_SHOWN:]:
        style = {"allow": "green", "deny": "red"}.get(each.choice, "")
        word = {"allow": "allowed", "deny": "denied", "observe": "noted"}.get(each.choice, each.choice)
        yield [(f"turn {each.turn}  ", DIM), (f"{word:<8} ", style), (sanitise_text(each.tool), ""), (f"  {sanitise_text(each.why)}", DIM)]


def _format_questions(goal: GoalState) -> Iterator[Line]:
    for question in goal.questions.values():
        yield from goal_lines.format_question(question.id, question.tool, question.input)


def _suggest_next(goal: GoalState, now: datetime, driver: str | None, short: str) -> Iterator[Line]:
    """The next commands to try."""
    if goal.plan is None or goal_status(goal, now) == "done":
        yield [("every step: ", DIM), (f"lore events --scope goal:{goal.id}", COMMAND)]
    elif goal.outcome is not None or driver is None:
        yield [("resume it: ", DIM), (goal_lines.format_resume_command(goal, short), COMMAND)]
    else:
        yield [(f"lore goal pause {short} · lore goal say {short} TEXT · lore goal cancel {short}", COMMAND)]


# --- output


def show_lines(lines: Sequence[Line]) -> None:
    """Print lines: coloured and truncated on a terminal, untruncated in a pipe."""
    if not terminal.is_terminal(sys.stdout):
        for text in goal_lines.strip_styles(lines):
            terminal.print_line(text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=sys.stdout, highlight=False, no_color=not terminal.has_colour(sys.stdout), width=terminal.terminal_width(sys.stdout)
    )
    for line in lines:
        is_whole = goal_lines.must_not_truncate(line)
        shown = line if is_whole else goal_lines.fit_line(line, console.width)
        console.print(Text.assemble(*shown), no_wrap=True, overflow=None if is_whole else "crop", soft_wrap=is_whole)
