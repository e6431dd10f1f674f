"""`lore town mission`: plans, the list of missions, and one mission in detail."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.cli import output, terminal
from fleetlore.cli.goal import lines as goal_lines
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.errors import Invalid
from fleetlore.operations.town_lists import name_item_state

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell, Line
    from fleetlore.operations.town import MissionStarted
    from fleetlore.operations.town_lists import MissionSummary, ShownMission, TownMissions
    from fleetlore.town.plans.model import MissionPlan
    from fleetlore.views.town_state import Mission, MissionItem

NOTES_SHOWN = 8
BAR = 12


# --- plans


def print_started(response: MissionStarted, args: Namespace) -> None:
    """Print what started, and what was left out."""
    from fleetlore.cli.operations import print_answer

    for left_out in response.left_out:
        terminal.print_error(left_out)
    print_answer(response)


def show_plan(args: Namespace) -> int:
    """Print a file as a plan, without starting it."""
    from fleetlore.town.plans import load

    parsed = _load_plan(args)
    for left_out in parsed.left_out:
        terminal.print_error(left_out)
    if args.json:
        terminal.print_value(parsed)
    else:
        write = output.write_to_terminal if terminal.is_terminal(sys.stdout) else output.write_to_pipe
        write(load.write_plan(parsed).rstrip("\n") + "\n")
    return 0


def _load_plan(args: Namespace) -> MissionPlan:
    from fleetlore.town.plans import load as plans_load

    if args.file.endswith(".toml") and (args.title or args.done):
        raise Invalid("--title and --done are for issues; a TOML plan contains its title")
    return plans_load.load_plan(args.file, title=args.title, done=args.done)


# --- the list


def print_missions(response: TownMissions, args: Namespace) -> None:
    """List missions, those that need a person first."""
    town_lines.print_lines(mission_lines(response.missions, clock.now()))
    hidden = response.hidden
    if not response.missions and not hidden:
        terminal.print_error("there are no missions yet; start one with `lore town mission start PLAN`")
    elif hidden:
        terminal.print_error(f"{hidden} more {'is' if hidden == 1 else 'are'} archived; --all shows {'it' if hidden == 1 else 'them'}")


def mission_lines(found: list[MissionSummary], now: datetime, *, indent: int = 0) -> Iterator[Line]:
    """A table row for each mission."""
    return town_lines.align_rows([_mission_row(mission, now) for mission in found], indent=indent, optional=(5, 2, 4))


def _mission_row(mission: MissionSummary, now: datetime) -> list[Cell]:
    done = mission.item_states.get("done", 0)
    state = ("▲ asks for help", CALL) if mission.help is not None else town_lines.state_cell(town_lines.MISSION_STYLES, mission.state)
    return [
        (sanitise_text(mission.id), BOLD),
        state,
        (_progress_bar(done, mission.items) if mission.items else "", ""),
        (f"{done}/{mission.items} done" if mission.items else "no items", ""),
        (_item_counts(mission), ""),
        (town_lines.format_age(mission.moved_at, now), DIM),
        (town_lines.shorten_to_line(mission.help.reason if mission.help is not None else mission.title), ""),
    ]


def _progress_bar(done: int, all: int) -> str:
    full = round(BAR * done / all) if all else 0
    return "█" * full + "░" * (BAR - full)


def _item_counts(mission: MissionSummary) -> str:
    """`2 running, 1 in review`: items that are neither done nor pending."""
    counts = mission.by_state
    return ", ".join(f"{counts[name]} {name}" for name in town_lines.ITEM_STYLES if name in counts and name not in ("done", "pending"))


# --- one


def print_mission(response: ShownMission, args: Namespace) -> None:
    """Print the details of a mission."""
    town_lines.print_lines(_detail_lines(response, clock.now()))


def mission_fields(response: ShownMission) -> dict[str, Any]:
    """A mission as JSON, with lists of items and watches."""
    import msgspec

    mission = response.mission
    return {**msgspec.to_builtins(mission), "items": list(mission.items.values()), "watches": list(mission.watches.values())}


def _detail_lines(shown: ShownMission, now: datetime) -> Iterator[Line]:
    mission = shown.mission
    state, style = town_lines.state_cell(town_lines.MISSION_STYLES, mission.state)
    reason = f": {town_lines.shorten_to_line(mission.reason)}" if mission.reason else ""
    yield [(state, style), (f"  {sanitise_text(mission.id)}", BOLD), (f"  {town_lines.shorten_to_line(mission.title)}", ""), (reason, WARN)]
    yield [(_policy_text(mission, now), DIM)]
    if mission.help is not None:
        yield [
            (
                f"▲ asks for help ({town_lines.format_age(mission.help.at, now)}): " + town_lines.shorten_to_line(mission.help.reason, 400),
                CALL,
            )
        ]
    yield from town_lines.section_lines(
        "items", town_lines.align_rows([_item_row(shown, item) for item in mission.items.values()], indent=2)
    )
    yield from town_lines.section_lines(
        "watches", town_lines.align_rows([_watch_row(watch) for watch in mission.watches.values()], indent=2)
    )
    yield from town_lines.section_lines("notes", _note_lines(mission, now))
    yield []
    yield town_lines.hint_line("next: ", _next_step(shown))


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


def _item_row(shown: ShownMission, item: MissionItem) -> list[Cell]:
    return [
        town_lines.state_cell(town_lines.ITEM_STYLES, name_item_state(shown.mission, item)),
        (sanitise_text(item.id), BOLD),
        (item.type if item.type != "implement" else "", DIM),
        (sanitise_text(shown.agents.get(item.id, "")), ""),
        (f"rejected {town_lines.count_times(item.round)}" if item.round else "", WARN),
        (f"after {town_lines.join_names(item.missing)}" if item.missing else "", DIM),
        (_item_reason(item), CALL if item.is_stuck else ""),
    ]


def _item_reason(item: MissionItem) -> str:
    title = town_lines.shorten_to_line(item.title, 100) if item.title != item.id else ""
    reason = town_lines.shorten_to_line(item.reason, 200) if item.state != "done" else ""
    return "  — ".join(filter(None, (title, reason)))


def _watch_row(watch: Any) -> list[Cell]:
    return [
        (sanitise_text(watch.target), BOLD),
        (sanitise_text(watch.type), ""),
        (watch.state, DIM),
        (f"{watch.triggered} ×" if watch.triggered else "", ""),
    ]


def _note_lines(mission: Mission, now: datetime) -> Iterator[Line]:
    for each in mission.notes[-NOTES_SHOWN:]:
        yield [
            (f"  {town_lines.format_age(each.at, now)}  ", DIM),
            (sanitise_text(each.by), BOLD),
            (f"  {goal_lines.shorten_to_line(each.text, 400)}", ""),
        ]


def _next_step(shown: ShownMission) -> str:
    mission, id = shown.mission, sanitise_text(shown.mission.id)
    if mission.state == "running" and shown.stuck_task is not None:
        return f"lore town task retry {sanitise_text(shown.stuck_task)}"
    if mission.help is not None:
        return f"lore town mission note {id} TEXT · lore town mission helped {id}"
    match mission.state:
        case "completed":
            return f"lore town mission archive {id}"
        case "failed" | "blocked":
            return f"lore town mission resume {id}"
        case _:
            return f"lore town mission pause {id} · lore town history --mission {id} --follow"
