"""`lore status`: who needs you, who works, who has fallen silent. docs/status.md tells the rules."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore import clock, settings
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.views import fleet as view
from fleetlore.views import names
from fleetlore.views.fleet import FleetState
from fleetlore.views.names import AgentNames

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from rich.console import Console

    from fleetlore.cli.status_table import Seen
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.views.session_status import SessionView

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
    parser.add_argument("--all", action="store_true", help="also those that came to rest more than a day ago")
    parser.add_argument("--silent-after", metavar="TIME", default="10m", help="how long an agent at work may be quiet (10m)")
    arguments.add_examples(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Fold the log once and show it; with --watch go on for ever."""
    board = Board(args)
    open_log.drain_spool()
    if board.is_unborn() and not args.watch:
        board.show(Town(view.initial(), names.initial()))
        return 0
    opener = open_log.open_log if board.is_unborn() else open_log.open_existing_log
    with opener(args, settings=board.settings) as log:
        town = fold_town(log)
        if not args.watch:
            board.show(town)
            return 0
        try:
            with drain_in_background():
                return board.watch(log, town)
        except KeyboardInterrupt:  # the usual way to end it
            return 0


class Town(NamedTuple):
    """What the page tells of: who is doing what, and what everybody is called."""

    fleet: FleetState
    names: AgentNames

    def after(self, events: Iterable[Event]) -> Town:
        """The same after more events."""
        fleet, known = self
        for event in events:
            fleet, known = view.apply(fleet, event), names.apply(known, event)
        return Town(fleet, known)


def fold_town(log: BlockingRecorder) -> Town:
    """The town as the whole log tells it; what was folded before is not read again."""
    from fleetlore.cli import fold as cli_fold

    fleet = cli_fold.fold_log(log, view, "fleet")
    return Town(fleet, cli_fold.fold_log(log, names, "names"))


class Board:
    """Shows a fleet in the way that the arguments ask for and the output can take."""

    def __init__(self, args: Namespace) -> None:
        self.settings = open_log.settings_of(args)
        self._json, self._everybody = args.json, args.all
        self._silent_after = parse_duration_option(args.silent_after)
        self._pretty = terminal.is_terminal(sys.stdout) and not args.json

    def is_unborn(self) -> bool:
        """Whether this is the user's own log, and nothing was ever recorded; any other that is missing is a slip of the pen."""
        path = open_log.find_file(self.settings)
        return self.settings.log.source == settings.DEFAULT and path is not None and not os.path.exists(path)

    def show(self, town: Town) -> None:
        """Show it once."""
        now = clock.now()
        if self._pretty:
            console = make_console()
            console.print(self._page(town, now, console))
        elif self._json:
            terminal.print_value(self.snapshot(town, now))
        else:
            terminal.print_line(self._plain(town, now))

    def watch(self, log: BlockingRecorder, town: Town) -> int:
        """Show it, and show it again whenever something changed."""
        return self._watch_live(log, town) if self._pretty else self._watch_changes(log, town)

    def _watch_live(self, log: BlockingRecorder, town: Town) -> int:
        from rich.live import Live

        from fleetlore.cli.follow_with_clock import follow_batches

        console = make_console()
        try:
            with Live(self._page(town, clock.now(), console), console=console, screen=True, auto_refresh=False) as live:
                for events in follow_batches(log, after=town.fleet.position):
                    town = town.after(events)
                    live.update(self._page(town, clock.now(), console), refresh=True)
        except KeyboardInterrupt:  # the page goes with its screen; what it said last stays
            self.show(town)
        return 0

    def _watch_changes(self, log: BlockingRecorder, town: Town) -> int:
        from fleetlore.cli.follow_with_clock import follow_batches

        shown: list[Any] = []
        for events in chain([[]], follow_batches(log, after=town.fleet.position)):
            town = town.after(events)
            essence = self._essence(town.fleet, clock.now())
            if essence != shown:
                shown = essence
                self.show(town)
                if not self._json:
                    terminal.print_line("")
                terminal.flush_output()
        return 0

    def _essence(self, fleet: FleetState, now: datetime) -> list[Any]:
        """What must change for a new snapshot: more than the clock, and more than a heartbeat."""
        ordered = view.sort_by_standing(fleet, now=now, silent_after=self._silent_after)
        agents = sorted((agent.name, standing, agent.doing, agent.task or "", agent.mission or "") for standing, agent in ordered)
        return [agents, sorted(fleet.asking)]

    def _seen(self, town: Town, now: datetime) -> Seen:
        from fleetlore.cli.status_table import Seen

        shown = names.all_short_names(town.names)
        return Seen(town.fleet, shown, self.settings.town.value, now, self._silent_after, everybody=self._everybody)

    def _plain(self, town: Town, now: datetime) -> str:
        from fleetlore.cli import status_table

        return status_table.render_plain(self._seen(town, now))

    def _page(self, town: Town, now: datetime, console: Console) -> Any:
        from fleetlore.cli import status_table

        return status_table.render_page(self._seen(town, now), columns=console.width)

    def snapshot(self, town: Town, now: datetime) -> dict[str, Any]:
        """The page for programs: everybody."""
        fleet, shown = town.fleet, names.all_display_names(town.names)
        ordered = view.sort_by_standing(fleet, now=now, silent_after=self._silent_after)
        return {
            "town": self.settings.town.value,
            "position": fleet.position,
            "now": now,
            "events": fleet.events,
            "agents": [
                _describe_agent(standing, agent, shown.get(agent.name, agent.name), view.view_session(fleet, agent, now))
                for standing, agent in ordered
            ],
            "asking": [{"mission": name, "text": ask.text, "since": ask.since} for name, ask in fleet.asking.items()],
        }


def _describe_agent(standing: str, agent: view.FleetAgent, shown: str, session: SessionView | None) -> dict[str, Any]:
    same = ("kind", "since", "last_seen", "task", "mission", "goal", "run", "session", "parent", "counts")
    facts = {name: getattr(agent, name) for name in same}
    doing = view.describe_activity(agent, session)
    return {"name": agent.name, "shown": shown, "state": standing, "doing": doing, **facts, **_describe_session(session)}


def _describe_session(session: SessionView | None) -> dict[str, Any]:
    """The status of an agent's newest session, as `lore sessions` has it."""
    if session is None:
        return {"status": None, "waiting_for": None, "question": None}
    return {"status": session.status, "waiting_for": session.waiting_for, "question": session.question or None}


def parse_duration_option(text: str) -> timedelta:
    """A time such as `10m` or `1h 30m`."""
    from fleetlore.documents import durations

    try:
        return timedelta(microseconds=durations.parse_duration(text) / 1000)
    except OverflowError:
        return timedelta.max


def make_console() -> Console:
    """Standard output as rich sees it; NO_COLOR and TERM are heeded."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, no_color=not terminal.has_colour(sys.stdout))
