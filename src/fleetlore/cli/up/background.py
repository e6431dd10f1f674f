"""Background jobs of `lore up`: notifications, shipping, publishing to sinks, and deleting old events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from threading import Event, Thread
from typing import TYPE_CHECKING

from fleetlore.cli import open_log, terminal
from fleetlore.errors import FleetloreError
from fleetlore.log.connect import connect

if TYPE_CHECKING:
    from datetime import datetime

    from fleetlore.operations.costs import CostBudget
    from fleetlore.server.context import AppContext
    from fleetlore.settings import Settings
    from fleetlore.views.thread_names import Naming

DAY = 86_400.0
JOIN_SECONDS = 5.0
BackgroundJob = Callable[[Event], None]
"""A job that runs until the flag is set."""


@contextmanager
def run_background_jobs(settings: Settings, context: AppContext, url: str) -> Iterator[None]:
    """Run the jobs for the duration of the block, each in its own thread."""
    stop = Event()
    threads = [
        Thread(target=_run_job, args=(job, stop), name="fleetlore-chore", daemon=True)
        for job in _list_background_jobs(settings, context, url)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(JOIN_SECONDS)


def _list_background_jobs(settings: Settings, context: AppContext, url: str) -> Iterator[BackgroundJob]:
    if settings.notify.value:
        yield _make_notify_job(settings, context, url)
    if settings.ship_to.value:
        yield _make_ship_job(settings)
    if settings.sinks.value:
        yield lambda stop: _publish_to_sinks(settings, stop)
    if settings.keep_days.value is not None:
        yield lambda stop: _run_retention(settings, context, stop)


def _run_job(job: BackgroundJob, stop: Event) -> None:
    try:
        job(stop)
    except FleetloreError as error:
        terminal.print_error(f"lore: {error}")


def _make_notify_job(settings: Settings, context: AppContext, url: str) -> BackgroundJob:
    from fleetlore.log.coordination import open_shared
    from fleetlore.operations.costs import measure_budgets
    from fleetlore.server.notifications.rules import parse_rules
    from fleetlore.server.notifications.service import Notifier

    def naming() -> Naming:
        with context.view_cache.snapshot(None, ("names",)) as look:
            return look.naming

    def budgets(now: datetime) -> list[CostBudget]:
        if not settings.cost_budgets.value:
            return []
        with context.view_cache.snapshot(None, ("costs",)) as look:
            return measure_budgets(look.states["costs"], settings, now, now.astimezone().tzinfo or UTC) if look.caught_up else []

    notifier = Notifier(
        lambda: connect(settings.log.value, town=settings.town.value, redactor=open_log.make_redactor(settings)).blocking(),
        lambda: open_shared(settings.log.value, town=settings.town.value),
        parse_rules(settings),
        naming=naming,
        url=url,
        outcome_rules=context.view_cache.rules,
        budgets=budgets,
        on_trouble=lambda trouble: terminal.print_error(f"lore: {trouble}"),
    )
    return notifier.run


def _make_ship_job(settings: Settings) -> BackgroundJob:
    from fleetlore.cli.ship import format_outage, parse_url_town
    from fleetlore.ingest.ship import Shipper, ShipStatus

    to = settings.ship_to.value or ""
    source = connect(settings.log.value, town=settings.town.value)
    town, redactor = parse_url_town(to) or settings.town.value, open_log.make_redactor(settings)
    target = connect(to, town=town, redactor=redactor, keeps_whole_texts=settings.whole_texts.value)
    shipper = Shipper(source.blocking, target.blocking, full=settings.ship_full.value)
    lost = False

    def report_outage(status: ShipStatus) -> None:
        """Print an outage once, when it starts."""
        nonlocal lost
        if status.state == "lost" and not lost:
            terminal.print_error(f"lore: {terminal.sanitise_text(format_outage(status))}")
        lost = status.state in ("lost", "trying")

    def ship(stop: Event) -> None:
        shipper.run(stop, on_progress=report_outage)

    return ship


def _publish_to_sinks(settings: Settings, stop: Event) -> None:
    from fleetlore.log.coordination import open_shared
    from fleetlore.operations.sinks import deliver_in_background

    address, town = settings.log.value, settings.town.value
    with (
        connect(address, town=town).blocking() as log,
        open_shared(address, town=town) as shared,
        deliver_in_background(settings.sinks.value, log, shared, town),
    ):
        stop.wait()


def _run_retention(settings: Settings, context: AppContext, stop: Event) -> None:
    while True:
        open_log.apply_retention(context.log, settings, key=context.operator)
        if stop.wait(DAY):
            return
