"""`lore graph chat`: a chat session in the terminal."""

from __future__ import annotations

import asyncio
import getpass
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any

from fleetlore.cli import open_log, terminal
from fleetlore.cli.graph.settings import load_graph_settings
from fleetlore.cli.main import INTERRUPTED, OK
from fleetlore.errors import Invalid
from fleetlore.log.connect import connect

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.graph.session import Session
    from fleetlore.graph.sink import SinkMessage

HELP = (
    "/press ACTION presses a button, /switch GRAPH changes the graph, /screen shows the screen, /clear deletes the conversation, /quit ends"
)


def run_chat(args: Namespace) -> int:
    """Chat until the input ends."""
    try:
        return asyncio.run(_run_chat(args))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _run_chat(args: Namespace) -> int:
    from fleetlore.graph.sessions import SessionManager

    settings = open_log.load_settings_for(args)
    open_log.drain_spool()
    redactor, anonymise = open_log.make_redactor(settings), open_log.load_anonymiser(settings)
    keeps_whole_texts = settings.whole_texts.value
    log = connect(settings.log.value, town=settings.town.value, redactor=redactor, anonymise=anonymise, keeps_whole_texts=keeps_whole_texts)
    async with log as recorder, SessionManager(recorder, load_graph_settings(args)) as sessions:
        id = args.session or sessions.new_id()
        session = await sessions.open_session(id, identity=getpass.getuser(), channel="terminal")
        if args.graph is not None and session.graph.name != sessions.default_graph:
            await session.switch_graph(args.graph)
        output = _JsonOutput() if args.json else _TextOutput()
        session.attach_sink(output)
        if not args.json:
            terminal.print_error(terminal.sanitise_text(f"session {id}, graph {session.graph.name}"))
            terminal.print_error("\n".join(f"  {command}" for command in HELP.split(", ")))
            output.print_screen(session)
        await _handle_input(session, output)
    return OK


async def _handle_input(session: Session, output: _JsonOutput | _TextOutput) -> None:
    lines = _read_stdin()
    output.print_prompt()
    while (line := await lines.get()) is not None:
        if line.strip() == "/quit":
            break
        try:
            await _handle_line(session, output, line.strip())
        except Invalid as error:
            terminal.print_error(terminal.sanitise_text(f"lore: {error}"))
        output.print_prompt()


async def _handle_line(session: Session, output: _JsonOutput | _TextOutput, line: str) -> None:
    word, _, rest = line.partition(" ")
    match word:
        case "":
            return
        case "/press":
            await session.handle_action(rest.strip())
        case "/switch":
            await session.switch_graph(rest.strip())
        case "/clear":
            await session.clear_conversation()
        case "/screen":
            output.print_screen(session)
        case _ if word.startswith("/"):
            raise Invalid(f"unknown command: {word}; {HELP}")
        case _:
            await session.handle_text(line)


def _read_stdin() -> asyncio.Queue[str | None]:
    """Lines from standard input, `None` at the end. Read in a daemon thread, because the read cannot be cancelled."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except RuntimeError:  # the session ended first
            return

    Thread(target=read, name="fleetlore-typing", daemon=True).start()
    return lines


class _TextOutput:
    """Prints replies as they stream in, and the screen when it changes."""

    def __init__(self) -> None:
        self._controls: list[dict[str, Any]] | None = None
        self._is_in_line = False  # whether a reply is printed that does not end with a newline yet

    def send(self, message: SinkMessage) -> None:
        """Print a message."""
        match message["type"]:
            case "delta":
                self._is_in_line = True
                for number, part in enumerate(str(message["content"]).split("\n")):
                    sys.stdout.write(("\n" if number else "") + terminal.sanitise_text(part))
                sys.stdout.flush()
            case "controls":
                self._controls = message["controls"]
            case "error":
                self._end_line()
                terminal.print_error(terminal.sanitise_text(f"lore: {message['message']}"))
            case "done":
                self._end_line()
                self._print_controls(self._controls)
                self._controls = None

    def _end_line(self) -> None:
        if self._is_in_line:
            terminal.print_line("")
        self._is_in_line = False

    def print_screen(self, session: Session) -> None:
        """Print the screen."""
        self._print_controls(session.build_screen().controls)

    def _print_controls(self, controls: list[dict[str, Any]] | None) -> None:
        for control in controls or ():
            terminal.print_line(terminal.sanitise_text(f"  {_control_line(control)}"))

    def print_prompt(self) -> None:
        """Print `> ` if both input and output are terminals."""
        if terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout):
            sys.stdout.write("> ")
            sys.stdout.flush()


class _JsonOutput:
    """Prints every message as a line of JSON."""

    def send(self, message: SinkMessage) -> None:
        """Print a message."""
        terminal.print_value(message)

    def print_screen(self, session: Session) -> None:
        """Print the screen as JSON."""
        import msgspec

        terminal.print_value(msgspec.to_builtins(session.build_screen()))

    def print_prompt(self) -> None:
        """Do nothing: programs need no prompt."""


def _control_line(control: dict[str, Any]) -> str:
    match control.get("type"):
        case "button":
            return f"[{control.get('label')}]  /press {control.get('action')}"
        case "label":
            return f"{control.get('text')}: {control.get('value')}"
        case "table":
            rows = [control.get("columns", []), *control.get("data", [])[:10]]
            return " / ".join(" | ".join(map(str, row)) for row in rows)
        case other:
            return str(other)
