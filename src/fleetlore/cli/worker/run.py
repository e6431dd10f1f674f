"""Runs one worker process: opens the log, then runs a dispatcher and the agents until a signal."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from fleetlore.cli import open_log, passphrase, terminal
from fleetlore.cli.goal import find
from fleetlore.cli.goal.find import GoalLog
from fleetlore.cli.goal.pursuit import STOPPING
from fleetlore.cli.main import INTERRUPTED, OK
from fleetlore.cli.worker.command import WorkerReporter
from fleetlore.cli.worker.template import GoalTemplate, load_template
from fleetlore.errors import Invalid
from fleetlore.log.connect import connect
from fleetlore.log.coordination import open_shared
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.town.dispatcher import Dispatcher
from fleetlore.town.journal import TownJournal
from fleetlore.town.worker import Worker

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.log.coordination import Coordination
    from fleetlore.log.seal import OperatorKey
    from fleetlore.settings import Settings


def run(args: Namespace) -> int:
    """Open everything that can fail, then run the worker."""
    settings = open_log.settings_of(args)
    if settings.log.value.startswith("memory:"):
        raise Invalid("a town needs a log that other processes can open, not memory:; omit --log, or name a file or a server")
    template = None if args.dispatch_only else load_template(args, open_log.redactor_of(settings))
    with ExitStack() as stack:
        shared = stack.enter_context(open_shared(settings.log.value, town=settings.town.value))
        key = passphrase.ask_key(shared, "to run agents of the town")
        try:
            return asyncio.run(_run_worker(args, settings, shared, key, template))
        except asyncio.CancelledError:
            terminal.err("stopped at once; its tasks are released when this worker's lease expires")
            return INTERRUPTED


async def _run_worker(
    args: Namespace, settings: Settings, shared: Coordination, key: OperatorKey | None, template: GoalTemplate | None
) -> int:
    stop, report = asyncio.Event(), WorkerReporter(json=args.json)
    _handle_signals(stop)
    opened = connect(settings.log.value, town=settings.town.value, redactor=open_log.redactor_of(settings), veil=open_log.veil_of(settings))
    async with opened as log:
        place = GoalLog(log.as_blocking(), shared, settings)
        await asyncio.to_thread(find.need_all_kept, place)
        journal = TownJournal(log, SignedTownFold(shared.load_seal(), key), key=key)
        jobs = []
        if not args.no_dispatch:
            jobs.append(
                Dispatcher(journal, shared, lease_seconds=args.lease, report_status=lambda what: report("dispatcher", what)).run(stop)
            )
        if template is not None:
            jobs.append(_make_worker(args, journal, place, key, template, report).run(stop))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            stop.set()
            await asyncio.gather(*tasks, return_exceptions=True)
    terminal.err("stopped; its tasks were released")
    return OK


def _make_worker(
    args: Namespace, journal: TownJournal, place: GoalLog, key: OperatorKey | None, template: GoalTemplate, report: WorkerReporter
) -> Worker:
    from fleetlore.cli.worker.work import GoalWork

    return Worker(
        journal,
        place.shared,
        GoalWork(template, place, key),
        names=args.agent,
        roles=args.roles,
        concurrency=args.concurrency,
        harness=template.harness,
        lease_seconds=args.lease,
        report_status=report,
    )


def _handle_signals(stop: asyncio.Event) -> None:
    """The first signal stops cleanly; a second one cancels at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in (signal.SIGINT, *STOPPING):
        if signal.getsignal(number) is signal.SIG_IGN:  # set by `nohup`
            continue
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            loop.add_signal_handler(number, end)
