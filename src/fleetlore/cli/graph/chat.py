"""`lore graph chat`: a conversation in the terminal, line by line."""

from __future__ import annotations

import asyncio
import getpass
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any

from fleetlore.cli import open_log, terminal
from fleetlore.cli.graph.command import settings_of
from fleetlore.cli.main import INTERRUPTED, OK
from fleetlore.errors import Invalid
from fleetlore.log.connect import connect

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.graph.session import Session
    from fleetlore.graph.sink import SinkMessage

HELP = "/press ACTION presses a button, /switch GRAPH changes the graph, /screen shows the screen, /clear forgets all, /quit ends"


def chat(args: Namespace) -> int:
    """Talk until the input ends."""
    try:
        return asyncio.run(_talk(args))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _talk(args: Namespace) -> int:
    from fleetlore.graph.sessions import SessionManager

    settings = open_log.settings_of(args)
    open_log.drain_spool()
    redactor, veil = open_log.redactor_of(settings), open_log.veil_of(settings)
    log = connect(settings.log.value, town=settings.town.value, redactor=redactor, veil=veil)
    async with log as recorder, SessionManager(recorder, settings_of(args)) as sessions:
        id = args.session or sessions.new_id()
        session = await sessions.open_session(id, identity=getpass.getuser(), channel="terminal")
        if args.graph is not None and session.graph.name != sessions.default_graph:
            await session.switch_graph(args.graph)
        voice = _Json() if args.json else _Voice()
        session.attach_sink(voice)
        if not args.json:
            terminal.err(terminal.sanitise(f"session {id}, graph {session.graph.name}"))
            terminal.err("\n".join(f"  {each}" for each in HELP.split(", ")))
            voice.show(session)
        await _converse(session, voice)
    return OK


async def _converse(session: Session, voice: _Json | _Voice) -> None:
    lines = _lines()
    voice.prompt()
    while (line := await lines.get()) is not None:
        if line.strip() == "/quit":
            break
        try:
            await _act(session, voice, line.strip())
        except Invalid as error:
            terminal.err(terminal.sanitise(f"lore: {error}"))
        voice.prompt()


async def _act(session: Session, voice: _Json | _Voice, line: str) -> None:
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
            voice.show(session)
        case _ if word.startswith("/"):
            raise Invalid(f"no such command: {word}; {HELP}")
        case _:
            await session.handle_text(line)


def _lines() -> asyncio.Queue[str | None]:
    """What is typed, line by line; `None` at the end. A thread of its own, which nobody has to wait for."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except RuntimeError:  # the conversation ended first
            return

    Thread(target=read, name="fleetlore-typing", daemon=True).start()
    return lines


class _Voice:
    """Writes a reply as it comes, and what is on the screen once it changes."""

    def __init__(self) -> None:
        self._controls: list[dict[str, Any]] | None = None
        self._is_speaking = False

    def send(self, message: SinkMessage) -> None:
        """One message."""
        match message["type"]:
            case "delta":
                self._is_speaking = True
                for number, part in enumerate(str(message["content"]).split("\n")):
                    sys.stdout.write(("\n" if number else "") + terminal.sanitise(part))
                sys.stdout.flush()
            case "controls":
                self._controls = message["controls"]
            case "error":
                self._end_line()
                terminal.err(terminal.sanitise(f"lore: {message['message']}"))
            case "done":
                self._end_line()
                self._show(self._controls)
                self._controls = None

    def _end_line(self) -> None:
        if self._is_speaking:
            terminal.out("")
        self._is_speaking = False

    def show(self, session: Session) -> None:
        """All that is on the screen."""
        self._show(session.build_screen().controls)

    def _show(self, controls: list[dict[str, Any]] | None) -> None:
        for control in controls or ():
            terminal.out(terminal.sanitise(f"  {_line(control)}"))

    def prompt(self) -> None:
        """Whose turn it is, where somebody sits."""
        if terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout):
            sys.stdout.write("> ")
            sys.stdout.flush()


class _Json:
    """Every message as one line of JSON."""

    def send(self, message: SinkMessage) -> None:
        """One message."""
        terminal.out_value(message)

    def show(self, session: Session) -> None:
        """The screen, as the page has it."""
        import msgspec

        terminal.out_value(msgspec.to_builtins(session.build_screen()))

    def prompt(self) -> None:
        """Nobody sits there."""


def _line(control: dict[str, Any]) -> str:
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
