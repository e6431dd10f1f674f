"""Assigns work: one dispatcher per town, elected by a lease. It follows the log, asks `planning.py` for proposals and appends them.

Its only state is the fold of the log, so a successor continues where it stopped. If two dispatchers run for a moment, the
conditional appends let each decision in once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing

from fleetlore import clock
from fleetlore.errors import Conflict, Invalid, LeaseHeld, LeaseLost, LogError
from fleetlore.events.envelope import Event
from fleetlore.kernel.lease import LeaseHolder
from fleetlore.log.base import Position
from fleetlore.log.coordination import Coordination
from fleetlore.projections.runner import Runner, make_view
from fleetlore.projections.store import ProjectionStore
from fleetlore.town import events as town_events
from fleetlore.town import liveness, planning
from fleetlore.town.jobs import notify_conductor
from fleetlore.town.journal import TownJournal
from fleetlore.town.liveness import LivenessEvidence, orphaned_tasks, reclaim_task, release_agent
from fleetlore.town.planning import Proposal
from fleetlore.views.town_state import Task, TownState
from fleetlore.views.town_tasks import is_exhausted

DISPATCHER_LEASE = "dispatcher"
LEASE_SECONDS = 12.0
TICK_SECONDS = 1.0
"""Interval of the checks that depend on time: dead workers, help requests."""
MAX_PROPOSALS = 128
NOT_STORED_YET = ""
"""In place of a position: the proposal is being appended."""
AFTER_ALL_POSITIONS = "~"
"""Sorts after every position: reserved for as long as this dispatcher leads."""
DispatcherStatusCallback = Callable[[str], None]


class Dispatcher:
    """Assigns the town's tasks while it holds the dispatcher lease (it leads)."""

    def __init__(
        self,
        journal: TownJournal,
        coordination: Coordination,
        *,
        store: ProjectionStore | None = None,
        lease_seconds: float = LEASE_SECONDS,
        tick_seconds: float = TICK_SECONDS,
        max_silence_seconds: float = liveness.MAX_SILENCE_SECONDS,
        now: clock.Clock | None = None,
        report_status: DispatcherStatusCallback = lambda text: None,
    ) -> None:
        self._journal, self._coordination, self._store, self._report_status = journal, coordination, store, report_status
        self._now = now or journal.now
        self._lease_seconds, self._tick_seconds, self._max_silence_seconds = lease_seconds, tick_seconds, max_silence_seconds
        self.town: TownState = journal.fold.initial()
        self.is_leading = False
        self._position = ""
        self._wakeup = asyncio.Event()
        self._changed_missions: dict[str, None] = {}
        """Missions with events since they were last planned."""
        self._forge_events: list[Event] = []
        """Events of GitHub and other forges that missions may watch, since they were last planned."""
        self._reserved_tasks: dict[str, str] = {}
        """Tasks that proposals name → `NOT_STORED_YET`, or the position from which on the state includes the proposal.

        A reserved task, agent or mission is in no other proposal.
        """
        self._reserved_agents: dict[str, str] = {}
        self._reserved_missions: dict[str, str] = {}
        self._reclaimed_leases: set[str] = set()
        self._asked_questions: set[str | None] = set()
        """Ids of questions that are stored."""
        self.assigned_count = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Lead whenever no other dispatcher does, until `stop` is set."""
        while not stop.is_set():
            try:
                await self._lead_with_lease(stop)
            except (LeaseHeld, LeaseLost):
                pass
            except LogError as error:
                self._report_status(f"cannot lead the town now: {error}")
            await self._journal.wait_at_most(stop.wait(), self._lease_seconds / 4)

    async def _lead_with_lease(self, stop: asyncio.Event) -> None:
        renew = self._lease_seconds / liveness.RENEWALS_PER_LEASE
        async with self._journal.lease(self._coordination, DISPATCHER_LEASE, ttl=self._lease_seconds, renew=renew) as lease:
            self._report_status("leads")
            await self._catch_up_with_log()
            tasks = [self._journal.spawn(work) for work in (self._follow_log(), self._run_planning_loop(lease), stop.wait())]
            self.is_leading = True
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.is_leading = False
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in done:
                task.result()

    # --- state

    async def _catch_up_with_log(self) -> None:
        view = make_view(self._journal.fold, self._journal.fold.name)
        snapshot = await self._journal.log.run_blocking(lambda log: Runner(log, view, self._store).catch_up())
        self.town, self._position = snapshot.state, snapshot.position or ""
        self._changed_missions = dict.fromkeys(self.town.missions)
        self._reserved_tasks, self._reserved_agents, self._reserved_missions, self._forge_events = {}, {}, {}, []
        self._wakeup.set()

    async def _follow_log(self) -> None:
        async with aclosing(self._journal.log.follow(after=self._position or None)) as events:
            async for event in events:
                self._apply_event(event)

    def _apply_event(self, event: Event) -> None:
        self.town = self._journal.fold.apply(self.town, event)
        self._position = event.position or self._position
        if event.mission is not None:
            self._changed_missions[event.mission] = None
        if event.origin is not None and event.origin.dialect == "forge":
            self._forge_events.append(event)
        self._wakeup.set()

    # --- planning

    async def _run_planning_loop(self, lease: LeaseHolder) -> None:
        ticks, next_check = self._journal.ticks, 0.0
        while True:
            await lease.ensure_held()
            if ticks() >= next_check:
                next_check = ticks() + self._tick_seconds
                await self._run_periodic_checks()
            self._wakeup.clear()
            if await self._append_proposals(self._collect_proposals()):
                continue
            await self._journal.wait_at_most(self._wakeup.wait(), next_check - ticks())

    def _release_reservations(self) -> None:
        """Drop the reservations whose proposals the state includes by now."""
        for reserved in (self._reserved_tasks, self._reserved_agents, self._reserved_missions):
            for name in [name for name, position in reserved.items() if position != NOT_STORED_YET and position <= self._position]:
                del reserved[name]

    def _collect_proposals(self) -> list[Proposal]:
        self._release_reservations()
        proposals = list(self._propose_for_missions())
        for proposal in planning.propose_assignments(self.town, taken=self._reserved_tasks, busy=self._reserved_agents):
            proposals.append(proposal)
            if len(proposals) >= MAX_PROPOSALS:
                break
        return proposals

    def _propose_for_missions(self) -> Iterable[Proposal]:
        now = self._now()
        forge_events, self._forge_events = self._forge_events, []
        for event in forge_events:
            yield from planning.propose_for_forge_event(self.town, event, now)
        for id in [id for id in self._changed_missions if id not in self._reserved_missions]:
            del self._changed_missions[id]
            mission = self.town.missions.get(id)
            if mission is not None:
                yield from (
                    proposal for proposal in planning.propose_for_mission(self.town, mission) if proposal.task not in self._reserved_tasks
                )

    async def _append_proposals(self, proposals: list[Proposal]) -> bool:
        """Append proposals concurrently; returns whether there were any."""
        for proposal in proposals:
            self._reserve_targets(proposal, NOT_STORED_YET)
        await asyncio.gather(*map(self._append_proposal, proposals))
        return bool(proposals)

    async def _append_proposal(self, proposal: Proposal) -> None:
        try:
            position = (await self._journal.append(proposal.events, expect=proposal.expect))[-1].position
        except Conflict as conflict:
            newest = conflict.actual or ""
            if newest > self._position:  # another writer was first: plan again once its events are folded
                self._reserve_targets(proposal, newest)
                if proposal.mission:
                    self._changed_missions[proposal.mission] = None
                return
            position = await self._retry_proposal(proposal)
        except Invalid as error:  # imported names or texts can make an event that the log refuses
            self._drop_proposal(proposal, str(error))
            return
        if position is None:
            self._drop_proposal(proposal, "its own events contradict the town's; were some deleted, or is its id used twice?")
            return
        self._reserve_targets(proposal, position)
        self.assigned_count += bool(proposal.agent)

    async def _retry_proposal(self, proposal: Proposal) -> Position | None:
        """Retry after a conflict that our state does not explain.

        The task's scope was written to before the task existed, or its end was erased.
        """
        return await self._journal.decide_task(proposal.task, lambda task: proposal.events if proposal.is_still_valid(task) else ())

    def _drop_proposal(self, proposal: Proposal, reason: str) -> None:
        """Give up on the proposal's task, or on its mission if it names no task; its agent is free for other tasks."""
        self._report_status(f"cannot continue with {proposal.task or proposal.mission}: {reason}")
        self._reserve_targets(proposal, AFTER_ALL_POSITIONS)
        self._reserved_agents.pop(proposal.agent, None)
        if proposal.task:
            self._reserved_missions.pop(proposal.mission, None)

    def _reserve_targets(self, proposal: Proposal, position: str) -> None:
        for reserved, name in (
            (self._reserved_tasks, proposal.task),
            (self._reserved_agents, proposal.agent),
            (self._reserved_missions, proposal.mission),
        ):
            if name:
                reserved[name] = position

    # --- periodic checks

    async def _run_periodic_checks(self) -> None:
        now = self._now()
        all_evidence = await self._coordination.as_async().run_in_thread(
            lambda: list(liveness.check_workers(self._coordination, self.town, now, max_silence=self._max_silence_seconds))
        )
        for evidence in all_evidence:
            if evidence.is_dead and evidence.lease not in self._reclaimed_leases:
                await self.reclaim_dead_worker(evidence)
                self._reclaimed_leases.add(evidence.lease)
        for task, reason in list(orphaned_tasks(self.town)):
            await reclaim_task(self._journal, task, reason, by=town_events.DISPATCHER, state=task.state)
        await self._dead_letter_exhausted_tasks()
        questions = [event for event in planning.propose_dependency_questions(self.town) if event.id not in self._asked_questions]
        if questions:
            await self._journal.append(questions)
            self._asked_questions.update(event.id for event in questions)
        for mission in list(self.town.missions.values()):
            if mission.state == "running" and mission.id not in self._reserved_missions:
                self._changed_missions[mission.id] = None
                await self._append_proposals(list(planning.propose_help_requests(self.town, mission, now)))

    async def reclaim_dead_worker(self, evidence: LivenessEvidence) -> None:
        """Return the dead worker's tasks to the queue and release its agents for other workers."""
        for name in list(self.town.holdings.get(evidence.lease, ())):
            await release_agent(self._journal, self.town, self.town.agents[name], str(evidence), by=town_events.DISPATCHER)
        self._report_status(f"{evidence.lease} is dead: {evidence}")

    async def _dead_letter_exhausted_tasks(self) -> None:
        """Fail tasks that used up all their tries without finishing: they become dead letters."""
        for id in list(self.town.spent):
            await self._journal.decide_task(id, _decide_dead_letter)


def _decide_dead_letter(task: Task | None) -> list[Event]:
    if task is None or not is_exhausted(task):
        return []
    error = f"started {task.attempt} times and never finished: {task.error or 'unknown reason'}"
    return [
        *notify_conductor(town_events.DISPATCHER, task, error),
        town_events.task_failed(task, error=error, by=town_events.DISPATCHER, is_final=True),
    ]
