"""`lore up`: the control room, in the browser."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, passphrase, terminal
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.graph import settings as graph_settings
from fleetlore.errors import Denied

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.seal import OperatorKey
    from fleetlore.server.open_context import OpenedContext
    from fleetlore.settings import Settings

SUMMARY = "serve the control room and the API of this log"

HOST, PORT = "127.0.0.1", 7077
"""As `server/serve.py` says; that one is not loaded for the sake of `--help`."""

_EXAMPLES = (
    ("lore up --open", "serve your log, and show it in the browser"),
    ("lore up --log redis://127.0.0.1:6379 --town harbour --port 8080", "another log, at another port"),
    ("lore up --open --mind openai:MODEL", "talk to an agent on the Agent page, answered by a model"),
    ("lore token create --scope read && lore up --host 0.0.0.0 --allow-host tower.lan", "for others too: they need the token"),
)
_NOTES = """\
It listens on this machine only unless --host says otherwise; elsewhere reading needs a token, too (docs/server-safety.md).
A sealed log asks for its passphrase: without it, pages show everything and steer nothing (docs/sealing.md).
What hooks have left, `[ship]`, `[retention]` and `[[notify]]` of fleetlore.toml are seen to as long as it runs.
"""


def configure(parser: ArgumentParser) -> None:
    """Where to listen."""
    add_place(parser)
    parser.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="a name under which browsers reach this machine; may be repeated"
    )
    graph_settings.add_options(parser)
    arguments.teach(parser, _EXAMPLES, _NOTES)


def add_place(parser: ArgumentParser) -> None:
    """`--host`, `--port` and `--open`, which `lore demo` has, too."""
    parser.add_argument("--host", metavar="ADDRESS", default=HOST, help=f"the address to listen at ({HOST})")
    parser.add_argument("--port", metavar="N", type=int, default=PORT, help=f"the port; 0 takes any that is free ({PORT})")
    parser.add_argument("--open", action="store_true", help="show it in the browser, with the right to write")


def run(args: Namespace) -> int:
    """Serve until told to stop."""
    from fleetlore.cli.up.background import run_background_jobs
    from fleetlore.server.open_context import open_context
    from fleetlore.server.serve import bind_socket, browser_url, serve

    settings = open_log.settings_of(args)
    graph_settings.parse_model_options(args.mind)
    with ExitStack() as stack:
        opened = stack.enter_context(bind_socket(args.host, args.port))
        log = stack.enter_context(open_log.open_log(args, settings=settings))
        talking = partial(graph_settings.merge_graph_settings, settings, args)
        rooms = stack.enter_context(open_context(log, settings, host=args.host, operator=_find_operator_key(settings), graph=talking))
        url = browser_url(opened, args.host)
        stack.enter_context(drain_in_background())
        stack.enter_context(run_background_jobs(settings, rooms.context, url))
        serve(rooms.context, opened, allow_hosts=args.allow_host, on_ready=lambda: announce_server(args, rooms, url))
    return 0


def _find_operator_key(settings: Settings) -> OperatorKey | None:
    from fleetlore.log.connect import split_url
    from fleetlore.log.coordination import open_shared

    if split_url(settings.log.value)[0] == "memory":
        return None
    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return passphrase.ask_key_if_given(shared, "to let pages steer")


def announce_server(args: Namespace, rooms: OpenedContext, url: str) -> None:
    """Say where it is, and show it if that was asked for."""
    from fleetlore.server import pages

    where = f"; its token for writing is in {rooms.token_file}" if rooms.token_file else ""
    say = terminal.err if getattr(args, "json", False) else terminal.out
    say(f"The control room is at {url}{where}")
    if not pages.are_built():
        say("Its pages are not built, so only the API is there: `make web` in the checkout makes them (it needs Node 20).")
    if rooms.is_sealed:
        say(_about_steering(rooms, url))
    say("Ctrl-C ends it.")
    terminal.flush()
    if args.open:
        from threading import Thread

        # A browser of the terminal's kind keeps whoever opens it, and that is the server's own loop.
        Thread(target=open_browser, args=(url, rooms.token), name="fleetlore-browser", daemon=True).start()


def _about_steering(rooms: OpenedContext, url: str) -> str:
    """What pages can do on a sealed log. The token goes to the terminal alone: an agent of the same user could read any file."""
    if rooms.admin_token is None:
        return "The log is sealed, and its passphrase was not given: pages show everything and steer nothing."
    try:
        passphrase.print_to_tty(
            f"To steer, open this; it is shown this once, and good as long as this server runs:\n{url}#token={rooms.admin_token}"
        )
    except Denied as error:
        return f"The log is sealed, and nobody can be told how to steer: {error}"
    return "The log is sealed: pages that have the token shown on the terminal can steer."


def open_browser(url: str, token: str) -> None:
    """Open a browser; the token goes behind the #, which no browser sends to any server."""
    import webbrowser

    if not webbrowser.open(f"{url}#token={token}"):
        terminal.err(f"lore: no browser could be opened here; open {url} yourself; with #token=… behind it pages can write, too")
