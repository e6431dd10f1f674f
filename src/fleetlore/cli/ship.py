"""`lore ship`: copy this log into another and follow it. docs/ship.md describes what is copied."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event as Flag
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.main import OK, SOME_REJECTED, UsageError
from fleetlore.log.connect import connect, split_url

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from types import FrameType

    from fleetlore.ingest.ship import ShipStatus
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings

_EXAMPLES = (
    ("lore ship --to nats://team:4222", "your log into the team's, until Ctrl-C; prompts and code stay here"),
    ("lore ship --to nats://team:4222 --full", "with prompts and code"),
    ("lore ship --from sqlite:fleet.db --to sqlite:/mnt/all.db --once", "what is there now, then end: for cron"),
    ("lore ship --json", "to where [ship] of fleetlore.toml says; status lines for programs"),
)
_NOTES = """\
Each event arrives once, in order, even after crashes and outages: stop and restart it at any time.
A target that does not answer is retried after 0.5 s, later every 30 s; with --once it is
an error.
In fleetlore.toml:  [ship]
                    to = "nats://team:4222"
Put a URL with a password into FLEETLORE_SHIP_TO, not on the command line.
"""
_LIVE_SECONDS, _JSON_SECONDS = 0.1, 1.0


class ShipRoute(NamedTuple):
    """Source and target: their masked URLs, and functions that open them."""

    source: str
    target: str
    open_source: Callable[[], AbstractContextManager[BlockingRecorder]]
    open_target: Callable[[], AbstractContextManager[BlockingRecorder]]
    full: bool
    town: str = config.DEFAULT_TOWN
    """The town of the source."""
    once: bool = False


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--from", metavar="URL", dest="source", help="which log to ship (default: --log, or from the settings)")
    parser.add_argument("--to", metavar="URL", help="the log to ship it to (default: FLEETLORE_SHIP_TO, or [ship] to in the settings)")
    parser.add_argument("--full", action="store_true", help="ship prompts, code and private thoughts too")
    parser.add_argument("--once", action="store_true", help="end when all that is there now has been shipped")
    arguments.add_json(parser, "one JSON object per line whenever its state changes, and every second while it ships")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Ship until interrupted and print the status."""
    stop = Flag()
    try:
        with _stop_on_signals(stop):
            return _run_shipper(args, stop)
    except KeyboardInterrupt:  # before the shipper started, or a second Ctrl-C
        return OK


def _run_shipper(args: Namespace, stop: Flag) -> int:
    from fleetlore.ingest.ship import Shipper

    route = parse_route(args)
    reporter = _make_reporter(args, route)
    shipper = Shipper(route.open_source, route.open_target, full=route.full)
    with _show_warnings(reporter):
        reporter.print_start()
        try:
            shipper.run(stop, once=args.once, on_progress=reporter.update)
        except KeyboardInterrupt:  # the usual way to end it
            stop.set()
        except BaseException:
            reporter.clear()
            raise
        reporter.print_summary(shipper.status)
    return SOME_REJECTED if shipper.status.rejected and not stop.is_set() else OK


@contextmanager
def _stop_on_signals(stop: Flag) -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C. Ignored signals (`nohup`) stay ignored."""

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()
        raise KeyboardInterrupt

    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _show_warnings(reporter: ShipReporter) -> Iterator[None]:
    """Print warnings of the log's clients on lines of their own."""
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            reporter.print_warning(self.format(record))

    handler = Handler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def parse_route(args: Namespace) -> ShipRoute:
    """The route from the command line and the settings; `UsageError` if something is missing."""
    if args.source is not None and args.log is not None:
        raise UsageError("--from and --log both name the log to ship; give only one of them")
    own_town = None if args.source is None else parse_url_town(args.source)
    settings = open_log.load_settings(log=args.source or args.log, town=args.town if own_town is None else own_town)
    to = args.to or settings.ship_to.value
    if to is None:
        raise UsageError(
            "no target log is named; write --to nats://HOST:4222, set FLEETLORE_SHIP_TO,"
            f" or set `to` under [ship] in the fleetlore.toml of {config.mask_url(settings.log.value)}"
        )
    town = parse_url_town(to) or args.town or settings.town.value
    for url in (settings.log.value, to):
        if split_url(url)[0] == "memory":
            raise UsageError("memory: is a log that ends with the command; ship from and to logs that are stored")
    target = connect(to, town=town, redactor=open_log.make_redactor(settings), keeps_whole_texts=settings.whole_texts.value)
    return ShipRoute(
        source=config.mask_url(settings.log.value),
        target=config.mask_url(to),
        open_source=lambda: _open_source(settings),
        open_target=target.blocking,
        # `full` in the settings file only applies to the target in that file.
        full=args.full or (args.to is None and settings.ship_full.value),
        town=settings.town.value,
        once=args.once,
    )


def _open_source(settings: Settings) -> BlockingRecorder:
    path = open_log.find_file(settings)
    if path is not None:
        open_log.require_log_file(path)
    return connect(settings.log.value, town=settings.town.value).blocking()


def parse_url_town(url: str) -> str | None:
    """The town in a log's URL; `None` if it has none."""
    return split_url(url)[2].get("town") or None


def _make_reporter(args: Namespace, route: ShipRoute) -> ShipReporter:
    if args.json:
        return JsonShipReporter(route)
    if terminal.is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb":
        return LiveShipReporter(route)
    return ShipReporter(route)


class ShipReporter:
    """Prints changes as plain lines, for pipes and journals."""

    def __init__(self, route: ShipRoute) -> None:
        self._route = route
        self._last_state: str | None = None
        self._pause: float | None = None
        self._shipped = 0
        self._went_back: str | None = None

    def print_start(self) -> None:
        """Print source and target."""
        how = "with prompts and code" if self._route.full else "prompts and code stay here"
        self._print_text(f"shipping {self._route.source} to {self._route.target} ({how})")

    def update(self, status: ShipStatus) -> None:
        """Print each outage, its end, and when the target has caught up. A long outage is not repeated on every retry."""
        self._report_rewind(status)
        if status.state == "lost":
            self._report_outage(status)
        elif status.state == "caught up":
            self._report_caught_up(status)
        elif status.state == "shipping" and self._last_state == "lost" and status.shipped > self._shipped:
            self._last_state = "shipping"
            self._print_text(f"continues: {format_summary(status)}")

    def _report_outage(self, status: ShipStatus) -> None:
        if self._last_state != "lost" or status.retry_in != self._pause:
            self._print_text(format_outage(status))
        self._last_state, self._pause, self._shipped = "lost", status.retry_in, status.shipped

    def _report_caught_up(self, status: ShipStatus) -> None:
        state = "empty" if status.empty else "caught up"
        if self._last_state != state:
            self._last_state = state
            self._print_text(format_empty(self._route) if status.empty else f"caught up: {format_summary(status)}")

    def _report_rewind(self, status: ShipStatus) -> None:
        if status.went_back != self._went_back:
            self._went_back = status.went_back
            self.clear()
            self._print_text(format_rewind(status))

    def print_summary(self, status: ShipStatus) -> None:
        """Print a summary."""
        self.clear()
        self._print_text(f"ended: {format_summary(status)}")

    def print_warning(self, text: str) -> None:
        """Print a warning on its own line."""
        self.clear()
        terminal.flush_output()
        terminal.print_error(f"lore: {text}")
        terminal.flush_output()

    def clear(self) -> None:
        """Remove an unfinished line."""

    def _print_text(self, text: str) -> None:
        terminal.print_line(terminal.sanitise_text(text))
        terminal.flush_output()


class LiveShipReporter(ShipReporter):
    """One status line on a terminal, overwritten with each update."""

    def __init__(self, route: ShipRoute) -> None:
        super().__init__(route)
        self._shown_at, self._state, self._shown = 0.0, "", ""

    def print_start(self) -> None:
        """Print source and target, then "connecting"."""
        super().print_start()
        self._show_line("connecting…")

    def update(self, status: ShipStatus) -> None:
        """Redraw at most ten times a second, and when the state changes."""
        self._report_rewind(status)
        now = monotonic()
        is_same_state = status.state == self._state and status.state != "lost"
        if is_same_state and now - self._shown_at < _LIVE_SECONDS:
            return
        self._shown_at, self._state = now, status.state
        self._show_line(format_empty(self._route) if status.empty else format_live_line(status))

    def _show_line(self, line: str) -> None:
        self._shown = line
        sys.stdout.write(f"\r{terminal.sanitise_text(line)[: terminal.terminal_width(sys.stdout) - 1]}\x1b[K")
        sys.stdout.flush()

    def print_warning(self, text: str) -> None:
        """Print a warning above the status line."""
        super().print_warning(text)
        self._show_line(self._shown)

    def clear(self) -> None:
        """Clear the status line."""
        sys.stdout.write("\r\x1b[K")


class JsonShipReporter(ShipReporter):
    """Status as JSON lines."""

    def __init__(self, route: ShipRoute) -> None:
        super().__init__(route)
        self._shown_at, self._state = 0.0, ""

    def print_start(self) -> None:
        """Print nothing: programs know source and target."""

    def update(self, status: ShipStatus) -> None:
        """Print when the state changes, and every second while shipping."""
        now = monotonic()
        is_same_state = status.state == self._state and status.state != "lost"
        if is_same_state and (status.state == "caught up" or now - self._shown_at < _JSON_SECONDS):
            return
        self._shown_at, self._state = now, status.state
        self.print_summary(status)

    def print_summary(self, status: ShipStatus) -> None:
        """Print the status; the last one has the state `stopped`."""
        if status.state == "stopped" and self._last_state == "stopped":
            return
        self._last_state = status.state
        terminal.print_value(status_fields(status))
        terminal.flush_output()


def status_fields(status: ShipStatus) -> dict[str, Any]:
    """The status as JSON fields."""
    return {name: getattr(status, name) for name in status.__struct_fields__}


def format_summary(status: ShipStatus) -> str:
    """All counts in one line."""
    if status.empty:
        return "shipped 0 · the town is empty"
    parts = [f"shipped {status.shipped:,}", format_remaining(status.to_go)]
    more = (
        ("withheld parts of", status.withheld),
        ("rejected by the target", status.rejected),
        ("erased at the target earlier", status.forgotten),
        ("erased at the target now", status.erased),
        ("came from the target", status.returned),
        ("already at the target", status.already),
    )
    return " · ".join([*parts, *(f"{what} {count:,}" for what, count in more if count)])


def format_remaining(to_go: int | None) -> str:
    """How many events are left."""
    if to_go is None:
        return "unknown number to go"
    return f"{to_go:,} to go" if to_go else "nothing to go"


def format_live_line(status: ShipStatus) -> str:
    """The status line."""
    if status.state in ("lost", "trying"):
        return format_outage(status)
    if status.state == "caught up":
        return f"shipped {status.shipped:,} · nothing to go"
    parts = [f"shipped {status.shipped:,}"]
    if status.to_go is not None:
        parts.append(f"{status.to_go:,} to go")
    if status.shipped:
        parts.append(f"last {format_age(status.behind_seconds)} behind")
    return " · ".join(parts)


def format_outage(status: ShipStatus) -> str:
    """What does not answer, the next retry, how much is left, and why."""
    waiting = f" · {status.to_go:,} to go" if status.to_go else ""
    again = "trying…" if status.retry_in is None else f"trying again in {status.retry_in:g} s"
    return f"the {status.lost} {status.trouble}; {again}{waiting} ({status.reason})"


def format_empty(route: ShipRoute) -> str:
    """A note that the source is empty, which may be a typing error."""
    return f"the town {route.town!r} of {route.source} is empty{'' if route.once else '; waiting for its first event'}"


def format_rewind(status: ShipStatus) -> str:
    """A note that the source lost events that the target has."""
    return f"the source went back to {status.went_back}: it was restored, or lost its newest events; its events after that are shipped"


def format_age(seconds: float) -> str:
    """A duration in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size):,} {unit}"
    return f"{int(seconds)} s"
