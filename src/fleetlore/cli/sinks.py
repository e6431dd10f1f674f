"""`lore sinks`: where driver events are published, how many wait, and a way to publish them now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.main import FAILED, OK
from fleetlore.errors import FleetloreError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.operations.sinks import SinkDelivery

_EXAMPLES = (
    ("lore sinks", "every sink, and how many events it has not got yet"),
    ("lore sinks --send", "publish now what waits, such as after an outage"),
)
_NOTES = """\
Sinks are [[sink]] tables in your own fleetlore.toml; goals publish to them while they run: docs/goals.md.
"""


def configure(parser: ArgumentParser) -> None:
    """Whether to publish."""
    parser.add_argument("--send", action="store_true", help="publish now what waits")
    arguments.add_json(parser, "one JSON object per line")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """List the sinks; fails if one could not be reached."""
    from fleetlore.log.coordination import open_shared
    from fleetlore.operations.sinks import SinkDelivery, make_sink

    settings = open_log.load_settings_for(args)
    if not settings.sinks.value:
        terminal.print_line("there are no sinks; add a [[sink]] to your fleetlore.toml (docs/goals.md)")
        return OK
    has_failed = False
    with open_log.open_existing_log(args, settings=settings) as log, open_shared(settings.log.value, town=settings.town.value) as shared:
        for notice in settings.sinks.value:
            delivery = SinkDelivery(make_sink(notice), log, shared, settings.town.value)
            delivery.prepare_cursor()
            failure = _publish_waiting(delivery) if args.send else None
            has_failed = has_failed or failure is not None
            sink, waiting = delivery.sink, delivery.count_waiting()
            if args.json:
                terminal.print_value({"name": sink.name, "target": sink.target, "waiting": waiting, "failure": failure})
            else:
                terminal.print_line(f"{sink.name}  {sink.target}  {waiting:,} waiting" + (f"  failed: {failure}" if failure else ""))
    return FAILED if has_failed else OK


def _publish_waiting(delivery: SinkDelivery) -> str | None:
    """Publish all that waits; the reason if that fails."""
    try:
        while count := delivery.deliver_events():
            pass
    except (FleetloreError, OSError) as error:
        return str(error) or type(error).__name__
    return None if count == 0 else "another process publishes to it at the moment"
