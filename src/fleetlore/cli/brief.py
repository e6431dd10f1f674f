"""`lore brief`: what was delivered, what went wrong, what to check, who needs you, and the bill."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.log.base import TOWN

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from datetime import datetime, tzinfo

    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings
    from fleetlore.story.brief import Brief
    from fleetlore.views.outcomes.record import Outcome

SUMMARY = "sum up a day: what was delivered, what went wrong, what to check, who needs you, and the bill"

_EXAMPLES = (
    ("lore brief", "the newest day that has sessions"),
    ("lore brief --day yesterday --format markdown", "yesterday, for a wiki page or an issue"),
    ("lore brief --since 1d --format chat", "the last 24 hours, as a short message"),
)


def configure(parser: ArgumentParser) -> None:
    """Which period, and how to write it."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--day", metavar="DAY", help="one day: 2026-11-15, today or yesterday (default: the newest day with sessions)")
    which.add_argument("--since", metavar="WHEN", help="since 30m, 2h, 3d or 1w ago, a day, or a time such as 2026-11-15T20:00Z")
    which.add_argument("--all", action="store_true", help="everything")
    parser.add_argument("--scope", metavar="S", default=TOWN, help=arguments.SCOPE_HELP)
    parser.add_argument("--agent", metavar="NAME", help="only sessions of this agent")
    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days, such as Europe/Berlin (UTC)")
    parser.add_argument("--format", choices=("text", "markdown", "html", "json", "chat"), default="text", help="how to write it (text)")
    arguments.add_json(parser, "the same as --format json")
    parser.set_defaults(last=None)
    arguments.teach(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the brief."""
    from fleetlore.story.brief_formats import FORMATS

    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        brief = read_brief(args, log, settings, clock.now())
    written = FORMATS["json" if args.json else args.format](brief)
    for line in written.splitlines():
        terminal.out(line)
    return 0


def read_brief(args: Namespace, log: BlockingRecorder, settings: Settings, now: datetime) -> Brief:
    """The brief of the period that the arguments ask for."""
    import msgspec

    from fleetlore.cli.sessions import read_outcomes, select_sessions
    from fleetlore.cli.tell.range import zone_of
    from fleetlore.story.brief import clip_outcome, make_brief
    from fleetlore.views.outcomes.record import Outcome

    zone = zone_of(args.tz)
    if args.day is None and args.since is None and not args.all:
        newest = _find_newest_day(args, log, settings, now, zone)
        args.day = newest or "today"
    wanted = select_sessions(args, log, now)
    decode = msgspec.json.Decoder(Outcome).decode
    outcomes = [decode(raw) for raw in read_outcomes(log, settings, wanted, now)]
    clipped = []
    for outcome in outcomes:
        if _reaches_beyond(outcome, wanted.since, wanted.until):
            times = _read_times(log, outcome)
            outcome = clip_outcome(outcome, times, wanted.since, wanted.until)
        clipped.append(outcome)
    return make_brief(clipped, since=wanted.since, until=wanted.until, zone=zone)


def _find_newest_day(args: Namespace, log: BlockingRecorder, settings: Settings, now: datetime, zone: tzinfo) -> str | None:
    """The day of the newest session that is not from the future."""
    import msgspec

    from fleetlore.cli.sessions import read_outcomes, select_sessions
    from fleetlore.views.outcomes.record import Outcome

    decode = msgspec.json.Decoder(Outcome).decode
    args.all = True
    wanted = select_sessions(args, log, now)
    args.all = False
    for raw in read_outcomes(log, settings, wanted, now):
        ended = decode(raw).ended
        if ended is not None and ended <= now + timedelta(days=1):
            return ended.astimezone(zone).date().isoformat()
    return None


def _reaches_beyond(outcome: Outcome, since: datetime | None, until: datetime | None) -> bool:
    starts_before = since is not None and outcome.started is not None and outcome.started < since
    ends_after = until is not None and outcome.ended is not None and outcome.ended >= until
    return starts_before or ends_after


def _read_times(log: BlockingRecorder, outcome: Outcome) -> dict[str, datetime]:
    """When the source events of a record happened."""
    delivered = outcome.delivered
    cited = [
        *(item.evidence for item in delivered.commits),
        *(item.evidence for item in delivered.pull_requests),
        *(item.evidence for item in outcome.troubles),
        *(item.evidence for item in outcome.flags),
        *(item.evidence for item in outcome.claims),
        *(item.evidence for item in outcome.files),
        outcome.evidence.get("delivered.pushed", []),
    ]
    ids = {source.event for evidence in cited for source in evidence}
    return {event.id: event.at for event in log.get(sorted(ids)) if event.id is not None and event.at is not None}
