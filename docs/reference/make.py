"""Makes the reference out of what the program itself knows: the commands' parsers, the server's OpenAPI document, the public names.

make reference
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

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

The same as `/openapi.json`. How to use it: [server.md](../server.md), [doors.md](../doors.md). Every request needs a token: [server-safety.md](../server-safety.md).
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
        parts += [part for name in names for part in _command(main.parser_of(name), 3)]
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


# --- settings

CONFIGURATION = HERE.parent / "configuration.md"
SETTINGS_BLOCK = re.compile(r"(<!-- settings: [^\n]*-->\n).*?(<!-- end of settings -->)", re.DOTALL)


def configuration() -> str:
    """docs/configuration.md with its table of settings made anew."""
    from fleetlore.settings import SPECS

    head = "setting | meaning | default | also set by | if several places set it"
    made = table(head, (row for spec in SPECS.values() for row in _setting(spec)))
    return SETTINGS_BLOCK.sub(lambda found: found[1] + made + found[2], CONFIGURATION.read_text(encoding="utf-8"))


def _setting(spec: Any) -> Iterator[tuple[str, ...]]:
    """A row, or one for each key of a table."""
    also = ", ".join(code(each) for each in (spec.flag, spec.environment) if each)
    rows = {f"{spec.key}.{part}": about for part, about in spec.parts.items()} or {spec.key: (spec.help, spec.default)}
    for key, (help, default) in rows.items():
        yield code(key), help, default, also, spec.merge.__doc__


PAGES: dict[str, Callable[[], str]] = {"cli.md": cli, "api.md": api, "python.md": python}


def text_of(name: str) -> str:
    """One page, with neither empty ends of lines nor rows of empty lines."""
    text = "\n".join(line.rstrip() for line in PAGES[name]().splitlines())
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main() -> int:
    """Write them all."""
    for name in PAGES:
        (HERE / name).write_text(text_of(name), encoding="utf-8")
    CONFIGURATION.write_text(configuration(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
