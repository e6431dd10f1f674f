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
        self._journal, self._coordination, self._handle_job, self._store = scribe, shared, work, store
        self._agent_names, self._roles, self._harness = list(names), list(roles), harness
        self._max_agents = max(concurrency, len(names))
        self._has_shared_follower = self._max_agents > MAX_SEPARATE_FOLLOWERS
        self._lease_seconds, self._scan_seconds, self._report_status = lease_seconds, look_seconds, say
        self.name = make_holder_name()
        self._town: TownState = scribe.town_view.initial()
        self._position = ""
        self._has_spawned_agents = False
        self._loop_tasks: dict[str, asyncio.Task[str]] = {}
        self._agent_loops: dict[str, AgentLoop] = {}
        self._retry_times: dict[str, float] = {}
        self._departed_agents: list[str] = []
        self._unavailable_agents: set[str] = set()
        """Agents that could not work here: nobody else is taken on until somebody has seen to that, and restarted one of them."""

    @property
    def running_agents(self) -> list[str]:
        """The agents that it runs just now."""
        return list(self._agent_loops)

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; then everything is let go, and nothing is lost."""
        while not stop.is_set():
            hold = LeaseHolder(
                self._coordination,
                liveness.lease_name(self.name),
                holder=self.name,
                seconds=self._lease_seconds,
                renew=self._lease_seconds / liveness.RENEWALS_PER_LEASE,
            )
            try:
                async with hold as lease:
                    await self._run_with_lease(hold, liveness.format_worker_lease(lease), stop)
            except LogError as error:
                self._report_status(self.name, f"cannot reach the log just now: {error}")
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS):
                        await stop.wait()

    async def _run_with_lease(self, hold: LeaseHolder, lease: str, stop: asyncio.Event) -> None:
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(hold.lost.wait())]
        try:
            if self._has_shared_follower:
                await asyncio.to_thread(self._catch_up_with_log)
            async with AgentSubscriptions(
                self._journal.log, after=self._position or None, hear=self._apply_event if self._has_shared_follower else None
            ) as ears:
                try:
                    while not any(end.done() for end in ends) and not ears.is_closed:
                        await self._start_agent_loops(ears, lease)
                        await asyncio.wait(
                            [*ends, *self._loop_tasks.values()], timeout=self._scan_seconds, return_when=asyncio.FIRST_COMPLETED
                        )
                        self._collect_finished_loops()
                finally:
                    await self._stop_agent_loops("its worker was stopped" if stop.is_set() else "its worker lost its lease")
        finally:
            for end in ends:
                end.cancel()

    async def _stop_agent_loops(self, reason: str) -> None:
        for life in self._agent_loops.values():
            life.request_stop(reason)
        if self._loop_tasks:
            await asyncio.wait(self._loop_tasks.values(), timeout=self._lease_seconds)
            for task in self._loop_tasks.values():
                task.cancel()
            await asyncio.gather(*self._loop_tasks.values(), return_exceptions=True)
        self._collect_finished_loops()

    def _collect_finished_loops(self) -> None:
        for name, task in list(self._loop_tasks.items()):
            if not task.done():
                continue
            del self._loop_tasks[name], self._agent_loops[name]
            self._departed_agents.append(name)
            error = None if task.cancelled() else task.exception()
            self._report_status(name, f"leaves: {error or ('broken off' if task.cancelled() else task.result())}")
            self._retry_times[name] = asyncio.get_running_loop().time() + self._scan_seconds

    # --- whom to run

    async def _start_agent_loops(self, ears: AgentSubscriptions, lease: str) -> None:
        room = self._max_agents - len(self._loop_tasks)
        if room <= 0:
            return
        if not self._has_shared_follower:
            await asyncio.to_thread(self._catch_up_with_log)
        for name in [name for name in self._town.holdings.get(lease, ()) if name not in self._loop_tasks]:
            await release_agent(
                self._journal, self._town, self._town.agents[name], "its life on this worker ended by a fault", by=self.name
            )
        self._update_unavailable_agents()
        for name in await self._choose_agents(room):
            life = AgentLoop(
                name,
                self._journal,
                self._handle_job,
                lease=lease,
                seconds=self._lease_seconds,
                known=self._find_known_task,
                say=self._report_status,
            )
            self._agent_loops[name] = life
            self._loop_tasks[name] = asyncio.create_task(life.run(ears))

    def _catch_up_with_log(self) -> None:
        log, believed = self._journal.log.as_blocking(), self._journal.town_view
        if not self._position:
            folded = Runner(log, view_of(believed, believed.name), self._store).catch_up()
            self._town, self._position = folded.state, folded.position or ""
            return
        for event in log.read(after=self._position):
            self._apply_event(event)

    def _apply_event(self, event: Event) -> None:
        self._town, self._position = self._journal.town_view.apply(self._town, event), event.position or self._position

    def _find_known_task(self, id: str) -> Task | None:
        """A task as it stands, where that is known anyway: whoever runs many agents need not look each time."""
        task = self._town.tasks.get(id) if self._has_shared_follower else None
        return None if task is None else replace(task)

    def _update_unavailable_agents(self) -> None:
        left, self._departed_agents = self._departed_agents, []
        unable = {name for name in left if (agent := self._town.agents.get(name)) is not None and agent.state == "error"}
        if unable - self._unavailable_agents:
            self._report_status(self.name, "takes nobody else on; see to what is missing, and restart an agent (`lore town restart`)")
        self._unavailable_agents |= unable
        if any(name not in self._town.agents or self._town.agents[name].state != "error" for name in self._unavailable_agents):
            self._unavailable_agents = set()

    async def _choose_agents(self, room: int) -> list[str]:
        """Agents that nobody runs. Those that are missing are made once: who is stopped later stays stopped."""
        free = [agent.name for agent in self._town.agents.values() if self._can_run_agent(agent)]
        if not self._has_spawned_agents:
            self._has_spawned_agents = True
            new = (
                [name for name in self._agent_names if name not in self._town.agents]
                if self._agent_names
                else self._generate_agent_names(room - len(free))
            )
            await self._journal.append_all(
                events.agent_spawned(name, by=self.name, roles=self._roles, harness=self._harness) for name in new
            )
            free += new
        return free[:room]

    def _can_run_agent(self, agent: Agent) -> bool:
        if (
            self._unavailable_agents
            or agent.name in self._loop_tasks
            or agent.state != "cold"
            or self._retry_times.get(agent.name, 0) > asyncio.get_running_loop().time()
        ):
            return False
        if self._agent_names:
            return agent.name in self._agent_names
        return not self._roles or not agent.roles or not set(agent.roles).isdisjoint(self._roles)

    def _generate_agent_names(self, number: int) -> list[str]:
        """Names that nobody else will have chosen."""
        stem, digits = self._roles[0] if self._roles else "agent", 4 if number < LONG_NAME_THRESHOLD else 8
        names: dict[str, None] = {}
        while len(names) < number:
            name = f"{stem}-{clock.uuid7()[-digits:]}"
            if name not in self._town.agents:
                names[name] = None
        return list(names)
