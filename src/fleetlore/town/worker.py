"""A worker: one process that runs agents of a town, on any machine that reaches the log. It lives by a lease that it renews.

When the lease is lost (the machine slept, the server was away), everything is broken off, and the worker begins anew under another
epoch: what it was at belongs to somebody else by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Invalid, LogError
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.kernel.lease import LeaseHolder, make_holder_name
from fleetlore.log.coordination import Coordination
from fleetlore.projections.runner import Runner, view_of
from fleetlore.projections.store import ProjectionStore
from fleetlore.town import events, liveness
from fleetlore.town.agent_loop import AgentLoop, AgentStatusCallback
from fleetlore.town.jobs import JobHandler
from fleetlore.town.journal import TownJournal
from fleetlore.town.reclaim import release_agent
from fleetlore.town.subscriptions import MAX_SEPARATE_FOLLOWERS, AgentSubscriptions
from fleetlore.views.town_state import Agent, Task, TownState

LEASE_SECONDS = 12.0
LONG_NAME_THRESHOLD = 100
"""New agents at once that need longer names to be told apart."""
AGENT_SCAN_SECONDS = 1.0
"""How often a worker with room looks for agents that nobody runs."""
RETRY_SECONDS = 1.0


class Worker:
    """Runs so many agents: those named, or any that nobody runs and that have one of its roles; where there are none, new ones."""

    def __init__(
        self,
        scribe: TownJournal,
        shared: Coordination,
        work: JobHandler,
        *,
        names: Sequence[str] = (),
        roles: Sequence[str] = (),
        concurrency: int = 1,
        harness: str = "",
        store: ProjectionStore | None = None,
        lease_seconds: float = LEASE_SECONDS,
        look_seconds: float = AGENT_SCAN_SECONDS,
        say: AgentStatusCallback = lambda who, what: None,
    ) -> None:
        for name in (*names, *roles):
            if not is_name(name):
                raise Invalid(f"not a name: {name!r}; 1 to 200 bytes without control characters are needed")
        self._scribe, self._shared, self._work, self._store = scribe, shared, work, store
        self._names, self._roles, self._harness = list(names), list(roles), harness
        self._most = max(concurrency, len(names))
        self._are_many = self._most > MAX_SEPARATE_FOLLOWERS
        self._seconds, self._look, self._say = lease_seconds, look_seconds, say
        self.name = make_holder_name()
        self._town: TownState = scribe.believed.initial()
        self._position = ""
        self._has_begun = False
        self._lives: dict[str, asyncio.Task[str]] = {}
        self._of: dict[str, AgentLoop] = {}
        self._refused: dict[str, float] = {}
        self._left: list[str] = []
        self._unable: set[str] = set()
        """Agents that could not work here: nobody else is taken on until somebody has seen to that, and restarted one of them."""

    @property
    def running(self) -> list[str]:
        """The agents that it runs just now."""
        return list(self._of)

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; then everything is let go, and nothing is lost."""
        while not stop.is_set():
            hold = LeaseHolder(
                self._shared,
                liveness.lease_name(self.name),
                holder=self.name,
                seconds=self._seconds,
                renew=self._seconds / liveness.RENEWALS_PER_LEASE,
            )
            try:
                async with hold as lease:
                    await self._serve(hold, liveness.format_worker_lease(lease), stop)
            except LogError as error:
                self._say(self.name, f"cannot reach the log just now: {error}")
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS):
                        await stop.wait()

    async def _serve(self, hold: LeaseHolder, lease: str, stop: asyncio.Event) -> None:
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(hold.lost.wait())]
        try:
            if self._are_many:
                await asyncio.to_thread(self._catch_up)
            async with AgentSubscriptions(
                self._scribe.log, after=self._position or None, hear=self._hear if self._are_many else None
            ) as ears:
                try:
                    while not any(end.done() for end in ends) and not ears.are_deaf:
                        await self._take_on(ears, lease)
                        await asyncio.wait([*ends, *self._lives.values()], timeout=self._look, return_when=asyncio.FIRST_COMPLETED)
                        self._bury()
                finally:
                    await self._let_go("its worker was stopped" if stop.is_set() else "its worker lost its lease")
        finally:
            for end in ends:
                end.cancel()

    async def _let_go(self, reason: str) -> None:
        for life in self._of.values():
            life.leave(reason)
        if self._lives:
            await asyncio.wait(self._lives.values(), timeout=self._seconds)
            for task in self._lives.values():
                task.cancel()
            await asyncio.gather(*self._lives.values(), return_exceptions=True)
        self._bury()

    def _bury(self) -> None:
        for name, task in list(self._lives.items()):
            if not task.done():
                continue
            del self._lives[name], self._of[name]
            self._left.append(name)
            error = None if task.cancelled() else task.exception()
            self._say(name, f"leaves: {error or ('broken off' if task.cancelled() else task.result())}")
            self._refused[name] = asyncio.get_running_loop().time() + self._look

    # --- whom to run

    async def _take_on(self, ears: AgentSubscriptions, lease: str) -> None:
        room = self._most - len(self._lives)
        if room <= 0:
            return
        if not self._are_many:
            await asyncio.to_thread(self._catch_up)
        for name in [name for name in self._town.holdings.get(lease, ()) if name not in self._lives]:
            await release_agent(self._scribe, self._town, self._town.agents[name], "its life on this worker ended by a fault", by=self.name)
        self._see_who_is_unable()
        for name in await self._whom(room):
            life = AgentLoop(name, self._scribe, self._work, lease=lease, seconds=self._seconds, known=self._known, say=self._say)
            self._of[name] = life
            self._lives[name] = asyncio.create_task(life.live(ears))

    def _catch_up(self) -> None:
        log, believed = self._scribe.log.for_threads(), self._scribe.believed
        if not self._position:
            folded = Runner(log, view_of(believed, believed.name), self._store).catch_up()
            self._town, self._position = folded.state, folded.position or ""
            return
        for event in log.read(after=self._position):
            self._hear(event)

    def _hear(self, event: Event) -> None:
        self._town, self._position = self._scribe.believed.apply(self._town, event), event.position or self._position

    def _known(self, id: str) -> Task | None:
        """A task as it stands, where that is known anyway: whoever runs many agents need not look each time."""
        task = self._town.tasks.get(id) if self._are_many else None
        return None if task is None else replace(task)

    def _see_who_is_unable(self) -> None:
        left, self._left = self._left, []
        unable = {name for name in left if (agent := self._town.agents.get(name)) is not None and agent.state == "error"}
        if unable - self._unable:
            self._say(self.name, "takes nobody else on; see to what is missing, and restart an agent (`lore town restart`)")
        self._unable |= unable
        if any(name not in self._town.agents or self._town.agents[name].state != "error" for name in self._unable):
            self._unable = set()

    async def _whom(self, room: int) -> list[str]:
        """Agents that nobody runs. Those that are missing are made once: who is stopped later stays stopped."""
        free = [agent.name for agent in self._town.agents.values() if self._may(agent)]
        if not self._has_begun:
            self._has_begun = True
            new = [name for name in self._names if name not in self._town.agents] if self._names else self._new_names(room - len(free))
            await self._scribe.append_all(
                events.agent_spawned(name, by=self.name, roles=self._roles, harness=self._harness) for name in new
            )
            free += new
        return free[:room]

    def _may(self, agent: Agent) -> bool:
        if (
            self._unable
            or agent.name in self._lives
            or agent.state != "cold"
            or self._refused.get(agent.name, 0) > asyncio.get_running_loop().time()
        ):
            return False
        if self._names:
            return agent.name in self._names
        return not self._roles or not agent.roles or not set(agent.roles).isdisjoint(self._roles)

    def _new_names(self, number: int) -> list[str]:
        """Names that nobody else will have chosen."""
        stem, digits = self._roles[0] if self._roles else "agent", 4 if number < LONG_NAME_THRESHOLD else 8
        names: dict[str, None] = {}
        while len(names) < number:
            name = f"{stem}-{clock.uuid7()[-digits:]}"
            if name not in self._town.agents:
                names[name] = None
        return list(names)
