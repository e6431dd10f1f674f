"""Gives work out: one dispatcher a town, elected by a lease. It follows the log, asks `planning.py` what comes next, and writes that down.

Whatever it knows is the fold of the log. Whoever takes its place reads the same and goes on; what both write at once, the log lets in once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress

from fleetlore import clock
from fleetlore.errors import Conflict, Held, Invalid, LeaseLost, LogError
from fleetlore.events.envelope import Event
from fleetlore.kernel.lease import LeaseHolder
from fleetlore.log.base import Position
from fleetlore.log.coordination import Coordination
from fleetlore.projections.runner import Runner, view_of
from fleetlore.projections.store import ProjectionStore
from fleetlore.town import events as town_events
from fleetlore.town import help_requests, liveness, planning, watches
from fleetlore.town.journal import TownJournal
from fleetlore.town.liveness import LivenessEvidence
from fleetlore.town.planning import Proposal
from fleetlore.town.reclaim import orphaned_tasks, reclaim_task, release_agent
from fleetlore.town.reports import notify_conductor
from fleetlore.views.town_state import Task, TownState
from fleetlore.views.town_tasks import is_exhausted

DISPATCHER_LEASE = "dispatcher"
LEASE_SECONDS = 12.0
TICK_SECONDS = 1.0
"""How often the time is looked at: who is dead, who needs help."""
MAX_PROPOSALS = 128
AFTER_ALL_POSITIONS = "~"
"""Behind every position."""
DispatcherStatusCallback = Callable[[str], None]


class Dispatcher:
    """Leads while it holds the lease; `run` waits for its turn, and for the next one."""

    def __init__(
        self,
        scribe: TownJournal,
        shared: Coordination,
        *,
        store: ProjectionStore | None = None,
        lease_seconds: float = LEASE_SECONDS,
        tick: float = TICK_SECONDS,
        silence: float = liveness.MAX_SILENCE_SECONDS,
        now: clock.Clock = clock.now,
        say: DispatcherStatusCallback = lambda text: None,
    ) -> None:
        self._journal, self._coordination, self._store, self._now, self._report_status = scribe, shared, store, now, say
        self._lease_seconds, self._tick_seconds, self._max_silence_seconds = lease_seconds, tick, silence
        self.town: TownState = scribe.town_view.initial()
        self.is_leading = False
        self._position = ""
        self._wakeup = asyncio.Event()
        self._changed_missions: dict[str, None] = {}
        """At which something happened since they were looked at."""
        self._forge_events: list[Event] = []
        self._reserved_tasks: dict[str, str] = {}
        """Tasks on their way → the position from which on the fold knows; nothing while that is not known."""
        self._reserved_agents: dict[str, str] = {}
        self._reserved_missions: dict[str, str] = {}
        self._reclaimed_leases: set[str] = set()
        self.assigned_count = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Lead whenever nobody else does, until told to stop."""
        while not stop.is_set():
            try:
                await self._lead_with_lease(stop)
            except Held:
                pass
            except LogError as error:
                self._report_status(f"cannot lead just now: {error}")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lease_seconds / 4):
                    await stop.wait()

    async def _lead_with_lease(self, stop: asyncio.Event) -> None:
        hold = LeaseHolder(
            self._coordination, DISPATCHER_LEASE, seconds=self._lease_seconds, renew=self._lease_seconds / liveness.RENEWALS_PER_LEASE
        )
        async with hold:
            self._report_status("leads")
            await self._catch_up_with_log()
            tasks = [
                asyncio.create_task(work) for work in (self._follow_log(), self._run_planning_loop(hold), hold.lost.wait(), stop.wait())
            ]
            self.is_leading = True
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.is_leading = False
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in done:
                if (error := task.exception()) is not None and not isinstance(error, LeaseLost):
                    raise error

    # --- what is known

    async def _catch_up_with_log(self) -> None:
        believed = self._journal.town_view
        runner = Runner(self._journal.log.as_blocking(), view_of(believed, believed.name), self._store)
        folded = await asyncio.to_thread(runner.catch_up)
        self.town, self._position = folded.state, folded.position or ""
        self._changed_missions = dict.fromkeys(self.town.missions)
        self._reserved_tasks, self._reserved_agents, self._reserved_missions, self._forge_events = {}, {}, {}, []
        self._wakeup.set()

    async def _follow_log(self) -> None:
        async with aclosing(self._journal.log.follow(after=self._position or None)) as events:
            async for event in events:
                self._apply_event(event)

    def _apply_event(self, event: Event) -> None:
        self.town = self._journal.town_view.apply(self.town, event)
        self._position = event.position or self._position
        if event.mission is not None:
            self._changed_missions[event.mission] = None
        if event.origin is not None and event.origin.dialect == "forge":
            self._forge_events.append(event)
        self._wakeup.set()

    # --- what follows

    async def _run_planning_loop(self, hold: LeaseHolder) -> None:
        next_look = 0.0
        loop = asyncio.get_running_loop()
        while True:
            await hold.ensure_held()
            if loop.time() >= next_look:
                next_look = loop.time() + self._tick_seconds
                await self._run_periodic_checks()
            self._wakeup.clear()
            if await self._append_proposals(self._collect_proposals()):
                continue
            # `asyncio.wait_for` of 3.11 forgets that it was cancelled if what it waits for comes in the same moment.
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_look):
                    await self._wakeup.wait()

    def _collect_proposals(self) -> list[Proposal]:
        for known in (self._reserved_tasks, self._reserved_agents, self._reserved_missions):
            for name in [name for name, position in known.items() if position and position <= self._position]:
                del known[name]
        found = list(self._propose_for_missions())
        for move in planning.propose_assignments(self.town, taken=self._reserved_tasks, busy=self._reserved_agents):
            found.append(move)
            if len(found) >= MAX_PROPOSALS:
                break
        return found

    def _propose_for_missions(self) -> Iterable[Proposal]:
        now = self._now()
        heard, self._forge_events = self._forge_events, []
        for event in heard:
            yield from watches.propose_for_forge_event(self.town, event, now)
        for id in [id for id in self._changed_missions if id not in self._reserved_missions]:
            del self._changed_missions[id]
            mission = self.town.missions.get(id)
            if mission is not None:
                yield from (move for move in planning.propose_for_mission(self.town, mission) if move.task not in self._reserved_tasks)

    async def _append_proposals(self, moves: list[Proposal]) -> bool:
        """Write them down, together where they may; whether there was anything."""
        for move in moves:
            self._reserve_targets(move, "")
        await asyncio.gather(*map(self._append_proposal, moves))
        return bool(moves)

    async def _append_proposal(self, move: Proposal) -> None:
        try:
            positions = await self._journal.append(move.events, expect=move.expect)
        except Conflict as conflict:
            if (conflict.actual or "") > self._position:  # somebody was quicker; once that is known here, it is looked at again
                self._reserve_targets(move, conflict.actual or "")
                self._changed_missions.update(dict.fromkeys([move.mission] if move.mission else []))
                return
            positions = await self._retry_proposal(move)
        except Invalid as error:  # what others wrote down leads to what the log does not take: said, and let be
            self._drop_proposal(move, str(error))
            return
        if not positions:
            self._drop_proposal(
                move, "its log tells otherwise than the town's; was some of it erased, or has somebody else taken its name?"
            )
            return
        self._reserve_targets(move, positions[-1])
        self.assigned_count += bool(move.agent)

    async def _retry_proposal(self, move: Proposal) -> list[Position]:
        """Nobody was quicker, and yet the task's scope ends elsewhere: others wrote to it before it was there, or its end was erased."""
        return await self._journal.decide(move.task, lambda task: move.events if move.is_still_valid(task) else ())

    def _drop_proposal(self, move: Proposal, why: str) -> None:
        self._report_status(f"cannot go on with {move.task or move.mission}: {why}")
        self._reserve_targets(move, AFTER_ALL_POSITIONS)
        self._reserved_agents.pop(move.agent, None)
        if move.task:
            self._reserved_missions.pop(move.mission, None)

    def _reserve_targets(self, move: Proposal, position: str) -> None:
        for known, name in (
            (self._reserved_tasks, move.task),
            (self._reserved_agents, move.agent),
            (self._reserved_missions, move.mission),
        ):
            if name:
                known[name] = position

    # --- by the clock

    async def _run_periodic_checks(self) -> None:
        now = self._now()
        held = await asyncio.to_thread(
            lambda: list(liveness.check_workers(self._coordination, self.town, now, silence=self._max_silence_seconds))
        )
        for signs in held:
            if signs.is_dead and signs.lease not in self._reclaimed_leases:
                await self.reclaim_dead_worker(signs)
                self._reclaimed_leases.add(signs.lease)
        for task, reason in list(orphaned_tasks(self.town)):
            await reclaim_task(self._journal, task, reason, by=town_events.DISPATCHER, state=task.state)
        await self._dead_letter_exhausted_tasks()
        for mission in list(self.town.missions.values()):
            if mission.state == "running" and mission.id not in self._reserved_missions:
                self._changed_missions[mission.id] = None
                await self._append_proposals(list(help_requests.propose_help_requests(self.town, mission, now)))

    async def reclaim_dead_worker(self, signs: LivenessEvidence) -> None:
        """Say that a worker is dead: its tasks go back, its agents wait for somebody else to run them."""
        for name in list(self.town.holdings.get(signs.lease, ())):
            await release_agent(self._journal, self.town, self.town.agents[name], str(signs), by=town_events.DISPATCHER)
        self._report_status(f"{signs.lease} is dead: {signs}")

    async def _dead_letter_exhausted_tasks(self) -> None:
        """What was begun as often as it may be, and is not done, is a dead letter."""
        for id in list(self.town.spent):
            await self._journal.decide(id, _decide_dead_letter)


def _decide_dead_letter(task: Task | None) -> list[Event]:
    if task is None or not is_exhausted(task):
        return []
    error = f"begun {task.attempt} times and never finished: {task.error or 'nobody knows why'}"
    return [
        *notify_conductor(town_events.DISPATCHER, task, error),
        town_events.task_failed(task, error=error, by=town_events.DISPATCHER, is_final=True),
    ]
