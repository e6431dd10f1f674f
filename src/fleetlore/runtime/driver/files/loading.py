"""Goals as people write them, in TOML or YAML: from a file to a goal that can be pursued, or to every reason why it cannot."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct

from fleetlore.errors import Invalid
from fleetlore.events import driver_types as types
from fleetlore.events import humantime
from fleetlore.events.goal_plan import KEY, Compaction, Memory, Permissions, Plan, Seconds
from fleetlore.redact import Redactor
from fleetlore.runtime.driver.files import checks as files_checks
from fleetlore.runtime.driver.files.sheet import Sheet
from fleetlore.runtime.sheet import Path, fit, missing, one_of, unknown

SUFFIXES = (".toml", ".yaml", ".yml")
LONGEST_NAME = 60

_Count = Annotated[int, Meta(ge=1, le=2**32 - 1)]
_CountOrNone = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Budget(Struct, frozen=True, kw_only=True):
    """`[budget]`: how much a goal may use. For errors and overflows in a row nought means no limit."""

    max_turns: _Count = 40
    max_wall_time: Seconds = 4 * 3600.0
    max_tokens: Annotated[int, Meta(ge=1, le=10**15)] = 2_000_000
    max_usd: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    max_consecutive_denies: _Count = 3
    max_consecutive_errors: _CountOrNone = 5
    max_consecutive_413: _CountOrNone = 2


class Head(Struct, frozen=True, kw_only=True):
    """What stands at the top of the file beside the plan."""

    description: str
    workspace: str | None = None
    id: types.Uuid | None = None


_TABLES: dict[str, tuple[type[Struct], tuple[str, ...]]] = {
    "permissions": (Permissions, ("patience",)),
    "compaction": (Compaction, ()),
    "memory": (Memory, ("dream_timeout",)),
}
"""Tables of the plan → their shape, and which of their fields may be written like `20m`."""
_SPANS = ("turn_timeout", "idle_timeout")
_CRITERIA: dict[str, type[Struct]] = {
    "shell_command": types.ShellCommand,
    "file_matches": types.FileMatches,
    "custom": types.Custom,
    "llm_judge": types.LlmJudge,
}
_TOLD_BY = {
    "command": "shell_command",
    "path": "file_matches",
    "regex": "file_matches",
    "criterion_text": "llm_judge",
    "name": "custom",
}
"""A key that tells the kind of a criterion which does not."""

_NOT_IN_PLAN = (*_TABLES, "max_usd")
TOP = (
    *Head.__struct_fields__,
    *(name for name in Plan.__struct_fields__ if name not in _NOT_IN_PLAN),
    "budget",
    "acceptance",
    *_TABLES,
)
"""Every key that may stand at the top."""


def _new_id() -> str:
    """By chance, so that the beginnings of two ids differ, too: branches and people go by them."""
    return str(uuid4())


def load(path: str, *, redactor: Redactor | None = None, new_id: Callable[[], str] = _new_id) -> types.Goal:
    """The goal that a file tells; `InvalidGoal` names all that is wrong with it."""
    if not path.endswith(SUFFIXES):
        raise Invalid(f"{path}: a goal is written in a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    with open(path, "rb") as file:
        raw = file.read(2 * 1024 * 1024)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: is not UTF-8 text; save it as such") from error
    folder, name = os.path.split(os.path.abspath(path))
    return read(text, path, folder=folder, name=os.path.splitext(name)[0], redactor=redactor, new_id=new_id)


def read(
    text: str,
    source: str,
    *,
    folder: str,
    name: str = "goal",
    redactor: Redactor | None = None,
    new_id: Callable[[], str] = _new_id,
    given: Mapping[str, Any] | None = None,
    apart: Collection[str] = (),
) -> types.Goal:
    """The goal that a text tells. Its `source` says which format it has; the workspace is found from `folder` on.

    `given` is said besides, and wins; keys that are `apart` mean something to whoever reads the text, and nothing here.
    """
    sheet = Sheet(source, text, is_toml=source.endswith(".toml"))
    if not isinstance(sheet.root, dict):
        sheet.complain((), 'a goal is a table; begin with description = "…", or description: … in YAML')
    sheet.stop_if_wrong()
    sheet.root = {key: value for key, value in sheet.root.items() if key not in apart} | dict(given or {})
    files_checks.check_secrets(sheet, redactor or Redactor())
    for key in sheet.root:
        if key not in TOP:
            sheet.complain((key,), _astray(key))
    head, budget, plan = _head(sheet), _table(sheet, "budget", Budget, ("max_wall_time",)), _plan(sheet, name)
    acceptance = _acceptance(sheet)
    files_checks.check_head(sheet, head, plan, acceptance, needs=missing(Head, sheet.root))
    workspace = _workspace(sheet, head.get("workspace"), folder)
    sheet.stop_if_wrong()
    whole = Budget(**budget)
    return types.Goal(
        id=str(head.get("id") or new_id()).lower(),
        description=head["description"].strip(),
        acceptance=acceptance,
        budget=_guards(whole),
        workspace=workspace,
        metadata={KEY: msgspec.to_builtins(Plan(**plan, max_usd=whole.max_usd))},
    )


def _astray(key: str) -> str:
    """A key that is not known at the top, or that belongs into one of the tables."""
    places: dict[str, type[Struct]] = {"budget": Budget, **{name: shape for name, (shape, _) in _TABLES.items()}}
    for name, shape in places.items():
        if key in shape.__struct_fields__:
            return f"belongs into a table: write it under [{name}]"
    return unknown(key, TOP)


def _head(sheet: Sheet) -> dict[str, Any]:
    return fit(sheet, (), {name: sheet.root[name] for name in Head.__struct_fields__ if name in sheet.root}, Head)


def _table(sheet: Sheet, name: str, shape: type[Struct], spans: tuple[str, ...] = ()) -> dict[str, Any]:
    return fit(sheet, (name,), sheet.root[name], shape, spans=spans) if name in sheet.root else {}


def _plan(sheet: Sheet, name: str) -> dict[str, Any]:
    given = {key: value for key, value in sheet.root.items() if key in Plan.__struct_fields__ and key not in _NOT_IN_PLAN}
    if isinstance(given.get("command"), str):
        given["command"] = _words(sheet, given["command"])
    plan = fit(sheet, (), given, Plan, spans=_SPANS)
    for table, (shape, spans) in _TABLES.items():
        if table in sheet.root:
            plan[table] = shape(**_table(sheet, table, shape, spans))
    if "harness" not in given:
        plan["harness"] = "mind" if plan.get("mind") else "claude-code"
    if "agent" not in given:
        plan["agent"] = slug(name)
    return plan


def _words(sheet: Sheet, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        sheet.complain(("command",), f"cannot be cut into words ({error}); write a list, as in ['agent', '--fast']")
        return []


def slug(name: str) -> str:
    """A readable name for an agent, from that of a file: `Fix The Tests` → `fix-the-tests`."""
    return "-".join(re.findall(r"[^\W_]+", name.lower()))[:LONGEST_NAME].strip("-") or "agent"


def _acceptance(sheet: Sheet) -> tuple[types.Criterion, ...]:
    told = sheet.root.get("acceptance", [])
    if not isinstance(told, list):
        sheet.complain(("acceptance",), "a list is needed: write [[acceptance]] before each criterion (in YAML, a dash)")
        return ()
    found = (_criterion(sheet, ("acceptance", index), each) for index, each in enumerate(told))
    return tuple(criterion for criterion in found if criterion is not None)


def _criterion(sheet: Sheet, path: Path, told: Any) -> types.Criterion | None:
    if not isinstance(told, dict):
        sheet.complain(path, 'a table is needed, as in [[acceptance]] with command = "make test"')
        return None
    kind = told.get("kind") or next((kind for key, kind in _TOLD_BY.items() if key in told), None)
    shape = _CRITERIA.get(kind) if isinstance(kind, str) else None
    if shape is None:
        said = one_of(str(kind), tuple(_CRITERIA)) if kind else "says not what is checked; give a command, or a path and a regex"
        sheet.complain((*path, "kind") if kind else path, said)
        return None
    given: dict[str, Any] = {"args": {}} if kind == "custom" else {}
    given |= {key: value for key, value in told.items() if key != "kind"}
    before = len(sheet.problems)
    fitting = fit(sheet, path, given, shape)
    for name in missing(shape, given):
        sheet.complain(path, f"{name} is missing; a criterion of kind {kind} needs it")
    files_checks.check_criterion(sheet, path, fitting)
    return shape(**fitting) if len(sheet.problems) == before else None  # type: ignore[return-value]  # one of the four


def _workspace(sheet: Sheet, told: str | None, folder: str) -> str:
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(told or "")))
    if not os.path.isdir(path):
        sheet.complain(("workspace",), f"there is no folder {path}; it is looked for from the file's own folder on")
    return path


def _guards(budget: Budget) -> types.BudgetGuards:
    return types.BudgetGuards(
        max_turns=budget.max_turns,
        max_wall_time=humantime.format(int(budget.max_wall_time * 1000) * 1_000_000),
        max_tokens=budget.max_tokens,
        max_consecutive_denies=budget.max_consecutive_denies,
        max_consecutive_errors=budget.max_consecutive_errors,
        max_consecutive_413=budget.max_consecutive_413,
    )
