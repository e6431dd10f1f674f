"""Commands that follow from the table of operations: their arguments, their run, and their output.

A command's request comes from its arguments; text is printed by the renderer in `RENDERERS`, else the response's answer.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from fleetlore.cli import open_log, terminal
from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext, open_source
from fleetlore.operations.request import load_operation, parse_request, unwrap_annotation
from fleetlore.operations.table import Argument, Command, Operation, find_command, find_operation

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

AGENT, WORKER_AGENT = "FLEETLORE_AGENT", "LORE_AGENT"
"""Environment variables for the agent that a process speaks for: set by people, and by workers."""

RENDERERS: dict[str, str] = {
    "town recover": "town.repair:print_workers",
    "town reclaim": "town.repair:print_reclaimed",
    "town start mission": "town.missions:print_started",
}
"""Operation → `module:function` in this package, called with response and arguments; prints, and may return an exit code."""
ADAPTERS: dict[str, str] = {
    "town assign": "town.adapters:adapt_assign",
    "goal raise": "goal.adapters:adapt_raise",
    "town backlog add": "town.adapters:adapt_new_task",
    "town mission start": "town.adapters:adapt_plan",
}
"""Command → `module:function` in this package, for commands whose arguments differ from the request. It is called with arguments and
values, and returns the name of the operation and its values."""
EXTRA_ARGUMENTS: dict[str, str] = {
    "goal raise": "goal.adapters:add_raise_arguments",
    "town assign": "town.adapters:add_assign_arguments",
}
"""Command → `module:function` in this package, which adds arguments that its adapter reads."""
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
        own = next((note for note in notes if isinstance(note, Argument)), Argument())
        argument = _merge_arguments(given, own, notes)
        group = argument.group or (given.field if argument.switches else "")
        if group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        is_required = fields[given.field].required if argument.required is None else argument.required
        _add_argument(groups[group], argument, annotated, is_required=is_required)
    if command.words in EXTRA_ARGUMENTS:
        _load_function(EXTRA_ARGUMENTS[command.words])(parser)


def _merge_arguments(given: Argument, own: Argument, notes: list[Any]) -> Argument:
    """The command's own settings, then the field's, then the description."""
    description = next((note.description for note in notes if isinstance(note, msgspec.Meta) and note.description), "")
    set_here = {name: value for name, value in given._asdict().items() if value != Argument._field_defaults[name]}
    merged = own._replace(**set_here)
    return merged._replace(help=merged.help or description, hidden=own.hidden and given == Argument(given.field))


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
    values = read_values(args, command, operation)
    if words in ADAPTERS:
        name, values = _load_function(ADAPTERS[words])(args, values)
        operation = find_operation(name)
    return run_operation(args, operation, values)


def run_operation(args: Namespace, operation: Operation, values: dict[str, Any]) -> int:
    """Run an operation with these values, and print its response."""
    loaded = load_operation(operation)
    request = parse_request(loaded.request, values)
    with open_context(args, operation) as context:
        response = loaded.run(context, request)
    return print_response(args, operation, response)


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
def open_context(args: Namespace, operation: Operation) -> Iterator[OperationContext]:
    """The log that command line and settings name, for who speaks here."""
    from fleetlore.cli import passphrase
    from fleetlore.cli.progress import bar_if_long

    actor, settings = find_speaker(args), open_log.settings_of(args)
    opener = open_log.open_log if operation.creates_log else open_log.open_existing_log
    with (
        opener(args, settings=settings) as log,
        open_source(log, settings, ask_key=passphrase.ask_key, progress=bar_if_long) as source,
    ):
        yield OperationContext(source, actor=actor)


def find_speaker(args: Namespace) -> str:
    """The actor: `--as`, else the agent that this runs in, else the user."""
    from fleetlore.cli.emit import find_user_name
    from fleetlore.events.names import is_name

    name: str = getattr(args, "speaker", None) or find_current_agent() or find_user_name()
    if not is_name(name):
        raise Invalid(f"not a valid name: {name!r} (from --as or {AGENT}); use 1 to 200 bytes without control characters")
    return name


def find_current_agent() -> str | None:
    """The agent that this process runs in; `None` outside of agents."""
    return os.environ.get(AGENT) or os.environ.get(WORKER_AGENT) or None


def print_response(args: Namespace, operation: Operation, response: Any) -> int:
    """Print a response: as JSON, by its renderer, or its answer."""
    if getattr(args, "json", False):
        terminal.print_value(response)
        return 0
    if operation.name in RENDERERS:
        return _load_function(RENDERERS[operation.name])(response, args) or 0
    print_answer(response)
    return 0


def print_answer(response: Any) -> None:
    """Print the answer of a response; a response without one as JSON."""
    answer = getattr(response, "answer", None)
    for line in (answer if answer is not None else msgspec.json.format(msgspec.json.encode(response)).decode()).splitlines():
        terminal.print_line(terminal.sanitise_text(line))
