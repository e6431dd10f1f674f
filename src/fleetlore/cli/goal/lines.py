"""Formats goals as lines: state, budgets, criteria and questions, for terminals and pipes."""

from __future__ import annotations

import os
import shlex
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from fleetlore.cli.terminal import display_width, format_age, pad_columns, sanitise_text, truncate_columns
from fleetlore.events.budget_axes import BudgetUse, describe_axis, find_axis, get_amount
from fleetlore.views.goal_state import (
    GoalState,
    GoalStatus,
    elapsed_seconds,
    goal_status,
    is_goal_stopped,
    list_budgets,
    used_tokens,
    used_usd,
)
from fleetlore.views.goal_state import first_paragraph as summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fleetlore.goal.workspace.workspace import Handover, SourceChanges

Line: TypeAlias = "list[tuple[str, str]]"
"""Parts of a line, each with its `rich` style."""

DIM, BOLD, GOOD, BAD, WARN = "bright_black", "bold", "green", "red", "yellow"
COMMAND = "default"
"""Style of commands to copy: such lines are never truncated."""
GoalStateLabel: TypeAlias = "GoalStatus | Literal['stopped']"
"""State of a goal; `stopped` means that it could continue, but is not running."""
LOOKS: dict[GoalStateLabel, tuple[str, str]] = {
    "stopped": ("○", WARN),
    "working": ("●", GOOD),
    "checking": ("◐", GOOD),
    "waiting": ("○", "cyan"),
    "asking": ("▲", "bold yellow"),
    "paused": ("‖", "cyan"),
    "done": ("✓", GOOD),
    "spent": ("■", BAD),
    "needs you": ("▲", "bold yellow"),
    "cancelled": ("■", DIM),
}
"""State → symbol and colour."""
OUTCOMES = {
    "done": "done",
    "needs_retry": "checks failed",
    "continue": "interrupted",
    "sleep": "sleeping",
    "budget_exhausted": "budget spent",
    "cancelled": "cancelled",
    "escalate": "needs you",
    "summary": "made a summary",
}
"""Outcome of a turn → text."""
BAR, NARROW_BAR = 20, 6
LONGEST_SAID = 160
_NAME = 8
_MILLISECOND = 13
_INFORMATIVE_FIELDS = ("command", "file_path", "path", "url", "query", "pattern")


class Used(NamedTuple):
    """Usage of one budget."""

    name: str
    share: float
    words: str


def list_budget_use(goal: GoalState, now: datetime) -> list[Used]:
    """Usage of each budget of a goal; budgets for failures in a row only if there are any."""
    return [
        Used(use.label, _used_share(use.used, use.limit), f"{_format_amount(use, use.used)} of {_format_amount(use, use.limit)}{suffix}")
        for use in list_budgets(goal, now)
        if use.limit is not None and (use.used or not use.is_in_a_row)
        for suffix in (" in a row" if use.is_in_a_row else "",)
    ]


def _format_amount(use: BudgetUse, amount: float) -> str:
    if use.unit == "seconds":
        return format_seconds(amount)
    return f"${amount:,.2f}" if use.unit == "usd" else f"{amount:,.0f}"


def _used_share(used: float, most: float) -> float:
    return 1.0 if most <= 0 else min(1.0, used / most)


def format_seconds(seconds: float) -> str:
    """A duration: `45 s`, `12 min`, `1 h 30 min`."""
    minutes = int(seconds) // 60
    if minutes < 60:
        return format_age(timedelta(seconds=seconds))
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def format_budget_bar(used: Used, width: int = BAR) -> Line:
    """`turns    ███░░░░░░░  3 of 40`."""
    full = min(width, round(used.share * width) or (1 if used.share > 0 else 0))
    colour = BAD if used.share >= 0.9 else WARN if used.share >= 0.7 else GOOD
    return [(pad_columns(used.name, _NAME + 1), DIM), ("█" * full, colour), ("░" * (width - full), DIM), (f"  {used.words}", "")]


def format_budget_bars(goal: GoalState, now: datetime, *, columns: int) -> Iterator[Line]:
    """All budgets, two per line if they fit."""
    width = NARROW_BAR if 0 < columns < 60 else BAR
    found = [format_budget_bar(used, width=width) for used in list_budget_use(goal, now)]
    wide = columns >= 96
    widest = max((sum(display_width(text) for text, _ in left) for left in found[::2]), default=0)
    for index in range(0, len(found), 2 if wide else 1):
        left = found[index]
        if wide and index + 1 < len(found):
            size = sum(display_width(text) for text, _ in left)
            yield [*left, (" " * (max(widest + 2, columns // 2) - size), ""), *found[index + 1]]
        else:
            yield left


def format_criteria(goal: GoalState, *, evidence: int = 0) -> Iterator[Line]:
    """Each criterion with ✓, ✗ or · (not checked yet), and the last output lines of failed ones."""
    for criterion in goal.criteria:
        symbol, style = {True: ("✓", GOOD), False: ("✗", BAD), None: ("·", DIM)}[criterion.met]
        line = [(f"{symbol} ", style), (sanitise_text(criterion.label), "")]
        if criterion.message:
            line.append((f"  {sanitise_text(criterion.message)}", style))
        yield line
        for shown in criterion.evidence.strip().splitlines()[-evidence:] if evidence else ():
            yield [("    | ", DIM), (sanitise_text(shown), DIM)]


def format_question(id: str, tool: str, input: Any) -> Iterator[Line]:
    """An open approval request, and the command that answers it, with the timestamp part of its id."""
    yield [
        ("▲ ", "bold yellow"),
        (f"may it use {sanitise_text(tool)}?", "bold yellow"),
        (f"  {shorten_to_line(_main_argument(input))}", ""),
    ]
    yield [
        ("  answer   ", DIM),
        (f"lore decide {sanitise_text(id[:_MILLISECOND])} allow", COMMAND),
        ("   (or deny; `lore decide` shows details)", DIM),
    ]


def _main_argument(input: Any) -> str:
    """The most informative part of a tool's input."""
    fields = input if isinstance(input, dict) else {}
    found = next((fields[name] for name in _INFORMATIVE_FIELDS if isinstance(fields.get(name), str)), None)
    return found if found is not None else msgspec.json.encode(input).decode()


def describe_driver(holder: str) -> str:
    """`process 4711 on larch`; other holder names are not changed."""
    place, _, name = holder.rpartition(":")
    pid, machine = name.partition("/")[0], place.rpartition(":")[0]
    return sanitise_text(f"process {pid} on {machine}" if pid.isdecimal() and machine else holder)


def describe_state(goal: GoalState, now: datetime, *, is_driven: bool = True) -> GoalStateLabel:
    """The display state: `stopped` if an open goal has no driver."""
    return "stopped" if is_goal_stopped(goal, now, is_driven=is_driven) else goal_status(goal, now)


def format_state(goal: GoalState, now: datetime, state: GoalStateLabel) -> str:
    """The state with its reason, as text."""
    reason = goal.why if goal.outcome is not None else goal.waiting_for if state in ("waiting", "asking") else ""
    if state == "spent":
        reason = describe_axis(reason)
    until = f" until {goal.wake.astimezone():%H:%M}" if state == "waiting" and goal.wake is not None else ""
    words = "" if state in ("done", "cancelled") else sanitise_text(reason)
    return f"{state}{until}" + (f": {words}" if words else "")


def suggest_resume(goal: GoalState, *, on: str = "") -> Iterator[Line]:
    """Commands to continue a goal that ended, except if it is done; `on` is the `--log` option, if needed."""
    short = f"{goal.id[:8]}{on}"
    if goal.outcome == "budget_exhausted":
        yield [("resume:   ", DIM), (format_resume_command(goal, short), COMMAND)]
    elif goal.outcome in ("escalate", "cancelled"):
        yield [("see why:  ", DIM), (f"lore goal show {short}", COMMAND)]
        yield [
            ("resume:   ", DIM),
            (f"lore goal resume {short}", COMMAND),
            ("   (send it a message first: ", DIM),
            ("lore goal say", ""),
            (")", DIM),
        ]


def format_resume_command(goal: GoalState, short: str) -> str:
    """The command that resumes a goal, after one that raises the budget that it spent."""
    option = _format_raise_option(goal) if goal.outcome == "budget_exhausted" else ""
    return (f"lore goal raise {short} {option} && " if option else "") + f"lore goal resume {short}"


def _format_raise_option(goal: GoalState) -> str:
    """The option that doubles the spent budget; empty for counters that reset themselves."""
    row = find_axis(goal.why)
    if row is None or row.is_in_a_row:
        return ""
    doubled = (get_amount(goal.limits, row) or 1) * 2
    amount = {"seconds": f"{doubled:.0f}s", "usd": f"{doubled:g}"}.get(row.unit, f"{doubled:.0f}")
    return f"{row.option} {amount}"


def format_headline(goal: GoalState, now: datetime, *, is_driven: bool = True) -> Line:
    """`● fix-tests  turn 3, working  Make the tests pass`; the part that may be truncated is last."""
    state = describe_state(goal, now, is_driven=is_driven)
    symbol, style = LOOKS[state]
    turn = f"turn {goal.turn}, " if goal.turn and goal.outcome is None else ""
    title = shorten_to_line(summary(goal.description))
    return [
        (f"{symbol} ", style),
        (sanitise_text(goal.agent or "?"), BOLD),
        (f"  {turn}{format_state(goal, now, state)}", style),
        (f"  {title}", ""),
    ]


def format_spending(goal: GoalState, now: datetime) -> str:
    """`3 turns, 120,000 tokens, $0.42, 12 min`."""
    turns = goal.spent.turns
    usd = used_usd(goal)
    parts = [f"{turns:,} turn{'' if turns == 1 else 's'}"]
    parts += [f"{used_tokens(goal):,} tokens"] if used_tokens(goal) else []
    parts += [f"${usd:,.2f}"] if usd else []
    return ", ".join([*parts, format_seconds(elapsed_seconds(goal, now))])


def shorten_to_line(text: str, most: int = LONGEST_SAID) -> str:
    """Untrusted text, sanitised and truncated to one line."""
    return truncate_columns(" ".join(sanitise_text(" ".join(text.split())).split()), most)


def fit_line(line: Line, columns: int) -> Line:
    """The line truncated to this many columns."""
    fitting: Line = []
    for text, style in line:
        room = columns - sum(display_width(part) for part, _ in fitting)
        if room <= 0:
            break
        fitting.append((truncate_columns(text, room), style))
    return fitting


def must_not_truncate(line: Line) -> bool:
    """Whether a line must not be truncated."""
    return any(style == COMMAND for _, style in line)


def strip_styles(lines: Sequence[Line]) -> list[str]:
    """The lines without colours."""
    return ["".join(text for text, _ in line).rstrip() for line in lines]


# --- the workspace: what it lacks at the start, and how to merge the work at the end


def format_worktree_notes(beside: SourceChanges | None) -> Iterator[Line]:
    """Lines about files that the agent's worktree lacks."""
    if beside is not None and beside.uncommitted:
        many = _count_noun(beside.uncommitted, "uncommitted change")
        yield _format_note(
            f"{many} in {beside.top} {_is_or_are(beside.uncommitted)} not in its worktree, which is at the commit {beside.base[:7]}"
        )
    if beside is not None and beside.has_submodules:
        yield _format_note("submodules are empty in its worktree; fill them with `git submodule update --init`")


def _format_note(text: str) -> Line:
    return [("  note  ", WARN), (sanitise_text(text), DIM)]


def format_handover(work: Handover, *, is_over: bool = True, on: str = "") -> Iterator[Line]:
    """Where the work is; for a worktree, once the goal has ended, also commands to review and merge it. `on` is ` --log URL`, if needed."""
    yield [("the work: ", DIM), (sanitise_text(_describe_place(work)), "")]
    if not is_over or not work.branch or not (work.commits or work.uncommitted):
        return
    if work.problem:
        yield _format_note(work.problem)
    branch = shlex.quote(sanitise_text(work.branch))
    if work.uncommitted and work.path:
        yield _format_command("commit it", f"lore goal commit {work.goal[:8]}{on}")
    if work.top is not None:
        here = _git_command(work.top)
        yield _format_command("review it", f"{here} diff HEAD...{branch}")
        yield _format_command("merge it", f"{here} merge {branch}")


def _describe_place(work: Handover) -> str:
    if not work.branch:
        return work.path or "not on this machine"
    branch = f"{_count_noun(work.commits, 'commit')} on the branch {work.branch}" if work.commits else f"the branch is {work.branch}"
    if work.uncommitted:
        return f"{_count_noun(work.uncommitted, 'file')} not committed, in {work.path}; {branch}"
    if not work.commits:
        return f"no new commits on the branch {work.branch}"
    return f"{branch}, in {work.path}" if work.path else branch


def _git_command(folder: str) -> str:
    here, there = os.path.realpath(os.getcwd()), os.path.realpath(folder)
    return "git" if here == there or here.startswith(f"{there}/") else f"git -C {shlex.quote(sanitise_text(folder))}"


def _format_command(what: str, command: str) -> Line:
    return [(f"  {what:<9}  ", DIM), (command, COMMAND)]


def _count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"
