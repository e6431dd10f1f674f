"""A worker: one process that runs agents of a town, on any machine that reaches the log. It holds a lease that it renews.

If the lease is lost (the machine slept, the server was unreachable), all jobs are cancelled and the worker starts again under a new
epoch, because its tasks are assigned to others by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from fleetlore.errors import Invalid, LeaseLost, LogError
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.kernel.lease import is_dead
from fleetlore.log.coordination import Coordination
from fleetlore.projections.runner import Runner, view_of
from fleetlore.projections.store import ProjectionStore
from fleetlore.town import events, liveness
from fleetlore.town.agent_loop import MAX_SEPARATE_FOLLOWERS, AgentLoop, AgentStatusCallback, AgentSubscriptions
from fleetlore.town.jobs import JobHandler
from fleetlore.town.journal import TownJournal
from fleetlore.views.town_state import TEMPORARY, Agent, Task, TownState

LEASE_SECONDS = 12.0
LONG_NAME_THRESHOLD = 100
"""From this many new agents on, generated names get longer suffixes."""
AGENT_SCAN_SECONDS = 1.0
"""How often a worker with free slots looks for cold agents."""
RETRY_SECONDS = 1.0


class Worker:
    """Runs up to `concurrency` agents: the named ones, or cold ones with one of its roles. Spawns the missing ones once.

    Without names it takes over agents of dead workers first. It invents agents only for slots that are left; these end with
    it, or when a named agent needs their place.
    """

    def __init__(
        self,
        journal: TownJournal,
        coordination: Coordination,
        handle_job: JobHandler,
        *,
        names: Sequence[str] = (),
        roles: Sequence[str] = (),
        concurrency: int = 1,
        harness: str = "",
        store: ProjectionStore | None = None,
        lease_seconds: float = LEASE_SECONDS,
        scan_seconds: float = AGENT_SCAN_SECONDS,
        report_status: AgentStatusCallback = lambda name, status: None,
    ) -> None:
        for name in (*names, *roles):
            if not is_name(name):
                raise Invalid(f"not a valid name: {name!r}; use 1 to 200 bytes without control characters")
        self._journal, self._coordination, self._handle_job, self._store = journal, coordination, handle_job, store
        self._agent_names, self._roles, self._harness = list(names), list(roles), harness
        self._max_agents = max(concurrency, len(names))
        self._has_shared_follower = self._max_agents > MAX_SEPARATE_FOLLOWERS
        self._lease_seconds, self._scan_seconds, self._report_status = lease_seconds, scan_seconds, report_status
        self.name = journal.make_holder()
        self._town: TownState = journal.fold.initial()
        self._position = ""
        self._has_spawned_agents = False
        self._invented_agents: set[str] = set()
        self._loop_tasks: dict[str, asyncio.Task[str]] = {}
        self._agent_loops: dict[str, AgentLoop] = {}
        self._retry_times: dict[str, float] = {}
        self._departed_agents: list[str] = []
        self._unavailable_agents: set[str] = set()
        """Agents that could not work here. The worker takes no others until one of these was restarted."""

    @property
    def running_agents(self) -> list[str]:
        """Names of the agents that it runs now."""
        return list(self._agent_loops)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set; then release all agents and return their tasks."""
        while not stop.is_set():
            try:
                async with self._journal.lease(
                    self._coordination,
                    liveness.lease_name(self.name),
                    holder=self.name,
                    ttl=self._lease_seconds,
                    renew=self._lease_seconds / liveness.RENEWALS_PER_LEASE,
                ) as holder:
                    assert holder.lease is not None
                    await self._run_with_lease(liveness.format_worker_lease(holder.lease), stop)
            except LeaseLost:
                continue
            except LogError as error:
                self._report_status(self.name, f"cannot reach the log: {error}")
                await self._journal.wait_at_most(stop.wait(), RETRY_SECONDS)

    async def _run_with_lease(self, lease: str, stop: asyncio.Event) -> None:
        self._has_spawned_agents &= bool(self._agent_names)  # invented agents ended with the previous lease
        if self._has_shared_follower:
            await self._catch_up_with_log()
        stopping = self._journal.spawn(stop.wait())
        async with AgentSubscriptions(
            self._journal, after=self._position or None, on_event=self._apply_event if self._has_shared_follower else None
        ) as subscriptions:
            try:
                while not stop.is_set() and not subscriptions.is_closed:
                    await self._start_agent_loops(subscriptions, lease)
                    await self._wait_for_change(stopping)
                    self._collect_finished_loops()
            finally:
                stopping.cancel()
                await self._stop_agent_loops("its worker was stopped" if stop.is_set() else "its worker lost its lease")

    async def _wait_for_change(self, stopping: asyncio.Task[object]) -> None:
        """Wait until a loop has ended, the worker is to stop, or cold agents are to be looked for."""
        awaited = asyncio.wait([stopping, *self._loop_tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        await self._journal.wait_at_most(awaited, self._scan_seconds)

    async def _stop_agent_loops(self, reason: str) -> None:
        for agent_loop in self._agent_loops.values():
            agent_loop.request_stop(reason)
        if self._loop_tasks:
            await self._journal.wait_at_most(asyncio.wait(self._loop_tasks.values()), self._lease_seconds)
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
            self._report_status(name, f"stopped: {error or ('cancelled' if task.cancelled() else task.result())}")
            self._retry_times[name] = self._journal.ticks() + self._scan_seconds

    # --- choosing agents

    async def _start_agent_loops(self, subscriptions: AgentSubscriptions, lease: str) -> None:
        free_slots = self._max_agents - len(self._loop_tasks)
        if free_slots <= 0 and not any(self._is_temporary(name) for name in self._loop_tasks):
            return
        if not self._has_shared_follower:
            await self._catch_up_with_log()
        if free_slots <= 0:
            self._retire_temporary_agent()
            return
        for name in [name for name in self._town.holdings.get(lease, ()) if name not in self._loop_tasks]:
            await liveness.release_agent(self._journal, self._town, self._town.agents[name], "its loop on this worker failed", by=self.name)
        self._update_unavailable_agents()
        for name in await self._choose_agents(free_slots):
            agent_loop = AgentLoop(
                name,
                self._journal,
                self._handle_job,
                lease=lease,
                lease_seconds=self._lease_seconds,
                find_known_task=self._find_known_task,
                report_status=self._report_status,
            )
            self._agent_loops[name] = agent_loop
            self._loop_tasks[name] = self._journal.spawn(agent_loop.run(subscriptions))

    async def _catch_up_with_log(self) -> None:
        if not self._position:
            view = view_of(self._journal.fold, self._journal.fold.name)
            snapshot = await self._journal.log.run_blocking(lambda log: Runner(log, view, self._store).catch_up())
            self._town, self._position = snapshot.state, snapshot.position or ""
            return
        async for event in self._journal.log.read(after=self._position):
            self._apply_event(event)

    def _apply_event(self, event: Event) -> None:
        self._town, self._position = self._journal.fold.apply(self._town, event), event.position or self._position

    def _find_known_task(self, id: str) -> Task | None:
        """The task from the shared follower's state, which saves the agent loop a read; `None` without a shared follower."""
        task = self._town.tasks.get(id) if self._has_shared_follower else None
        return None if task is None else replace(task)

    def _update_unavailable_agents(self) -> None:
        departed, self._departed_agents = self._departed_agents, []
        unavailable = {name for name in departed if (agent := self._town.agents.get(name)) is not None and agent.state == "error"}
        if unavailable - self._unavailable_agents:
            self._report_status(self.name, "runs no more agents; fix the problem, then restart an agent (`lore town restart`)")
        self._unavailable_agents |= unavailable
        if any(name not in self._town.agents or self._town.agents[name].state != "error" for name in self._unavailable_agents):
            self._unavailable_agents = set()

    async def _choose_agents(self, free_slots: int) -> list[str]:
        """Cold agents to run. Missing ones are spawned only once, so that an agent stopped later stays stopped."""
        runnable = [agent for agent in self._town.agents.values() if self._can_run_agent(agent)]
        # Another worker that starts just now has invented some of them for itself, and takes most of those.
        foreign = [agent.name for agent in runnable if agent.type == TEMPORARY and agent.name not in self._invented_agents]
        chosen = [agent.name for agent in runnable if agent.name not in foreign]
        is_waiting = (
            not self._agent_names
            and len(chosen) < free_slots
            and await self._coordination.as_async().run_in_thread(self._is_takeover_expected)
        )
        if not self._has_spawned_agents and not is_waiting:
            self._has_spawned_agents = True
            new_names = (
                [name for name in self._agent_names if name not in self._town.agents]
                if self._agent_names
                else self._generate_agent_names(free_slots - len(chosen))
            )
            agent_type = "worker" if self._agent_names else TEMPORARY
            self._invented_agents.update(() if self._agent_names else new_names)
            await self._journal.append_all(
                events.agent_spawned(name, by=self.name, roles=self._roles, harness=self._harness, type=agent_type) for name in new_names
            )
            chosen += new_names
        return [*chosen, *foreign][:free_slots]

    def _is_temporary(self, name: str) -> bool:
        agent = self._town.agents.get(name)
        return name in self._invented_agents or (agent is not None and agent.type == TEMPORARY)

    def _retire_temporary_agent(self) -> None:
        """End an idle invented agent if a named one waits for a worker, such as one whose worker died."""
        if not any(self._can_run_agent(agent) and agent.type != TEMPORARY for agent in self._town.agents.values()):
            return
        for name, agent_loop in self._agent_loops.items():
            agent = self._town.agents.get(name)
            if agent is not None and self._is_temporary(name) and agent.state == "idle" and not agent.queue:
                agent_loop.request_stop("a named agent takes its place")
                return

    def _is_takeover_expected(self) -> bool:
        """Whether named agents will soon be free, because their worker is dead or its heartbeat has stopped. Blocks."""
        for evidence in liveness.check_workers(self._coordination, self._town, self._journal.now()):
            agents = [self._town.agents[name] for name in self._town.holdings.get(evidence.lease, ())]
            if (evidence.heartbeat or is_dead(evidence.lease.rpartition("@")[0])) and any(agent.type != TEMPORARY for agent in agents):
                return True
        return False

    def _can_run_agent(self, agent: Agent) -> bool:
        if (
            self._unavailable_agents
            or agent.name in self._loop_tasks
            or agent.state != "cold"
            or self._retry_times.get(agent.name, 0) > self._journal.ticks()
        ):
            return False
        if self._agent_names:
            return agent.name in self._agent_names
        return not self._roles or not agent.roles or not set(agent.roles).isdisjoint(self._roles)

    def _generate_agent_names(self, count: int) -> list[str]:
        """Unused names; the random suffix keeps workers from choosing the same one."""
        stem, digits = self._roles[0] if self._roles else "agent", 4 if count < LONG_NAME_THRESHOLD else 8
        names: dict[str, None] = {}
        while len(names) < count:
            name = f"{stem}-{self._journal.new_id()[-digits:]}"
            if name not in self._town.agents:
                names[name] = None
        return list(names)
