"""Runs one worker process: opens the log, then runs a dispatcher and the agents until a signal."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from fleetlore import clock
from fleetlore.cli import open_log, passphrase, terminal
from fleetlore.cli.goal.run import STOPPING
from fleetlore.cli.main import INTERRUPTED, OK
from fleetlore.cli.terminal import find_user_name, sanitise_text
from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext, open_source
from fleetlore.operations.workers import GoalTemplate, load_template, run_worker

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Run `lore worker`. Everything that may fail or ask for input is opened before the first task is taken."""
    settings = open_log.load_settings_for(args)
    if settings.log.value.startswith("memory:"):
        raise Invalid("a town needs a log that other processes can open, not memory:; omit --log, or name a file or a server")
    template = None
    if not args.dispatch_only:
        template = load_template(
            args.file,
            harness=args.harness,
            mind=args.mind,
            command=args.command,
            workspace=args.workspace,
            allow=args.allow,
            redactor=open_log.make_redactor(settings),
        )
    with (
        open_log.open_log(args, settings=settings, drain=False) as log,
        open_source(log, settings, ask_key=passphrase.ask_key) as source,
    ):
        context = OperationContext(source, actor=find_user_name())
        context.signing_key("to run agents of the town")  # asks for the passphrase before anything runs
        try:
            asyncio.run(_run_worker(args, context, template))
        except asyncio.CancelledError:
            terminal.print_error("stopped at once; its tasks are released when this worker's lease expires")
            return INTERRUPTED
    terminal.print_error("stopped; its tasks were released")
    return OK


async def _run_worker(args: Namespace, context: OperationContext, template: GoalTemplate | None) -> None:
    stop = asyncio.Event()
    _handle_signals(stop)
    await run_worker(
        context,
        template,
        stop=stop,
        agents=args.agent,
        roles=args.roles,
        concurrency=args.concurrency,
        dispatch=not args.no_dispatch,
        lease_seconds=args.lease,
        report=WorkerReporter(json=args.json),
    )


def _handle_signals(stop: asyncio.Event) -> None:
    """Install signal handlers: the first signal stops the worker cleanly, a second one cancels it immediately."""
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


class WorkerReporter:
    """Prints progress, one line per step."""

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def __call__(self, who: str, what: str) -> None:
        """Print one line: the time, who (agent or dispatcher), and what it did."""
        now = clock.now()
        if self._json:
            terminal.print_line(terminal.escape_json(msgspec.json.encode({"at": now, "who": who, "what": what}).decode()))
        else:
            terminal.print_line(f"{now.astimezone():%H:%M:%S}  {sanitise_text(who):<16}  {sanitise_text(what)}")
        terminal.flush_output()
