"""`lore demo`: a scripted fleet, recorded live into a fresh log, and beside it goals, a play and a town that really run."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.main import UsageError
from fleetlore.cli.up import command
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from socket import socket

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings

SUMMARY = "show a demo in the browser on a new log: a fleet, goals, a stage, a town"

PLAY_SECONDS = 5.0
"""How long the story takes at --speed 1."""
SEED = 1
SCENES = ("fleet", "goal", "stage", "town")

_EXAMPLES = (
    ("lore demo --open", "forty minutes of five agents in five seconds, live in the browser; goals, a play and a town beside them"),
    ("lore demo --scenes goal,town --port 0", "some of it, at any port that is free"),
    ("lore demo --speed 0.2 --no-serve", "slowly, in the terminal alone; run `lore status --watch` on its log beside it"),
    ("lore demo --no-serve --log sqlite:demo.db --speed 0", "into a file of your own, at once"),
)
_NOTES = """\
The log is a new file in your data directory unless --log names one; your own log is never touched. Goals, play and town are run by
processes of the demo, in a folder of their own, by agents that are scripts; with Ctrl-C all of that is gone, and the log stays.
The same --seed plays the same events, but for their time.
"""


def configure(parser: ArgumentParser) -> None:
    """How fast, and where to."""
    parser.add_argument("--speed", metavar="X", type=float, default=1.0, help="2 is twice as fast, 0 as fast as it can be stored (1)")
    parser.add_argument("--seed", metavar="N", type=int, help=f"which variant of the small chances ({SEED})")
    parser.add_argument("--scenes", metavar="S,S", help=f"what is on show: some of {', '.join(SCENES)} (all of them)")
    parser.add_argument("--no-serve", action="store_true", help="play the story in the terminal, and end")
    command.add_place(parser)
    parser.add_argument("--into", action="store_true", help="play into the log of --log although it is not empty")
    arguments.add_json(parser, "print each event as JSON, as `lore events --json` does")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Play it, print it, and go on until Ctrl-C, or say what to try next."""
    if not 0 <= args.speed < float("inf"):
        raise Invalid("--speed: a number from 0 on is needed, such as 2 for twice as fast")
    scenes = _choose_scenes(args)
    with ExitStack() as stack:
        # Before anything is made: where nobody can be served, nothing is played.
        opened = None if args.no_serve else stack.enter_context(_bind_socket(args))
        if args.log is None:
            args.log = fresh_log(clock.now())
        settings = open_log.settings_of(args)
        log = stack.enter_context(open_log.open_log(args, settings=settings))
        seed = _choose_seed(args, log)
        if opened is None:
            _say_what_next(args, _play_story(log, seed, args))
            return 0
        with suppress(KeyboardInterrupt):  # the usual way to end it
            url, token = _start_server(args, settings, log, opened, stack)
            # A terminal is its owner's, and the log a toy; what is written elsewhere may be kept, and another log is somebody's own.
            is_shown = sys.stdout.isatty() and not (args.json or args.into or args.log)
            key = f"{url}#token={token}" if is_shown else None
            _show_scenes(args, settings, log, seed, scenes, url, key)
    return 0


def _choose_scenes(args: Namespace) -> Sequence[str]:
    """Those that are wanted. A log that nobody else reaches is for the fleet alone."""
    if args.scenes is None:
        return SCENES[:1] if (args.log or "").startswith("memory:") else SCENES
    chosen = [name.strip() for name in args.scenes.split(",") if name.strip()]
    if args.no_serve:
        raise UsageError("--scenes says what is served; leave --no-serve out")
    if unknown := [name for name in chosen if name not in SCENES] or ([] if chosen else [args.scenes]):
        raise UsageError(f"--scenes: no scene {unknown[0]!r}; there are {', '.join(SCENES)}")
    if (args.log or "").startswith("memory:") and set(chosen) != {"fleet"}:
        raise UsageError("--scenes: a log in memory: is nobody else's, and all but the fleet are processes of their own; leave --log out")
    return chosen


def _show_scenes(
    args: Namespace, settings: Settings, log: BlockingRecorder, seed: int, scenes: Sequence[str], url: str, key: str | None
) -> None:
    """The story first. What really runs begins beside it, and is told of once the story is."""
    if set(scenes) == {"fleet"}:
        _play_story(log, seed, args)
        _play_on(log, seed, args)
        return
    from fleetlore.cli.demo.environment import SceneReporter
    from fleetlore.cli.demo.scenes import list_programme, run_scenes

    teller = SceneReporter(json=args.json)
    with run_scenes(scenes, settings, speed=args.speed or 1.0, teller=teller):
        if "fleet" in scenes:
            _play_story(log, seed, args)
        path = None if shutil.which("lore") else os.path.dirname(sys.executable)
        teller.open(list_programme(scenes, url, _from_home(config.masked(args.log)), args.town, key=key, path=path))
        if "fleet" in scenes:
            _play_on(log, seed, args, is_told=args.json)
        signal.pause()


def _bind_socket(args: Namespace) -> socket:
    from fleetlore.server.serve import bind_socket

    return bind_socket(args.host, args.port)


def _choose_seed(args: Namespace, log: BlockingRecorder) -> int:
    is_empty = log.head() is None
    if not (is_empty or args.into):
        raise Invalid(f"{config.masked(args.log)} is not empty; play into it with --into, or leave --log out for a fresh one")
    # In a log that may hold an earlier play, the same ids would store nothing.
    return args.seed if args.seed is not None else SEED if is_empty else int(clock.now().timestamp())


def _play_story(log: BlockingRecorder, seed: int, args: Namespace) -> int:
    """The story; answers how many events it has."""
    from fleetlore.cli.demo.fleet import write_story
    from fleetlore.cli.demo.lines import make_event_printer

    pages = write_story(seed)
    write = make_event_printer(json=args.json)
    for event in record_story(log, pages, speed=args.speed):
        write(event)
        terminal.flush()
    return len(pages)


def _start_server(args: Namespace, settings: Settings, log: BlockingRecorder, opened: socket, stack: ExitStack) -> tuple[str, str]:
    """Its address, and the token for writing."""
    from fleetlore.server.open_context import open_context
    from fleetlore.server.serve import browser_url, serve_in_thread

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` wants it
            # To be told to end, or to lose the terminal, is as good as Ctrl-C.
            stack.callback(signal.signal, number, signal.signal(number, signal.default_int_handler))
    rooms = stack.enter_context(open_context(log, settings, host=args.host))
    stack.enter_context(serve_in_thread(rooms.context, opened))
    url = browser_url(opened, args.host)
    command.announce_server(args, rooms, url)
    return url, rooms.token


def _play_on(log: BlockingRecorder, seed: int, args: Namespace, *, is_told: bool = True) -> None:
    """The fleet goes on with its work, without an end."""
    from fleetlore.cli.demo.lines import make_event_printer
    from fleetlore.cli.demo.shift import generate_shift

    write = make_event_printer(json=args.json)
    for pause, event in generate_shift(seed):
        time.sleep(pause / (args.speed or 1.0))
        live = replace(event, at=clock.now())
        [position] = log.append([live])
        if is_told:
            write(replace(live, position=position))
            terminal.flush()


def fresh_log(now: datetime) -> str:
    """The address of a new file in the user's data directory."""
    from fleetlore.log.connect import resolve_sqlite_path

    folder = os.path.dirname(resolve_sqlite_path(""))
    stem = os.path.join(folder, f"demo-{now.astimezone(None):%Y%m%d-%H%M%S}")
    path, count = f"{stem}.db", 1
    while os.path.exists(path):
        count += 1
        path = f"{stem}-{count}.db"
    # A folder's name may hold what means something in an address.
    return "sqlite:" + path.replace("%", "%25").replace("?", "%3F")


def record_story(
    log: BlockingRecorder,
    pages: list[tuple[float, Event]],
    *,
    speed: float,
    now: clock.Clock = clock.now,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Event]:
    """Record the story and give back each event once it is stored. It is told as if it ended when the play does."""
    length = pages[-1][0]
    began = now()
    pace = PLAY_SECONDS / speed / length if speed else 0.0
    first = began + timedelta(seconds=length * pace - length)
    stamped = [(offset * pace, replace(event, at=first + timedelta(seconds=offset))) for offset, event in pages]
    if not speed:
        positions = log.append([event for _, event in stamped])
        yield from (replace(event, position=position) for (_, event), position in zip(stamped, positions, strict=True))
        return
    for due, event in stamped:
        early = due - (now() - began).total_seconds()
        if early > 0:
            sleep(early)
        [position] = log.append([event])
        yield replace(event, position=position)


def _say_what_next(args: Namespace, count: int) -> None:
    address = _from_home(config.masked(args.log))
    log = f"--log {shlex.quote(address)}" + (f" --town {shlex.quote(args.town)}" if args.town else "")
    end = f"""
{count} events recorded in {address}

Now try:
  lore status {log}
      who needs you, who works, who has fallen silent
  lore story {log}
      all of it as a story
  lore events {log} --scope task:wh-1
      the task that bram gave up and ada finished"""
    if args.json:
        terminal.err(end.strip().partition("\n")[0])
    else:
        terminal.out(end)


def _from_home(address: str) -> str:
    """The address with `~` for the home directory: shorter, and understood by `--log`."""
    home = os.path.expanduser("~").rstrip("/")
    return address.replace(f"sqlite:{home}/", "sqlite:~/", 1) if home else address
