"""`lore mcp`: an MCP server on standard input and output, by which one agent asks what the fleet is doing. See docs/mcp.md."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from fleetlore import settings as config
from fleetlore.cli import arguments, open_log
from fleetlore.errors import ConfigError, Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.operations.sources import OnDemandSource
    from fleetlore.server.mcp.caller import Caller
    from fleetlore.settings import Settings

AGENT = "FLEETLORE_AGENT"
"""The variable that says for whom a process speaks."""
AT_WORK = "LORE_AGENT"
"""The same where a worker of the town started it."""
_EXAMPLES = (
    ("claude mcp add fleetlore -- lore mcp", "let Claude Code read your log"),
    ("claude mcp add fleetlore -- lore mcp --write --agent ada", "and send messages and notes as ada"),
    ("lore mcp --log redis://127.0.0.1:6379 --town harbour", "another log"),
)
_NOTES = f"""\
Talks to the program that starts it, one JSON-RPC message per line, and ends with its input. The
speaker is set by --agent or {AGENT}, never by a request. `lore up` serves the same at /mcp,
with a token.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--write", action="store_true", help="let it send messages and notes; it needs a name to speak under")
    parser.add_argument("--admin", action="store_true", help="also let it control agents, tasks, missions and goals, and answer approvals")
    parser.add_argument("--agent", metavar="NAME", help=f"the agent that it speaks for (default: {AGENT} of the environment)")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Serve requests until the program closes our input."""
    caller = _find_caller(args, os.environ.get(AGENT) or os.environ.get(AT_WORK))
    try:
        from fleetlore.server.mcp.stdio import serve_stdio
    except ModuleNotFoundError as error:
        raise ConfigError(f"mcp: its library is not installed ({error.name}); pip install 'fleetlore[mcp]'") from error
    settings = open_log.load_settings_for(args)
    with ExitStack() as stack:
        log = stack.enter_context(_open_log(args, settings))
        serve_stdio(_open_source(log, settings, stack), caller)
    return 0


def _find_caller(args: Namespace, of_environment: str | None) -> Caller:
    from fleetlore.events.envelope import is_name
    from fleetlore.server.mcp.caller import Caller

    name = args.agent if args.agent is not None else of_environment or None
    if name is not None and not is_name(name):
        raise Invalid(f"--agent: {name!r} is not a valid name; use 1 to 200 bytes without control characters")
    can_write = args.write or args.admin
    if can_write and name is None:
        raise Invalid(f"--write needs an agent name; use --agent NAME, or set {AGENT}")
    refusal = "" if can_write else "this MCP server is read-only; start it with `lore mcp --write --agent NAME`"
    return Caller(name, can_write, refusal, can_admin=args.admin)


def _open_log(args: Namespace, settings: Settings) -> BlockingRecorder:
    """Open the log. The user's own log may not exist yet; any other that is missing is an error."""
    own = settings.log.source == config.DEFAULT
    return open_log.open_log(args, settings=settings) if own else open_log.open_existing_log(args, settings=settings)


def _open_source(log: BlockingRecorder, settings: Settings, stack: ExitStack) -> OnDemandSource:
    """The views of a log, folded on demand from what its store keeps."""
    from fleetlore.operations.context import open_source

    said: set[str] = set()
    return stack.enter_context(open_source(log, settings, refresh=lambda: open_log.drain_spool(said=said)))
