"""From a YAML file to a scenario that can be played, or to every reason why it cannot, each with its line."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from fleetlore.runtime.sheet import Path
from fleetlore.runtime.stage.checks import check
from fleetlore.runtime.stage.governor import Limits
from fleetlore.runtime.stage.scenario import Competition, Manifest, Scenario, Scene
from fleetlore.runtime.tree import Tree

T = TypeVar("T")

_REQUIRED = ("name", "title", "seeds", "opening", "agents")
_PARTS: dict[str, Any] = {
    "name": str,
    "title": str,
    "about": str,
    "goal": str | None,
    "seeds": tuple[str, ...],
    "opening": str,
    "scenes": tuple[Scene, ...],
    "agents": dict[str, Any],
    "cast": tuple[str, ...],
    "competition": Competition,
    "governor": Limits,
}
"""Field of the file → its type."""


def read(text: str, source: str) -> Scenario:
    """The scenario that a text tells; `InvalidScenario` names all that is wrong, with `source` and line."""
    tree = Tree(source, text)
    if not isinstance(tree.root, dict):
        tree.complain((), f"a scenario is a mapping with {', '.join(_REQUIRED)}")
    tree.stop_if_wrong()
    parts = _parts(tree)
    agents = _agents(tree, parts.pop("agents", {}))
    names = parts.pop("cast", None) or tuple(agents)
    _check_cast(tree, names, agents)
    tree.stop_if_wrong()
    scenario = Scenario(**parts, cast=tuple(agents[name] for name in names))
    check(tree, scenario)
    tree.stop_if_wrong()
    return scenario


def _parts(tree: Tree) -> dict[str, Any]:
    """Every field that fits its type; complaints about the others."""
    found: dict[str, Any] = {}
    for name, value in tree.root.items():
        if name not in _PARTS:
            tree.complain((name,), unknown_field(name, _PARTS))
        elif (part := _fit(tree, (name,), _lenient(name, value), _PARTS[name])) is not None:
            found[name] = part
    for name in _REQUIRED:
        if name not in tree.root:
            tree.complain((), f"{name} is missing")
    return found


def _lenient(name: str, value: Any) -> Any:
    """Seeds may be written as numbers."""
    if name == "seeds" and isinstance(value, list):
        return [str(seed) if isinstance(seed, int | float) and not isinstance(seed, bool) else seed for seed in value]
    return value


def _agents(tree: Tree, agents: dict[str, Any]) -> dict[str, Manifest]:
    found = {}
    for name, value in agents.items():
        path: Path = ("agents", name)
        if isinstance(value, dict) and "name" in value:
            tree.complain((*path, "name"), "the name is what stands before the colon; leave this out")
        elif (manifest := _fit(tree, path, value, Manifest)) is not None:
            found[name] = msgspec.structs.replace(manifest, name=name)
    return found


def _check_cast(tree: Tree, names: tuple[str, ...], agents: dict[str, Manifest]) -> None:
    written = tree.root.get("agents")
    defined = tuple(written) if isinstance(written, dict) else ()
    for index, name in enumerate(names):
        if name not in defined:
            tree.complain(("cast", index), f"no agent is called {name!r}; {known(defined, name)}")
        if name in names[:index]:
            tree.complain(("cast", index), f"{name} is there twice")


def _fit(tree: Tree, path: Path, value: Any, type: Any) -> Any:
    """The value as that type; `None` after a complaint."""
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError as error:
        reason, _, inner = str(error).partition(" - at `$")
        where = _follow(tree, path, inner.rstrip("`"))
        tree.complain(*_explained(tree, where, reason, type))
        return None


def _follow(tree: Tree, path: Path, inner: str) -> Path:
    """msgspec's `.memory.lines[2]` as a path of ours; of a mapping it only says `[...]`, which ends the path that is known."""
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", inner):
        if index == "...":
            return path
        path = (*path, int(index) if index else name)
    return path


def _explained(tree: Tree, path: Path, reason: str, type: Any) -> tuple[Path, str]:
    """In our words, and where the wrong field itself stands."""
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", reason, re.DOTALL):
        field = match[1]
        place = next((where for where in tree.lines if where[: len(path)] == path and where[-1] == field), (*path, field))
        return place, unknown_field(field, _fields_at(type, path))
    if match := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return path, f"{match[1]} is missing"
    if "got `bool`" in reason and "str" in reason:
        return path, f"{reason[0].lower()}{reason[1:]}; YAML takes yes, no, on and off for true and false: put words into quotes"
    return path, f"{reason[0].lower()}{reason[1:]}"


def _fields_at(type: Any, path: Path) -> tuple[str, ...]:
    """The fields that are known there, as far as the type tells."""
    for part in path:
        hint = getattr(type, "__annotations__", {}).get(part)
        found = None if hint is None else _STRUCTS.get(part if isinstance(part, str) else "")
        type = found or type
    return tuple(name for name in getattr(type, "__struct_fields__", ()) if not (type is Manifest and name == "name"))


def _structs() -> dict[str, Any]:
    from fleetlore.runtime.stage.scenario import Deal, Memory, Script

    return {"memory": Memory, "script": Script, "deal": Deal}


_STRUCTS = _structs()


def unknown_field(name: str, fields: Any) -> str:
    """That there is no such field, and which there are."""
    return f"no such field; {known(tuple(fields), name)}"


def known(names: tuple[str, ...], wrong: str) -> str:
    """Which there are, and which was perhaps meant."""
    near = get_close_matches(wrong, names, n=1)
    return f"known: {', '.join(names) or 'none'}" + (f"; did you mean {near[0]}?" if near else "")
