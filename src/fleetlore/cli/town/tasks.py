"""`lore town backlog` and `task`: lists of tasks, and one task in detail."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.views.town_state import ENDED_TASK_STATES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.operations.town_lists import TownTasks
    from fleetlore.views.town_state import Task

TEXT_LINES = 30


# --- lists


def print_backlog(response: TownTasks, args: Namespace) -> None:
    """List pending tasks in the order of assignment."""
    town_lines.print_lines(task_lines(response.tasks, clock.now()))
    if not response.tasks:
        terminal.print_error("the backlog is empty; add a task with `lore town backlog add TEXT`")


def print_tasks(response: TownTasks, args: Namespace) -> None:
    """List tasks: running ones first, ended ones last."""
    town_lines.print_lines(task_lines(response.tasks, clock.now()))
    if not response.counts:
        terminal.print_error("there are no tasks yet; add one with `lore town backlog add TEXT`")
    if response.hidden:
        terminal.print_error(f"{response.hidden:,} more ended more than a day ago; --all shows {'it' if response.hidden == 1 else 'them'}")
    if response.let_go:
        terminal.print_error(f"{response.let_go:,} older tasks are only in the log: `lore events --scope task:ID`")


def task_lines(tasks: list[Task], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A table row for each task."""
    return town_lines.align_rows([_task_row(task, now) for task in tasks], indent=indent, optional=(5, 4))


def _task_row(task: Task, now: datetime) -> list[Cell]:
    when = task.ended_at or task.started_at or task.at
    return [
        (sanitise_text(task.id), BOLD),
        town_lines.state_cell(town_lines.TASK_STYLES, task.state),
        (task.priority if task.priority != "normal" else "", {"urgent": CALL, "high": WARN}.get(task.priority, DIM)),
        (_assignee_text(task), "" if task.agent and task.state != "pending" else DIM),
        (f"try {task.attempt} of {task.tries}" if task.attempt > 1 and task.state not in ENDED_TASK_STATES else "", WARN),
        (town_lines.format_age(when, now), DIM),
        (_title_text(task), ""),
    ]


def _assignee_text(task: Task) -> str:
    if task.agent and task.state != "pending":
        return sanitise_text(task.agent)
    if task.wanted:
        return f"for {sanitise_text(task.wanted)}"
    return f"for {town_lines.join_names(task.roles)}" if task.roles else ""


def _title_text(task: Task) -> str:
    title = town_lines.shorten_to_line(task.title)
    if task.missing:
        return f"{title}  (waits for {town_lines.join_names(task.missing[:3])}{' …' if len(task.missing) > 3 else ''})"
    if task.state == "failed" and task.error:
        return f"{title}  ({town_lines.shorten_to_line(task.error, 80)})"
    return title


# --- one


def print_task(task: Task, args: Namespace) -> None:
    """Print the details of a task."""
    town_lines.print_lines(_detail_lines(task, clock.now()))


def _detail_lines(task: Task, now: datetime) -> Iterator[Line]:
    symbol, style = town_lines.state_cell(town_lines.TASK_STYLES, task.state)
    yield [(symbol, style), (f"  {sanitise_text(task.id)}", BOLD), (f"  {town_lines.shorten_to_line(task.title)}", "")]
    yield from town_lines.field_lines(_detail_fields(task, now))
    yield from town_lines.section_lines("description", town_lines.text_lines(task.description, TEXT_LINES))
    yield from town_lines.section_lines("result", town_lines.text_lines(task.result, TEXT_LINES))
    title = "gave up because" if task.is_dead_letter else "earlier error" if task.state == "completed" else "reason"
    yield from town_lines.section_lines(title, town_lines.text_lines(task.error, TEXT_LINES))
    yield []
    yield town_lines.hint_line("next: ", _next_step(task))


def _detail_fields(task: Task, now: datetime) -> Iterator[tuple[str, str]]:
    yield "agent", sanitise_text(task.agent or "")
    yield "for", sanitise_text(task.wanted or "") or town_lines.join_names(task.roles)
    yield "not by", town_lines.join_names(task.not_by)
    yield "mission", sanitise_text(" · ".join(filter(None, (task.mission, task.item, task.purpose if task.purpose != "work" else ""))))
    yield "about", sanitise_text(task.of or "")
    yield "priority", task.priority if task.priority != "normal" else ""
    yield "tags", town_lines.join_names(task.tags)
    yield "checks", town_lines.join_names(task.checks)
    yield "waits for", town_lines.join_names(task.missing)
    yield "tries", f"{task.attempt} of {task.tries}, assigned {town_lines.count_times(task.epoch)}" if task.epoch else ""
    yield "created", f"{town_lines.format_age(task.at, now)} by {sanitise_text(task.by)}" if task.at else ""
    yield "started", town_lines.format_age(task.started_at, now) if task.started_at else ""
    yield "ended", town_lines.format_age(task.ended_at, now) if task.ended_at else ""
    yield (
        "refused",
        f"{town_lines.count_noun(task.refused, 'event')} about it ignored: not valid at that point" if task.refused else "",
    )


def _next_step(task: Task) -> str:
    id = sanitise_text(task.id)
    if task.state in ("failed", "cancelled"):
        return f"lore town task retry {id}"
    if task.state == "completed":
        return f"lore town history --task {id}"
    return f"lore town task cancel {id} · lore town task redirect {id} --to AGENT"
