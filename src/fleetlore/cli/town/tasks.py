"""`lore town assign`, `backlog` and `task`: work written down, given to somebody, looked at, called off, taken up again."""

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
STEER = "to steer tasks"


# --- new ones


def assign(args: Namespace) -> int:
    """A new task for one agent, or one that there is."""
    if bool(args.text) == (args.task is not None):
        raise Invalid("say what is to be done, or which task with --task ID; one of them")
    if args.task is None:
        return _add(args, agent=args.agent)
    return _steer(args, lambda town, by: town_commands.assign_task(town, args.task, args.agent, by=by))


def add(args: Namespace) -> int:
    """A new task for whoever can do it."""
    return _add(args, roles=args.roles)


def _add(args: Namespace, **whom: Any) -> int:
    text = " ".join(args.text).strip()
    title = _cut(text.partition("\n")[0].strip(), MAX_LINE_LENGTH)
    with commands.opened(args, new=True) as hall:
        done = hall.fulfil(
            lambda town: [
                town_commands.add_task(
                    town,
                    title,
                    by=hall.by,
                    description=text if text != title else "",
                    priority=args.priority,
                    tags=args.tags,
                    checks=args.checks,
                    depends_on=[_known(town, id) for id in args.after],
                    tries=args.tries,
                    parent_task=_at_hand(town),
                    **whom,
                )
            ]
        )
    return commands.tell(args, done)


def _cut(text: str, most: int) -> str:
    """The text in so many bytes."""
    return text.encode(errors="replace")[:most].decode(errors="ignore").rstrip()


def _at_hand(town: TownState) -> str | None:
    """The task that whoever speaks is at, where this runs inside of an agent."""
    id = os.environ.get(commands.TASK)
    return id if id in town.tasks else None


def _known(town: TownState, id: str) -> str:
    """A task that another waits for: a slip of the pen would have it wait for ever."""
    return id if id in town.completed else town_commands.find_task(town, id).id


# --- those that there are


def claim(args: Namespace) -> int:
    """One agent is to have it."""
    return _steer(args, lambda town, by: town_commands.assign_task(town, _waiting(town, args.id), args.agent or by, by=by))


def _waiting(town: TownState, id: str) -> str:
    task = town_commands.find_task(town, id)
    if task.state != "pending":
        raise Invalid(
            f"{task.id} is {task.state} and not in the backlog; `lore town task redirect {task.id} --to AGENT` takes it from {task.agent}"
        )
    return task.id


def redirect(args: Namespace) -> int:
    """Another agent is to have it."""
    return _steer(args, lambda town, by: town_commands.assign_task(town, args.id, args.to, by=by))


def cancel(args: Namespace) -> int:
    """Nobody is to do it."""
    return _steer(args, lambda town, by: town_commands.cancel_task(town, args.id, by=by, reason=args.reason))


def retry(args: Namespace) -> int:
    """It is to be done all the same."""
    return _steer(args, lambda town, by: town_commands.retry_task(town, args.id, by=by, reason=args.reason))


def complete(args: Namespace) -> int:
    """Whoever says so did it."""
    return _steer(args, lambda town, by: town_commands.complete_task(town, args.id, by=by, result=args.result))


def _steer(args: Namespace, wish: Any) -> int:
    def wishes(town: TownState) -> list[TownCommand]:
        return [wish(town, hall.by)]

    with commands.opened(args) as hall:
        done = hall.fulfil(wishes, why=STEER)
    return commands.tell(args, done)


# --- lists


def backlog(args: Namespace) -> int:
    """What nobody has, in the order in which it is given out."""
    with commands.opened(args) as hall:
        town, now = hall.town(), clock.now()
    waiting = sorted((task for task in town.tasks.values() if task.state == "pending"), key=_next_first)
    if args.json:
        terminal.out_value({"town": hall.name, "tasks": waiting})
        return 0
    town_lines.show(lines(waiting, now))
    if not waiting:
        terminal.err("nothing waits; `lore town backlog add TEXT` writes a task down")
    return 0


def list_(args: Namespace) -> int:
    """Those that are asked for: what is under way first, what has ended last."""
    with commands.opened(args) as hall:
        town, now = hall.town(), clock.now()
    mission = args.mission and mission_commands.find_mission(town, args.mission).id
    agent = args.agent and town_commands.find_agent(town, args.agent).name
    found = [
        task
        for task in town.tasks.values()
        if args.state in (None, task.state) and mission in (None, task.mission) and agent in (None, task.agent, task.wanted)
    ]
    shown = in_order([task for task in found if args.all or args.state or not _is_long_over(task, now)])
    if args.json:
        terminal.out_value({"town": hall.name, "tasks": shown})
        return 0
    town_lines.show(lines(shown, now))
    _say_what_is_missing(len(found) - len(shown), town)
    return 0


def _say_what_is_missing(hidden: int, town: TownState) -> None:
    if not town.tasks:
        terminal.err("there are no tasks yet; `lore town backlog add TEXT` writes one down")
    if hidden:
        terminal.err(f"{hidden:,} more ended over a day ago; --all shows {'it' if hidden == 1 else 'them'}")
    if town.let_go:
        terminal.err(f"{town.let_go:,} ended so long ago that only the log still tells of them: `lore events --scope task:ID`")


def _is_long_over(task: Task, now: datetime) -> bool:
    return task.state in ENDED_TASK_STATES and task.ended_at is not None and now - task.ended_at > LATELY


def in_order(tasks: list[Task]) -> list[Task]:
    """What is under way, what waits, what failed, what is over; the newest that ended first."""
    order = list(town_lines.TASKS)
    return sorted(tasks, key=lambda task: (order.index(task.state), -_seconds(task.ended_at), *_next_first(task)))


def _next_first(task: Task) -> tuple[bool, int, float]:
    return bool(task.missing), PRIORITIES.index(task.priority), _seconds(task.at)


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def lines(tasks: list[Task], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A row for each."""
    return town_lines.table([_row(task, now) for task in tasks], indent=indent, spare=(5, 4))


def _row(task: Task, now: datetime) -> list[Cell]:
    when = task.ended_at or task.started_at or task.at
    return [
        (sanitise(task.id), BOLD),
        town_lines.state(town_lines.TASKS, task.state),
        (task.priority if task.priority != "normal" else "", {"urgent": CALL, "high": WARN}.get(task.priority, DIM)),
        (_whose(task), "" if task.agent and task.state != "pending" else DIM),
        (f"try {task.attempt} of {task.tries}" if task.attempt > 1 and task.state not in ENDED_TASK_STATES else "", WARN),
        (town_lines.seen(when, now), DIM),
        (_title(task), ""),
    ]


def _whose(task: Task) -> str:
    if task.agent and task.state != "pending":
        return sanitise(task.agent)
    if task.wanted:
        return f"for {sanitise(task.wanted)}"
    return f"for {town_lines.names(task.roles)}" if task.roles else ""


def _title(task: Task) -> str:
    title = town_lines.in_a_line(task.title)
    if task.missing:
        return f"{title}  (waits for {town_lines.names(task.missing[:3])}{' …' if len(task.missing) > 3 else ''})"
    if task.state == "failed" and task.error:
        return f"{title}  ({town_lines.in_a_line(task.error, 80)})"
    return title


# --- one


def show(args: Namespace) -> int:
    """All of one task."""
    with commands.opened(args) as hall:
        task, now = town_commands.find_task(hall.town(), args.id), clock.now()
    if args.json:
        terminal.out_value(task)
        return 0
    town_lines.show(_page(task, now))
    return 0


def _page(task: Task, now: datetime) -> Iterator[Line]:
    symbol, style = town_lines.state(town_lines.TASKS, task.state)
    yield [(symbol, style), (f"  {sanitise(task.id)}", BOLD), (f"  {town_lines.in_a_line(task.title)}", "")]
    yield from town_lines.pairs(_said(task, now))
    yield from town_lines.part("what is to be done", town_lines.words(task.description, TEXT_LINES))
    yield from town_lines.part("what came of it", town_lines.words(task.result, TEXT_LINES))
    title = "put aside, because" if task.is_dead_letter else "trouble on the way" if task.state == "completed" else "why"
    yield from town_lines.part(title, town_lines.words(task.error, TEXT_LINES))
    yield []
    yield town_lines.hint("next: ", _next(task))


def _said(task: Task, now: datetime) -> Iterator[tuple[str, str]]:
    yield "agent", sanitise(task.agent or "")
    yield "for", sanitise(task.wanted or "") or town_lines.names(task.roles)
    yield "not by", town_lines.names(task.not_by)
    yield "mission", sanitise(" · ".join(filter(None, (task.mission, task.item, task.purpose if task.purpose != "work" else ""))))
    yield "about", sanitise(task.of or "")
    yield "priority", task.priority if task.priority != "normal" else ""
    yield "tags", town_lines.names(task.tags)
    yield "checks", town_lines.names(task.checks)
    yield "waits for", town_lines.names(task.missing)
    yield "tries", f"{task.attempt} of {task.tries}, given out {town_lines.times(task.epoch)}" if task.epoch else ""
    yield "written", f"{town_lines.seen(task.at, now)} by {sanitise(task.by)}" if task.at else ""
    yield "begun", town_lines.seen(task.started_at, now) if task.started_at else ""
    yield "ended", town_lines.seen(task.ended_at, now) if task.ended_at else ""
    yield (
        "refused",
        f"{town_lines.counted(task.refused, 'fact')} told of it {'was' if task.refused == 1 else 'were'} not believed"
        if task.refused
        else "",
    )


def _next(task: Task) -> str:
    id = sanitise(task.id)
    if task.state in ("failed", "cancelled"):
        return f"lore town task retry {id}"
    if task.state == "completed":
        return f"lore town history --task {id}"
    return f"lore town task cancel {id} · lore town task redirect {id} --to AGENT"
