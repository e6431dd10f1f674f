"""Opens the sessions of one log by id, each only for the identity that started it. Used by the server and `lore graph chat`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from fleetlore import clock, tasks
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event, is_name
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
from fleetlore.models.base import Model
from fleetlore.models.open import open_model
from fleetlore.views.conversations import GRAPH_PROGRAM

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NoSuchSession(Invalid):
    """No session with this id for this identity; does not reveal whether another identity has one."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no session {id[:80]!r} of yours; start a new one")


class TooManySessions(Invalid):
    """The limit is reached, and no open session is idle."""


class SessionManager:
    """Opens sessions, up to a limit; idle ones are closed first. Use it with `async with`."""

    def __init__(
        self,
        log: Recorder,
        settings: GraphSettings | None = None,
        *,
        models: Mapping[str, Model] | None = None,
        registry: Registry = REGISTRY,
        graphs: Iterable[Graph] = (),
        now: clock.Clock = clock.now,
        ticks: Callable[[], float] = clock.ticks,
        sleep: tasks.Sleep = tasks.sleep,
        spawn: tasks.Spawn = tasks.spawn,
        new_id: Callable[[], str] = clock.uuid7,
    ) -> None:
        self._log, self._settings, self._registry, self.new_id = log, settings or GraphSettings(), registry, new_id
        self._journal_options: dict[str, Any] = {"now": now, "ticks": ticks, "sleep": sleep, "spawn": spawn, "new_id": new_id}
        self._models: dict[str, Model] = dict(models or {})
        self._open_sessions: dict[str, Session] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # each lives while a task opens that session
        self._engines: dict[str, Engine] = {graph.name: Engine(graph, registry) for graph in graphs}
        self._stack = AsyncExitStack()
        self._context = SessionContext(
            models=self._models,
            settings=self._settings,
            get_engine=self._get_engine,
            reload_engine=self._reload_engine,
            reload_journal=self._reload_journal,
        )

    async def __aenter__(self) -> SessionManager:
        for profile, address in self._settings.minds.items():
            if profile not in self._models:
                self._models[profile] = await self._open_model(address)
        if DEFAULT_PROFILE not in self._models:
            self._models[DEFAULT_PROFILE] = create_scripted_model()
        self._get_engine(self._settings.default)  # fail now if the default graph is invalid
        return self

    async def _open_model(self, address: str) -> Model:
        return create_scripted_model() if address == SCRIPTED_ADDRESS else await self._stack.enter_async_context(open_model(address))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all sessions; running turns are recorded as interrupted."""
        await asyncio.gather(*(session.close() for session in self._open_sessions.values()), return_exceptions=True)
        self._open_sessions.clear()
        await self._stack.aclose()

    @property
    def default_graph(self) -> str:
        """The graph of a new session."""
        return self._get_engine(self._settings.default).graph.name

    def list_graphs(self) -> list[Graph]:
        """The valid graphs that a session can switch to, the default first."""
        graphs = []
        for name in dict.fromkeys((self._settings.default, *self._engines, *files.list_graphs(self._settings.folder))):
            try:
                graphs.append(self._get_engine(name).graph)
            except Invalid:
                continue  # `lore graph check` says why
        return graphs

    async def open_session(self, id: str, *, identity: str, channel: str) -> Session:
        """Open a session, or start it if there is none. `NoSuchSession` if it belongs to another identity or is no graph session."""
        if not _SESSION_ID.fullmatch(id) or not is_name(identity):
            raise NoSuchSession(id)
        async with self._locks.setdefault(id, asyncio.Lock()):
            session = self._open_sessions.get(id)
            if session is None or session.is_closed:
                self._open_sessions.pop(id, None)
                session = await self._load_session(id, identity, channel)
            elif session.session.identity != identity:
                raise NoSuchSession(id)
            self._open_sessions[id] = self._open_sessions.pop(id, session)  # most recently opened last
            return session

    async def read_events(self, id: str, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """Yield the stored events of a session."""
        async for event in self._log.read(f"run:{id}", after=after or None):
            yield event

    async def _load_session(self, id: str, identity: str, channel: str) -> Session:
        await self._close_idle_sessions()
        journal, graph = SessionJournal(self._log, id, **self._journal_options), self._get_engine(self._settings.default).graph
        data = {"source": "startup", "program": GRAPH_PROGRAM, "person": identity, "channel": channel[:200], "graph": graph.name}
        await journal.load_or_start(Event(kind="session.started", actor=identity, agent=graph.agent, run=id, data=data))
        if journal.is_other_run or journal.session.identity != identity:
            raise NoSuchSession(id)
        await self._prepare_journal(journal)
        self._open_sessions[id] = session = Session(journal, self._context)
        return session

    async def _prepare_journal(self, journal: SessionJournal) -> None:
        """End a turn that a crash interrupted, and choose a graph that exists."""
        conversation = journal.session
        if conversation.graph not in self._engines:
            try:
                self._get_engine(conversation.graph)
            except Invalid:  # its graph is missing or invalid: use the default
                conversation.graph = self._settings.default
        if conversation.open is not None:
            data = {"reason": "interrupted", "turn": conversation.turn}
            journal.note("session.turn_ended", data, cause=conversation.open, text="the turn was interrupted; send the message again")
            await journal.flush()

    async def _reload_journal(self, id: str) -> SessionJournal:
        journal = SessionJournal(self._log, id, **self._journal_options)
        if not await journal.catch_up() or journal.is_other_run:
            raise NoSuchSession(id)
        await self._prepare_journal(journal)
        return journal

    async def _close_idle_sessions(self) -> None:
        """Close sessions that are idle for long; at the limit, close any idle one, oldest first."""
        for id, session in list(self._open_sessions.items()):
            is_full = len(self._open_sessions) >= self._settings.most_sessions
            if not is_full and session.seconds_since_activity() < self._settings.idle_seconds:
                continue
            if session.is_idle and self._open_sessions.get(id) is session:  # a concurrent call may have closed it
                del self._open_sessions[id]
                await session.close()
        if len(self._open_sessions) >= self._settings.most_sessions:
            raise TooManySessions(f"{len(self._open_sessions)} sessions are open and at work; try again later")

    def _reload_engine(self, name: str) -> Engine:
        """Load the graph's file again, so that a graph can be edited while it runs. Sessions keep their current engine."""
        if (graph := files.find_graph(name, folder=self._settings.folder)) is not None:
            self._engines[name] = Engine(graph, self._registry)
        return self._get_engine(name)

    def _get_engine(self, name: str) -> Engine:
        """The engine of a graph, by name only; the default graph may also be a file."""
        if name not in self._engines:
            is_default = name == self._settings.default
            graph = (
                files.load_graph(name, folder=self._settings.folder) if is_default else files.find_graph(name, folder=self._settings.folder)
            )
            if graph is None:
                known = ", ".join(files.list_graphs(self._settings.folder))
                raise Invalid(f"no graph is called {name[:80]!r}; choose from {known}")
            engine = Engine(graph, self._registry)
            self._engines[name] = self._engines[graph.name] = engine
        return self._engines[name]
