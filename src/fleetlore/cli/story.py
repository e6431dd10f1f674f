"""`lore story`: a paragraph per session, what came of it first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.brief import add_period, read_records

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SUMMARY = "read a day as short paragraphs, one per session, the outcome first"

_EXAMPLES = (
    ("lore story", "the newest day with sessions"),
    ("lore story --since 1h", "the last hour"),
    ("lore story --day yesterday --format markdown", "yesterday, for a wiki page or an issue"),
    ("lore story --json | jq '.paragraphs[].sentences[]'", "every sentence with its source events"),
)


def configure(parser: ArgumentParser) -> None:
    """Which period, and how to write it."""
    add_period(parser)
    parser.add_argument("--format", choices=("text", "markdown", "html", "json"), default="text", help="how to write it (text)")
    arguments.add_json(parser, "the same as --format json")
    arguments.teach(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the story."""
    from fleetlore.cli.tell.range import zone_of
    from fleetlore.story.reading import story_of
    from fleetlore.story.story_formats import FORMATS

    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        story = story_of(read_records(args, log, settings, clock.now()), zone_of(args.tz))
    for line in FORMATS["json" if args.json else args.format](story).splitlines():
        terminal.out(line)
    return 0
