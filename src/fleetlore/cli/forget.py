"""`lore forget`: permanently erase events. docs/privacy.md describes what is erased and what stays."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore import settings as config
from fleetlore.cli import arguments, confirm, open_log, passphrase, progress, terminal, times
from fleetlore.cli.main import FAILED, OK, UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.ingest.forget import ForgetFilter, FoundEvents
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings

MAX_SHOWN = 8
REASON = "asked for"
"""The default reason. It stays in the log, so it must not name anybody."""

_EXAMPLES = (
    ("lore forget --run 0f3e9a52-8a6f-4a39-9a7e-5d2d0d1c7f10 --dry-run", "show what would be erased with a session and its sub-agents"),
    ("lore forget --agent ada --reason 'left the team'", "all events by, for or under an agent"),
    ("lore forget --before 90d --kind prompt.submitted --kind model.replied", "only old prompts and replies"),
    ("lore forget --id 01936a7e-7d1c-7b3a-8c3e-2f1d5a6b7c8d --yes", "one event, without asking"),
)
_NOTES = """\
With several options, events must match all. Events are overwritten on disk, with checkpoints,
search index and spooled hook records. One log.forgotten event stays, with hashes of the ids: these
ids are refused from now on, so that importing the recording again restores nothing, and `lore ship` erases
them in the target. Not erased: quotes in other agents' events (find them with `lore find`, then
erase them with --id), backups, exports, and the recordings of the coding program itself.
A sealed log asks for its passphrase first (docs/sealing.md).
Exit code: 0 erased or nothing to erase, 1 failed or new events arrived meanwhile, 2 bad arguments,
or no terminal and no --yes.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--agent", metavar="A", help="events that name it as agent, parent, child or actor")
    parser.add_argument("--run", metavar="R", help="events of a session, and of the sub-agents that it launched")
    parser.add_argument("--before", metavar="WHEN", help="events that happened before: 90d ago, a day, or a time such as 2026-11-15T20:00Z")
    parser.add_argument("--id", metavar="ID", action="append", default=[], help="this event; may be repeated")
    parser.add_argument(
        "--kind", metavar="K", action="append", type=arguments.parse_kind, default=[], help="only this kind, or family such as 'tool.*'"
    )
    parser.add_argument("--reason", metavar="TEXT", default=REASON, help="why; it stays in the log (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Show what matches, ask, erase, and check that nothing is left."""
    from fleetlore.ingest import forget

    settings = open_log.load_settings_for(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        filter = _make_filter(args, log)
        with progress.show_progress("looking") as show:
            found = forget.find_matching_events(log, filter, progress=show)
        if not args.json:
            _print_found(found, config.mask_url(settings.log.value), args.dry_run)
        if args.dry_run:
            return _print_result(args, found, erased=0, left=len(found.ids), spooled_count=0)
        if found.ids and not args.yes and not confirm.ask_yes_no(f"Erase {_count_events(len(found.ids))} for good?"):
            terminal.print_error("nothing was erased")
            return FAILED
        passphrase.ask_operator_key(settings, "to erase events")
        return _erase_found(args, settings, log, filter, found)


def _make_filter(args: Namespace, log: BlockingRecorder) -> ForgetFilter:
    from fleetlore.ingest import forget as ingest_forget

    if not (args.agent or args.run or args.before or args.id):
        raise UsageError("name what to forget with --agent, --run, --before or --id; --kind narrows it down")
    try:
        ids = ingest_forget.parse_event_ids(args.id) if args.id else None
    except ValueError as error:
        raise UsageError(f"--id: {error}") from error
    return ingest_forget.ForgetFilter(
        agent=args.agent,
        runs=ingest_forget.find_helper_runs(log, args.run) if args.run else None,
        before=times.parse_time(args.before, now=clock.now()) if args.before else None,
        kinds=tuple(args.kind),
        ids=ids,
    )


def _erase_found(args: Namespace, settings: Settings, log: BlockingRecorder, filter: ForgetFilter, found: FoundEvents) -> int:
    """Erase from the spool first, so that nothing is imported later; then from the log, then from its projections."""
    from fleetlore.ingest import forget as ingest_forget

    spooled_count = ingest_forget.purge_spool(filter, settings)
    with progress.show_progress("erasing") as show:
        erased = ingest_forget.erase_events(log, found.ids, args.reason, progress=show)
    if args.agent and not (args.kind or args.before or args.id or args.run):
        ingest_forget.remove_agent_name(log, args.agent, args.reason)
    ingest_forget.purge_stores(log)
    left = len(ingest_forget.find_matching_events(log, filter).ids)
    return _print_result(args, found, erased=erased, left=left, spooled_count=spooled_count)


def _print_found(found: FoundEvents, log: str, is_dry_run: bool) -> None:
    if not found.ids:
        terminal.print_line(f"nothing to forget in {terminal.sanitise_text(log)}")
        return
    terminal.print_line(
        f"{_count_events(len(found.ids))} of {terminal.sanitise_text(log)} {'would' if is_dry_run else 'will'} be erased for good:"
    )
    for what, counts in (("agents", found.agents), ("kinds", found.kinds)):
        terminal.print_line(f"  {what:<7} {terminal.sanitise_text(_list_largest(counts))}")
    days = sorted(found.days)
    span = days[0] if len(days) == 1 else f"{len(days):,} days from {days[0]} to {days[-1]}: {_list_largest(found.days)}"
    terminal.print_line(f"  {'days':<7} {span}")


def _list_largest(counts: Counter[str]) -> str:
    shown = [f"{name} {count:,}" for name, count in counts.most_common(MAX_SHOWN)]
    more = len(counts) - len(shown)
    return " · ".join([*shown, *([f"and {more:,} more"] if more else [])])


def _print_result(args: Namespace, found: FoundEvents, *, erased: int, left: int, spooled_count: int) -> int:
    if args.json:
        fields = {"found": len(found.ids), "agents": found.agents, "kinds": found.kinds, "days": dict(sorted(found.days.items()))}
        terminal.print_value({**fields, "erased": erased, "spooled": spooled_count, "left": left, "dry_run": args.dry_run})
    if args.dry_run:
        return OK
    if not args.json and (erased or spooled_count):
        spooled = f", and {spooled_count:,} waiting in the spool" if spooled_count else ""
        terminal.print_line(f"erased {_count_events(erased)} for good{spooled}")
    if left:
        terminal.print_error(f"lore: {_count_events(left)} came in meanwhile; run it again")
        return FAILED
    return OK


def _count_events(count: int) -> str:
    return f"{count:,} {'event' if count == 1 else 'events'}"
