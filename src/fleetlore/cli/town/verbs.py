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
"""Names and options for argparse; arguments with the same `group` exclude each other."""


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
    _argument("names", metavar="AGENT", nargs="+", help="agent names, or unique prefixes"),
    _argument("--reason", metavar="TEXT", default="", help="reason; it is recorded"),
)
_TEXT = _argument("text", metavar="TEXT", nargs="+", help="the task; its first line is the title")
_NEW_TASK = (
    _argument("--priority", choices=PRIORITIES, default="normal", help="priority (normal)"),
    _list_argument("--tag", "T", "tags", "a tag"),
    _list_argument("--check", "C", "checks", "a check that must pass, as named in the worker's file"),
    _list_argument("--after", "TASK", "after", "a task that must be completed first"),
    _argument("--tries", metavar="N", type=int, help="attempts before the task fails (3)"),
)
_SELECTION = (
    _argument(
        "--state",
        choices=("pending", "assigned", "running", "completed", "failed", "cancelled"),
        default=None,
        help="only tasks in this state",
    ),
    _argument("--agent", metavar="AGENT", default=None, help="only tasks of this agent, or last held by it"),
    _argument("--mission", metavar="ID", default=None, help="only tasks of this mission"),
    _argument("--all", action="store_true", default=False, help="also tasks that ended more than a day ago"),
)
_TASK = _argument("id", metavar="ID", help="task id, or a unique prefix")
_MISSION = _argument("id", metavar="ID", help="mission id, or a unique prefix")
_REASON = _argument("--reason", metavar="TEXT", default="", help="reason; it is recorded")
_FILE = (
    _argument("file", metavar="FILE", help="a plan (.toml), or issues (.json, .jsonl); see docs/town-plans.md"),
    _argument("--title", metavar="TEXT", default="", help="title of the mission; for issues"),
    _list_argument("--done", "ISSUE", "done", "an issue that is already done; for issues"),
)
_ARCHIVED = _argument("--all", action="store_true", default=False, help="also archived missions")
_ITEM = _argument("item", metavar="ITEM", help="the item")

_BACKLOG = {
    "add": Verb(
        "tasks.add_task",
        "add a task to the backlog",
        (_TEXT, _list_argument("--role", "R", "roles", "role that may take it"), *_NEW_TASK),
    ),
    "list": Verb("tasks.list_backlog", "list pending tasks in the order of assignment"),
    "claim": Verb(
        "tasks.claim_task",
        "assign a pending task to an agent",
        (_TASK, _argument("agent", metavar="AGENT", nargs="?", help="the agent (default: the speaker, see --as)")),
    ),
}
_TASKS = {
    "list": Verb("tasks.list_tasks", "list tasks, running ones first", _as_subverb_arguments(_SELECTION)),
    "show": Verb("tasks.show_task", "show one task in detail", (_TASK,)),
    "cancel": Verb("tasks.cancel_task", "cancel a task; an agent that works on it stops", (_TASK, _REASON)),
    "retry": Verb("tasks.retry_task", "retry a failed or cancelled task", (_TASK, _REASON)),
    "complete": Verb(
        "tasks.complete_task",
        "mark a task as done that no agent works on",
        (_TASK, _argument("--result", metavar="TEXT", default="", help="the result")),
    ),
    "redirect": Verb(
        "tasks.redirect_task",
        "move a task to another agent",
        (_TASK, _argument("--to", metavar="AGENT", required=True, help="the agent")),
    ),
}
_MISSIONS = {
    "start": Verb("missions.start_mission", "start a mission from a plan or a file of issues", _FILE),
    "plan": Verb("missions.show_plan", "print a plan as TOML without starting it", _FILE),
    "list": Verb("missions.list_missions", "list missions", _as_subverb_arguments([_ARCHIVED])),
    "show": Verb("missions.show_mission", "show one mission: its items, and what each waits for", (_MISSION,)),
    "pause": Verb("missions.pause_mission", "pause a mission: running tasks finish, no new ones start", (_MISSION, _REASON)),
    "resume": Verb("missions.resume_mission", "resume a paused or stopped mission", (_MISSION, _REASON)),
    "stop": Verb(
        "missions.stop_mission",
        "stop a mission",
        (_MISSION, _REASON, _argument("--force", action="store_true", help="also cancel its running tasks")),
    ),
    "note": Verb(
        "missions.add_note",
        "add a note to a mission",
        (_MISSION, _argument("text", metavar="TEXT", nargs="+", help="the note")),
    ),
    "approve": Verb("missions.approve_item", "approve an item's work instead of a reviewer", (_MISSION, _ITEM, _REASON)),
    "reject": Verb(
        "missions.reject_item",
        "reject an item's work, with a reason",
        (_MISSION, _ITEM, _argument("--reason", metavar="TEXT", required=True, help="what to change")),
    ),
    "helped": Verb("missions.resolve_help_request", "resolve a mission's help request", (_MISSION, _REASON)),
    "archive": Verb("missions.archive_mission", "archive a mission that has ended", (_MISSION,)),
}

VERBS = {
    "init": Verb(
        "init.init_town",
        "write the town and its log into this folder's settings",
        (_argument("name", metavar="NAME", nargs="?", help="name of the town (default: --town, or the name of the folder)"),),
    ),
    "spawn": Verb(
        "agents.spawn_agents",
        "add agents to the town",
        (
            _argument("names", metavar="NAME", nargs="+", help="names of the agents"),
            _list_argument("--role", "R", "roles", "a role of the agents (default: any work)"),
            _argument("--harness", metavar="H", default="", help="the harness that should run them; for information only"),
            _argument("--parent", metavar="AGENT", help="their parent agent"),
            _argument("--mode", choices=("fresh", "forkedcontext", "resumed"), default="fresh", help="how their session starts (fresh)"),
        ),
    ),
    "list": Verb(
        "agents.list_agents",
        "list agents with state and current task",
        (_argument("--all", action="store_true", help="also agents that stopped more than a day ago"),),
    ),
    "status": Verb(
        "board.show_status",
        "show the whole town: who needs you, who works on what, progress of missions",
        (
            _argument("--watch", action="store_true", help="keep running, and update after every change"),
            _argument("--all", action="store_true", help="all agents and missions, also those that ended long ago"),
        ),
    ),
    "assign": Verb(
        "tasks.assign_task",
        "assign a new or an existing task to an agent",
        (
            _argument("agent", metavar="AGENT", help="the agent"),
            _argument("text", metavar="TEXT", nargs="*", help="the task; its first line is the title"),
            _argument("--task", metavar="ID", help="an existing task instead of a text"),
            *_NEW_TASK,
        ),
    ),
    "backlog": Verb("tasks.list_backlog", "pending tasks: list, add, claim", verbs=_BACKLOG),
    "task": Verb("tasks.list_tasks", "tasks: list, show, cancel, retry, complete, redirect", _SELECTION, _TASKS),
    "send": Verb(
        "messages.send_message",
        "send a message to an agent or the conductor",
        (
            _argument("to", metavar="TO", help="an agent, or conductor: the person who runs the town"),
            _argument("text", metavar="TEXT", nargs="+", help="the message"),
            *(
                _argument(name, group="type", dest="type", action="store_const", const=type, default="info", help=help)
                for name, type, help in (
                    ("--query", "query", "a question; from an agent to the conductor it is a help request"),
                    ("--task", "task", "a request for work"),
                    ("--ack", "confirmation", "a confirmation"),
                )
            ),
            _argument("--priority", group="priority", choices=PRIORITIES, default="normal", help="priority (normal)"),
            _argument(
                "--urgent", group="priority", dest="priority", action="store_const", const="urgent", help="the same as --priority urgent"
            ),
            _argument("--reply-to", metavar="ID", help="the message this answers; it is acknowledged if it was sent to the speaker"),
        ),
    ),
    "inbox": Verb(
        "messages.show_inbox",
        "list unread messages, and acknowledge them",
        (
            _argument("name", metavar="NAME", nargs="?", help="whose inbox (default: the speaker's, see --as)"),
            _list_argument("--ack", "ID", "ack", "acknowledge this message, or all"),
        ),
    ),
    "mission": Verb("missions.list_missions", "missions: start, list, show, control, review", (_ARCHIVED,), _MISSIONS),
    "interrupt": Verb("agents.interrupt_agents", "pause agents at once; they keep their sessions", _AGENTS),
    "resume": Verb("agents.resume_agents", "resume paused agents", _AGENTS),
    "close": Verb("agents.close_agents", "stop agents after their current task", _AGENTS),
    "kill": Verb("agents.kill_agents", "stop agents at once; their tasks are released", _AGENTS),
    "restart": Verb("agents.restart_agents", "make stopped agents available again", _AGENTS),
    "recover": Verb(
        "repair.recover_agents",
        "find dead workers, and release their tasks",
        (_argument("--dry-run", action="store_true", help="only report; change nothing"),),
    ),
    "reclaim": Verb(
        "repair.reclaim_work",
        "list work of agents that are not running; with --to or --to-backlog, move it",
        (
            _argument(
                "--to-backlog",
                group="where",
                action="store_true",
                help="move the tasks to the backlog; requests for work become tasks, other messages go to the conductor",
            ),
            _argument("--to", group="where", metavar="AGENT", help="move the tasks and messages to this agent"),
            _argument("--from", dest="of", metavar="AGENT", help="only work of this agent"),
        ),
    ),
    "history": Verb(
        "history.show_history",
        "print events, oldest first: of all, of an agent, a mission or a task",
        (
            _argument("agent", group="what", metavar="AGENT", nargs="?", help="only events of this agent"),
            _argument("--mission", group="what", metavar="ID", help="only events of this mission"),
            _argument("--task", group="what", metavar="ID", help="only events of this task"),
            _argument("-n", "--last", metavar="N", type=int, default=30, help="number of newest events (30)"),
            _argument("--follow", "-f", action="store_true", help="follow new events"),
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
        help="the speaker (default: the agent that runs this, or you)",
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
        subparser = added.add_parser(name, help=verb.what, description=f"{verb.what[:1].upper()}{verb.what[1:]}.")
        subparser.fill = partial(_fill_parser, subparser, verb, (*path, name))


def _fill_parser(parser: ArgumentParser, verb: Verb, path: tuple[str, ...]) -> None:
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    parser.set_defaults(does=verb.does)
    _add_arguments(parser, (*verb.takes, *_as_subverb_arguments(_SHARED)))
    if verb.verbs:
        _add_verbs(parser, verb.verbs, f"verbs (lore town {' '.join(path)} VERB --help explains each)", path)
    arguments.teach(parser, *town_help.VERB_HELP[" ".join(path)])


def _add_arguments(parser: ArgumentParser, takes: Sequence[Argument]) -> None:
    parents: dict[str | None, Any] = {None: parser}
    for names, options in takes:
        keywords = dict(options)
        group = keywords.pop("group", None)
        if group not in parents:
            parents[group] = parser.add_mutually_exclusive_group()
        parents[group].add_argument(*names, **keywords)
