"""`lore ship`: carry this log into another, and go on as it grows. docs/ship.md tells what goes and what stays."""

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

SUMMARY = "carry this log into another, as your team's, and go on as it grows"

_EXAMPLES = (
    ("lore ship --to nats://team:4222", "your log into the team's, until Ctrl-C; prompts and code stay here"),
    ("lore ship --to nats://team:4222 --full", "with prompts and code"),
    ("lore ship --from sqlite:fleet.db --to sqlite:/mnt/all.db --once", "what is there now, then end: for cron"),
    ("lore ship --json", "to where [ship] of fleetlore.toml says; status lines for programs"),
)
_NOTES = """\
Each event arrives once, in order, whatever crashes or is cut off meanwhile: it may be ended and started again at any time.
A target that does not answer is tried again, after half a second at first and every 30 s at last; with --once it is an error.
In fleetlore.toml:  [ship]
                    to = "nats://team:4222"
An address with a password is better put into FLEETLORE_SHIP_TO than on the command line.
"""
_LIVE_SECONDS, _JSON_SECONDS = 0.1, 1.0


class Way(NamedTuple):
    """From where to where, as it may be shown, and how each is opened."""

    source: str
    target: str
    open_source: Callable[[], AbstractContextManager[BlockingRecorder]]
    open_target: Callable[[], AbstractContextManager[BlockingRecorder]]
    full: bool
    town: str = config.DEFAULT_TOWN
    """The source's."""
    once: bool = False


def configure(parser: ArgumentParser) -> None:
    """From where, where to, and how much."""
    parser.add_argument("--from", metavar="URL", dest="source", help="which log to ship (else --log, else the configuration's)")
    parser.add_argument("--to", metavar="URL", help="the log to ship it to (else FLEETLORE_SHIP_TO, else [ship] to of the configuration)")
    parser.add_argument("--full", action="store_true", help="ship prompts, code and private thoughts too")
    parser.add_argument("--once", action="store_true", help="end when all that is there now has been shipped")
    arguments.add_json(parser, "one JSON a line whenever its state changes, and every second while it ships")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Ship, and say how it goes."""
    stop = Flag()
    try:
        with _ended_by_signals(stop):
            return _run(args, stop)
    except KeyboardInterrupt:  # before there was anything to say, or for the second time
        return OK


def _run(args: Namespace, stop: Flag) -> int:
    from fleetlore.ingest.ship import Shipper

    way = way_of(args)
    teller = _teller(args, way)
    shipper = Shipper(way.open_source, way.open_target, full=way.full)
    with _warnings_told_by(teller):
        teller.begin()
        try:
            shipper.run(stop, once=args.once, on_progress=teller.tell)
        except KeyboardInterrupt:  # the usual way to end it
            stop.set()
        except BaseException:
            teller.clear()
            raise
        teller.end(shipper.status)
    return SOME_REJECTED if shipper.status.rejected and not stop.is_set() else OK


@contextmanager
def _ended_by_signals(stop: Flag) -> Iterator[None]:
    """Have SIGTERM, as services send it, end everything as Ctrl-C does; what is ignored, as behind `nohup`, stays so."""

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
def _warnings_told_by(teller: Teller) -> Iterator[None]:
    """Have what the log's clients warn of told between our own lines, not into them."""
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            teller.warn(self.format(record))

    handler = Handler(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def way_of(args: Namespace) -> Way:
    """What the command line and the settings say."""
    if args.source is not None and args.log is not None:
        raise UsageError("--from and --log both say which log to ship; give one of them")
    own_town = None if args.source is None else town_in(args.source)
    settings = open_log.load_settings(log=args.source or args.log, town=args.town if own_town is None else own_town)
    to = args.to or settings.ship_to.value
    if to is None:
        raise UsageError(
            f"where to? write --to nats://HOST:4222, set FLEETLORE_SHIP_TO,"
            f" or write [ship] to in the fleetlore.toml of {config.masked(settings.log.value)}"
        )
    town = town_in(to) or args.town or settings.town.value
    for url in (settings.log.value, to):
        if split_url(url)[0] == "memory":
            raise UsageError("memory: ends with the command; ship from and to logs that are kept")
    target = connect(to, town=town, redactor=open_log.redactor_of(settings))
    return Way(
        source=config.masked(settings.log.value),
        target=config.masked(to),
        open_source=lambda: _open_source(settings),
        open_target=target.blocking,
        # What the file says of prompts and code holds for its own target only.
        full=args.full or (args.to is None and settings.ship_full.value),
        town=settings.town.value,
        once=args.once,
    )


def _open_source(settings: Settings) -> BlockingRecorder:
    path = open_log.find_file(settings)
    if path is not None:
        open_log.need_file(path)
    return connect(settings.log.value, town=settings.town.value).blocking()


def town_in(url: str) -> str | None:
    """The town that an address names."""
    return split_url(url)[2].get("town") or None


def _teller(args: Namespace, way: Way) -> Teller:
    if args.json:
        return JsonTeller(way)
    if terminal.is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb":
        return LiveTeller(way)
    return Teller(way)


class Teller:
    """Says on plain lines what changes; for pipes and journals."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._said: str | None = None
        self._pause: float | None = None
        self._shipped = 0
        self._went_back: str | None = None

    def begin(self) -> None:
        """What is about to be done."""
        how = "with prompts and code" if self._way.full else "prompts and code stay here"
        self._line(f"shipping {self._way.source} to {self._way.target} ({how})")

    def tell(self, standing: ShipStatus) -> None:
        """Each trouble, its end, and the first time that all is there; an outage of hours is not told twice a minute."""
        self._tell_of_going_back(standing)
        if standing.state == "lost":
            self._tell_of_trouble(standing)
        elif standing.state == "caught up":
            self._tell_of_rest(standing)
        elif standing.state == "shipping" and self._said == "lost" and standing.shipped > self._shipped:
            self._said = "shipping"
            self._line(f"going on: {summary(standing)}")

    def _tell_of_trouble(self, standing: ShipStatus) -> None:
        if self._said != "lost" or standing.retry_in != self._pause:
            self._line(trouble(standing))
        self._said, self._pause, self._shipped = "lost", standing.retry_in, standing.shipped

    def _tell_of_rest(self, standing: ShipStatus) -> None:
        rest = "empty" if standing.empty else "caught up"
        if self._said != rest:
            self._said = rest
            self._line(emptiness(self._way) if standing.empty else f"caught up: {summary(standing)}")

    def _tell_of_going_back(self, standing: ShipStatus) -> None:
        if standing.went_back != self._went_back:
            self._went_back = standing.went_back
            self.clear()
            self._line(going_back(standing))

    def end(self, standing: ShipStatus) -> None:
        """Where it stands."""
        self.clear()
        self._line(f"ended: {summary(standing)}")

    def warn(self, text: str) -> None:
        """What somebody else has to say, on a line of its own."""
        self.clear()
        terminal.flush()
        terminal.err(f"lore: {text}")
        terminal.flush()

    def clear(self) -> None:
        """Leave nothing half written."""

    def _line(self, text: str) -> None:
        terminal.out(terminal.sanitise(text))
        terminal.flush()


class LiveTeller(Teller):
    """One line on a terminal that is written over and over."""

    def __init__(self, way: Way) -> None:
        super().__init__(way)
        self._shown_at, self._state, self._shown = 0.0, "", ""

    def begin(self) -> None:
        """What is about to be done, and that it may take a while to begin."""
        super().begin()
        self._show("connecting…")

    def tell(self, standing: ShipStatus) -> None:
        """At most ten times a second, and whenever the state changes."""
        self._tell_of_going_back(standing)
        now = monotonic()
        if standing.state == self._state != "lost" and now - self._shown_at < _LIVE_SECONDS:
            return
        self._shown_at, self._state = now, standing.state
        self._show(emptiness(self._way) if standing.empty else live(standing))

    def _show(self, line: str) -> None:
        self._shown = line
        sys.stdout.write(f"\r{terminal.sanitise(line)[: terminal.width(sys.stdout) - 1]}\x1b[K")
        sys.stdout.flush()

    def warn(self, text: str) -> None:
        """Above the live line, which comes again."""
        super().warn(text)
        self._show(self._shown)

    def clear(self) -> None:
        """Wipe the line."""
        sys.stdout.write("\r\x1b[K")


class JsonTeller(Teller):
    """Status lines for programs."""

    def __init__(self, way: Way) -> None:
        super().__init__(way)
        self._shown_at, self._state = 0.0, ""

    def begin(self) -> None:
        """Programs know what they asked for."""

    def tell(self, standing: ShipStatus) -> None:
        """Whenever the state changes, and every second while it ships."""
        now = monotonic()
        is_quiet = standing.state == "caught up" or now - self._shown_at < _JSON_SECONDS
        if standing.state == self._state != "lost" and is_quiet:
            return
        self._shown_at, self._state = now, standing.state
        self.end(standing)

    def end(self, standing: ShipStatus) -> None:
        """The last line has the state `stopped`."""
        if standing.state == "stopped" == self._said:
            return
        self._said = standing.state
        terminal.out_value(described(standing))
        terminal.flush()


def described(standing: ShipStatus) -> dict[str, Any]:
    """The standing as plain values."""
    return {name: getattr(standing, name) for name in standing.__struct_fields__}


def summary(standing: ShipStatus) -> str:
    """What was done so far, in one line."""
    if standing.empty:
        return "shipped 0 · the town is empty"
    parts = [f"shipped {standing.shipped:,}", left(standing.to_go)]
    more = (
        ("withheld parts of", standing.withheld),
        ("not taken", standing.rejected),
        ("erased there earlier", standing.forgotten),
        ("erased there now", standing.erased),
        ("not sent back", standing.returned),
        ("there already", standing.already),
    )
    return " · ".join([*parts, *(f"{what} {count:,}" for what, count in more if count)])


def left(to_go: int | None) -> str:
    """How much waits."""
    if to_go is None:
        return "not known how many to go"
    return f"{to_go:,} to go" if to_go else "nothing to go"


def live(standing: ShipStatus) -> str:
    """The line that is written over and over."""
    if standing.state in ("lost", "trying"):
        return trouble(standing)
    if standing.state == "caught up":
        return f"shipped {standing.shipped:,} · nothing to go"
    parts = [f"shipped {standing.shipped:,}"]
    if standing.to_go is not None:
        parts.append(f"{standing.to_go:,} to go")
    if standing.shipped:
        parts.append(f"last {age(standing.behind_seconds)} behind")
    return " · ".join(parts)


def trouble(standing: ShipStatus) -> str:
    """What does not answer, when it is tried again, how much waits, and why."""
    waiting = f" · {standing.to_go:,} to go" if standing.to_go else ""
    again = "trying…" if standing.retry_in is None else f"trying again in {standing.retry_in:g} s"
    return f"the {standing.lost} {standing.trouble}; {again}{waiting} ({standing.reason})"


def emptiness(way: Way) -> str:
    """That nothing was ever stored, which may be a slip of the pen."""
    return f"the town {way.town!r} of {way.source} is empty{'' if way.once else '; waiting for its first event'}"


def going_back(standing: ShipStatus) -> str:
    """That the source has lost events which the target has."""
    return f"the source went back to {standing.went_back}: it was restored, or lost its newest events; what it has behind that is shipped"


def age(seconds: float) -> str:
    """A span in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size):,} {unit}"
    return f"{int(seconds)} s"
