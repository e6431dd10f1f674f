"""`lore export`: write events in another dialect."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, output, terminal, times
from fleetlore.cli.progress import show_progress_if_long
from fleetlore.dialects.registry import find_dialect, list_dialects
from fleetlore.ingest.lines import LONGEST_LINE
from fleetlore.log.base import check_scope
from fleetlore.operations.context import open_source
from fleetlore.operations.sources import resolve_scope
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore export nexus > chronicle.jsonl", "everything that nexus has a word for"),
    ("lore export cloudevents --since 1d --out today.jsonl", "the last day, every kind, to a file"),
    ("lore export tinytown --scope mission:m1 --kind 'town.*'", "one mission"),
)
_NOTES = """\
What came in by the same dialect goes out as it came. Events that the dialect has no word for are
counted on standard error and left out; that is no failure. Long texts are written whole, as far
as the log keeps them.
"""

Write = Callable[[bytes], None]


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("dialect", metavar="DIALECT", help=f"how to write them: {', '.join(list_dialects())}")
    arguments.add_selection(parser)
    parser.add_argument("--out", metavar="FILE", help="write to this file, whole or not at all (default: standard output)")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Write the events that the dialect can express; count the others and report them."""
    dialect = find_dialect(args.dialect, only_read=registry.list_recordings())
    settings = open_log.load_settings_for(args)
    check_scope(args.scope)
    since = times.parse_since(args.since)
    left_out: Counter[str] = Counter()
    too_long = 0
    with (
        open_log.open_existing_log(args, settings=settings) as log,
        open_source(log, settings, progress=show_progress_if_long) as source,
        _open_output(args.out) as write,
    ):
        for event in log.read(resolve_scope(source, args.scope), kinds=args.kind, since=since):
            record = dialect.encode(log.restore_whole(event), town=settings.town.value)
            if record is not None and len(record) > LONGEST_LINE:  # `lore import` refuses such lines, so write the shortened text
                record = dialect.encode(event, town=settings.town.value)
            if record is not None and len(record) > LONGEST_LINE:
                too_long += 1
            elif record is None:
                left_out[event.kind.partition(".")[0]] += 1
            else:
                write(record)
    if left_out:
        families = ", ".join(f"{count:,} {family}.*" for family, count in left_out.most_common())
        terminal.print_error(f"left out {_format_events(left_out.total())} that {dialect.name} cannot say: {families}")
    if too_long:
        terminal.print_error(
            f"left out {_format_events(too_long)} whose lines are over {LONGEST_LINE >> 20} MiB: `lore import` refuses them"
        )
    return 0


def _format_events(count: int) -> str:
    return f"{count:,} event{'' if count == 1 else 's'}"


@contextmanager
def _open_output(path: str | None) -> Iterator[Write]:
    if path is None:
        yield terminal.print_json if terminal.is_terminal(sys.stdout) else _write_to_pipe
        return
    with output.open_private_file(path) as write:
        yield lambda record: _write_line(write, record)


def _write_to_pipe(record: bytes) -> None:
    _write_line(sys.stdout.buffer.write, record)


def _write_line(write: Callable[[bytes], int], record: bytes) -> None:
    write(record + b"\n")
