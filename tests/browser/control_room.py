"""A log in a folder and a control room for it, which can be closed and opened again at the same address, as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from fleetlore import Event, connect
from fleetlore import settings as config
from fleetlore.graph.settings import GraphSettings
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.tokens import TokenScope, create_token
from fleetlore.server.context import AppContext
from fleetlore.server.open_context import open_context
from fleetlore.server.serve import bind_socket, serve_in_thread
from tests.server.serving import HOST, homely


class ControlRoom:
    """Open it with `start`; what is told with `tell` is stored whether it is open or not."""

    def __init__(self, folder: Path, log: BlockingRecorder, *, host: str = HOST) -> None:
        self.folder, self.log, self.host = folder, log, host
        self.graph: GraphSettings | None = None
        """What agents talk with; set it before `start`."""
        self.port, self.token = 0, ""
        self._context: AppContext | None = None
        self._open = ExitStack()

    @property
    def address(self) -> str:
        """That of the log."""
        return log_in(self.folder)

    @property
    def url(self) -> str:
        """That of the room, as a browser on this machine says it; without a slash at its end."""
        return f"http://{HOST}:{self.port}"

    @property
    def context(self) -> AppContext:
        assert self._context is not None, "it is not open"
        return self._context

    def start(self) -> ControlRoom:
        settings = config.load_settings(log=self.address, environ={}, folder=str(self.folder))
        with ExitStack() as stack:
            log = stack.enter_context(connect(self.address).blocking())
            listening = stack.enter_context(bind_socket(self.host, self.port))
            graph = self.graph
            rooms = stack.enter_context(open_context(log, settings, host=self.host, graph=None if graph is None else lambda: graph))
            self._context, self.token = rooms.context, rooms.token
            self.port = listening.getsockname()[1]
            stack.enter_context(serve_in_thread(rooms.context, listening))
            self._open = stack.pop_all()
        return self

    def stop(self) -> None:
        self._open.close()
        self._context = None

    def create_token(self, scope: TokenScope) -> str:
        """The secret of a new token."""
        secret, token = create_token(scope, now=datetime.now(UTC), label="a test")
        with open_shared(self.address, town="default") as shared:
            shared.save_token(token)
        return secret

    def record(self, *events: Event) -> list[str]:
        """Store events; their ids."""
        positions = self.log.append(events)
        return [event.id or "" for event in self.log.read(limit=len(events), after=before(positions[0]))]

    def stored(self) -> list[Event]:
        return list(self.log.read())


def log_in(folder: Path) -> str:
    return f"sqlite:{folder}/fleet.db"


def before(position: str) -> str | None:
    """The place right before a position of a SQLite log."""
    number = int(position) - 1
    return str(number).zfill(len(position)) if number > 0 else None


@contextmanager
def room_in(folder: Path, *, host: str = HOST) -> Iterator[ControlRoom]:
    """A room that is not open yet; closed at the end of the block, whatever happens in it."""
    with homely(folder), connect(log_in(folder)).blocking() as log:
        room = ControlRoom(folder, log, host=host)
        try:
            yield room
        finally:
            room.stop()


def ago(minutes: float) -> datetime:
    return datetime.now(UTC) - timedelta(minutes=minutes)


def action(agent: str, text: str, kind: str = "fleet.commit", *, at: datetime | None = None, **more: Any) -> Event:
    """Something that an agent did."""
    return Event(kind=kind, agent=agent, text=text, at=at, **more)


def asks(agent: str, text: str, **more: Any) -> Event:
    """An agent cannot go on without a person."""
    return Event(kind="session.waiting", agent=agent, text=text, data={"why": "permission"}, **more)


def reply(agent: str, usd: float, *, model: str = "sonnet", at: datetime | None = None) -> Event:
    """An answer of a model, and what it cost."""
    figures = {"model": model, "input": 1000, "output": 500, "usd": usd}
    return Event(kind="model.replied", agent=agent, at=at, data=figures)


def wait_until(page: Page, is_so: Callable[[], bool]) -> None:
    """Wait for something outside of the page; what happens to its requests is told meanwhile."""
    while not is_so():
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")
