"""`lore status`: who needs you, who works, who has fallen silent. docs/status.md tells the rules."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

from fleetlore import clock, config
from fleetlore.cli import arguments, opening, terminal
from fleetlore.cli.draining import draining
from fleetlore.views import fleet as view

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from rich.console import Console

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.views.fleet import Fleet

SUMMARY = "show each agent: who needs you, who works, who is silent"

_EXAMPLES = (
    ("lore status", "all agents, those that need you first"),
    ("lore status --watch", "the same, live; Ctrl-C ends it"),
    ("lore status --silent-after 3m", "an agent at work counts as silent after three minutes without a sign of life"),
    ("lore status --json | jq '.agents[] | select(.state == \"needs you\")'", "for programs"),
)


def configure(parser: ArgumentParser) -> None:
    """How to look at it."""
    arguments.add_json(parser, "print JSON, with exact times; with --watch one line whenever something changes")
    parser.add_argument("--watch", action="store_true", help="stay, and follow the log live")
    parser.add_argument("--silent-after", metavar="TIME", default="10m", help="how long an agent at work may be quiet (10m)")
    arguments.teach(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Fold the log once and show it; with --watch go on for ever."""
    board = Board(args)
    opening.drain_spool()
    if board.is_unborn() and not args.watch:
        board.show(view.initial())
        return 0
    opener = opening.open_log if board.is_unborn() else opening.open_existing_log
    with opener(args, settings=board.settings) as log:
        fleet = fold(log)
        if not args.watch:
            board.show(fleet)
            return 0
        try:
            with draining():
                return board.watch(log, fleet)
        except KeyboardInterrupt:  # the usual way to end it
            return 0


def fold(log: BlockingRecorder) -> Fleet:
    """The fleet as the whole log tells it; what was folded before is not read again."""
    from fleetlore.cli.progress import bar_if_long
    from fleetlore.state.runner import SAVE_AFTER, Runner, view_of
    from fleetlore.state.store import open_store

    info = log.info()
    # A short log is folded before its store is open; of a trimmed one the store may know more than is left.
    store = open_store(info) if info.events >= SAVE_AFTER or info.trimmed_before is not None else None
    with store or nullcontext(), bar_if_long() as show:
        return Runner(log, view_of(view, "fleet"), store).catch_up(show).state


def add(fleet: Fleet, events: Iterable[Event]) -> Fleet:
    """The fleet after more events."""
    for event in events:
        fleet = view.apply(fleet, event)
    return fleet


class Board:
    """Shows a fleet in the way that the arguments ask for and the output can take."""

    def __init__(self, args: Namespace) -> None:
        self.settings = opening.settings_of(args)
        self._json = args.json
        self._silent_after = duration(args.silent_after)
        self._pretty = terminal.is_terminal(sys.stdout) and not args.json

    def is_unborn(self) -> bool:
        """Whether this is the user's own log, and nothing was ever recorded; any other that is missing is a slip of the pen."""
        path = opening.find_file(self.settings)
        return self.settings.log.source == config.DEFAULT and path is not None and not os.path.exists(path)

    def show(self, fleet: Fleet) -> None:
        """Show it once."""
        now = clock.now()
        if self._pretty:
            console = make_console()
            console.print(self._page(fleet, now, console))
        elif self._json:
            terminal.out_value(self.snapshot(fleet, now))
        else:
            terminal.out(self._plain(fleet, now))

    def watch(self, log: BlockingRecorder, fleet: Fleet) -> int:
        """Show it, and show it again whenever something changed."""
        return self._watch_live(log, fleet) if self._pretty else self._watch_changes(log, fleet)

    def _watch_live(self, log: BlockingRecorder, fleet: Fleet) -> int:
        from rich.live import Live

        from fleetlore.cli.watching import batches

        console = make_console()
        try:
            with Live(self._page(fleet, clock.now(), console), console=console, screen=True, auto_refresh=False) as live:
                for events in batches(log, after=fleet.position):
                    fleet = add(fleet, events)
                    live.update(self._page(fleet, clock.now(), console), refresh=True)
        except KeyboardInterrupt:  # the page goes with its screen; what it said last stays
            self.show(fleet)
        return 0

    def _watch_changes(self, log: BlockingRecorder, fleet: Fleet) -> int:
        from fleetlore.cli.watching import batches

        shown: list[Any] = []
        for events in chain([[]], batches(log, after=fleet.position)):
            fleet = add(fleet, events)
            essence = self._essence(fleet, clock.now())
            if essence != shown:
                shown = essence
                self.show(fleet)
                if not self._json:
                    terminal.out("")
                terminal.flush()
        return 0

    def _essence(self, fleet: Fleet, now: datetime) -> list[Any]:
        """What must change for a new snapshot: more than the clock, and more than a heartbeat."""
        ordered = view.in_order(fleet, now=now, silent_after=self._silent_after)
        agents = sorted((agent.name, standing, agent.doing, agent.task or "", agent.mission or "") for standing, agent in ordered)
        return [agents, sorted(fleet.asking)]

    def _plain(self, fleet: Fleet, now: datetime) -> str:
        from fleetlore.cli import status_table

        return status_table.plain(fleet, town=self.settings.town.value, now=now, silent_after=self._silent_after)

    def _page(self, fleet: Fleet, now: datetime, console: Console) -> Any:
        from fleetlore.cli import status_table

        return status_table.page(fleet, town=self.settings.town.value, now=now, silent_after=self._silent_after, columns=console.width)

    def snapshot(self, fleet: Fleet, now: datetime) -> dict[str, Any]:
        """The page for programs."""
        ordered = view.in_order(fleet, now=now, silent_after=self._silent_after)
        return {
            "town": self.settings.town.value,
            "position": fleet.position,
            "now": now,
            "events": fleet.events,
            "agents": [_agent(standing, agent) for standing, agent in ordered],
            "asking": [{"mission": name, "text": ask.text, "since": ask.since} for name, ask in fleet.asking.items()],
        }


def _agent(standing: str, agent: view.Agent) -> dict[str, Any]:
    same = ("doing", "kind", "since", "last_seen", "task", "mission", "goal", "run", "parent", "counts")
    return {"name": agent.name, "state": standing, **{name: getattr(agent, name) for name in same}}


def duration(text: str) -> timedelta:
    """A time such as `10m` or `1h 30m`."""
    from fleetlore.events import humantime

    try:
        return timedelta(microseconds=humantime.parse(text) / 1000)
    except OverflowError:
        return timedelta.max


def make_console() -> Console:
    """Standard output as rich sees it; NO_COLOR and TERM are heeded."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, no_color=not terminal.has_colour(sys.stdout))
