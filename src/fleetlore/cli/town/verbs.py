"""The table of `lore town` verbs: help, arguments, and the function that runs each (`module.function` in this package)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fleetlore.cli import arguments
from fleetlore.cli.town import help as town_help
from fleetlore.operations.table import find_command, list_commands

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

Argument: TypeAlias = "tuple[tuple[str, ...], dict[str, Any]]"
"""Names and options for argparse; arguments with the same `group` exclude each other."""


class Verb(NamedTuple):
    """One verb of `lore town`."""

    does: str
    what: str
    takes: tuple[Argument, ...] = ()
    verbs: Mapping[str, Verb] = {}  # never changed
    operation: str = ""
    """The words of its command in the table of operations, from which the rest follows."""


def _derive(words: str) -> Verb:
    """A verb that follows from the table of operations."""
    return Verb("", find_command(words)[0].help, operation=words)


def _make_argument(*names: str, **options: Any) -> Argument:
    return names, options


def _as_subverb_arguments(takes: Sequence[Argument]) -> tuple[Argument, ...]:
    """Arguments for a subverb: values given before it stay unless given again."""
    return tuple((names, {**options, "default": argparse.SUPPRESS}) for names, options in takes)


def _list_argument(name: str, metavar: str, dest: str, help: str) -> Argument:
    return _make_argument(name, metavar=metavar, dest=dest, action="append", default=[], help=f"{help}; may be repeated")


_SELECTION = (
    _make_argument(
        "--state",
        choices=("pending", "assigned", "running", "completed", "failed", "cancelled"),
        default=None,
        help="only tasks in this state",
    ),
    _make_argument("--agent", metavar="AGENT", default=None, help="only tasks of this agent, or last held by it"),
    _make_argument("--mission", metavar="ID", default=None, help="only tasks of this mission"),
    _make_argument("--all", action="store_true", default=False, help="also tasks that ended more than a day ago"),
)
_TASK = _make_argument("id", metavar="ID", help="task id, or a unique prefix")
_MISSION = _make_argument("id", metavar="ID", help="mission id, or a unique prefix")
_FILE = (
    _make_argument("file", metavar="FILE", help="a plan (.toml), or issues (.json, .jsonl); see docs/town-plans.md"),
    _make_argument("--title", metavar="TEXT", default="", help="title of the mission; for issues"),
    _list_argument("--done", "ISSUE", "done", "an issue that is already done; for issues"),
)
_ARCHIVED = _make_argument("--all", action="store_true", default=False, help="also archived missions")

_BACKLOG = {
    "add": _derive("town backlog add"),
    "list": Verb("tasks.list_backlog", "list pending tasks in the order of assignment"),
    "claim": _derive("town backlog claim"),
}
_TASKS = {
    "list": Verb("tasks.list_tasks", "list tasks, running ones first", _as_subverb_arguments(_SELECTION)),
    "show": Verb("tasks.show_task", "show one task in detail", (_TASK,)),
    "cancel": _derive("town task cancel"),
    "retry": _derive("town task retry"),
    "complete": _derive("town task complete"),
    "redirect": _derive("town task redirect"),
}
_MISSIONS = {
    "start": _derive("town mission start"),
    "plan": Verb("missions.show_plan", "print a plan as TOML without starting it", _FILE),
    "list": Verb("missions.list_missions", "list missions", _as_subverb_arguments([_ARCHIVED])),
    "show": Verb("missions.show_mission", "show one mission: its items, and what each waits for", (_MISSION,)),
    "pause": _derive("town mission pause"),
    "resume": _derive("town mission resume"),
    "stop": _derive("town mission stop"),
    "note": _derive("town mission note"),
    "approve": _derive("town mission approve"),
    "reject": _derive("town mission reject"),
    "helped": _derive("town mission helped"),
    "archive": _derive("town mission archive"),
}

VERBS = {
    "init": Verb(
        "init.init_town",
        "write the town and its log into this folder's settings",
        (_make_argument("name", metavar="NAME", nargs="?", help="name of the town (default: --town, or the name of the folder)"),),
    ),
    "spawn": _derive("town spawn"),
    "list": Verb(
        "agents.list_agents",
        "list agents with state and current task",
        (_make_argument("--all", action="store_true", help="also agents that stopped more than a day ago"),),
    ),
    "status": Verb(
        "board.show_status",
        "show the whole town: who needs you, who works on what, progress of missions",
        (
            _make_argument("--watch", action="store_true", help="keep running, and update after every change"),
            _make_argument("--all", action="store_true", help="all agents and missions, also those that ended long ago"),
        ),
    ),
    "assign": _derive("town assign"),
    "backlog": Verb("tasks.list_backlog", "pending tasks: list, add, claim", verbs=_BACKLOG),
    "task": Verb("tasks.list_tasks", "tasks: list, show, cancel, retry, complete, redirect", _SELECTION, _TASKS),
    "send": _derive("town send"),
    "inbox": Verb(
        "messages.show_inbox",
        "list unread messages, and acknowledge them",
        (
            _make_argument("name", metavar="NAME", nargs="?", help="whose inbox (default: the speaker's, see --as)"),
            _list_argument("--ack", "ID", "ack", "acknowledge this message, or all"),
        ),
    ),
    "mission": Verb("missions.list_missions", "missions: start, list, show, control, review", (_ARCHIVED,), _MISSIONS),
    "interrupt": _derive("town interrupt"),
    "resume": _derive("town resume"),
    "close": _derive("town close"),
    "kill": _derive("town kill"),
    "restart": _derive("town restart"),
    "recover": _derive("town recover"),
    "reclaim": _derive("town reclaim"),
    "history": Verb(
        "history.show_history",
        "print events, oldest first: of all, of an agent, a mission or a task",
        (
            _make_argument("agent", group="what", metavar="AGENT", nargs="?", help="only events of this agent"),
            _make_argument("--mission", group="what", metavar="ID", help="only events of this mission"),
            _make_argument("--task", group="what", metavar="ID", help="only events of this task"),
            _make_argument("-n", "--last", metavar="N", type=int, default=30, help="number of newest events (30)"),
            _make_argument("--follow", "-f", action="store_true", help="follow new events"),
            _make_argument("--utc", action="store_true", help="times in UTC"),
        ),
    ),
}

_SHARED = (
    _make_argument("--json", action="store_true", default=False, help="print JSON, for programs"),
    _make_argument(
        "--as",
        dest="speaker",
        metavar="NAME",
        default=None,
        help="the speaker (default: the agent that runs this, or you)",
    ),
)


def configure(parser: ArgumentParser) -> None:
    """Add all verbs."""
    parser.set_defaults(does=None, operation="")
    _add_arguments(parser, _SHARED)
    _add_verbs(parser, _with_new_operations(VERBS), "verbs", ())


def _with_new_operations(verbs: Mapping[str, Verb]) -> dict[str, Verb]:
    """The verbs, and those of operations that have no place among them yet."""
    known = dict(verbs)
    for command, _ in list_commands("town"):
        _, first, *rest = command.words.split()
        if not rest:
            known.setdefault(first, _derive(command.words))
        elif first in known and rest[0] not in known[first].verbs:
            known[first] = known[first]._replace(verbs={**known[first].verbs, rest[0]: _derive(command.words)})
    return known


def _add_verbs(parser: ArgumentParser, verbs: Mapping[str, Verb], title: str, path: tuple[str, ...]) -> None:
    added = parser.add_subparsers(metavar="VERB", title=title, parser_class=arguments.LazyParser)
    for name, verb in verbs.items():
        subparser = added.add_parser(name, help=verb.what, description=f"{verb.what[:1].upper()}{verb.what[1:]}.")
        subparser.fill = partial(_fill_parser, subparser, verb, (*path, name))


def _fill_parser(parser: ArgumentParser, verb: Verb, path: tuple[str, ...]) -> None:
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    parser.set_defaults(does=verb.does, operation=verb.operation)
    if verb.operation:
        from fleetlore.cli import operations

        operations.add_arguments(parser, *find_command(verb.operation))
    _add_arguments(parser, (*verb.takes, *_as_subverb_arguments(_SHARED)))
    if verb.verbs:
        _add_verbs(parser, verb.verbs, f"verbs (lore town {' '.join(path)} VERB --help explains each)", path)
    if help := town_help.VERB_HELP.get(" ".join(path)):
        arguments.add_examples(parser, *help)


def _add_arguments(parser: ArgumentParser, takes: Sequence[Argument]) -> None:
    parents: dict[str | None, Any] = {None: parser}
    for names, options in takes:
        keywords = dict(options)
        group = keywords.pop("group", None)
        if group not in parents:
            parents[group] = parser.add_mutually_exclusive_group()
        parents[group].add_argument(*names, **keywords)
