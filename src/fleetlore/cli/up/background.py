"""What `lore up` sees to beside serving: notices, shipping, and letting go of what is too old."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from fleetlore.cli import open_log, terminal
from fleetlore.errors import FleetloreError
from fleetlore.log.connect import connect

if TYPE_CHECKING:
    from fleetlore.server.context import AppContext
    from fleetlore.settings import Settings
    from fleetlore.views.thread_names import Naming

DAY = 86_400.0
JOIN_SECONDS = 5.0
BackgroundJob = Callable[[Event], None]
"""Works until the flag is set."""


@contextmanager
def run_background_jobs(settings: Settings, house: AppContext, url: str) -> Iterator[None]:
    """Do them, each in a thread of its own, as long as the block lasts."""
    stop = Event()
    threads = [
        Thread(target=_run_job, args=(job, stop), name="fleetlore-chore", daemon=True)
        for job in _list_background_jobs(settings, house, url)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(JOIN_SECONDS)


def _list_background_jobs(settings: Settings, house: AppContext, url: str) -> Iterator[BackgroundJob]:
    if settings.notify.value:
        yield _make_notify_job(settings, house, url)
    if settings.ship_to.value:
        yield _make_ship_job(settings)
    if settings.keep_days.value is not None:
        yield lambda stop: _keep_retention(settings, house, stop)


def _run_job(job: BackgroundJob, stop: Event) -> None:
    try:
        job(stop)
    except FleetloreError as error:
        terminal.err(f"lore: {error}")


def _make_notify_job(settings: Settings, house: AppContext, url: str) -> BackgroundJob:
    from fleetlore.log.coordination import open_shared
    from fleetlore.server.notifications.rules import rules_of
    from fleetlore.server.notifications.service import Notifier

    def naming() -> Naming:
        with house.view_cache.snapshot(None, ("names",)) as look:
            return look.naming

    notifier = Notifier(
        lambda: connect(settings.log.value, town=settings.town.value, redactor=open_log.redactor_of(settings)).blocking(),
        lambda: open_shared(settings.log.value, town=settings.town.value),
        rules_of(settings),
        naming=naming,
        url=url,
        costs=house.view_cache.costs,
        on_trouble=lambda trouble: terminal.err(f"lore: {trouble}"),
    )
    return notifier.run


def _make_ship_job(settings: Settings) -> BackgroundJob:
    from fleetlore.cli.ship import format_outage, town_of_url
    from fleetlore.ingest.ship import Shipper, ShipStatus

    to = settings.ship_to.value or ""
    source = connect(settings.log.value, town=settings.town.value)
    target = connect(to, town=town_of_url(to) or settings.town.value, redactor=open_log.redactor_of(settings))
    shipper = Shipper(source.blocking, target.blocking, full=settings.ship_full.value)
    lost = False

    def tell(standing: ShipStatus) -> None:
        """The beginning of each outage, and no more."""
        nonlocal lost
        if standing.state == "lost" and not lost:
            terminal.err(f"lore: {terminal.sanitise(format_outage(standing))}")
        lost = standing.state in ("lost", "trying")

    def ship(stop: Event) -> None:
        shipper.run(stop, on_progress=tell)

    return ship


def _keep_retention(settings: Settings, house: AppContext, stop: Event) -> None:
    while True:
        open_log.keep_to(house.log, settings, key=house.operator)
        if stop.wait(DAY):
            return
