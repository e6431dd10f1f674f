"""`lore up`: serve the control room and the API."""

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

HOST, PORT = "127.0.0.1", 7077
"""The same as in `server/serve.py`, which is not imported here to keep `--help` fast."""

_EXAMPLES = (
    ("lore up --open", "serve your log, and open it in the browser"),
    ("lore open", "open the running control room again, from another terminal"),
    ("lore up --log redis://127.0.0.1:6379 --town harbour --port 8080", "serve another log on another port"),
    ("lore up --open --mind openai:MODEL", "chat with a model on the Agent page"),
    ("lore token create --scope read && lore up --host 0.0.0.0 --allow-host tower.lan", "also serve other machines; they need the token"),
)
_NOTES = """\
Listens on this machine only, unless --host is given. Reading needs a token: `lore open` signs a
browser in for 90 days, `lore token` makes tokens for programs (docs/server.md). A sealed
log asks for its passphrase; without it pages are read-only (docs/sealing.md). While it runs, it
imports spooled hook events and does the jobs of `[ship]`, `[retention]`, `[[notify]]` and `[[sink]]` in
fleetlore.toml.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    add_place(parser)
    parser.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="a host name that browsers use for this machine; may be repeated"
    )
    graph_settings.add_options(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def add_place(parser: ArgumentParser) -> None:
    """Add `--host`, `--port` and `--open`; also used by `lore demo`."""
    parser.add_argument("--host", metavar="ADDRESS", default=HOST, help=f"address to listen on ({HOST})")
    parser.add_argument("--port", metavar="N", type=int, default=PORT, help=f"port; 0 means any free one ({PORT})")
    parser.add_argument("--open", action="store_true", help="open it in the browser, signed in")


def run(args: Namespace) -> int:
    """Serve until a signal."""
    from fleetlore.cli.up.background import run_background_jobs
    from fleetlore.server.open_context import open_context
    from fleetlore.server.security.local_token import publish_url
    from fleetlore.server.serve import bind_socket, browser_url, serve_app

    settings = open_log.load_settings_for(args)
    graph_settings.parse_model_options(args.mind)
    with ExitStack() as stack:
        opened = stack.enter_context(bind_socket(args.host, args.port))
        log = stack.enter_context(open_log.open_log(args, settings=settings))
        talking = partial(graph_settings.merge_graph_settings, settings, args)
        opened_context = stack.enter_context(
            open_context(log, settings, host=args.host, operator=_find_operator_key(settings), graph=talking)
        )
        url = browser_url(opened, args.host)
        stack.enter_context(publish_url(opened_context.token_file, url))
        stack.enter_context(drain_in_background())
        stack.enter_context(run_background_jobs(settings, opened_context.context, url))
        serve_app(opened_context.context, opened, allow_hosts=args.allow_host, on_ready=lambda: announce_server(args, opened_context, url))
    return 0


def _find_operator_key(settings: Settings) -> OperatorKey | None:
    from fleetlore.log.connect import split_url
    from fleetlore.log.coordination import open_shared

    if split_url(settings.log.value)[0] == "memory":
        return None
    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return passphrase.ask_key_if_given(shared, "to allow control commands from pages")


def announce_server(args: Namespace, opened_context: OpenedContext, url: str) -> None:
    """Print the URL, and open a browser with `--open`."""
    from fleetlore.server import pages

    where = f"; its token for programs is in {opened_context.token_file}" if opened_context.token_file else ""
    say = terminal.print_error if getattr(args, "json", False) else terminal.print_line
    say(f"The control room is at {url}{where}")
    if not pages.are_built():
        say("The pages are not built, so only the API is served; build them with `make web` in the checkout (needs Node 20).")
    if opened_context.is_sealed:
        say(_about_steering(opened_context, url))
    link = url.rstrip("/") + opened_context.create_link()
    if not args.open:
        say(f"Sign in with this link, once within two minutes: {link}" + (" (later: `lore open`)" if opened_context.token_file else ""))
    say("Ctrl-C ends it.")
    terminal.flush_output()
    if args.open:
        from threading import Thread

        # A terminal browser blocks its caller, which would be the server's event loop.
        Thread(target=open_browser, args=(link,), name="fleetlore-browser", daemon=True).start()


def _about_steering(opened_context: OpenedContext, url: str) -> str:
    """What pages can do on a sealed log. The token is only printed on the terminal: an agent of the same user could read any file."""
    if opened_context.admin_token is None:
        return "The log is sealed and no passphrase was given: pages are read-only."
    try:
        passphrase.print_to_tty(
            f"For control commands, open this URL (shown once, valid while this server runs):\n{url}#token={opened_context.admin_token}"
        )
    except Denied as error:
        return f"The log is sealed, and the admin URL could not be printed: {error}"
    return "The log is sealed: pages opened with the token printed on the terminal can send control commands."


def open_browser(link: str) -> None:
    """Open a browser with a one-time link; print the link if none could be opened."""
    import webbrowser

    if not webbrowser.open(link):
        terminal.print_error(f"lore: no browser could be opened here; open this link in one: {link}")
