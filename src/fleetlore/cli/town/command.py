"""`lore town`: manage a fleet of agents that share work. docs/town.md describes towns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli.town.help import VERB_HELP
from fleetlore.cli.verbs import LocalVerb, VerbGroup, configure_group, run_group

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def _configure_init(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of the town (default: --town, or the name of the folder)")


def _configure_plan(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a plan (.toml), or issues (.json, .jsonl); see docs/town-plans.md")
    parser.add_argument("--title", metavar="TEXT", default="", help="title of the mission; for issues")
    help = "an issue that is already done; for issues; may be repeated"
    parser.add_argument("--done", metavar="ISSUE", action="append", default=[], help=help)


TOWN = VerbGroup(
    "town",
    verbs=(
        *("init", "spawn", "list", "status", "assign"),
        *("backlog", "backlog add", "backlog list", "backlog claim"),
        *("task", "task list", "task show", "task cancel", "task retry", "task complete", "task redirect"),
        *("send", "inbox"),
        *("mission", "mission start", "mission plan", "mission list", "mission show", "mission pause", "mission resume", "mission stop"),
        *("mission note", "mission approve", "mission reject", "mission helped", "mission archive"),
        *("interrupt", "resume", "close", "kill", "restart", "recover", "reclaim", "history"),
    ),
    local={
        "init": LocalVerb("town.init:init_town", "write the town and its log into this folder's settings", _configure_init),
        "mission plan": LocalVerb("town.missions:show_plan", "print a plan as TOML without starting it", _configure_plan),
    },
    examples=VERB_HELP,
    has_speaker=True,
)


def configure(parser: ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    configure_group(parser, TOWN)


def run(args: Namespace) -> int:
    """Run the verb."""
    return run_group(args, TOWN)
