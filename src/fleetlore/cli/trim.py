"""`lore trim`: delete the oldest part of the log. docs/privacy.md describes what is kept of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.cli import arguments, confirm, open_log, passphrase, progress, terminal, times
from fleetlore.cli.main import FAILED, OK, UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from datetime import datetime

    from fleetlore.ingest.trim import TrimResult
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.seal import OperatorKey
    from fleetlore.projections.store import ProjectionStore
    from fleetlore.settings import Settings

_EXAMPLES = (
    ("lore trim --before 90d --dry-run", "what would go"),
    ("lore trim --before 2026-01-01", "everything of last year and earlier"),
    ("lore trim", "what [retention] keep in fleetlore.toml says"),
    ("lore trim --before 0000000000004711 --yes", "everything before a position, without asking"),
)
_NOTES = """\
The log is cut at the first event that is not older; later records stay, whatever their time. One
log.trimmed event records how many events of which kinds and agents were deleted, their times and
costs. Saved views, such as the fleet of `lore status`, still include them; stories start at the new
start of the log. Events that [ship] has not sent yet are not trimmed. A sealed log asks for its
passphrase first (docs/sealing.md). To erase texts permanently, use `lore forget`.
Exit code: 0 trimmed or nothing to trim, 1 failed or not trimmed, 2 bad arguments, or no terminal
and no --yes.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--before", metavar="WHEN", help="90d, 12w or 1y ago, a day, a time, or a position (default: [retention] keep)")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Find the position, show what would go, ask, then trim."""
    from fleetlore.projections.store import open_store

    settings, now = open_log.load_settings_for(args), clock.now()
    with open_log.open_existing_log(args, settings=settings) as log:
        key = None if args.dry_run else passphrase.ask_operator_key(settings, "to trim it")
        store = open_store(log.info())
        with store or nullcontext():
            return _trim_log(args, settings, now, log, store, key)


def _trim_log(
    args: Namespace, settings: Settings, now: datetime, log: BlockingRecorder, store: ProjectionStore | None, key: OperatorKey | None
) -> int:
    from fleetlore.ingest import retention, trim

    if not args.dry_run:
        trim.finish_interrupted_trim(log, key)
    last = _find_last_position(args.before, settings, now, log, store)
    note = retention.explain_held_up(log, last, now)
    costs = retention.make_costs(settings)
    with progress.show_progress("looking") as show:
        found = None if last is None else trim.plan_trim(log, last, costs=costs, progress=show)
    if found is None:
        return _print_result(args, None, done=False, note=note)
    if not args.json:
        terminal.print_line(_describe_trim(found, config.mask_url(settings.log.value), args.dry_run))
    if args.dry_run:
        return _print_result(args, found, done=False, note=note)
    if why := retention.explain_unshipped(log, settings, found.last):
        terminal.print_error(f"lore: {why}")
        return FAILED
    if not args.yes and not confirm.ask_yes_no(f"Cut off {_count_events(found.events)}?"):
        terminal.print_error("nothing was trimmed")
        return FAILED
    with progress.show_progress("trimming") as show:
        done = trim.trim_log(log, found.last, store=store, costs=costs, progress=show, key=key)
    return _print_result(args, done or found, done=True, note=note)


def _find_last_position(
    before: str | None, settings: Settings, now: datetime, log: BlockingRecorder, store: ProjectionStore | None
) -> str | None:
    """The last position to delete; `None` if there is nothing to trim."""
    from fleetlore.ingest import retention
    from fleetlore.ingest import trim as ingest_trim

    head = log.head()
    if before is not None and head is not None and len(before) == len(head) and before.isascii() and before.isdigit():
        newest = next(log.read(before=before, newest_first=True, limit=1), None)
        return None if newest is None else newest.position
    time = retention.retention_cutoff(settings, now) if before is None else times.parse_cutoff(before, now=now)
    if time is None:
        raise UsageError("no age is given; write --before 90d, or set `keep` under [retention] in fleetlore.toml")
    with progress.show_progress_if_long() as show:
        return ingest_trim.find_position_before(log, time, store=store, progress=show)


def _describe_trim(found: TrimResult, log: str, is_dry: bool) -> str:
    totals = found.totals
    span = f" from {totals['first_at'][:10]} to {totals['last_at'][:10]}" if "first_at" in totals else ""
    cost = f", ${totals['usd']:,.2f}" if "usd" in totals else ""
    agents = len(totals["agents"])
    whose = f" of {agents:,} {'agent' if agents == 1 else 'agents'}" if agents else ""
    return (
        f"the oldest {_count_events(found.events)} of {terminal.sanitise_text(log)} {'would' if is_dry else 'will'} go:{whose}{span}{cost}"
    )


def _print_result(args: Namespace, found: TrimResult | None, *, done: bool, note: str | None) -> int:
    if args.json:
        fields: dict[str, Any] = {} if found is None else {"before": found.before, **found.totals}
        terminal.print_value({"trimmed": found.events if found and done else 0, "dry_run": args.dry_run, "note": note, **fields})
    elif found is None:
        terminal.print_line("nothing to trim")
    elif done:
        terminal.print_line(f"trimmed {_count_events(found.events)}; the log now starts at  {found.before}")
    if note and not args.json:
        terminal.print_error(f"lore: {note}")
    return OK


def _count_events(count: int) -> str:
    return f"{count:,} {'event' if count == 1 else 'events'}"
