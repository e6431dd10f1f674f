"""The verbs of `lore town`: what each is called, which arguments it takes, and what does it (`module.function`, of this package)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, town_lessons
from fleetlore.views.town_state import PRIORITIES

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

MODES = ("fresh", "forkedcontext", "resumed")
TASK_STATES = ("pending", "assigned", "running", "completed", "failed", "cancelled")

VERBS = {
    "init": ("town_init.init", "say in this folder's settings which town is meant, and on which log"),
    "spawn": ("town_agents.spawn", "have agents join the town"),
    "list": ("town_agents.list_", "show the agents: what each is, does and waits for"),
    "status": ("town_board.status", "show the whole town: who needs you, who works on what, how missions stand"),
    "assign": ("town_tasks.assign", "give one agent a new task, or one that there is"),
    "backlog": ("town_tasks.backlog", "tasks that wait: show them, add one, have an agent claim one"),
    "task": ("town_tasks.list_", "tasks: show them, or one; call one off, retry, complete or redirect it"),
    "send": ("town_messages.send", "tell an agent something, or the conductor"),
    "inbox": ("town_messages.inbox", "show messages that wait, and acknowledge them"),
    "mission": ("town_missions.list_", "missions: start one from a plan, look at them, steer, review"),
    "interrupt": ("town_agents.interrupt", "have agents break off what they do, and pause; their sessions are kept"),
    "resume": ("town_agents.resume", "have paused agents go on"),
    "close": ("town_agents.close", "have agents stop once their task is done"),
    "kill": ("town_agents.kill", "stop agents at once; their tasks go back"),
    "restart": ("town_agents.restart", "have agents start anew, or again"),
    "recover": ("town_repair.recover", "look which workers are dead, and free what they held"),
    "reclaim": ("town_repair.reclaim", "show what agents hold that nobody runs; with --to or --to-backlog, pass it on"),
    "history": ("town_history.history", "what happened, oldest first: to all, to one agent, mission or task"),
}
"""Verb → what does it, and what it is for."""


def configure(parser: ArgumentParser) -> None:
    """All of them."""
    parser.set_defaults(does=None)
    _shared(parser, json=False, speaker=None)
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", parser_class=arguments.Parser)
    parsers = {name: _verb(verbs, name, *said) for name, said in VERBS.items()}
    for name, add in _ARGUMENTS.items():
        add(parsers[name])
    for name in ("interrupt", "resume", "close", "kill", "restart"):
        parsers[name].add_argument("names", metavar="AGENT", nargs="+", help="which agents, by the beginnings of their names")
        parsers[name].add_argument("--reason", metavar="TEXT", default="", help="why; it is kept")


def _shared(parser: ArgumentParser, **defaults: Any) -> None:
    """`--json` and `--as`; said before the verb they hold unless they are said again."""
    parser.add_argument("--json", action="store_true", default=defaults.get("json", argparse.SUPPRESS), help="print JSON, for programs")
    parser.add_argument(
        "--as",
        dest="speaker",
        metavar="NAME",
        default=defaults.get("speaker", argparse.SUPPRESS),
        help="who speaks (else FLEETLORE_AGENT of the environment, else your user name)",
    )


def _verb(verbs: Any, name: str, does: str, what: str, *, of: str = "") -> ArgumentParser:
    parser: ArgumentParser = verbs.add_parser(name, help=what, description=f"{what[:1].upper()}{what[1:]}.")
    arguments.add_common(parser, log=argparse.SUPPRESS, town=argparse.SUPPRESS)
    parser.set_defaults(does=does)
    _shared(parser)
    examples, notes = town_lessons.LESSONS[f"{of} {name}".strip()]
    arguments.teach(parser, examples, notes)
    return parser


def _verbs_of(parser: ArgumentParser, of: str, said: dict[str, tuple[str, str]]) -> dict[str, ArgumentParser]:
    verbs = parser.add_subparsers(metavar="VERB", title=f"verbs (lore town {of} VERB --help explains each)", parser_class=arguments.Parser)
    return {name: _verb(verbs, name, *each, of=of) for name, each in said.items()}


# --- agents


def _init(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="what the town is called (else --town, else as the folder)")


def _spawn(parser: ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="what they are called")
    parser.add_argument(
        "--role", metavar="R", dest="roles", action="append", default=[], help="what they can do; may be repeated (else anything)"
    )
    parser.add_argument("--harness", metavar="H", default="", help="what runs them: claude-code, codex, … (else as the worker says)")
    parser.add_argument("--parent", metavar="AGENT", help="the agent above them")
    parser.add_argument("--mode", choices=MODES, default="fresh", help="how they begin (fresh)")


def _list(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also those that stopped over a day ago")


def _status(parser: ArgumentParser) -> None:
    parser.add_argument("--watch", action="store_true", help="stay, and follow the log live")
    parser.add_argument("--all", action="store_true", help="everybody and every mission, however long ago they came to rest")


# --- tasks


def _task_options(parser: ArgumentParser) -> None:
    parser.add_argument("--priority", choices=PRIORITIES, default="normal", help="how soon (normal)")
    parser.add_argument("--tag", metavar="T", dest="tags", action="append", default=[], help="a word to find it by; may be repeated")
    parser.add_argument(
        "--check",
        metavar="C",
        dest="checks",
        action="append",
        default=[],
        help="the name of what must pass, as the worker's settings tell it",
    )
    parser.add_argument("--after", metavar="TASK", action="append", default=[], help="a task that must be completed first; may be repeated")
    parser.add_argument("--tries", metavar="N", type=int, help="how often it is begun before it is put aside (3)")


def _assign(parser: ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="who is to do it")
    parser.add_argument("text", metavar="TEXT", nargs="*", help="what is to be done; its first line is the title")
    parser.add_argument("--task", metavar="ID", help="a task that there is, in the place of a text")
    _task_options(parser)


def _backlog(parser: ArgumentParser) -> None:
    said = {
        "add": ("town_tasks.add", "write a task down, for whoever can do it"),
        "list": ("town_tasks.backlog", "show what waits, in the order in which it is given out"),
        "claim": ("town_tasks.claim", "have one agent do a task that waits"),
    }
    parsers = _verbs_of(parser, "backlog", said)
    parsers["add"].add_argument("text", metavar="TEXT", nargs="+", help="what is to be done; its first line is the title")
    parsers["add"].add_argument(
        "--role", metavar="R", dest="roles", action="append", default=[], help="who should take it; may be repeated"
    )
    _task_options(parsers["add"])
    parsers["claim"].add_argument("id", metavar="ID", help="which task")
    parsers["claim"].add_argument("agent", metavar="AGENT", nargs="?", help="for whom (else whoever speaks)")


def _task_selection(parser: ArgumentParser, **defaults: Any) -> None:
    def default(name: str) -> Any:
        return defaults.get(name, argparse.SUPPRESS)

    parser.add_argument("--state", choices=TASK_STATES, default=default("state"), help="only those")
    parser.add_argument("--agent", metavar="AGENT", default=default("agent"), help="only what is, or was last, that agent's")
    parser.add_argument("--mission", metavar="ID", default=default("mission"), help="only those of a mission")
    parser.add_argument("--all", action="store_true", default=default("all"), help="also what ended over a day ago")


def _task(parser: ArgumentParser) -> None:
    _task_selection(parser, state=None, agent=None, mission=None, all=False)
    said = {
        "list": ("town_tasks.list_", "show tasks, those under way first"),
        "show": ("town_tasks.show", "show all of one task"),
        "cancel": ("town_tasks.cancel", "call a task off; whoever is at it breaks it off"),
        "retry": ("town_tasks.retry", "have a task done that failed, or was called off"),
        "complete": ("town_tasks.complete", "say that a task is done, which nobody is at"),
        "redirect": ("town_tasks.redirect", "have another agent do it"),
    }
    parsers = _verbs_of(parser, "task", said)
    _task_selection(parsers["list"])
    for name in ("show", "cancel", "retry", "complete", "redirect"):
        parsers[name].add_argument("id", metavar="ID", help="which task, by the beginning of its id")
    for name in ("cancel", "retry"):
        parsers[name].add_argument("--reason", metavar="TEXT", default="", help="why; it is kept with the task")
    parsers["complete"].add_argument("--result", metavar="TEXT", default="", help="what came of it")
    parsers["redirect"].add_argument("--to", metavar="AGENT", required=True, help="who is to do it")


# --- messages


def _send(parser: ArgumentParser) -> None:
    parser.add_argument("to", metavar="TO", help="an agent; or conductor, who is the person that runs the town")
    parser.add_argument("text", metavar="TEXT", nargs="+", help="the message")
    types = parser.add_mutually_exclusive_group()
    for name, type, what in (
        ("query", "query", "it wants an answer; an agent's to the conductor is a call for help"),
        ("task", "task", "it asks for something to be done"),
        ("ack", "confirmation", "it only confirms something"),
    ):
        types.add_argument(f"--{name}", dest="type", action="store_const", const=type, default="info", help=what)
    haste = parser.add_mutually_exclusive_group()
    haste.add_argument("--priority", choices=PRIORITIES, default="normal", help="what is read first (normal)")
    haste.add_argument("--urgent", dest="priority", action="store_const", const="urgent", help="the same as --priority urgent")
    parser.add_argument(
        "--reply-to", metavar="ID", help="the message that it answers; if that waits for whoever speaks, it is acknowledged"
    )


def _inbox(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="whose (else your own: the conductor's, or that of the agent who speaks)")
    parser.add_argument("--ack", metavar="ID", action="append", default=[], help="say that it was read and used; may be repeated, or: all")


# --- missions


def _mission(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also those that were put away")
    said = {
        "start": ("town_missions.start", "begin a mission, as a plan or a file of issues tells it"),
        "plan": ("town_missions.plan", "print a plan as TOML, to be read and changed; nothing is begun"),
        "list": ("town_missions.list_", "show missions"),
        "show": ("town_missions.show", "show one mission: its items, and what each waits for"),
        "pause": ("town_missions.pause", "hold a mission: what is worked on ends, nothing else begins"),
        "resume": ("town_missions.resume", "go on with a mission that was held, or given up"),
        "stop": ("town_missions.stop", "give a mission up"),
        "note": ("town_missions.note", "write something down about a mission"),
        "approve": ("town_missions.approve", "approve an item's work, in a reviewer's place"),
        "reject": ("town_missions.reject", "send an item's work back, and say why"),
        "helped": ("town_missions.helped", "say that a mission's call for help was heard"),
        "archive": ("town_missions.archive", "put a mission away that is over"),
    }
    parsers = _verbs_of(parser, "mission", said)
    parsers["list"].add_argument("--all", action="store_true", default=argparse.SUPPRESS, help="also those that were put away")
    for name in ("start", "plan"):
        parsers[name].add_argument("file", metavar="FILE", help="a plan (.toml), or issues (.json, .jsonl); docs/town-plans.md tells both")
        parsers[name].add_argument("--title", metavar="TEXT", default="", help="what the mission is for; with issues")
        parsers[name].add_argument(
            "--done", metavar="ISSUE", action="append", default=[], help="an issue that is done; with issues, may be repeated"
        )
    for name in said.keys() - {"start", "plan", "list"}:
        parsers[name].add_argument("id", metavar="ID", help="which mission, by the beginning of its id")
    for name in ("approve", "reject"):
        parsers[name].add_argument("item", metavar="ITEM", help="which item")
    for name in ("pause", "resume", "stop", "approve", "reject", "helped"):
        parsers[name].add_argument(
            "--reason", metavar="TEXT", default="", help="what is to be changed" if name == "reject" else "why; it is kept"
        )
    parsers["stop"].add_argument("--force", action="store_true", help="call off what is being worked on, too")
    parsers["note"].add_argument("text", metavar="TEXT", nargs="+", help="what is to be known")


# --- repair and looking back


def _recover(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what there are signs of; nothing is changed")


def _reclaim(parser: ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--to-backlog",
        action="store_true",
        help="let anybody have the tasks; messages that ask for work become tasks, others go to the conductor",
    )
    where.add_argument("--to", metavar="AGENT", help="let that agent have the tasks and the messages")
    parser.add_argument("--from", dest="of", metavar="AGENT", help="only what that agent holds")


def _history(parser: ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("agent", metavar="AGENT", nargs="?", help="only what concerns that agent")
    what.add_argument("--mission", metavar="ID", help="only what concerns that mission")
    what.add_argument("--task", metavar="ID", help="only what concerns that task")
    parser.add_argument("-n", "--last", metavar="N", type=int, default=30, help="how many of the newest (30)")
    parser.add_argument("--follow", "-f", action="store_true", help="go on with what comes")
    parser.add_argument("--utc", action="store_true", help="times in UTC")


_ARGUMENTS: dict[str, Callable[[ArgumentParser], None]] = {
    "init": _init,
    "spawn": _spawn,
    "list": _list,
    "status": _status,
    "assign": _assign,
    "backlog": _backlog,
    "task": _task,
    "send": _send,
    "inbox": _inbox,
    "mission": _mission,
    "recover": _recover,
    "reclaim": _reclaim,
    "history": _history,
}
