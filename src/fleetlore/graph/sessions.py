"""The sessions of one log: opened by id from the log's fold, each for its own identity alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from weakref import WeakValueDictionary

from fleetlore import clock
from fleetlore.errors import Conflict, Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.graph import files
from fleetlore.graph.engine import Engine
from fleetlore.graph.journal import SessionJournal
from fleetlore.graph.model import Graph
from fleetlore.graph.registry import REGISTRY, Registry
from fleetlore.graph.scripted import SCRIPTED_ADDRESS, create_scripted_model
from fleetlore.graph.session import Session, SessionContext
from fleetlore.graph.settings import GraphSettings
from fleetlore.graph.step_runner import DEFAULT_PROFILE
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect
from fleetlore.models.base import Model
from fleetlore.models.open import open_model
from fleetlore.views.conversation_state import Conversation
from fleetlore.views.conversations import GRAPH_PROGRAM, apply_to_session, is_session_start

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NoSuchSession(Invalid):
    """There is none of that id for this identity; somebody else's is not told apart from none."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no session {id[:80]!r} of yours; begin a new one")


class TooManySessions(Invalid):
    """As many are open and at work as there may be."""


class SessionManager:
    """Opens sessions, for `async with`; at most so many, of which the quiet ones are closed first."""

    def __init__(
        self,
        log: Recorder,
        settings: GraphSettings | None = None,
        *,
        minds: Mapping[str, Model] | None = None,
        registry: Registry = REGISTRY,
        graphs: Iterable[Graph] = (),
        now: clock.Clock = clock.now,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._log, self._settings, self._registry, self._now = log, settings or GraphSettings(), registry, now
        self._models: dict[str, Model] = dict(minds or {})
        self._open_sessions: dict[str, Session] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # each as long as somebody opens that session
        self._engines: dict[str, Engine] = {graph.name: Engine(graph, registry) for graph in graphs}
        self._stack = AsyncExitStack()
        self._context = SessionContext(
            models=self._models,
            settings=self._settings,
            get_engine=self._get_engine,
            reload_engine=self._reload_engine,
            reload_journal=self._reload_journal,
            now=now,
            sleep=sleep,
        )

    async def __aenter__(self) -> SessionManager:
        for profile, address in self._settings.minds.items():
            if profile not in self._models:
                self._models[profile] = await self._open_model(address)
        if DEFAULT_PROFILE not in self._models:
            self._models[DEFAULT_PROFILE] = create_scripted_model()
        self._get_engine(self._settings.default)  # what is wrong with it is said at once
        return self

    async def _open_model(self, address: str) -> Model:
        return create_scripted_model() if address == SCRIPTED_ADDRESS else await self._stack.enter_async_context(open_model(address))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every session, what they were doing told to the log."""
        await asyncio.gather(*(session.close() for session in self._open_sessions.values()), return_exceptions=True)
        self._open_sessions.clear()
        await self._stack.aclose()

    @property
    def default_graph(self) -> str:
        """The graph of a new session."""
        return self._get_engine(self._settings.default).graph.name

    def list_graphs(self) -> list[Graph]:
        """Those that a session can switch to and that can be run, the default first."""
        graphs = []
        for name in dict.fromkeys((self._settings.default, *self._engines, *files.names(self._settings.folder))):
            try:
                graphs.append(self._get_engine(name).graph)
            except Invalid:
                continue  # `lore graph check` tells why
        return graphs

    def new_id(self) -> str:
        """An id for a new session."""
        return clock.uuid7()

    async def open_session(self, id: str, *, identity: str, channel: str) -> Session:
        """The session of that id, made if there is none; `NoSuchSession` where it belongs to another identity or is no session of ours."""
        if not _SESSION_ID.fullmatch(id) or not is_name(identity):
            raise NoSuchSession(id)
        async with self._locks.setdefault(id, asyncio.Lock()):
            session = self._open_sessions.get(id)
            if session is None or session.is_closed:
                self._open_sessions.pop(id, None)
                session = await self._load_session(id, identity, channel)
            elif session.session.identity != identity:
                raise NoSuchSession(id)
            self._open_sessions[id] = self._open_sessions.pop(id, session)  # the newest last
            return session

    async def read_events(self, id: str, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """What the log has of a session."""
        async for event in self._log.read(f"run:{id}", after=after or None):
            yield event

    async def _load_session(self, id: str, identity: str, channel: str) -> Session:
        await self._close_idle_sessions()
        fold = await self._fold_session(id)
        if fold is None:
            fold = await self._start_session(id, identity, channel)
        if fold.identity != identity:
            raise NoSuchSession(id)
        self._open_sessions[id] = session = Session(await self._open_journal(fold), self._context)
        return session

    async def _fold_session(self, id: str) -> Conversation | None:
        """The session as the log has it; `None` if nothing has that id, and nobody's where something else has."""
        fold: Conversation | None = None
        async for event in self._log.read(f"run:{id}"):
            if fold is None:
                if not is_session_start(event):
                    raise NoSuchSession(id)
                fold = Conversation(id=id)
            apply_to_session(fold, event)
        return fold

    async def _start_session(self, id: str, identity: str, channel: str) -> Conversation:
        """A new session, if nobody else begins it at the same moment."""
        graph = self._get_engine(self._settings.default).graph
        fold = Conversation(id=id)
        data = {"source": "startup", "program": GRAPH_PROGRAM, "person": identity, "channel": channel[:200], "graph": graph.name}
        event = Event(id=clock.uuid7(), at=self._now(), kind="session.started", actor=identity, agent=graph.agent, run=id, data=data)
        try:
            await self._log.append([event], expect=Expect(f"run:{id}", None))
        except Conflict:
            return await self._fold_session(id) or fold
        apply_to_session(fold, event)
        return fold

    async def _open_journal(self, fold: Conversation) -> SessionJournal:
        """A pen for it; a turn that a crash broke off is ended first."""
        pen = SessionJournal(self._log, fold, now=self._now)
        if fold.graph not in self._engines:
            try:
                self._get_engine(fold.graph)
            except Invalid:  # its graph is gone, or broken: go on by the usual one
                fold.graph = self._settings.default
        if fold.open is not None:
            data = {"reason": "interrupted", "turn": fold.turn}
            pen.note("session.turn_ended", data, cause=fold.open, text="the turn was broken off; say it again")
            await pen.flush_events()
        return pen

    async def _reload_journal(self, id: str) -> SessionJournal:
        fold = await self._fold_session(id)
        if fold is None:
            raise NoSuchSession(id)
        return await self._open_journal(fold)

    async def _close_idle_sessions(self) -> None:
        """Close those that nobody listens to and that have been still for long; if that is not enough, the stillest."""
        for id, session in list(self._open_sessions.items()):
            full = len(self._open_sessions) >= self._settings.most_sessions
            if not full and session.seconds_since_activity() < self._settings.idle_seconds:
                continue
            if session.is_idle and self._open_sessions.get(id) is session:  # another who makes room may have been faster
                del self._open_sessions[id]
                await session.close()
        if len(self._open_sessions) >= self._settings.most_sessions:
            raise TooManySessions(f"{len(self._open_sessions)} sessions are open and at work; try again later")

    def _reload_engine(self, name: str) -> Engine:
        """The engine of a graph as its file is now, so that a graph can be changed while it runs; those in use go on as they were."""
        if (found := files.find(name, folder=self._settings.folder)) is not None:
            self._engines[name] = Engine(found, self._registry)
        return self._get_engine(name)

    def _get_engine(self, name: str) -> Engine:
        """The engine of a graph, by name alone; the default may be a file."""
        if name not in self._engines:
            is_default = name == self._settings.default
            found = files.load(name, folder=self._settings.folder) if is_default else files.find(name, folder=self._settings.folder)
            if found is None:
                known = ", ".join(files.names(self._settings.folder))
                raise Invalid(f"no graph is called {name[:80]!r}; known are {known}")
            engine = Engine(found, self._registry)
            self._engines[name] = self._engines[found.name] = engine
        return self._engines[name]
