"""`lore town mission`: start, show, pause, resume, stop, review and archive missions."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.cli import output, terminal
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.terminal import sanitise
from fleetlore.cli.town import commands
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.errors import Invalid
from fleetlore.town import commands as town_commands
from fleetlore.town import mission_commands
from fleetlore.views.town_state import ENDED_TASK_STATES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from fleetlore.cli.town.commands import TownConsole
    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.town.commands import TownCommand
    from fleetlore.town.plans.model import MissionPlan
    from fleetlore.town.store_commands import StoredCommand
    from fleetlore.views.town_state import Mission, MissionItem, MissionState, TownState

STEER = "to control missions"
NOTES_SHOWN = 8
BAR = 12


# --- plans


def start_mission(args: Namespace) -> int:
    """Start a mission from a plan file."""
    plan = _load_plan(args)
    with commands.open_town(args, new=True) as console:
        done = console.store_commands(lambda town: mission_commands.start_mission(town, plan, by=console.by), why="to start a mission")
    for left_out in plan.left_out:
        terminal.err(left_out)
    return commands.print_results(args, done)


def show_plan(args: Namespace) -> int:
    """Print a file as a plan, without starting it."""
    from fleetlore.town.plans import load

    parsed = _load_plan(args)
    for left_out in parsed.left_out:
        terminal.err(left_out)
    if args.json:
        terminal.out_value(parsed)
    else:
        write = output.write_to_terminal if terminal.is_terminal(sys.stdout) else output.write_to_pipe
        write(load.write(parsed).rstrip("\n") + "\n")
    return 0


def _load_plan(args: Namespace) -> MissionPlan:
    from fleetlore.town.plans import load as plans_load

    if args.file.endswith(".toml") and (args.title or args.done):
        raise Invalid("--title and --done are for issues; a TOML plan contains its title")
    return plans_load.load(args.file, title=args.title, done=args.done)


# --- commands


def pause_mission(args: Namespace) -> int:
    """Pause a mission."""
    return _change_state(args, "blocked")


def resume_mission(args: Namespace) -> int:
    """Resume a mission."""
    return _change_state(args, "running")


def stop_mission(args: Namespace) -> int:
    """Stop a mission; with `--force` also cancel its open tasks."""
    with commands.open_town(args) as console:
        key = console.ask_key(STEER)
        reason = args.reason or f"stopped by {console.by}"
        done = console.store_commands_with(
            key, lambda town: [mission_commands.change_mission_state(town, args.id, "failed", by=console.by, reason=reason)]
        )
        if args.force:
            mission = mission_commands.find_mission(console.town(key), args.id)
            done += _cancel_tasks(console, key, mission, reason)
    return commands.print_results(args, done)


def _cancel_tasks(console: TownConsole, key: Any, mission: Mission, reason: str) -> Iterator[StoredCommand]:
    """Cancel the open tasks of a mission; tasks that end meanwhile are skipped."""
    for task in [task for task in console.town(key).tasks.values() if task.mission == mission.id and task.state not in ENDED_TASK_STATES]:

        def make_commands(town: TownState, id: str = task.id) -> Sequence[TownCommand]:
            return [] if town.tasks[id].state in ENDED_TASK_STATES else [town_commands.cancel_task(town, id, by=console.by, reason=reason)]

        yield from console.store_commands_with(key, make_commands)


def _change_state(args: Namespace, to: MissionState) -> int:
    return _run_command(args, lambda town, by: mission_commands.change_mission_state(town, args.id, to, by=by, reason=args.reason))


def add_note(args: Namespace) -> int:
    """Add a note to a mission; needs no signature."""
    return _run_command(args, lambda town, by: mission_commands.add_mission_note(town, args.id, " ".join(args.text), by=by), why="")


def approve_item(args: Namespace) -> int:
    """Approve an item's work."""
    return _review_item(args, is_approved=True)


def reject_item(args: Namespace) -> int:
    """Reject an item's work."""
    return _review_item(args, is_approved=False)


def _review_item(args: Namespace, *, is_approved: bool) -> int:
    return _run_command(
        args,
        lambda town, by: mission_commands.review_item(town, args.id, args.item, by=by, is_approved=is_approved, reason=args.reason),
        why="to review work",
    )


def resolve_help_request(args: Namespace) -> int:
    """Resolve a help request."""
    return _run_command(args, lambda town, by: mission_commands.resolve_help_request(town, args.id, by=by, reason=args.reason))


def archive_mission(args: Namespace) -> int:
    """Archive a mission."""
    return _run_command(args, lambda town, by: mission_commands.archive_mission(town, args.id, by=by))


def _run_command(args: Namespace, make_command: Callable[[TownState, str], TownCommand], *, why: str = STEER) -> int:
    with commands.open_town(args) as console:
        done = console.store_commands(lambda town: [make_command(town, console.by)], why=why)
    return commands.print_results(args, done)


# --- the list


def list_missions(args: Namespace) -> int:
    """List missions, those that need a person first."""
    with commands.open_town(args) as console:
        town, now = console.town(), clock.now()
    shown = sort_missions(town, archived=args.all)
    if args.json:
        terminal.out_value({"town": console.name, "missions": [mission_summary(mission) for mission in shown]})
        return 0
    town_lines.print_lines(mission_lines(shown, now))
    hidden = len(town.missions) - len(shown)
    if not town.missions:
        terminal.err("there are no missions yet; start one with `lore town mission start PLAN`")
    elif hidden:
        terminal.err(f"{hidden} more {'is' if hidden == 1 else 'are'} archived; --all shows {'it' if hidden == 1 else 'them'}")
    return 0


def sort_missions(town: TownState, *, archived: bool = False) -> list[Mission]:
    """Missions sorted: asking for help, running, paused, ended."""
    order = list(town_lines.MISSION_STYLES)
    shown = [mission for mission in town.missions.values() if archived or not mission.is_archived]
    return sorted(shown, key=lambda mission: (mission.help is None, order.index(mission.state), -_last_change(mission)))


def _last_change(mission: Mission) -> float:
    return 0.0 if mission.moved_at is None else mission.moved_at.timestamp()


def mission_summary(mission: Mission) -> dict[str, Any]:
    """The list entry of a mission as JSON."""
    same = ("id", "title", "state", "is_archived", "reason", "help", "max_parallel", "at", "moved_at", "ended_at")
    standings = Counter(town_lines.item_state(mission, item) for item in mission.items.values())
    return {**{name: getattr(mission, name) for name in same}, "items": len(mission.items), "by_state": standings}


def mission_lines(found: list[Mission], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A table row for each mission."""
    return town_lines.align_rows([_mission_row(mission, now) for mission in found], indent=indent, spare=(5, 2, 4))


def _mission_row(mission: Mission, now: datetime) -> list[Cell]:
    done = sum(item.state == "done" for item in mission.items.values())
    state = ("▲ asks for help", CALL) if mission.help is not None else town_lines.state_cell(town_lines.MISSION_STYLES, mission.state)
    return [
        (sanitise(mission.id), BOLD),
        state,
        (_progress_bar(done, len(mission.items)) if mission.items else "", ""),
        (f"{done}/{len(mission.items)} done" if mission.items else "no items", ""),
        (_item_counts(mission), ""),
        (town_lines.format_age(mission.moved_at, now), DIM),
        (town_lines.in_a_line(mission.help.reason if mission.help is not None else mission.title), ""),
    ]


def _progress_bar(done: int, all: int) -> str:
    full = round(BAR * done / all) if all else 0
    return "█" * full + "░" * (BAR - full)


def _item_counts(mission: Mission) -> str:
    """`2 running, 1 in review`: items that are neither done nor pending."""
    counts = Counter(town_lines.item_state(mission, item) for item in mission.items.values())
    return ", ".join(f"{counts[name]} {name}" for name in town_lines.ITEM_STYLES if counts[name] and name not in ("done", "pending"))


# --- one


def show_mission(args: Namespace) -> int:
    """Print the details of a mission."""
    with commands.open_town(args) as console:
        town, now = console.town(), clock.now()
    mission = mission_commands.find_mission(town, args.id)
    if args.json:
        terminal.out_value(_mission_fields(mission))
        return 0
    town_lines.print_lines(_detail_lines(town, mission, now))
    return 0


def _mission_fields(mission: Mission) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(mission), "items": list(mission.items.values()), "watches": list(mission.watches.values())}


def _detail_lines(town: TownState, mission: Mission, now: datetime) -> Iterator[Line]:
    state, style = town_lines.state_cell(town_lines.MISSION_STYLES, mission.state)
    reason = f": {town_lines.in_a_line(mission.reason)}" if mission.reason else ""
    yield [(state, style), (f"  {sanitise(mission.id)}", BOLD), (f"  {town_lines.in_a_line(mission.title)}", ""), (reason, WARN)]
    yield [(_policy_text(mission, now), DIM)]
    if mission.help is not None:
        yield [(f"▲ asks for help ({town_lines.format_age(mission.help.at, now)}): {town_lines.in_a_line(mission.help.reason, 400)}", CALL)]
    yield from town_lines.section_lines(
        "items", town_lines.align_rows([_item_row(town, mission, item) for item in mission.items.values()], indent=2)
    )
    yield from town_lines.section_lines(
        "watches", town_lines.align_rows([_watch_row(watch) for watch in mission.watches.values()], indent=2)
    )
    yield from town_lines.section_lines("notes", _note_lines(mission, now))
    yield []
    yield town_lines.hint_line("next: ", _next_step(town, mission))


def _policy_text(mission: Mission, now: datetime) -> str:
    done = sum(item.state == "done" for item in mission.items.values())
    parts = [
        f"{done} of {len(mission.items)} done",
        f"{mission.max_parallel} at a time",
        "reviewed" if mission.needs_review else "not reviewed",
        "waits for merges" if mission.watches_pulls else "",
        f"last change {town_lines.format_age(mission.moved_at, now)}"
        if mission.state not in ("completed", "failed")
        else f"ended {town_lines.format_age(mission.ended_at, now)}",
        "archived" if mission.is_archived else "",
    ]
    return "  " + " · ".join(filter(None, parts))


def _item_row(town: TownState, mission: Mission, item: MissionItem) -> list[Cell]:
    task = town.tasks.get((item.review if item.work and not item.verdict and item.review else item.task) or "")
    whose = task.agent if task is not None and task.state in ("assigned", "running") else (item.authors[-1] if item.authors else "")
    return [
        town_lines.state_cell(town_lines.ITEM_STYLES, town_lines.item_state(mission, item)),
        (sanitise(item.id), BOLD),
        (item.type if item.type != "implement" else "", DIM),
        (sanitise(whose or ""), ""),
        (f"rejected {town_lines.count_times(item.round)}" if item.round else "", WARN),
        (f"after {town_lines.join_names(item.missing)}" if item.missing else "", DIM),
        (_item_reason(item), CALL if item.is_stuck else ""),
    ]


def _item_reason(item: MissionItem) -> str:
    title = town_lines.in_a_line(item.title, 100) if item.title != item.id else ""
    reason = town_lines.in_a_line(item.reason, 200) if item.state != "done" else ""
    return "  — ".join(filter(None, (title, reason)))


def _watch_row(watch: Any) -> list[Cell]:
    return [
        (sanitise(watch.target), BOLD),
        (sanitise(watch.type), ""),
        (watch.state, DIM),
        (f"{watch.triggered} ×" if watch.triggered else "", ""),
    ]


def _note_lines(mission: Mission, now: datetime) -> Iterator[Line]:
    for each in mission.notes[-NOTES_SHOWN:]:
        yield [
            (f"  {town_lines.format_age(each.at, now)}  ", DIM),
            (sanitise(each.by), BOLD),
            (f"  {goal_lines.in_a_line(each.text, 400)}", ""),
        ]


def _next_step(town: TownState, mission: Mission) -> str:
    id = sanitise(mission.id)
    if mission.state == "running" and (task := _stuck_task(town, mission)) is not None:
        return f"lore town task retry {sanitise(task)}"
    if mission.help is not None:
        return f"lore town mission note {id} TEXT · lore town mission helped {id}"
    match mission.state:
        case "completed":
            return f"lore town mission archive {id}"
        case "failed" | "blocked":
            return f"lore town mission resume {id}"
        case _:
            return f"lore town mission pause {id} · lore town history --mission {id} --follow"


def _stuck_task(town: TownState, mission: Mission) -> str | None:
    """The failed task that blocks an item."""
    stuck = (id for item in mission.items.values() if item.is_stuck for id in (item.review, item.task))
    return next((task.id for id in stuck if (task := town.tasks.get(id or "")) is not None and task.state in ("failed", "cancelled")), None)
