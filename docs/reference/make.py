"""Makes the reference out of what the program itself knows: parsers, the OpenAPI document, public names, kinds of events, settings, operations.

make reference
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from inspect import get_annotations
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

HERE = Path(__file__).parent
GIVEN = ("Log", "Recorder", "BlockingRecorder")
"""Nobody makes these: `connect` gives them."""
VERBS = {"append", "append_all", "read", "get", "follow", "head", "trim", "erase", "info", "close", "blocking"}
MADE = "<!-- Made by `make reference`; a test compares it with the program. -->"
CLI_HEAD = f"""{MADE}

# Every command and its options

What all commands share, exit codes, names and times included: [cli.md](../cli.md). `--log URL`, `--town NAME` and `-h` work on every command
and are left out below.
"""
API_HEAD = f"""{MADE}

# The HTTP API

The same as `/openapi.json`. How to use it: [server.md](../server.md), [ingest.md](../ingest.md). Every request needs a token: [server.md](../server.md#access).
Errors are `application/problem+json`, a [Problem](#problem).
"""
PYTHON_HEAD = f"""{MADE}

# The Python interface

`from fleetlore import …` loads only what you import. Examples: [python.md](../python.md).
"""


def table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    """A table, or nothing where there are no rows."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"| {head} |", "|" + "---|" * (head.count("|") + 1), *lines]) + "\n" if lines else ""


def plain(text: str) -> str:
    """Text for a cell: nothing in it is taken for Markdown but code in backticks."""
    parts = text.replace("|", "\\|").split("`")
    parts[::2] = [re.sub(r"([*<\[])", r"\\\1", part) for part in parts[::2]]
    return " ".join("`".join(parts).split())


def code(text: str) -> str:
    """One piece of code, for a cell."""
    return f"`{text}`".replace("|", "\\|")


# --- the command line


def cli() -> str:
    """Every command, sub-command and option, as the parsers have them."""
    from fleetlore.cli import main

    groups = {**main.GROUPS, "called by programs alone": tuple(main.BEHIND)}
    parts = [CLI_HEAD]
    for heading, names in groups.items():
        parts.append(f"\n## {heading[0].upper()}{heading[1:]}\n")
        parts += [part for name in names for part in _command(main.make_command_parser(name), 3)]
    return "\n".join(parts)


def _command(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    if fill := vars(parser).pop("fill", None):  # those of `lore town` get their arguments when they are first asked
        fill()
    takes = [action for action in parser._actions if not _is_common(action)]
    yield f"{'#' * level} `{parser.prog}`\n\n{parser.description}\n"
    below = {name: verb for action in takes for name, verb in _verbs(action).items()}
    yield table("verb | what it does", ((code(name), plain(verb.description or "")) for name, verb in below.items()))
    if not below:
        yield f"```\n{_usage(parser, takes)}\n```\n"
    yield table("argument | meaning", ((code(_form(action)), _meaning(parser, action)) for action in takes if not _verbs(action)))
    if parser.epilog:
        yield f"```\n{parser.epilog}\n```\n"
    for verb in below.values():
        yield from _command(verb, min(level + 1, 6))


def _is_common(action: argparse.Action) -> bool:
    return action.dest in ("help", "log", "town") and bool(action.option_strings)


def _verbs(action: argparse.Action) -> dict[str, argparse.ArgumentParser]:
    return dict(action.choices) if isinstance(action, argparse._SubParsersAction) else {}


def _usage(parser: argparse.ArgumentParser, takes: list[argparse.Action]) -> str:
    options = ["[options]"] if any(action.option_strings for action in takes) else []
    places = [_form(action) for action in takes if not action.option_strings]
    return " ".join([parser.prog, *options, *places])


def _form(action: argparse.Action) -> str:
    """How it is written: `-y, --yes`, `--log URL`, `FILE…`, `[ID]`."""
    name = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or ())) or action.dest.upper()
    if action.option_strings:
        return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {name}")
    return {"?": f"[{name}]", "*": f"[{name}…]", "+": f"{name}…"}.get(str(action.nargs), name)


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    said = parser._get_formatter()._expand_help(action) if action.help else ""
    default = action.default
    given = (
        ""
        if default in (None, False, argparse.SUPPRESS) or isinstance(default, list)
        else f"{default:g}"
        if isinstance(default, float)
        else str(default)
    )
    return plain(said + ("" if not given or given in said else f" (default: `{given}`)"))


# --- the API


def api() -> str:
    """Every route, and every shape that is sent or answered."""
    from fleetlore.server.openapi import build_document

    told = json.loads(build_document())
    parts = [API_HEAD, table("refusal | meaning", sorted(_refusals(told["paths"].values())))]
    for path, methods in told["paths"].items():
        parts += [_route(f"{method.upper()} {path}", operation) for method, operation in methods.items()]
    parts.append("## Shapes\n")
    parts += [_shape(name, schema) for name, schema in sorted(told["components"]["schemas"].items())]
    return "\n".join(parts)


def _route(name: str, operation: dict[str, Any]) -> str:
    summary, _, needs = operation["summary"].partition("; needs a token with ")
    scope = needs.strip("`") or ("write" if operation.get("security") else "read" if "401" in operation["responses"] else "none")
    asked = ((code(each["name"]), _type(each["schema"]), _about(each)) for each in operation.get("parameters", []))
    lines = [f"## `{name}`\n\n{plain(summary)}. Scope: `{scope}`.\n", table("parameter | type | meaning", asked)]
    if body := operation.get("requestBody"):
        lines.append(f"Body: {_contents(body)}.\n")
    answers = operation["responses"]
    well = "; ".join(f"{number} {_contents(said)}" for number, said in answers.items() if not _is_refusal(said))
    refused = ", ".join(sorted(number for number, said in answers.items() if _is_refusal(said)))
    return "\n".join([*filter(None, lines), f"Answers: {well}{f'; refusals {refused}' if refused else ''}.\n"])


def _refusals(paths: Iterable[dict[str, Any]]) -> set[tuple[str, ...]]:
    answers = (each for methods in paths for operation in methods.values() for each in operation["responses"].items())
    return {(number, plain(said["description"])) for number, said in answers if _is_refusal(said)}


def _is_refusal(said: dict[str, Any]) -> bool:
    return "application/problem+json" in said.get("content", {})


def _about(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"), ("maxLength", "length at most"))
        if key in schema
    ]
    return "; ".join(
        [*(["needed"] if parameter["required"] else []), *filter(None, [(_said(parameter) or _said(schema)).rstrip(".")]), *bounds]
    )


def _said(told: dict[str, Any]) -> str:
    return plain(told.get("description", "").partition("\n\n")[0])


def _contents(told: dict[str, Any]) -> str:
    return " or ".join(f"`{media}`{_of(each['schema'])}" for media, each in told.get("content", {}).items()) or told.get("description", "")


def _of(schema: dict[str, Any]) -> str:
    kind = _type(schema)
    return f" {kind}" if kind and kind != "text" else ""


def _shape(name: str, schema: dict[str, Any]) -> str:
    needed = schema.get("required", [])
    fields = schema.get("properties", {}).items()
    rows = ((code(field), _type(each), "needed" if field in needed else _default(each)) for field, each in fields)
    return f"### {name}\n\n{_said(schema)}\n\n" + (table("field | type | if left out", rows) or f"{_type(schema)}\n")


def _default(schema: dict[str, Any]) -> str:
    return code(json.dumps(schema["default"], ensure_ascii=False)) if "default" in schema else ""


def _type(schema: dict[str, Any]) -> str:
    """A schema in a word or two."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if (options := schema.get("anyOf")) and "type" not in schema:
        return " or ".join(_type(each) for each in options)
    if values := schema.get("enum"):
        return ", ".join(code(str(each)) for each in values)
    if "const" in schema:
        return code(str(schema["const"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items') or {})}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return {"string": str(schema.get("format", "text")), "null": "none"}.get(kind, str(kind))


# --- Python


def python() -> str:
    """The public names with their signatures and what they promise."""
    parts = [PYTHON_HEAD]
    for title, module, names in _public():
        parts.append(f"## {title}\n\n{_first(module)}\n")
        if title == "`fleetlore.errors`":
            parts.append(table("error | when", ((code(name), plain(_first(getattr(module, name)))) for name in names)))
        else:
            parts += [_name(name, getattr(module, name)) for name in names]
    return "\n".join(parts)


def _public() -> Iterator[tuple[str, Any, list[str]]]:
    import fleetlore

    yield "`fleetlore`", fleetlore, sorted(set(fleetlore.__all__) - {"__version__"})
    yield "What `connect` answers with", importlib.import_module("fleetlore.log.connect"), ["Log"]
    yield "`async with connect(…)`", importlib.import_module("fleetlore.log.async_recorder"), ["Recorder"]
    yield "`with connect(…).blocking()`", importlib.import_module("fleetlore.log.recorder"), ["BlockingRecorder"]
    for name in ("fleetlore.errors", "fleetlore.compat.nexus", "fleetlore.testing"):
        module = importlib.import_module(name)
        yield f"`{name}`", module, getattr(module, "__all__", None) or list(_defined(module))


def _defined(module: Any) -> Iterator[str]:
    for name, value in vars(module).items():
        if (
            not name.startswith("_")
            and getattr(value, "__module__", None) == module.__name__
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__name__ == name  # no aliases
        ):
            yield name


def _name(name: str, value: Any) -> str:
    if not callable(value):
        return f"### `{name}`\n\n`{value!r}`\n"
    head = f"### `{name}`\n\n" + ("" if name in GIVEN or _has_no_maker(value) else f"```python\n{_signature(name, value)}\n```\n\n")
    return f"{head}{_first(value)}\n\n" + (_members(value) if inspect.isclass(value) else "")


def _has_no_maker(value: Any) -> bool:
    return inspect.isclass(value) and (issubclass(value, Enum) or getattr(value, "_is_protocol", False))


def _members(kind: type) -> str:
    if issubclass(kind, Enum):
        return table("name | value", ((code(each.name), code(each.value)) for each in kind))
    methods = {name: value for name, value in vars(kind).items() if not name.startswith("_") and _is_method(value)}
    shown = methods.keys() & VERBS if kind.__name__ in GIVEN else methods.keys()
    return table(
        "method | what it does",
        ((code(_signature(name, methods[name], wide=True)), plain(_first(methods[name]))) for name in methods if name in shown),
    )


def _is_method(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod, property))


def _signature(name: str, value: Any, *, wide: bool = False) -> str:
    """A call, on one line if that is short or `wide`."""
    if isinstance(value, property):
        return name
    function: Callable[..., Any] = getattr(value, "__func__", value)
    found = inspect.signature(function)
    takes = list(_takes(found.parameters.values()))
    answers = (
        ""
        if inspect.isclass(value) or found.return_annotation is inspect.Signature.empty
        else f" -> {_annotation(found.return_annotation)}"
    )
    waits = "async " if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) else ""
    line = f"{waits}{name}({', '.join(takes)}){answers}"
    return line if wide or len(line) <= 120 else f"{waits}{name}(\n" + "".join(f"    {each},\n" for each in takes) + f"){answers}"


def _takes(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    is_named = False
    for each in parameters:
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not is_named:
            yield "*"
        is_named = is_named or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        said = "" if each.annotation is each.empty else f": {_annotation(each.annotation)}"
        yield star + each.name + said + ("" if each.default is each.empty else f" = {_value(each.default)}")


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)


def _value(value: Any) -> str:
    """A default; what cannot be written down in a word is left to be guessed."""
    return repr(value) if value is None or isinstance(value, (str, int, float, tuple)) else "…"


def _first(value: Any) -> str:
    """The first paragraph of what it says of itself."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


# --- events

EVENTS_HEAD = f"""{MADE}

# Every kind of event

Fields that all events share, and what is refused: [events.md](../events.md). `?` marks an optional field and `[]` a list; a `number` may have a
fraction, a `duration` is text such as `1h 30m`, a `time` is RFC 3339. Unknown keys are kept. The beat classifies a kind ([patterns.md](../patterns.md#beats));
where the result decides it, the usual one is listed.
"""
_PLAIN_TYPES = {"Any": "any", "float": "number", "U32": "int", "U64": "int", "Uuid": "uuid", "Duration": "duration", "Timestamp": "time"}


def events() -> str:
    """Every known kind by its module, then the shapes inside their data."""
    from msgspec import Struct

    from fleetlore.events import catalog, driver_types
    from fleetlore.events.models import Block

    parts = [EVENTS_HEAD]
    for module in dict.fromkeys(catalog.FAMILIES.values()):
        families = [family for family, each in catalog.FAMILIES.items() if each == module]
        kinds = [payload for kind, payload in catalog.known_kinds().items() if kind.partition(".")[0] in families]
        intro = _NOTES["events"].get(module, "")
        parts.append(f"## {', '.join(families)}\n\n{intro}\n")
        parts.append(table("kind | beat | what happened | data", map(_kind, kinds)))
    public = [thing for name, thing in vars(driver_types).items() if not name.startswith("_")]
    shapes = [each for each in public if isinstance(each, type) and issubclass(each, Struct) and each is not Struct]
    unions = [(name, get_args(each)) for name, each in vars(driver_types).items() if _is_union(each, shapes)]
    values = [(name, get_args(each)) for name, each in vars(driver_types).items() if get_origin(each) is Literal]
    parts.append("## Shapes\n\nA `kind` that is not listed is refused.\n")
    parts.append(table("union | shapes", ((code(name), ", ".join(code(each.__name__) for each in of)) for name, of in unions)))
    parts.append(table("enum | values", ((code(name), ", ".join(map(code, of))) for name, of in values)))
    parts.append(table("shape | meaning | fields", map(_event_shape, [*shapes, Block])))
    return "\n".join(parts)


def _is_union(thing: Any, shapes: list[Any]) -> bool:
    return bool(get_args(thing)) and all(each in shapes for each in get_args(thing))


def _kind(payload: Any) -> tuple[str, ...]:
    return code(payload.kind), payload.beat, payload.__doc__, _data(payload)


def _event_shape(shape: Any) -> tuple[str, ...]:
    tag = shape.__struct_config__.tag
    first = [f'`kind: "{tag}"`'] if tag else []
    return code(shape.__name__), shape.__doc__, ", ".join([*first, *([_data(shape)] if shape.__struct_fields__ else [])])


def _data(struct: Any) -> str:
    from msgspec.structs import fields

    from fleetlore.events.stage import StageFact

    # The fields that all kinds of the stage share are listed once, above the table.
    shared = StageFact.__struct_fields__ if issubclass(struct, StageFact) else ()
    return ", ".join(f"`{_field(struct, field)}`" for field in fields(struct) if field.name not in shared) or "–"


def _field(struct: Any, field: Any) -> str:
    from msgspec import NODEFAULT

    is_needed = field.default is NODEFAULT and field.default_factory is NODEFAULT
    annotation = next(str(own[field.name]) for base in struct.__mro__ if field.name in (own := get_annotations(base)))
    return f"{field.name}{'' if is_needed else '?'}: {_event_type(annotation)}"


def _event_type(annotation: str) -> str:
    names = re.sub(r"tuple\[(.+), \.\.\.\]", r"\1[]", annotation.removesuffix(" | None"))
    names = re.sub(r"dict\[str, Any\]", "object", names)
    names = re.sub(r"dict\[str, (\w+)\]", r"object of \1", names)
    return re.sub(r"\w+", lambda word: _PLAIN_TYPES.get(word[0], word[0]), names).replace(" | ", " or ")


# --- statuses

STATUS_HEAD = f"""{MADE}

# How each kind of event changes a status

The effect on the event's `agent`, and on its `child` if it has one; [status.md](../status.md) explains the states. *alive*: only a sign of life.
*answered*: *working*, if it needed you. *nothing*: not even a sign of life. ✓: the agent no longer holds the task of the event. Kinds that are not listed
mean *working*.
"""


def statuses() -> str:
    """The rule of every known kind."""
    from fleetlore.views.agent_status_rules import CHILD_EFFECTS, EFFECT_BY_KIND, TASK_CLOSING_KINDS

    rows = (
        (
            code(kind),
            effect,
            CHILD_EFFECTS[kind][1] if kind in CHILD_EFFECTS else "–",
            "✓" if kind in TASK_CLOSING_KINDS else "",
            _NOTES["status"].get(kind, ""),
        )
        for kind, effect in EFFECT_BY_KIND.items()
    )
    return f"{STATUS_HEAD}\n{table('kind | agent | child | task released | notes', rows)}"


# --- errors of a turn

TURN_ERRORS_HEAD = f"""{MADE}

# Errors of a goal's turn

`goal.attempt_ended` names the error as `complaint`. [goals.md](../goals.md#errors-of-a-turn) explains what the driver does.
"""


def turn_errors() -> str:
    """What each error means, and what the driver does about it."""
    from fleetlore.programs.failures import REMEDIES

    rows = []
    for complaint, cure in REMEDIES.items():
        pauses = f"{cure.first_pause:g} s to {cure.longest_pause:g} s" if cure.longest_pause else "none"
        rows.append((code(complaint), cure.meaning, code(cure.action), "yes" if cure.counts else "no", pauses, cure.advice))
    made = table("complaint | what it means | what the driver does | counts as a turn | pauses | what helps", rows)
    return f"{TURN_ERRORS_HEAD}\n{made}"


# --- operations

OPERATIONS_HEAD = f"""{MADE}

# Commands, routes and tools

What [python.md](../python.md#everything-that-lore-does) calls an operation is reached by command, HTTP and MCP alike. Where there is none, the last column says why.
"""


def operations() -> str:
    """Every command, route and tool with its operation."""
    from fleetlore.cli import main
    from fleetlore.operations.table import OPERATIONS, list_commands
    from fleetlore.server.mcp.tools import TOOLS
    from fleetlore.server.openapi import build_document

    words = [each for name in (*main.COMMANDS, *main.BEHIND) for each in _all_words(main.make_command_parser(name))]
    routes = [f"{method.upper()} {path}" for path, methods in json.loads(build_document())["paths"].items() for method in methods]
    listed = (
        ("Commands", "command", words, {command.words: operation.name for command, operation in list_commands()}),
        ("HTTP", "route", routes, {each.http: each.name for each in OPERATIONS if each.http}),
        ("MCP", "tool", [tool.name for tool in TOOLS], {each.mcp: each.name for each in OPERATIONS if each.mcp}),
    )
    parts = [OPERATIONS_HEAD]
    for title, word, names, by_name in listed:
        rows = ((code(name), code(by_name[name]) if name in by_name else "", _why_none(name, by_name)) for name in names)
        parts.append(f"## {title}\n\n" + table(f"{word} | operation | why not an operation", rows))
    return "\n".join(parts)


def _why_none(name: str, by_name: dict[str, str]) -> str:
    return "" if name in by_name else _NOTES["no operation"].get(name, "")


def _all_words(parser: argparse.ArgumentParser) -> Iterator[str]:
    if fill := vars(parser).pop("fill", None):
        fill()
    yield parser.prog.removeprefix("lore ")
    for action in parser._actions:
        for verb in _verbs(action).values():
            yield from _all_words(verb)


# --- settings

SETTINGS_HEAD = f"""{MADE}

# Every setting

Where settings are read from, with an example: [configuration.md](../configuration.md).
"""


def settings() -> str:
    """Every setting of `fleetlore.toml`."""
    from fleetlore.settings import SPECS

    head = "setting | meaning | default | also set by | if several places set it"
    made = table(head, (row for spec in SPECS.values() for row in _setting(spec)))
    return SETTINGS_HEAD + "\n" + re.sub(r"\]\((?=[\w-]+\.md)", "](../", made)  # their links are those of docs/


def _setting(spec: Any) -> Iterator[tuple[str, ...]]:
    """A row, or one for each key of a table."""
    also = ", ".join(code(each) for each in (spec.flag, spec.environment) if each)
    rows = {f"{spec.key}.{part}": about for part, about in spec.parts.items()} or {spec.key: (spec.help, spec.default)}
    for key, (help, default) in rows.items():
        yield code(key), help, default, also, spec.merge.__doc__


_NOTES: dict[str, dict[str, str]] = tomllib.loads((HERE / "notes.toml").read_text(encoding="utf-8"))
"""What the program does not know: reasons and exceptions, by page."""

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "api.md": api,
    "python.md": python,
    "events.md": events,
    "status.md": statuses,
    "turn-errors.md": turn_errors,
    "operations.md": operations,
    "settings.md": settings,
}


def text_of(name: str) -> str:
    """One page, with neither empty ends of lines nor rows of empty lines."""
    text = "\n".join(line.rstrip() for line in PAGES[name]().splitlines())
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main() -> int:
    """Write them all."""
    for name in PAGES:
        (HERE / name).write_text(text_of(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
