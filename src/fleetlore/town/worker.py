"""A worker: one process that runs agents of a town, on any machine that reaches the log. It holds a lease that it renews.

It runs agents that are `cold`: no worker runs them. An `AgentLoop` per agent does the work; this module chooses the agents.

If the lease is lost (the machine slept, the server was unreachable), all jobs are cancelled and the worker acquires a new lease,
because its tasks are assigned to others by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from fleetlore.errors import Invalid, LeaseLost, LogError
from fleetlore.events.envelope import Event, is_name
from fleetlore.kernel.lease import is_dead
from fleetlore.log.coordination import Coordination
from fleetlore.projections.runner import Runner, make_view
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
    """Runs up to `concurrency` agents: those in `names`, or any cold agents, with `roles` only those that have one of them.

    Agents in `names` that the town lacks are added. Without `names`, agents of dead workers come first, and slots that are left
    get temporary agents. A temporary agent ends with its worker, or when a lasting agent needs its slot.
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
        self.name = journal.make_holder()
        self._journal = journal
        self._coordination = coordination
        self._handle_job = handle_job
        self._store = store
        self._agent_names, self._roles, self._harness = list(names), list(roles), harness
        self._max_agents = max(concurrency, len(names))
        self._lease_seconds, self._scan_seconds = lease_seconds, scan_seconds
        self._report_status = report_status

        self._has_shared_follower = self._max_agents > MAX_SEPARATE_FOLLOWERS
        """Many agents share one follower of the log, which keeps `_town` current. Few have one each, and `_town` is read when needed."""
        self._town: TownState = journal.fold.initial()
        self._position = ""
        """The position up to which `_town` is folded."""

        self._agent_loops: dict[str, AgentLoop] = {}
        self._loop_tasks: dict[str, asyncio.Task[str]] = {}
        self._retry_times: dict[str, float] = {}
        """Agents whose loop ended here → when it may be started again."""
        self._agents_to_spawn = self._max_agents
        """How many agents it may still add to the town: some once per lease, and one for each temporary agent whose loop failed here."""
        self._temporary_agents: set[str] = set()
        """Temporary agents that this worker has spawned; they may not be in `_town` yet."""
        self._ended_agents: list[str] = []
        """Agents whose loop ended since the last check of their state."""
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
        if not self._agent_names:
            self._agents_to_spawn = self._max_agents  # its temporary agents ended with the previous lease
        if self._has_shared_follower:
            await self._catch_up_with_log()
        stopping = self._journal.spawn(stop.wait())
        on_event = self._apply_event if self._has_shared_follower else None
        async with AgentSubscriptions(self._journal, after=self._position or None, on_event=on_event) as subscriptions:
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
            self._ended_agents.append(name)
            self._retry_times[name] = self._journal.ticks() + self._scan_seconds
            reason = "cancelled" if task.cancelled() else task.exception() or task.result()
            self._report_status(name, f"stopped: {reason}")

    # --- choosing agents

    async def _start_agent_loops(self, subscriptions: AgentSubscriptions, lease: str) -> None:
        """Start agents in the free slots. Without free slots, a temporary agent may have to make room for a lasting one."""
        free_slots = self._max_agents - len(self._loop_tasks)
        if free_slots <= 0 and not any(self._is_temporary(name) for name in self._loop_tasks):
            return
        if not self._has_shared_follower:
            await self._catch_up_with_log()
        if free_slots <= 0:
            self._retire_temporary_agent()
            return
        await self._release_agents_without_loop(lease)
        self._update_unavailable_agents()
        for name in await self._choose_agents(free_slots, subscriptions):
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

    async def _release_agents_without_loop(self, lease: str) -> None:
        """Release agents that the log assigns to this lease although no loop runs them: their loop failed before it could do so."""
        for name in [name for name in self._town.holdings.get(lease, ()) if name not in self._loop_tasks]:
            await liveness.release_agent(self._journal, self._town, self._town.agents[name], "its loop on this worker failed", by=self.name)
            if name in self._temporary_agents:  # it has ended with that
                self._temporary_agents.remove(name)
                self._agents_to_spawn += 1

    async def _catch_up_with_log(self) -> None:
        if not self._position:
            view = make_view(self._journal.fold, self._journal.fold.name)
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
        """Note agents that ended in the state `error`; forget all of them as soon as one has left it."""
        ended, self._ended_agents = self._ended_agents, []
        unavailable = {name for name in ended if self._is_in_error(name)}
        if unavailable - self._unavailable_agents:
            self._report_status(self.name, "runs no more agents; fix the problem, then restart an agent (`lore town restart`)")
        self._unavailable_agents |= unavailable
        if not all(self._is_in_error(name) for name in self._unavailable_agents):
            self._unavailable_agents = set()

    def _is_in_error(self, name: str) -> bool:
        agent = self._town.agents.get(name)
        return agent is not None and agent.state == "error"

    async def _choose_agents(self, free_slots: int, subscriptions: AgentSubscriptions) -> list[str]:
        """Names of agents to run in the free slots."""
        runnable = [agent for agent in self._town.agents.values() if self._can_run_agent(agent)]
        # A cold temporary agent of another worker comes last: that worker spawned it a moment ago, and will run it.
        others = [agent.name for agent in runnable if agent.type == TEMPORARY and agent.name not in self._temporary_agents]
        chosen = [agent.name for agent in runnable if agent.name not in others]
        if self._agents_to_spawn:
            chosen += await self._spawn_missing_agents(min(free_slots - len(chosen), self._agents_to_spawn), subscriptions)
        return [*chosen, *others][:free_slots]

    async def _spawn_missing_agents(self, free_slots: int, subscriptions: AgentSubscriptions) -> list[str]:
        """Add the agents of `names` that the town lacks; without `names`, temporary agents for the free slots. Returns the new names.

        This is done once per lease, for `names` once per worker: an agent that is stopped later stays stopped.
        """
        if self._agent_names:
            agent_type, new_names = "worker", [name for name in self._agent_names if name not in self._town.agents]
        elif free_slots > 0 and await self._coordination.as_async().run_in_thread(self._is_takeover_expected):
            return []  # asked again on the next scan
        else:
            agent_type, new_names = TEMPORARY, self._generate_agent_names(free_slots)
            self._temporary_agents.update(new_names)
        self._agents_to_spawn = 0
        subscriptions.expect_new_agents(new_names)
        await self._journal.append_all(
            events.agent_spawned(name, by=self.name, roles=self._roles, harness=self._harness, type=agent_type) for name in new_names
        )
        return new_names

    def _is_temporary(self, name: str) -> bool:
        agent = self._town.agents.get(name)
        return name in self._temporary_agents or (agent is not None and agent.type == TEMPORARY)

    def _retire_temporary_agent(self) -> None:
        """End an idle temporary agent if a lasting one waits for a worker, for example because its worker died."""
        if not any(self._can_run_agent(agent) and agent.type != TEMPORARY for agent in self._town.agents.values()):
            return
        for name, agent_loop in self._agent_loops.items():
            agent = self._town.agents.get(name)
            if agent is not None and self._is_temporary(name) and agent.state == "idle" and not agent.queue:
                agent_loop.request_stop("a lasting agent takes its slot")
                return

    def _is_takeover_expected(self) -> bool:
        """Whether lasting agents will soon be free, because their worker is dead or its heartbeat has stopped. Blocks."""
        for evidence in liveness.check_workers(self._coordination, self._town, self._journal.now()):
            worker = evidence.lease.rpartition("@")[0]
            agents = [self._town.agents[name] for name in self._town.holdings.get(evidence.lease, ())]
            has_lasting_agent = any(agent.type != TEMPORARY for agent in agents)
            if has_lasting_agent and (evidence.first_sign or is_dead(worker)):
                return True
        return False

    def _can_run_agent(self, agent: Agent) -> bool:
        if self._unavailable_agents or agent.state != "cold" or agent.name in self._loop_tasks:
            return False
        if self._journal.ticks() < self._retry_times.get(agent.name, 0):
            return False
        if self._agent_names:
            return agent.name in self._agent_names
        return not self._roles or not agent.roles or not set(agent.roles).isdisjoint(self._roles)

    def _generate_agent_names(self, count: int) -> list[str]:
        """Unused names; the random suffix keeps workers from choosing the same one."""
        stem = self._roles[0] if self._roles else "agent"
        digits = 4 if count < LONG_NAME_THRESHOLD else 8
        names: dict[str, None] = {}
        while len(names) < count:
            name = f"{stem}-{self._journal.new_id()[-digits:]}"
            if name not in self._town.agents:
                names[name] = None
        return list(names)
