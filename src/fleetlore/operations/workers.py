"""Runs a worker: a dispatcher that assigns tasks, and agents of the town that do them (`goal_jobs.py`), until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetlore.errors import Invalid
from fleetlore.log.async_recorder import Recorder
from fleetlore.operations.goal_jobs import GoalTemplate, GoalWork
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.town.agent_loop import AgentStatusCallback
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.journal import TownJournal
from fleetlore.town.worker import LEASE_SECONDS, Worker

if TYPE_CHECKING:
    from fleetlore.operations.context import OperationContext


async def run_worker(
    context: OperationContext,
    template: GoalTemplate | None,
    *,
    stop: asyncio.Event,
    agents: Sequence[str] = (),
    roles: Sequence[str] = (),
    concurrency: int = 1,
    dispatch: bool = True,
    lease_seconds: float = LEASE_SECONDS,
    report: AgentStatusCallback = lambda who, what: None,
) -> None:
    """Run agents of the town until `stop` is set; then release their tasks.

    `template` says how tasks are done (`load_template`); without one, tasks are only assigned. Without `agents`, it runs up to
    `concurrency` agents that are not running and have one of the roles. `dispatch=False` leaves assigning to other workers.
    `report` is called with a name and a line for each step.
    """
    shared = context.source.coordination
    if shared is None:
        raise Invalid("a worker needs a log with leases; open it with `open_context`")
    key = await asyncio.to_thread(context.signing_key, "to run agents of the town")
    await asyncio.to_thread(context.require_complete_log, "goals need")
    log = Recorder.from_blocking(context.log)
    try:
        journal = TownJournal(log, SignedTownFold(await asyncio.to_thread(shared.load_seal), key), key=key)
        jobs = []
        if dispatch:
            dispatcher = Dispatcher(journal, shared, lease_seconds=lease_seconds, report_status=lambda what: report("dispatcher", what))
            jobs.append(dispatcher.run(stop))
        if template is not None:
            worker = Worker(
                journal,
                shared,
                GoalWork(context, template, key, log),
                names=agents,
                roles=roles,
                concurrency=concurrency,
                harness=template.harness,
                lease_seconds=lease_seconds,
                report_status=report,
            )
            jobs.append(worker.run(stop))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            stop.set()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await log.close()
