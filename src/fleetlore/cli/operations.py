"""Commands that follow from the table of operations: their arguments, their run, and their output.

A command's request comes from its arguments; `EDGES` has what a command does beside that.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from fleetlore import clock
from fleetlore.cli import open_log, terminal
from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext, open_source
from fleetlore.operations.request import InvalidRequest, Request, load_operation, parse_request, unwrap_annotation
from fleetlore.operations.table import Argument, Command, Operation, find_command, find_operation

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator

    from fleetlore.log.coordination import Coordination
    from fleetlore.log.seal import OperatorKey

AGENT, WORKER_AGENT = "FLEETLORE_AGENT", "LORE_AGENT"
"""Environment variables for the agent that a process speaks for: set by people, and by workers."""


class CommandEdge(NamedTuple):
    """What a command has beside its operation; each is `module:function` in this package."""

    render: str = ""
    """Called with response and arguments: prints, and may return an exit code. The response's answer is printed otherwise."""
    json: str = ""
    """Makes the JSON of a response, if that is not the response itself."""
    adapt: str = ""
    """For arguments that differ from the request: called with arguments and values, returns the operation's name and its values."""
    arguments: str = ""
    """Adds arguments that the other functions read."""
    run: str = ""
    """For commands that go on: called with arguments and values, runs the operation itself, and returns the exit code."""


_BACKLOG, _TASKS, _MISSIONS = (
    CommandEdge("town.tasks:print_backlog"),
    CommandEdge("town.tasks:print_tasks"),
    CommandEdge("town.missions:print_missions"),
)
EDGES: dict[str, CommandEdge] = {
    "goal list": CommandEdge("goal.show:print_goals"),
    "goal raise": CommandEdge(adapt="goal.adapters:adapt_raise", arguments="goal.adapters:add_raise_arguments"),
    "goal show": CommandEdge("goal.show:print_goal", json="goal.show:goal_fields"),
    "town assign": CommandEdge(adapt="town.adapters:adapt_assign", arguments="town.adapters:add_assign_arguments"),
    "town backlog": _BACKLOG,
    "town backlog add": CommandEdge(adapt="town.adapters:adapt_new_task"),
    "town backlog list": _BACKLOG,
    "town history": CommandEdge(run="town.history:show_history", arguments="town.history:add_follow_arguments"),
    "town inbox": CommandEdge("town.messages:print_inbox", adapt="town.adapters:adapt_inbox", arguments="town.adapters:add_ack_argument"),
    "town list": CommandEdge("town.board:print_agents"),
    "town mission": _MISSIONS,
    "town mission list": _MISSIONS,
    "town mission show": CommandEdge("town.missions:print_mission", json="town.missions:mission_fields"),
    "town mission start": CommandEdge("town.missions:print_started", adapt="town.adapters:adapt_plan"),
    "town reclaim": CommandEdge("town.repair:print_reclaimed"),
    "town recover": CommandEdge("town.repair:print_workers"),
    "town status": CommandEdge(run="town.board:show_status", arguments="town.board:add_watch_argument"),
    "town task": _TASKS,
    "town task list": _TASKS,
    "town task show": CommandEdge("town.tasks:print_task"),
}
"""Command → what it has beside its operation."""
_R = TypeVar("_R", bound=Request)
_FIELD = "field_"
"""Prefix of destinations, so that fields cannot meet other options such as `--log` and `--town`."""


# --- arguments


def add_arguments(parser: ArgumentParser, command: Command, operation: Operation) -> None:
    """Add an argument for each field that the command takes."""
    kind = load_operation(operation).request
    hints = get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    wanted = command.takes if command.takes is not None else [name for name in fields if name not in command.sets]
    groups: dict[str, Any] = {"": parser}
    for each in wanted:
        given = each if isinstance(each, Argument) else Argument(each)
        annotated, notes = unwrap_annotation(hints[given.field])
        own = Argument()
        for note in notes:
            own = _override_argument(own, note) if isinstance(note, Argument) else own
        argument = _merge_arguments(given, own, notes)
        group = argument.group or (given.field if argument.switches else "")
        if group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        is_required = fields[given.field].required if argument.required is None else argument.required
        _add_argument(groups[group], argument, annotated, is_required=is_required)
    if extra := EDGES.get(command.words, CommandEdge()).arguments:
        _load_function(extra)(parser)


def _merge_arguments(given: Argument, own: Argument, notes: list[Any]) -> Argument:
    """The command's own settings, then the field's, then the description."""
    description = next((note.description for note in notes if isinstance(note, msgspec.Meta) and note.description), "")
    merged = _override_argument(own, given)
    return merged._replace(help=merged.help or description, hidden=own.hidden and given == Argument(given.field))


def _override_argument(argument: Argument, given: Argument) -> Argument:
    return argument._replace(**{name: value for name, value in given._asdict().items() if value != Argument._field_defaults[name]})


def _add_argument(parser: Any, argument: Argument, kind: Any, *, is_required: bool) -> None:
    from argparse import SUPPRESS

    dest = f"{_FIELD}{argument.field}"
    options: dict[str, Any] = {"default": SUPPRESS, "help": argument.help}
    origin = get_origin(kind)
    is_list = _takes_list(kind) and not argument.single
    if origin is Literal:
        options["choices"] = get_args(kind)
    elif kind in (int, float):
        options["type"] = kind
    is_positional = is_required if argument.positional is None else argument.positional
    if not argument.hidden and is_positional:
        nargs = "+" if is_list or argument.words else None
        nargs = nargs if is_required else {"+": "*"}.get(nargs or "", "?")
        metavar = argument.metavar or argument.field.upper()
        parser.add_argument(dest, metavar=metavar, **({"nargs": nargs} if nargs else {}), **options)
    elif not argument.hidden:
        flags = (argument.flag or f"--{argument.field.replace('_', '-')}").split()
        if kind is bool:
            options["action"] = "store_true"
        elif is_list:
            options |= {"action": "append", "metavar": argument.metavar, "help": f"{argument.help}; may be repeated"}
        elif "choices" not in options:
            options["metavar"] = argument.metavar or "TEXT"
        parser.add_argument(*flags, dest=dest, **({"required": True} if is_required else {}), **options)
    for switch in argument.switches:
        parser.add_argument(switch.flag, dest=dest, action="store_const", const=switch.value, default=SUPPRESS, help=switch.help)


def _takes_list(kind: Any) -> bool:
    """Whether a field takes several values, or one or several."""
    return get_origin(kind) is list or any(get_origin(unwrap_annotation(option)[0]) is list for option in get_args(kind))


# --- running


def run_command(args: Namespace, words: str) -> int:
    """Run the operation of a command, and print its response."""
    command, operation = find_command(words)
    edge, values = EDGES.get(words, CommandEdge()), read_values(args, command, operation)
    if edge.run:
        code: int = _load_function(edge.run)(args, values)
        return code
    if edge.adapt:
        name, values = _load_function(edge.adapt)(args, values)
        if name != operation.name:
            operation, edge = find_operation(name), CommandEdge()
    loaded = load_operation(operation)
    request = make_request(loaded.request, values)
    with open_context(args, operation) as context:
        response = loaded.run(context, request)
    if getattr(args, "json", False):
        terminal.print_value(_load_function(edge.json)(response) if edge.json else response)
        return 0
    if edge.render:
        return _load_function(edge.render)(response, args) or 0
    print_answer(response)
    return 0


def make_request(kind: type[_R], values: dict[str, Any]) -> _R:
    """A request from the values of a command line; an error names the option, not the field."""
    try:
        return parse_request(kind, values)
    except InvalidRequest as error:
        name, colon, reason = str(error).partition("; choose from ")[0].partition(": ")
        required = {field.name: field.required for field in msgspec.structs.fields(kind)}
        if not colon or name not in required:
            raise
        shown = name.upper() if required[name] else f"--{name.replace('_', '-')}"
        raise Invalid(f"{shown}: {reason[:1].lower()}{reason[1:]}") from error


def read_values(args: Namespace, command: Command, operation: Operation) -> dict[str, Any]:
    """The values of a request, as given on the command line and set by the command."""
    values = {name.removeprefix(_FIELD): value for name, value in vars(args).items() if name.startswith(_FIELD)}
    hints = get_type_hints(load_operation(operation).request, include_extras=True)
    for name, value in values.items():
        if isinstance(value, list) and not _takes_list(unwrap_annotation(hints[name])[0]):
            values[name] = " ".join(value)
    return {name: value for name, value in values.items() if value not in (None, [])} | dict(command.sets)


def _load_function(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(f"fleetlore.cli.{module}"), name)


@contextmanager
def open_context(args: Namespace, operation: Operation, *, now: clock.Clock = clock.now) -> Iterator[OperationContext]:
    """The log that command line and settings name, for who speaks here."""
    from fleetlore.cli.progress import show_progress_if_long

    actor, settings = find_speaker(args), open_log.load_settings_for(args)
    opener = open_log.open_log if operation.creates_log else open_log.open_existing_log
    with (
        opener(args, settings=settings) as log,
        open_source(log, settings, ask_key=_ask_key, progress=show_progress_if_long, now=now) as source,
    ):
        yield OperationContext(source, actor=actor, via="terminal")


def print_read(args: Namespace, name: str, request: Request, describe: Callable[[Any], Iterable[str]]) -> None:
    """Run a read operation, and print its response as JSON or as the lines that `describe` makes of it."""
    operation = find_operation(name)
    with open_context(args, operation) as context:
        response = load_operation(operation).run(context, request)
    if args.json:
        terminal.print_value(response)
        return
    for line in describe(response):
        terminal.print_line("\t".join(map(terminal.sanitise_text, line.split("\t"))))


def _ask_key(coordination: Coordination, why: str) -> OperatorKey | None:
    from fleetlore.cli import passphrase

    return passphrase.ask_key(coordination, why)


def find_speaker(args: Namespace) -> str:
    """The actor: `--as`, else the agent that this runs in, else the user."""
    from fleetlore.cli.terminal import find_user_name
    from fleetlore.events.envelope import is_name

    name: str = getattr(args, "speaker", None) or find_current_agent() or find_user_name()
    if not is_name(name):
        raise Invalid(f"not a valid name: {name!r} (from --as or {AGENT}); use 1 to 200 bytes without control characters")
    return name


def find_current_agent() -> str | None:
    """The agent that this process runs in; `None` outside of agents."""
    return os.environ.get(AGENT) or os.environ.get(WORKER_AGENT) or None


def print_answer(response: Any) -> None:
    """Print the answer of a response; a response without one as JSON."""
    answer = getattr(response, "answer", None)
    for line in (answer if answer is not None else msgspec.json.format(msgspec.json.encode(response)).decode()).splitlines():
        terminal.print_line(terminal.sanitise_text(line))
