"""One worker process: the log opened once for everybody in it, a dispatcher beside the agents, and a clean end."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from fleetlore.cli import open_log, passphrase, terminal
from fleetlore.cli.goal import find
from fleetlore.cli.goal.find import Place
from fleetlore.cli.goal.pursuit import STOPPING
from fleetlore.cli.main import INTERRUPTED, OK
from fleetlore.cli.worker.command import Teller
from fleetlore.cli.worker.template import Template, template
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
    """Open everything that can fail before anybody is taken on, and serve."""
    settings = open_log.settings_of(args)
    if settings.log.value.startswith("memory:"):
        raise Invalid("a town lives on a log that others reach, and memory: is nobody else's; leave --log out, or name a file or a server")
    how = None if args.dispatch_only else template(args, open_log.redactor_of(settings))
    with ExitStack() as stack:
        shared = stack.enter_context(open_shared(settings.log.value, town=settings.town.value))
        key = passphrase.ask_key(shared, "to run agents of the town")
        try:
            return asyncio.run(_serve(args, settings, shared, key, how))
        except asyncio.CancelledError:
            terminal.err("stopped at once; what was being worked on goes back to the town when this worker's lease ends")
            return INTERRUPTED


async def _serve(args: Namespace, settings: Settings, shared: Coordination, key: OperatorKey | None, how: Template | None) -> int:
    stop, say = asyncio.Event(), Teller(json=args.json)
    _hear_signals(stop)
    opened = connect(settings.log.value, town=settings.town.value, redactor=open_log.redactor_of(settings), veil=open_log.veil_of(settings))
    async with opened as log:
        place = Place(log.as_blocking(), shared, settings)
        await asyncio.to_thread(find.need_all_kept, place)
        scribe = TownJournal(log, town_view=SignedTownFold(shared.load_seal(), key), key=key)
        jobs = []
        if not args.no_dispatch:
            jobs.append(Dispatcher(scribe, shared, lease_seconds=args.lease, report_status=lambda what: say("dispatcher", what)).run(stop))
        if how is not None:
            jobs.append(_worker(args, scribe, place, key, how, say).run(stop))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            stop.set()
            await asyncio.gather(*tasks, return_exceptions=True)
    terminal.err("stopped; what was being worked on is with the town again")
    return OK


def _worker(args: Namespace, scribe: TownJournal, place: Place, key: OperatorKey | None, how: Template, say: Teller) -> Worker:
    from fleetlore.cli.worker.work import DriverWork

    return Worker(
        scribe,
        place.shared,
        DriverWork(how, place, key),
        names=args.agent,
        roles=args.roles,
        concurrency=args.concurrency,
        harness=how.harness,
        lease_seconds=args.lease,
        report_status=say,
    )


def _hear_signals(stop: asyncio.Event) -> None:
    """The first one lets everything go; a second one does not wait for that."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in (signal.SIGINT, *STOPPING):
        if signal.getsignal(number) is signal.SIG_IGN:  # as `nohup` wants it
            continue
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            loop.add_signal_handler(number, end)
