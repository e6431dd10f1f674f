"""`lore goal list` and `lore goal show`: a table of goals, and one goal in detail."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.goal import find, workspace_notes
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.goal.lines import BOLD, COMMAND, DIM, LOOKS, Line
from fleetlore.cli.status_table import format_ago
from fleetlore.cli.terminal import sanitise_text
from fleetlore.errors import Invalid
from fleetlore.views.goal_state import GoalState, SettledTurn, elapsed_seconds, first_paragraph, goal_status, used_tokens, used_usd

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from fleetlore.goal.workspace.handover import Handover

TURNS_SHOWN = 12
DECISIONS_SHOWN = 8
EVIDENCE_LINES = 6
DESCRIPTION_LINES = 20
LATELY = timedelta(days=2)
_ENDED = ("done", "spent", "cancelled")
_START = datetime(1970, 1, 1, tzinfo=UTC)


# --- list


def list_goals(args: Namespace) -> int:
    """List goals, newest first; long ended ones only with `--all`."""
    with find.open_goals(args) as place:
        goals = sorted(find.all_goals(place), key=lambda goal: goal.at or _START, reverse=True)
        now = clock.now()
        shown = [goal for goal in goals if args.all or _is_current(goal, now)]
        drivers = {goal.id: place.driver_of(goal.id) for goal in shown if goal.outcome is None}
    if args.json:
        terminal.print_value({"goals": [_goal_summary(goal, now, drivers.get(goal.id)) for goal in shown]})
        return 0
    show_lines([*_format_table(shown, now, find.short_ids([goal.id for goal in goals]), drivers)])
    hidden = len(goals) - len(shown)
    if not goals:
        terminal.print_error("there are no goals on this log yet; start one with `lore goal run FILE`")
    elif hidden:
        terminal.print_error(f"{hidden} more ended more than two days ago; --all shows {'it' if hidden == 1 else 'them'}")
    return 0


def _is_current(goal: GoalState, now: datetime) -> bool:
    return goal_status(goal, now) not in _ENDED or now - (goal.ended_at or now) < LATELY


def _goal_summary(goal: GoalState, now: datetime, driver: str | None) -> dict[str, Any]:
    return {
        "id": goal.id,
        "agent": goal.agent,
        "description": goal.description,
        "state": goal_status(goal, now),
        "why": goal.why or goal.waiting_for,
        "turn": goal.turn,
        "at": goal.at,
        "ended_at": goal.ended_at,
        "driver": driver,
        "parent": goal.parent,
        "spent": {"turns": goal.spent.turns, "seconds": elapsed_seconds(goal, now), "tokens": used_tokens(goal), "usd": used_usd(goal)},
        "limits": goal.limits,
        "criteria": {"met": sum(each.met is True for each in goal.criteria), "all": len(goal.criteria)},
        "questions": len(goal.questions),
    }


def _format_table(goals: Sequence[GoalState], now: datetime, short: dict[str, str], drivers: dict[str, str | None]) -> Iterator[Line]:
    rows = [_format_row(goal, now, short[goal.id], is_driven=drivers.get(goal.id) is not None) for goal in goals]
    widths = [max((len(row[column][0]) for row in rows), default=0) for column in range(5)]
    for row in rows:
        yield [(f"{text:<{width}}  ", style) for (text, style), width in zip(row, widths, strict=False)] + [row[-1]]


def _format_row(goal: GoalState, now: datetime, short: str, *, is_driven: bool) -> list[tuple[str, str]]:
    state = goal_lines.describe_state(goal, now, is_driven=is_driven)
    symbol, style = LOOKS[state]
    met = sum(criterion.met is True for criterion in goal.criteria)
    checked = f"{met}/{len(goal.criteria)} met" if goal.criteria else "–"
    return [
        (short, DIM),
        (f"{symbol} {state}", style),
        (sanitise_text(goal.agent or "?"), BOLD),
        (f"turn {goal.turn}", ""),
        (checked, ""),
        (goal_lines.in_a_line(first_paragraph(goal.description)), ""),
    ]


# --- show


def show_goal(args: Namespace) -> int:
    """Print one goal in detail; without an id the newest."""
    with find.open_goals(args) as place:
        known = find.list_goal_ids(place.log)
        if not known:
            raise Invalid("there are no goals on this log yet; start one with `lore goal run FILE`")
        goal = find.fold_goal(place, find.find_goal_id(place.log, args.id) if args.id else known[-1])
        driver, is_sealed = place.driver_of(goal.id), place.is_sealed
        short = find.short_ids(known)[goal.id]
    work, now = _find_handover(goal), clock.now()
    if args.json:
        terminal.print_value(
            {**msgspec.to_builtins(goal), "state": goal_status(goal, now), "seconds": elapsed_seconds(goal, now), "driver": driver}
        )
        return 0
    show_lines([*format_goal(goal, now, driver=driver, short=short, is_sealed=is_sealed, work=work)])
    return 0


def _find_handover(goal: GoalState) -> Handover | None:
    from fleetlore.goal.workspace.handover import find_handover
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
        yield from workspace_notes.format_handover(work, is_over=driver is None)
    if goal.unsigned:
        yield []
        yield [(f"{goal.unsigned} unsigned control requests were ignored: this log is sealed", "yellow")]
    if is_sealed:
        yield [("signatures were not verified: that needs the passphrase", DIM)]
    yield []
    yield [(_suggest_next(goal, now, driver, short), COMMAND)]


def _describe_goal(goal: GoalState, now: datetime, driver: str | None) -> tuple[str, str]:
    """Two header lines: id, harness and folder; start, driver and parent."""
    plan = goal.plan
    place = goal.goal.workspace if goal.goal is not None else None
    whom = [f"started {format_ago(now - goal.at)}"] if goal.at else []
    whom += [f"run by {goal_lines.driver_words(driver)}"] if driver else []
    whom += [f"part of {goal.parent}"] if goal.parent else []
    return " · ".join(filter(None, (goal.id, plan.harness if plan else "run by another program", sanitise_text(place or "")))), " · ".join(
        whom
    )


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
    words = goal_lines.in_a_line(turn.words)
    return [(f"{turn.number:>3}  ", BOLD), (what, style), (f"  {cost}", DIM), (f"  {words}", "")]


def _format_decisions(goal: GoalState) -> Iterator[Line]:
    for each in goal.decisions[-DECISIONS_SHOWN:]:
        style = {"allow": "green", "deny": "red"}.get(each.choice, "")
        word = {"allow": "allowed", "deny": "denied", "observe": "noted"}.get(each.choice, each.choice)
        yield [(f"turn {each.turn}  ", DIM), (f"{word:<8} ", style), (sanitise_text(each.tool), ""), (f"  {sanitise_text(each.why)}", DIM)]


def _format_questions(goal: GoalState) -> Iterator[Line]:
    for question in goal.questions.values():
        yield from goal_lines.format_question(question.id, question.tool, question.input)


def _suggest_next(goal: GoalState, now: datetime, driver: str | None, short: str) -> str:
    """The next command to try."""
    state = goal_status(goal, now)
    if goal.plan is None or state == "done":
        return f"lore events --scope goal:{goal.id}  shows every step"
    if state == "spent":
        option = goal_lines.format_raise_option(goal)
        return "resume it: " + (f"lore goal raise {short} {option} && " if option else "") + f"lore goal resume {short}"
    if goal.outcome is not None or driver is None:
        return f"resume it: lore goal resume {short}"
    return f"lore goal pause {short} · lore goal say {short} TEXT · lore goal cancel {short}"


# --- output


def show_lines(lines: Sequence[Line]) -> None:
    """Print lines: coloured and truncated on a terminal, untruncated in a pipe."""
    if not terminal.is_terminal(sys.stdout):
        for text in goal_lines.without_colours(lines):
            terminal.print_line(text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=sys.stdout, highlight=False, no_color=not terminal.has_colour(sys.stdout), width=terminal.terminal_width(sys.stdout)
    )
    for line in lines:
        is_whole = goal_lines.is_whole(line)
        shown = line if is_whole else goal_lines.fit_line(line, console.width)
        console.print(Text.assemble(*shown), no_wrap=True, overflow=None if is_whole else "crop", soft_wrap=is_whole)
