"""The table of `lore town` verbs: help, arguments, and the function that runs each (`module.function` in this package)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fleetlore.cli import arguments
from fleetlore.cli.town import help as town_help
from fleetlore.views.town_state import PRIORITIES

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Sequence

Argument: TypeAlias = "tuple[tuple[str, ...], dict[str, Any]]"
"""Names and options for argparse; arguments with the same `apart` exclude each other."""


class Verb(NamedTuple):
    """One verb of `lore town`."""

    does: str
    what: str
    takes: tuple[Argument, ...] = ()
    verbs: Mapping[str, Verb] = {}  # never changed


def _argument(*names: str, **options: Any) -> Argument:
    return names, options


def _as_subverb_arguments(takes: Sequence[Argument]) -> tuple[Argument, ...]:
    """Arguments for a subverb: values given before it stay unless given again."""
    return tuple((names, {**options, "default": argparse.SUPPRESS}) for names, options in takes)


def _list_argument(name: str, metavar: str, dest: str, help: str) -> Argument:
    return _argument(name, metavar=metavar, dest=dest, action="append", default=[], help=f"{help}; may be repeated")


_AGENTS = (
    _argument("names", metavar="AGENT", nargs="+", help="which agents, by the beginnings of their names"),
    _argument("--reason", metavar="TEXT", default="", help="why; it is kept"),
)
_TEXT = _argument("text", metavar="TEXT", nargs="+", help="what is to be done; its first line is the title")
_NEW_TASK = (
    _argument("--priority", choices=PRIORITIES, default="normal", help="how soon (normal)"),
    _list_argument("--tag", "T", "tags", "a word to find it by"),
    _list_argument("--check", "C", "checks", "the name of what must pass, as the worker's file tells it"),
    _list_argument("--after", "TASK", "after", "a task that must be completed first"),
    _argument("--tries", metavar="N", type=int, help="how often it is begun before it is put aside (3)"),
)
_SELECTION = (
    _argument("--state", choices=("pending", "assigned", "running", "completed", "failed", "cancelled"), default=None, help="only those"),
    _argument("--agent", metavar="AGENT", default=None, help="only what is, or was last, that agent's"),
    _argument("--mission", metavar="ID", default=None, help="only those of a mission"),
    _argument("--all", action="store_true", default=False, help="also what ended over a day ago"),
)
_TASK = _argument("id", metavar="ID", help="which task, by the beginning of its id")
_MISSION = _argument("id", metavar="ID", help="which mission, by the beginning of its id")
_REASON = _argument("--reason", metavar="TEXT", default="", help="why; it is kept")
_FILE = (
    _argument("file", metavar="FILE", help="a plan (.toml), or issues (.json, .jsonl); docs/town-plans.md tells both"),
    _argument("--title", metavar="TEXT", default="", help="what the mission is for; with issues"),
    _list_argument("--done", "ISSUE", "done", "an issue that is done; with issues"),
)
_ARCHIVED = _argument("--all", action="store_true", default=False, help="also those that were put away")
_ITEM = _argument("item", metavar="ITEM", help="which item")

_BACKLOG = {
    "add": Verb(
        "tasks.add_task",
        "write a task down, for whoever can do it",
        (_TEXT, _list_argument("--role", "R", "roles", "who should take it"), *_NEW_TASK),
    ),
    "list": Verb("tasks.list_backlog", "show what waits, in the order in which it is given out"),
    "claim": Verb(
        "tasks.claim_task",
        "have one agent do a task that waits",
        (_TASK, _argument("agent", metavar="AGENT", nargs="?", help="for whom (else whoever speaks)")),
    ),
}
_TASKS = {
    "list": Verb("tasks.list_tasks", "show tasks, those under way first", _as_subverb_arguments(_SELECTION)),
    "show": Verb("tasks.show_task", "show all of one task", (_TASK,)),
    "cancel": Verb("tasks.cancel_task", "call a task off; whoever is at it breaks it off", (_TASK, _REASON)),
    "retry": Verb("tasks.retry_task", "have a task done that failed, or was called off", (_TASK, _REASON)),
    "complete": Verb(
        "tasks.complete_task",
        "say that a task is done, which nobody is at",
        (_TASK, _argument("--result", metavar="TEXT", default="", help="what came of it")),
    ),
    "redirect": Verb(
        "tasks.redirect_task",
        "have another agent do it",
        (_TASK, _argument("--to", metavar="AGENT", required=True, help="who is to do it")),
    ),
}
_MISSIONS = {
    "start": Verb("missions.start_mission", "begin a mission, as a plan or a file of issues tells it", _FILE),
    "plan": Verb("missions.show_plan", "print a plan as TOML, to be read and changed; nothing is begun", _FILE),
    "list": Verb("missions.list_missions", "show missions", _as_subverb_arguments([_ARCHIVED])),
    "show": Verb("missions.show_mission", "show one mission: its items, and what each waits for", (_MISSION,)),
    "pause": Verb("missions.pause_mission", "hold a mission: what is worked on ends, nothing else begins", (_MISSION, _REASON)),
    "resume": Verb("missions.resume_mission", "go on with a mission that was held, or given up", (_MISSION, _REASON)),
    "stop": Verb(
        "missions.stop_mission",
        "give a mission up",
        (_MISSION, _REASON, _argument("--force", action="store_true", help="call off what is being worked on, too")),
    ),
    "note": Verb(
        "missions.add_note",
        "write something down about a mission",
        (_MISSION, _argument("text", metavar="TEXT", nargs="+", help="what is to be known")),
    ),
    "approve": Verb("missions.approve_item", "approve an item's work, in a reviewer's place", (_MISSION, _ITEM, _REASON)),
    "reject": Verb(
        "missions.reject_item",
        "send an item's work back, and say why",
        (_MISSION, _ITEM, _argument("--reason", metavar="TEXT", required=True, help="what is to be changed")),
    ),
    "helped": Verb("missions.resolve_help_request", "say that a mission's call for help was heard", (_MISSION, _REASON)),
    "archive": Verb("missions.archive_mission", "put a mission away that is over", (_MISSION,)),
}

VERBS = {
    "init": Verb(
        "init.init_town",
        "say in this folder's settings which town is meant, and on which log",
        (_argument("name", metavar="NAME", nargs="?", help="what the town is called (else --town, else as the folder)"),),
    ),
    "spawn": Verb(
        "agents.spawn_agents",
        "have agents join the town",
        (
            _argument("names", metavar="NAME", nargs="+", help="what they are called"),
            _list_argument("--role", "R", "roles", "what they can do (else anything)"),
            _argument("--harness", metavar="H", default="", help="what should run them, as in a goal's `harness`; for people to read"),
            _argument("--parent", metavar="AGENT", help="the agent above them"),
            _argument("--mode", choices=("fresh", "forkedcontext", "resumed"), default="fresh", help="how they begin (fresh)"),
        ),
    ),
    "list": Verb(
        "agents.list_agents",
        "show the agents: what each is, does and waits for",
        (_argument("--all", action="store_true", help="also those that stopped over a day ago"),),
    ),
    "status": Verb(
        "board.show_status",
        "show the whole town: who needs you, who works on what, how missions stand",
        (
            _argument("--watch", action="store_true", help="stay, and follow the log live"),
            _argument("--all", action="store_true", help="everybody and every mission, however long ago they came to rest"),
        ),
    ),
    "assign": Verb(
        "tasks.assign_task",
        "give one agent a new task, or one that there is",
        (
            _argument("agent", metavar="AGENT", help="who is to do it"),
            _argument("text", metavar="TEXT", nargs="*", help="what is to be done; its first line is the title"),
            _argument("--task", metavar="ID", help="a task that there is, in the place of a text"),
            *_NEW_TASK,
        ),
    ),
    "backlog": Verb("tasks.list_backlog", "tasks that wait: show them, add one, have an agent claim one", verbs=_BACKLOG),
    "task": Verb("tasks.list_tasks", "tasks: show them, or one; call one off, retry, complete or redirect it", _SELECTION, _TASKS),
    "send": Verb(
        "messages.send_message",
        "tell an agent something, or the conductor",
        (
            _argument("to", metavar="TO", help="an agent; or conductor, who is the person that runs the town"),
            _argument("text", metavar="TEXT", nargs="+", help="the message"),
            *(
                _argument(name, apart="type", dest="type", action="store_const", const=type, default="info", help=help)
                for name, type, help in (
                    ("--query", "query", "it wants an answer; an agent's to the conductor is a call for help"),
                    ("--task", "task", "it asks for something to be done"),
                    ("--ack", "confirmation", "it only confirms something"),
                )
            ),
            _argument("--priority", apart="haste", choices=PRIORITIES, default="normal", help="what is read first (normal)"),
            _argument(
                "--urgent", apart="haste", dest="priority", action="store_const", const="urgent", help="the same as --priority urgent"
            ),
            _argument("--reply-to", metavar="ID", help="the message that it answers; if that waits for whoever speaks, it is acknowledged"),
        ),
    ),
    "inbox": Verb(
        "messages.show_inbox",
        "show messages that wait, and acknowledge them",
        (
            _argument("name", metavar="NAME", nargs="?", help="whose (else your own: the conductor's, or that of the agent who speaks)"),
            _list_argument("--ack", "ID", "ack", "say that it was read and used, or: all"),
        ),
    ),
    "mission": Verb("missions.list_missions", "missions: start one from a plan, look at them, steer, review", (_ARCHIVED,), _MISSIONS),
    "interrupt": Verb("agents.interrupt_agents", "have agents break off what they do, and pause; their sessions are kept", _AGENTS),
    "resume": Verb("agents.resume_agents", "have paused agents go on", _AGENTS),
    "close": Verb("agents.close_agents", "have agents stop once their task is done", _AGENTS),
    "kill": Verb("agents.kill_agents", "stop agents at once; their tasks go back", _AGENTS),
    "restart": Verb("agents.restart_agents", "have agents start anew, or again", _AGENTS),
    "recover": Verb(
        "repair.recover_agents",
        "look which workers are dead, and free what they held",
        (_argument("--dry-run", action="store_true", help="only say what there are signs of; nothing is changed"),),
    ),
    "reclaim": Verb(
        "repair.reclaim_work",
        "show what agents hold that nobody runs; with --to or --to-backlog, pass it on",
        (
            _argument(
                "--to-backlog",
                apart="where",
                action="store_true",
                help="let anybody have the tasks; messages that ask for work become tasks, others go to the conductor",
            ),
            _argument("--to", apart="where", metavar="AGENT", help="let that agent have the tasks and the messages"),
            _argument("--from", dest="of", metavar="AGENT", help="only what that agent holds"),
        ),
    ),
    "history": Verb(
        "history.show_history",
        "what happened, oldest first: to all, to one agent, mission or task",
        (
            _argument("agent", apart="what", metavar="AGENT", nargs="?", help="only what concerns that agent"),
            _argument("--mission", apart="what", metavar="ID", help="only what concerns that mission"),
            _argument("--task", apart="what", metavar="ID", help="only what concerns that task"),
            _argument("-n", "--last", metavar="N", type=int, default=30, help="how many of the newest (30)"),
            _argument("--follow", "-f", action="store_true", help="go on with what comes"),
            _argument("--utc", action="store_true", help="times in UTC"),
        ),
    ),
}

_SHARED = (
    _argument("--json", action="store_true", default=False, help="print JSON, for programs"),
    _argument(
        "--as",
        dest="speaker",
        metavar="NAME",
        default=None,
        help="who speaks (else the agent inside which this runs, else you)",
    ),
)


class _LazyParser(arguments.Parser):
    """A parser that adds its arguments when first used: adding those of all verbs takes longer than most verbs."""

    fill: Callable[[], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Add the arguments, then parse."""
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill()
        return super().parse_known_args(args, namespace)


def configure(parser: ArgumentParser) -> None:
    """Add all verbs."""
    parser.set_defaults(does=None)
    _add_arguments(parser, _SHARED)
    _add_verbs(parser, VERBS, "verbs", ())


def _add_verbs(parser: ArgumentParser, verbs: Mapping[str, Verb], title: str, path: tuple[str, ...]) -> None:
    added = parser.add_subparsers(metavar="VERB", title=title, parser_class=_LazyParser)
    for name, verb in verbs.items():
        its = added.add_parser(name, help=verb.what, description=f"{verb.what[:1].upper()}{verb.what[1:]}.")
        its.fill = partial(_fill_parser, its, verb, (*path, name))


def _fill_parser(parser: ArgumentParser, verb: Verb, path: tuple[str, ...]) -> None:
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    parser.set_defaults(does=verb.does)
    _add_arguments(parser, (*verb.takes, *_as_subverb_arguments(_SHARED)))
    if verb.verbs:
        _add_verbs(parser, verb.verbs, f"verbs (lore town {' '.join(path)} VERB --help explains each)", path)
    arguments.teach(parser, *town_help.VERB_HELP[" ".join(path)])


def _add_arguments(parser: ArgumentParser, takes: Sequence[Argument]) -> None:
    places: dict[str | None, Any] = {None: parser}
    for names, options in takes:
        its = dict(options)
        apart = its.pop("apart", None)
        if apart not in places:
            places[apart] = parser.add_mutually_exclusive_group()
        places[apart].add_argument(*names, **its)
