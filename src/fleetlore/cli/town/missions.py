"""`lore town mission`: begun from plans, looked at, held, taken up, given up, reviewed, put away."""

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

    from fleetlore.cli.town.commands import Fulfilled, Hall
    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.town.commands import TownCommand
    from fleetlore.town.plans.model import MissionPlan
    from fleetlore.views.town_state import Mission, MissionItem, MissionState, TownState

STEER = "to steer missions"
NOTES_SHOWN = 8
BAR = 12


# --- plans


def start(args: Namespace) -> int:
    """Begin what a file plans."""
    plan = _load(args)
    with commands.opened(args, new=True) as hall:
        done = hall.fulfil(lambda town: mission_commands.start_mission(town, plan, by=hall.by), why="to start a mission")
    for left_out in plan.left_out:
        terminal.err(left_out)
    return commands.tell(args, done)


def plan(args: Namespace) -> int:
    """Show how a file is understood, as a plan."""
    from fleetlore.town.plans import load

    understood = _load(args)
    for left_out in understood.left_out:
        terminal.err(left_out)
    if args.json:
        terminal.out_value(understood)
    else:
        write = output.to_terminal if terminal.is_terminal(sys.stdout) else output.to_pipe
        write(load.write(understood).rstrip("\n") + "\n")
    return 0


def _load(args: Namespace) -> MissionPlan:
    from fleetlore.town.plans import load as plans_load

    if args.file.endswith(".toml") and (args.title or args.done):
        raise Invalid("--title and --done are for issues; a plan in TOML says its title itself")
    return plans_load.load(args.file, title=args.title, done=args.done)


# --- steering


def pause(args: Namespace) -> int:
    """Hold it."""
    return _move(args, "blocked")


def resume(args: Namespace) -> int:
    """Take it up again."""
    return _move(args, "running")


def stop(args: Namespace) -> int:
    """Give it up; by force, what is worked on as well."""
    with commands.opened(args) as hall:
        key = hall.key(STEER)
        reason = args.reason or f"given up by {hall.by}"
        done = hall.fulfil_with(
            key, lambda town: [mission_commands.change_mission_state(town, args.id, "failed", by=hall.by, reason=reason)]
        )
        if args.force:
            mission = mission_commands.find_mission(hall.town(key), args.id)
            done += _call_off(hall, key, mission, reason)
    return commands.tell(args, done)


def _call_off(hall: Hall, key: Any, mission: Mission, reason: str) -> Iterator[Fulfilled]:
    """Every task of a mission that is open; one that ends meanwhile has ended."""
    for task in [task for task in hall.town(key).tasks.values() if task.mission == mission.id and task.state not in ENDED_TASK_STATES]:

        def wishes(town: TownState, id: str = task.id) -> Sequence[TownCommand]:
            return [] if town.tasks[id].state in ENDED_TASK_STATES else [town_commands.cancel_task(town, id, by=hall.by, reason=reason)]

        yield from hall.fulfil_with(key, wishes)


def _move(args: Namespace, to: MissionState) -> int:
    return _steer(args, lambda town, by: mission_commands.change_mission_state(town, args.id, to, by=by, reason=args.reason))


def note(args: Namespace) -> int:
    """Write something down; anybody may."""
    return _steer(args, lambda town, by: mission_commands.add_mission_note(town, args.id, " ".join(args.text), by=by), why="")


def approve(args: Namespace) -> int:
    """Say yes to an item's work."""
    return _judge(args, is_approved=True)


def reject(args: Namespace) -> int:
    """Ask for changes."""
    return _judge(args, is_approved=False)


def _judge(args: Namespace, *, is_approved: bool) -> int:
    return _steer(
        args,
        lambda town, by: mission_commands.review_item(town, args.id, args.item, by=by, is_approved=is_approved, reason=args.reason),
        why="to review work",
    )


def helped(args: Namespace) -> int:
    """A call for help was heard."""
    return _steer(args, lambda town, by: mission_commands.resolve_help_request(town, args.id, by=by, reason=args.reason))


def archive(args: Namespace) -> int:
    """Put it away."""
    return _steer(args, lambda town, by: mission_commands.archive_mission(town, args.id, by=by))


def _steer(args: Namespace, wish: Callable[[TownState, str], TownCommand], *, why: str = STEER) -> int:
    with commands.opened(args) as hall:
        done = hall.fulfil(lambda town: [wish(town, hall.by)], why=why)
    return commands.tell(args, done)


# --- the list


def list_(args: Namespace) -> int:
    """Missions, those that need somebody first."""
    with commands.opened(args) as hall:
        town, now = hall.town(), clock.now()
    shown = in_order(town, archived=args.all)
    if args.json:
        terminal.out_value({"town": hall.name, "missions": [brief(mission) for mission in shown]})
        return 0
    town_lines.show(lines(shown, now))
    hidden = len(town.missions) - len(shown)
    if not town.missions:
        terminal.err("there are no missions yet; `lore town mission start PLAN` begins one")
    elif hidden:
        terminal.err(f"{hidden} more {'was' if hidden == 1 else 'were'} put away; --all shows {'it' if hidden == 1 else 'them'}")
    return 0


def in_order(town: TownState, *, archived: bool = False) -> list[Mission]:
    """Those that ask for help, that run, that rest, that are over."""
    order = list(town_lines.MISSIONS)
    shown = [mission for mission in town.missions.values() if archived or not mission.is_archived]
    return sorted(shown, key=lambda mission: (mission.help is None, order.index(mission.state), -_moved(mission)))


def _moved(mission: Mission) -> float:
    return 0.0 if mission.moved_at is None else mission.moved_at.timestamp()


def brief(mission: Mission) -> dict[str, Any]:
    """A mission in short, for programs."""
    same = ("id", "title", "state", "is_archived", "reason", "help", "max_parallel", "at", "moved_at", "ended_at")
    standings = Counter(town_lines.item_state(mission, item) for item in mission.items.values())
    return {**{name: getattr(mission, name) for name in same}, "items": len(mission.items), "by_state": standings}


def lines(found: list[Mission], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A row for each."""
    return town_lines.table([_row(mission, now) for mission in found], indent=indent, spare=(5, 2, 4))


def _row(mission: Mission, now: datetime) -> list[Cell]:
    done = sum(item.state == "done" for item in mission.items.values())
    state = ("▲ asks for help", CALL) if mission.help is not None else town_lines.state(town_lines.MISSIONS, mission.state)
    return [
        (sanitise(mission.id), BOLD),
        state,
        (_bar(done, len(mission.items)) if mission.items else "", ""),
        (f"{done}/{len(mission.items)} done" if mission.items else "no items", ""),
        (_standings(mission), ""),
        (town_lines.seen(mission.moved_at, now), DIM),
        (town_lines.in_a_line(mission.help.reason if mission.help is not None else mission.title), ""),
    ]


def _bar(done: int, all: int) -> str:
    full = round(BAR * done / all) if all else 0
    return "█" * full + "░" * (BAR - full)


def _standings(mission: Mission) -> str:
    """`2 running, 1 in review`: what is neither done nor yet to come."""
    counts = Counter(town_lines.item_state(mission, item) for item in mission.items.values())
    return ", ".join(f"{counts[name]} {name}" for name in town_lines.ITEMS if counts[name] and name not in ("done", "pending"))


# --- one


def show(args: Namespace) -> int:
    """All of one mission."""
    with commands.opened(args) as hall:
        town, now = hall.town(), clock.now()
    mission = mission_commands.find_mission(town, args.id)
    if args.json:
        terminal.out_value(_whole(mission))
        return 0
    town_lines.show(_page(town, mission, now))
    return 0


def _whole(mission: Mission) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(mission), "items": list(mission.items.values()), "watches": list(mission.watches.values())}


def _page(town: TownState, mission: Mission, now: datetime) -> Iterator[Line]:
    state, style = town_lines.state(town_lines.MISSIONS, mission.state)
    reason = f": {town_lines.in_a_line(mission.reason)}" if mission.reason else ""
    yield [(state, style), (f"  {sanitise(mission.id)}", BOLD), (f"  {town_lines.in_a_line(mission.title)}", ""), (reason, WARN)]
    yield [(_policy(mission, now), DIM)]
    if mission.help is not None:
        yield [(f"▲ asks for help ({town_lines.seen(mission.help.at, now)}): {town_lines.in_a_line(mission.help.reason, 400)}", CALL)]
    yield from town_lines.part("items", town_lines.table([_item(town, mission, item) for item in mission.items.values()], indent=2))
    yield from town_lines.part("watches", town_lines.table([_watch(watch) for watch in mission.watches.values()], indent=2))
    yield from town_lines.part("notes", _notes(mission, now))
    yield []
    yield town_lines.hint("next: ", _next(town, mission))


def _policy(mission: Mission, now: datetime) -> str:
    done = sum(item.state == "done" for item in mission.items.values())
    said = [
        f"{done} of {len(mission.items)} done",
        f"{mission.max_parallel} at a time",
        "reviewed" if mission.needs_review else "not reviewed",
        "waits for merges" if mission.watches_pulls else "",
        f"moved {town_lines.seen(mission.moved_at, now)}"
        if mission.state not in ("completed", "failed")
        else f"ended {town_lines.seen(mission.ended_at, now)}",
        "put away" if mission.is_archived else "",
    ]
    return "  " + " · ".join(filter(None, said))


def _item(town: TownState, mission: Mission, item: MissionItem) -> list[Cell]:
    task = town.tasks.get((item.review if item.work and not item.verdict and item.review else item.task) or "")
    whose = task.agent if task is not None and task.state in ("assigned", "running") else (item.authors[-1] if item.authors else "")
    return [
        town_lines.state(town_lines.ITEMS, town_lines.item_state(mission, item)),
        (sanitise(item.id), BOLD),
        (item.type if item.type != "implement" else "", DIM),
        (sanitise(whose or ""), ""),
        (f"sent back {town_lines.times(item.round)}" if item.round else "", WARN),
        (f"after {town_lines.names(item.missing)}" if item.missing else "", DIM),
        (_why(item), CALL if item.is_stuck else ""),
    ]


def _why(item: MissionItem) -> str:
    title = town_lines.in_a_line(item.title, 100) if item.title != item.id else ""
    reason = town_lines.in_a_line(item.reason, 200) if item.state != "done" else ""
    return "  — ".join(filter(None, (title, reason)))


def _watch(watch: Any) -> list[Cell]:
    return [
        (sanitise(watch.target), BOLD),
        (sanitise(watch.type), ""),
        (watch.state, DIM),
        (f"{watch.triggered} ×" if watch.triggered else "", ""),
    ]


def _notes(mission: Mission, now: datetime) -> Iterator[Line]:
    for each in mission.notes[-NOTES_SHOWN:]:
        yield [(f"  {town_lines.seen(each.at, now)}  ", DIM), (sanitise(each.by), BOLD), (f"  {goal_lines.in_a_line(each.text, 400)}", "")]


def _next(town: TownState, mission: Mission) -> str:
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
    """The task whose end keeps an item from going on."""
    stuck = (id for item in mission.items.values() if item.is_stuck for id in (item.review, item.task))
    return next((task.id for id in stuck if (task := town.tasks.get(id or "")) is not None and task.state in ("failed", "cancelled")), None)
