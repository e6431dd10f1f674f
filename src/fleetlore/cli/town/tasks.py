"""`lore town assign`, `backlog` and `task`: add, assign, show, cancel and retry tasks."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.terminal import sanitise
from fleetlore.cli.town import commands
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.errors import Invalid
from fleetlore.town import commands as town_commands
from fleetlore.town import mission_commands
from fleetlore.town.events import MAX_LINE_LENGTH
from fleetlore.views.town_state import ENDED_TASK_STATES, PRIORITIES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.town.commands import TownCommand
    from fleetlore.views.town_state import Task, TownState

LATELY = timedelta(days=1)
TEXT_LINES = 30
STEER = "to control tasks"


# --- new tasks


def assign_task(args: Namespace) -> int:
    """Assign a new or an existing task to an agent."""
    if bool(args.text) == (args.task is not None):
        raise Invalid("give either a text for a new task, or an existing one with --task ID")
    if args.task is None:
        return _add_task(args, agent=args.agent)
    return _run_command(args, lambda town, by: town_commands.assign_task(town, args.task, args.agent, by=by))


def add_task(args: Namespace) -> int:
    """Add a task to the backlog."""
    return _add_task(args, roles=args.roles)


def _add_task(args: Namespace, **whom: Any) -> int:
    text = " ".join(args.text).strip()
    title = _truncate_bytes(text.partition("\n")[0].strip(), MAX_LINE_LENGTH)
    with commands.open_town(args, new=True) as console:
        stored = console.store_commands(
            lambda town: [
                town_commands.add_task(
                    town,
                    title,
                    by=console.by,
                    description=text if text != title else "",
                    priority=args.priority,
                    tags=args.tags,
                    checks=args.checks,
                    depends_on=[_require_task(town, id) for id in args.after],
                    tries=args.tries,
                    parent_task=_current_task(town),
                    **whom,
                )
            ]
        )
    return commands.print_results(args, stored)


def _truncate_bytes(text: str, max_bytes: int) -> str:
    """The text in at most `max_bytes` of UTF-8."""
    return text.encode(errors="replace")[:max_bytes].decode(errors="ignore").rstrip()


def _current_task(town: TownState) -> str | None:
    """The current task of the agent that this runs in."""
    id = os.environ.get(commands.TASK)
    return id if id in town.tasks else None


def _require_task(town: TownState, id: str) -> str:
    """The id of a dependency; `Invalid` if it is unknown, because the task would wait forever."""
    return id if id in town.completed else town_commands.find_task(town, id).id


# --- existing tasks


def claim_task(args: Namespace) -> int:
    """Assign a task of the backlog."""
    return _run_command(args, lambda town, by: town_commands.assign_task(town, _require_pending(town, args.id), args.agent or by, by=by))


def _require_pending(town: TownState, id: str) -> str:
    task = town_commands.find_task(town, id)
    if task.state != "pending":
        raise Invalid(
            f"{task.id} is {task.state}, not in the backlog; take it from {task.agent} with `lore town task redirect {task.id} --to AGENT`"
        )
    return task.id


def redirect_task(args: Namespace) -> int:
    """Move a task to another agent."""
    return _run_command(args, lambda town, by: town_commands.assign_task(town, args.id, args.to, by=by))


def cancel_task(args: Namespace) -> int:
    """Cancel a task."""
    return _run_command(args, lambda town, by: town_commands.cancel_task(town, args.id, by=by, reason=args.reason))


def retry_task(args: Namespace) -> int:
    """Try a failed or cancelled task again."""
    return _run_command(args, lambda town, by: town_commands.retry_task(town, args.id, by=by, reason=args.reason))


def complete_task(args: Namespace) -> int:
    """Complete a task by hand."""
    return _run_command(args, lambda town, by: town_commands.complete_task(town, args.id, by=by, result=args.result))


def _run_command(args: Namespace, make_command: Any) -> int:
    def make_commands(town: TownState) -> list[TownCommand]:
        return [make_command(town, console.by)]

    with commands.open_town(args) as console:
        stored = console.store_commands(make_commands, why=STEER)
    return commands.print_results(args, stored)


# --- lists


def list_backlog(args: Namespace) -> int:
    """List pending tasks in the order of assignment."""
    with commands.open_town(args) as console:
        town, now = console.town(), clock.now()
    waiting = sorted((task for task in town.tasks.values() if task.state == "pending"), key=_schedule_key)
    if args.json:
        terminal.out_value({"town": console.name, "tasks": waiting})
        return 0
    town_lines.print_lines(task_lines(waiting, now))
    if not waiting:
        terminal.err("the backlog is empty; add a task with `lore town backlog add TEXT`")
    return 0


def list_tasks(args: Namespace) -> int:
    """List tasks: running ones first, ended ones last."""
    with commands.open_town(args) as console:
        town, now = console.town(), clock.now()
    mission = args.mission and mission_commands.find_mission(town, args.mission).id
    agent = args.agent and town_commands.find_agent(town, args.agent).name
    found = [
        task
        for task in town.tasks.values()
        if args.state in (None, task.state) and mission in (None, task.mission) and agent in (None, task.agent, task.wanted)
    ]
    shown = sort_tasks([task for task in found if args.all or args.state or not _is_long_ended(task, now)])
    if args.json:
        terminal.out_value({"town": console.name, "tasks": shown})
        return 0
    town_lines.print_lines(task_lines(shown, now))
    _hint_at_more(len(found) - len(shown), town)
    return 0


def _hint_at_more(hidden: int, town: TownState) -> None:
    if not town.tasks:
        terminal.err("there are no tasks yet; add one with `lore town backlog add TEXT`")
    if hidden:
        terminal.err(f"{hidden:,} more ended more than a day ago; --all shows {'it' if hidden == 1 else 'them'}")
    if town.let_go:
        terminal.err(f"{town.let_go:,} older tasks are only in the log: `lore events --scope task:ID`")


def _is_long_ended(task: Task, now: datetime) -> bool:
    return task.state in ENDED_TASK_STATES and task.ended_at is not None and now - task.ended_at > LATELY


def sort_tasks(tasks: list[Task]) -> list[Task]:
    """Tasks sorted: running, waiting, failed, ended; newest ended first."""
    order = list(town_lines.TASK_STYLES)
    return sorted(tasks, key=lambda task: (order.index(task.state), -_to_timestamp(task.ended_at), *_schedule_key(task)))


def _schedule_key(task: Task) -> tuple[bool, int, float]:
    return bool(task.missing), PRIORITIES.index(task.priority), _to_timestamp(task.at)


def _to_timestamp(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def task_lines(tasks: list[Task], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A table row for each task."""
    return town_lines.align_rows([_task_row(task, now) for task in tasks], indent=indent, spare=(5, 4))


def _task_row(task: Task, now: datetime) -> list[Cell]:
    when = task.ended_at or task.started_at or task.at
    return [
        (sanitise(task.id), BOLD),
        town_lines.state_cell(town_lines.TASK_STYLES, task.state),
        (task.priority if task.priority != "normal" else "", {"urgent": CALL, "high": WARN}.get(task.priority, DIM)),
        (_assignee_text(task), "" if task.agent and task.state != "pending" else DIM),
        (f"try {task.attempt} of {task.tries}" if task.attempt > 1 and task.state not in ENDED_TASK_STATES else "", WARN),
        (town_lines.format_age(when, now), DIM),
        (_title_text(task), ""),
    ]


def _assignee_text(task: Task) -> str:
    if task.agent and task.state != "pending":
        return sanitise(task.agent)
    if task.wanted:
        return f"for {sanitise(task.wanted)}"
    return f"for {town_lines.join_names(task.roles)}" if task.roles else ""


def _title_text(task: Task) -> str:
    title = town_lines.in_a_line(task.title)
    if task.missing:
        return f"{title}  (waits for {town_lines.join_names(task.missing[:3])}{' …' if len(task.missing) > 3 else ''})"
    if task.state == "failed" and task.error:
        return f"{title}  ({town_lines.in_a_line(task.error, 80)})"
    return title


# --- one


def show_task(args: Namespace) -> int:
    """Print the details of a task."""
    with commands.open_town(args) as console:
        task, now = town_commands.find_task(console.town(), args.id), clock.now()
    if args.json:
        terminal.out_value(task)
        return 0
    town_lines.print_lines(_detail_lines(task, now))
    return 0


def _detail_lines(task: Task, now: datetime) -> Iterator[Line]:
    symbol, style = town_lines.state_cell(town_lines.TASK_STYLES, task.state)
    yield [(symbol, style), (f"  {sanitise(task.id)}", BOLD), (f"  {town_lines.in_a_line(task.title)}", "")]
    yield from town_lines.field_lines(_detail_fields(task, now))
    yield from town_lines.section_lines("description", town_lines.text_lines(task.description, TEXT_LINES))
    yield from town_lines.section_lines("result", town_lines.text_lines(task.result, TEXT_LINES))
    title = "gave up because" if task.is_dead_letter else "earlier error" if task.state == "completed" else "reason"
    yield from town_lines.section_lines(title, town_lines.text_lines(task.error, TEXT_LINES))
    yield []
    yield town_lines.hint_line("next: ", _next_step(task))


def _detail_fields(task: Task, now: datetime) -> Iterator[tuple[str, str]]:
    yield "agent", sanitise(task.agent or "")
    yield "for", sanitise(task.wanted or "") or town_lines.join_names(task.roles)
    yield "not by", town_lines.join_names(task.not_by)
    yield "mission", sanitise(" · ".join(filter(None, (task.mission, task.item, task.purpose if task.purpose != "work" else ""))))
    yield "about", sanitise(task.of or "")
    yield "priority", task.priority if task.priority != "normal" else ""
    yield "tags", town_lines.join_names(task.tags)
    yield "checks", town_lines.join_names(task.checks)
    yield "waits for", town_lines.join_names(task.missing)
    yield "tries", f"{task.attempt} of {task.tries}, assigned {town_lines.count_times(task.epoch)}" if task.epoch else ""
    yield "created", f"{town_lines.format_age(task.at, now)} by {sanitise(task.by)}" if task.at else ""
    yield "started", town_lines.format_age(task.started_at, now) if task.started_at else ""
    yield "ended", town_lines.format_age(task.ended_at, now) if task.ended_at else ""
    yield (
        "refused",
        f"{town_lines.count_noun(task.refused, 'event')} about it ignored: not valid at that point" if task.refused else "",
    )


def _next_step(task: Task) -> str:
    id = sanitise(task.id)
    if task.state in ("failed", "cancelled"):
        return f"lore town task retry {id}"
    if task.state == "completed":
        return f"lore town history --task {id}"
    return f"lore town task cancel {id} · lore town task redirect {id} --to AGENT"
