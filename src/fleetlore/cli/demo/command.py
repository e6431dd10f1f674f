"""`lore demo`: records a scripted fleet into a new log, and runs real goals, a stage and a town beside it."""

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
from fleetlore.cli.event_lines import PlainEventLines, actor_name, event_text
from fleetlore.cli.main import UsageError
from fleetlore.cli.terminal import pad_columns, truncate_columns
from fleetlore.cli.up import command
from fleetlore.errors import Invalid
from fleetlore.events import catalog, codec

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from socket import socket

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings

PLAY_SECONDS = 5.0
"""How long the story takes at --speed 1."""
SEED = 1
SCENES = ("fleet", "goal", "stage", "town")

_EXAMPLES = (
    ("lore demo --open", "watch five agents, goals, a stage and a town in the browser"),
    ("lore demo --scenes goal,town --port 0", "show some scenes, on any free port"),
    ("lore demo --speed 0.2 --no-serve", "play slowly, only in the terminal"),
    ("lore demo --no-serve --log sqlite:demo.db --speed 0", "write all events to a file at once"),
)
_NOTES = """\
The log is a new file in your data directory unless --log names one; your own log is not touched.
Goals, stage and town are run by child processes in a temporary folder; the agents are scripts.
Ctrl-C ends the processes and deletes the folder; the log stays. The same --seed gives the same
events, except for their times.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--speed", metavar="X", type=float, default=1.0, help="2 is twice as fast, 0 writes all at once (1)")
    parser.add_argument("--seed", metavar="N", type=int, help=f"seed of the random choices ({SEED})")
    parser.add_argument("--scenes", metavar="S,S", help=f"scenes to show, of {', '.join(SCENES)} (all)")
    parser.add_argument("--no-serve", action="store_true", help="play the story in the terminal only, then exit")
    command.add_place(parser)
    parser.add_argument("--into", action="store_true", help="write to the log of --log even if it is not empty")
    arguments.add_json(parser, "print each event as JSON, as `lore events --json` does")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Play and print the demo. Runs until Ctrl-C; with `--no-serve` it ends with commands to try."""
    if not 0 <= args.speed < float("inf"):
        raise Invalid("--speed must be 0 or more; 2 is twice as fast")
    scenes = _choose_scenes(args)
    with ExitStack() as stack:
        # Bind the port first, so that nothing is written if it is taken.
        bound_socket = None if args.no_serve else stack.enter_context(_bind_socket(args))
        is_new_log = args.log is None
        if is_new_log:
            args.log = make_log_url(clock.now())
        settings = open_log.load_settings_for(args)
        log = stack.enter_context(open_log.open_log(args, settings=settings))
        seed = _choose_seed(args, log)
        if bound_socket is None:
            _print_next_steps(args, _write_story(log, seed, args))
            return 0
        with suppress(KeyboardInterrupt):  # the usual way to end it
            url, token = _start_server(args, settings, log, bound_socket, stack)
            # The token is only printed on a terminal, for a new log: other output may be stored, and other logs may hold real work.
            is_shown = sys.stdout.isatty() and is_new_log and not args.json
            write_url = f"{url}#token={token}" if is_shown else None
            _show_scenes(args, settings, log, seed, scenes, url, write_url)
    return 0


def _choose_scenes(args: Namespace) -> Sequence[str]:
    """The chosen scenes. A log in memory supports only the fleet, because the other scenes are separate processes."""
    if args.scenes is None:
        return SCENES[:1] if (args.log or "").startswith("memory:") else SCENES
    chosen = [name.strip() for name in args.scenes.split(",") if name.strip()]
    if args.no_serve:
        raise UsageError("--scenes needs the server; omit --no-serve")
    if unknown := [name for name in chosen if name not in SCENES] or ([] if chosen else [args.scenes]):
        raise UsageError(f"--scenes: unknown scene {unknown[0]!r}; choose from {', '.join(SCENES)}")
    if (args.log or "").startswith("memory:") and set(chosen) != {"fleet"}:
        raise UsageError("--scenes: a memory: log works only for the scene fleet, because other scenes are separate processes; omit --log")
    return chosen


def _show_scenes(
    args: Namespace, settings: Settings, log: BlockingRecorder, seed: int, scenes: Sequence[str], url: str, write_url: str | None
) -> None:
    """Play the story while the scenes start beside it; their lines are printed after the story."""
    if set(scenes) == {"fleet"}:
        _write_story(log, seed, args)
        _write_shift(log, seed, args)
        return
    from fleetlore.cli.demo.environment import SceneReporter
    from fleetlore.cli.demo.scenes import list_pages_and_commands, run_scenes

    reporter = SceneReporter(json=args.json)
    with run_scenes(scenes, settings, speed=args.speed or 1.0, reporter=reporter):
        if "fleet" in scenes:
            _write_story(log, seed, args)
        path = None if shutil.which("lore") else os.path.dirname(sys.executable)
        reporter.open(
            list_pages_and_commands(scenes, url, _abbreviate_home(config.mask_url(args.log)), args.town, write_url=write_url, path=path)
        )
        if "fleet" in scenes:
            _write_shift(log, seed, args, print_events=args.json)
        signal.pause()


def _bind_socket(args: Namespace) -> socket:
    from fleetlore.server.serve import bind_socket

    return bind_socket(args.host, args.port)


def _choose_seed(args: Namespace, log: BlockingRecorder) -> int:
    is_empty = log.head() is None
    if not (is_empty or args.into):
        raise Invalid(f"{config.mask_url(args.log)} is not empty; add --into to write to it anyway, or omit --log for a new one")
    # Events with the ids of an earlier demo in this log would be ignored as duplicates.
    return args.seed if args.seed is not None else SEED if is_empty else int(clock.now().timestamp())


def _write_story(log: BlockingRecorder, seed: int, args: Namespace) -> int:
    """Play the story and return its number of events."""
    from fleetlore.cli.demo.fleet import write_story

    timeline = write_story(seed)
    write = make_event_printer(json=args.json)
    for event in record_story(log, timeline, speed=args.speed):
        write(event)
        terminal.flush_output()
    return len(timeline)


def _start_server(args: Namespace, settings: Settings, log: BlockingRecorder, bound_socket: socket, stack: ExitStack) -> tuple[str, str]:
    """Start the server; return its URL and the write token."""
    from fleetlore.server.open_context import open_context
    from fleetlore.server.security.local_token import publish_url
    from fleetlore.server.serve import browser_url, serve_in_thread

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # set by `nohup`
            # These signals end the demo as Ctrl-C does.
            stack.callback(signal.signal, number, signal.signal(number, signal.default_int_handler))
    opened_context = stack.enter_context(open_context(log, settings, host=args.host))
    stack.enter_context(serve_in_thread(opened_context.context, bound_socket))
    url = browser_url(bound_socket, args.host)
    stack.enter_context(publish_url(opened_context.token_file, url))
    command.announce_server(args, opened_context, url)
    return url, opened_context.token


def _write_shift(log: BlockingRecorder, seed: int, args: Namespace, *, print_events: bool = True) -> None:
    """Record generated work of the fleet until Ctrl-C."""
    from fleetlore.cli.demo.shift import generate_shift

    write = make_event_printer(json=args.json)
    for pause, event in generate_shift(seed):
        time.sleep(pause / (args.speed or 1.0))
        live = replace(event, at=clock.now())
        [position] = log.append([live])
        if print_events:
            write(replace(live, position=position))
            terminal.flush_output()


def make_log_url(now: datetime) -> str:
    """Return the URL of a new log file in the user's data directory."""
    from fleetlore.log.connect import resolve_sqlite_path

    folder = os.path.dirname(resolve_sqlite_path(""))
    stem = os.path.join(folder, f"demo-{now.astimezone(None):%Y%m%d-%H%M%S}")
    path, count = f"{stem}.db", 1
    while os.path.exists(path):
        count += 1
        path = f"{stem}-{count}.db"
    # `%` and `?` have a meaning in log URLs.
    return "sqlite:" + path.replace("%", "%25").replace("?", "%3F")


def record_story(
    log: BlockingRecorder,
    timeline: list[tuple[float, Event]],
    *,
    speed: float,
    now: clock.Clock = clock.now,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Event]:
    """Record the story and yield each event once it is stored. Times are set so that the story ends when the playback ends."""
    length = timeline[-1][0]
    began = now()
    pace = PLAY_SECONDS / speed / length if speed else 0.0
    first = began + timedelta(seconds=length * pace - length)
    stamped = [(offset * pace, replace(event, at=first + timedelta(seconds=offset))) for offset, event in timeline]
    if not speed:
        positions = log.append([event for _, event in stamped])
        yield from (replace(event, position=position) for (_, event), position in zip(stamped, positions, strict=True))
        return
    for due, event in stamped:
        wait = due - (now() - began).total_seconds()
        if wait > 0:
            sleep(wait)
        [position] = log.append([event])
        yield replace(event, position=position)


def _print_next_steps(args: Namespace, count: int) -> None:
    address = _abbreviate_home(config.mask_url(args.log))
    log = f"--log {shlex.quote(address)}" + (f" --town {shlex.quote(args.town)}" if args.town else "")
    text = f"""
{count} events recorded in {address}

Now try:
  lore status {log}
      who needs you, who is working, who is silent
  lore story {log}
      everything as a story
  lore events {log} --scope task:wh-1
      the task that bram gave up and ada finished"""
    if args.json:
        terminal.print_error(text.strip().partition("\n")[0])
    else:
        terminal.print_line(text)


def _abbreviate_home(address: str) -> str:
    """The address with `~` for the home directory: shorter, and understood by `--log`."""
    home = os.path.expanduser("~").rstrip("/")
    return address.replace(f"sqlite:{home}/", "sqlite:~/", 1) if home else address


# --- Printing the events, one short line each.

_COLOURS = {"ada": 75, "bram": 179, "cleo": 176, "dov": 109, "edda": 114}
_BEATS = {
    "setback": ("✗", "31"),
    "release": ("↓", "33"),
    "recovery": ("↑", "32"),
    "deliver": ("✓", "1;32"),
    "feat": ("★", "1;35"),
    "judgement": ("⚖", "36"),
    "propose": ("→", "36"),
    "handoff": ("⇄", "36"),
    "together": ("∞", "36"),
    "claim": ("»", ""),
    "progress": ("+", ""),
    "rest": ("○", "2"),
    "pulse": ("·", "2"),
    "voice": ("“", ""),
}
"""Beat (role of an event in the story, see `catalog.find_beat`) → sign and colour code."""
_WAITING = ("▲", "1;33")


def make_event_printer(*, json: bool) -> Callable[[Event], None]:
    """A function that prints one event: JSON, plain columns, or colours for a terminal."""
    if json:
        return lambda event: terminal.print_json(codec.encode_with_position(event))
    if not terminal.is_terminal(sys.stdout):
        columns = PlainEventLines(None)
        return lambda event: terminal.print_line(columns.format_line(event))
    width, colour = terminal.terminal_width(sys.stdout), terminal.has_colour(sys.stdout)
    return lambda event: terminal.print_line(format_event(event, width=width, colour=colour))


def format_event(event: Event, *, width: int, colour: bool) -> str:
    """Time, sign, name, action, task and text of an event on one line."""
    sign, style = _WAITING if event.kind == "session.waiting" else _BEATS.get(catalog.find_beat(event) or "", (" ", ""))
    name, at = actor_name(event), event.at
    cells = (
        ("     " if at is None else at.astimezone(None).strftime("%H:%M"), "2"),
        (sign, style),
        (pad_columns(truncate_columns(name, 5), 5), f"38;5;{_COLOURS[name]}" if name in _COLOURS else "1"),
        (pad_columns(truncate_columns(_short_kind(event.kind), 15), 15), style),
        (pad_columns(truncate_columns(event.task or "", 4), 4), "2"),
        (truncate_columns(event_text(event), max(10, width - 40)), "2" if style == "2" else "1" if style.startswith("1;") else ""),
    )
    return "  ".join(f"\x1b[{style}m{cell}\x1b[0m" if colour and style else cell for cell, style in cells).rstrip()


def _short_kind(kind: str) -> str:
    """The kind in at most two words."""
    family, _, name = kind.partition(".")
    words = name.replace("mission_work", "work").replace("reviewer_", "").replace("_", " ")
    return words if " " in words or family in ("fleet", "town") else f"{family} {words}"
