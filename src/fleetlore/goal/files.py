"""Reads goal files and worker files (TOML or YAML). `load_goal` returns a goal, or raises with every problem in the file.

Used by `lore goal run` and `lore worker`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct

from fleetlore.documents.document import Document, DocumentType, load_document, missing_fields, parse_document
from fleetlore.documents.validation import KeyPath, invalid_choice_message, unknown_key_message
from fleetlore.errors import BrokenExtension, Invalid, InvalidGoal
from fleetlore.events import driver_types as types
from fleetlore.events.budget_axes import BudgetRow, BudgetUnit, list_axes
from fleetlore.events.envelope import is_name
from fleetlore.events.goal_plan import KEY, Compaction, Memory, Permissions, Plan, Seconds
from fleetlore.events.ids import find_uuid
from fleetlore.goal import harnesses
from fleetlore.goal.acceptance import verifiers
from fleetlore.goal.gate import rules
from fleetlore.models import open as models
from fleetlore.programs import registry
from fleetlore.redact import Redactor
from fleetlore.views.goal_state import format_amount

# --- Parsing

MAX_GOAL_BYTES = 128 * 1024
"""A goal is stored as one event, which holds at most 256 KiB."""


SUFFIXES = (".toml", ".yaml", ".yml")
GOAL = DocumentType(
    suffixes=(*SUFFIXES[1:], SUFFIXES[0]),
    wrong_suffix=f"a goal file must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}",
    not_a_table='a goal is a table; start with description = "…", or description: … in YAML',
    error=InvalidGoal,
    max_bytes=MAX_GOAL_BYTES,
    too_large="put details into files, and name them in the goal",
)


# --- Validation beyond types: consistency, feasibility, and no secrets

MAX_DESCRIPTION_BYTES = 16 * 1024
MAX_CRITERIA = 100
_NEVER_MET = "would never be met, or always; write a pattern that matches the file's content"


def check_goal(
    document: Document,
    header: Mapping[str, Any],
    plan: Mapping[str, Any],
    acceptance: Sequence[types.Criterion],
    checks: Sequence[types.Criterion],
    *,
    missing: Sequence[str],
) -> None:
    """Add an error for everything that is inconsistent or cannot work."""
    _check_description(document, header, missing)
    _check_harness_options(document, plan)
    _check_models(document, plan, (*acceptance, *checks))
    _check_names(document, plan)
    _check_tool_rules(document, plan)
    for index, pattern in enumerate(plan.get("protect", ())):
        _check_path_inside(document, ("protect", index), pattern)
    if len(acceptance) > MAX_CRITERIA:
        document.add_error(
            ("acceptance",), f"{len(acceptance)} criteria; at most {MAX_CRITERIA} are allowed: check several things with one command"
        )


def _check_description(document: Document, header: Mapping[str, Any], missing: Sequence[str]) -> None:
    description = header.get("description")
    if "description" in missing:
        document.add_error((), 'description is missing; write what to do, as in description = "Make the tests pass"')
    elif description is not None and not description.strip():
        document.add_error(("description",), "is empty; write what to do")
    elif description is not None and len(description.encode()) > MAX_DESCRIPTION_BYTES:
        document.add_error(
            ("description",), f"is over {MAX_DESCRIPTION_BYTES // 1024} KiB; put the rest into a file of the workspace, and name the file"
        )


def _check_harness_options(document: Document, plan: Mapping[str, Any]) -> None:
    harness, command, mind = plan.get("harness"), plan.get("command"), plan.get("mind")
    if harness is not None:
        _check_harness(document, harness)
    if harness in ("command", registry.PROTOCOL_NAME) and not command:
        document.add_error(("command",), "is missing: give the agent's program as a list, as in ['my-agent', '--quiet']")
    if harness == "mind" and not mind:
        document.add_error(("mind",), "is missing: give the model's address, as in mind = 'openai:gpt-5-mini'")
    if harness == "mind" and command:
        document.add_error(("command",), "is for programs, but the harness is a model; remove one of them")
    if command is not None and (not command or not command[0].strip()):
        document.add_error(("command",), "names no program")


def _check_harness(document: Document, name: str) -> None:
    try:
        if name not in harnesses.BUILTIN_HARNESSES and harnesses.find_factory(name) is None:
            document.add_error(("harness",), invalid_choice_message(name, harnesses.known_harnesses()))
    except BrokenExtension as error:
        document.add_error(("harness",), str(error))


def _check_models(document: Document, plan: Mapping[str, Any], acceptance: Sequence[types.Criterion]) -> None:
    memory = plan.get("memory")
    addresses: dict[KeyPath, str | None] = {("mind",): plan.get("mind"), ("judge",): plan.get("judge")}
    addresses[("memory", "mind")] = None if memory is None else memory.mind
    for path, address in addresses.items():
        if address is not None:
            _check_model_address(document, path, address)
    if any(isinstance(each, types.LlmJudge) for each in acceptance) and not (plan.get("judge") or plan.get("mind")):
        document.add_error(("judge",), "is missing: a criterion is judged by a model; give its address, as in judge = 'openai:gpt-5-mini'")
    if memory is not None and memory.enabled and not (memory.mind or plan.get("mind")):
        document.add_error(("memory", "mind"), "is missing: give the address of the model that writes memories, or set enabled = false")


def _check_model_address(document: Document, path: KeyPath, address: str) -> None:
    try:
        models.parse_address(address)
    except Invalid as error:
        document.add_error(path, str(error))


def _check_names(document: Document, plan: Mapping[str, Any]) -> None:
    for name in ("agent", "task", "mission"):
        value = plan.get(name)
        if value is not None and not is_name(value):
            document.add_error((name,), "must have 1 to 200 bytes and no control characters")
    parent = plan.get("parent")
    if parent is not None and find_uuid(parent) is None:
        document.add_error(("parent",), "is no UUID; give the full id of the parent goal, as in `lore goal list --json`")


def _check_tool_rules(document: Document, plan: Mapping[str, Any]) -> None:
    permissions = plan.get("permissions")
    for name in ("allow", "deny") if permissions is not None else ():
        for index, pattern in enumerate(getattr(permissions, name)):
            try:
                rules.parse_rule(pattern)
            except Invalid as error:
                document.add_error(("permissions", name, index), str(error))


def check_criterion(document: Document, path: KeyPath, fields: Mapping[str, Any]) -> None:
    """Add an error if the criterion could not be checked."""
    for name in ("regex", "stdout_must_match"):
        if name in fields:
            _check_pattern(document, (*path, name), fields[name])
    if "path" in fields:
        _check_path_inside(document, (*path, "path"), fields["path"])
    for name in ("command", "criterion_text", "name"):
        if name in fields and not str(fields[name]).strip():
            document.add_error((*path, name), "is empty")
    if "name" in fields:
        _check_verifier(document, path, fields["name"], fields.get("args"))


def _check_verifier(document: Document, path: KeyPath, name: str, args: Any) -> None:
    if name.strip() and name not in verifiers.BUILTIN_VERIFIERS and name not in verifiers.known_verifiers():
        document.add_error((*path, "name"), invalid_choice_message(name, verifiers.known_verifiers()))
    if name == "no_paths_touched":
        try:
            verifiers.parse_prefixes(args)
        except Invalid as error:
            document.add_error((*path, "args"), str(error))


def _check_pattern(document: Document, path: KeyPath, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        document.add_error(path, f"is no regular expression: {error}")
        return
    if not pattern:
        document.add_error(path, _NEVER_MET)


def _check_path_inside(document: Document, path: KeyPath, written: str) -> None:
    parts = written.replace("\\", "/").split("/")
    if not written.strip() or written.startswith(("/", "~")) or ".." in parts:
        document.add_error(path, f"{written!r} is outside the workspace; give a path relative to the workspace, as in src/app.py")


# --- secrets


def check_secrets(document: Document, redactor: Redactor) -> None:
    """Add an error for each value that looks like a secret: the log would redact it, so a resumed goal would lack it."""
    cleaned, found = redactor.redact_value(document.root)
    for path in _changed_paths(document.root, cleaned) if found else ():
        document.add_error(path, "looks like a secret, and goals are stored in the log; put it into the environment, and name the variable")


def _changed_paths(before: Any, after: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from _changed_paths(value, after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, value in enumerate(before):
            yield from _changed_paths(value, after[index], (*path, index))
    elif before != after:
        yield path


# --- Conversion to a goal

MAX_AGENT_NAME_CHARS = 60

_Count = Annotated[int, Meta(ge=1, le=2**32 - 1)]
_CountOrNone = Annotated[int, Meta(ge=0, le=2**32 - 1)]


_LIMIT_TYPES: Mapping[BudgetUnit, Any] = {
    "count": _Count,
    "seconds": Seconds,
    "tokens": Annotated[int, Meta(ge=1, le=10**15)],
    "usd": Annotated[float, Meta(gt=0, le=1e9)],
}


def _limit_type(row: BudgetRow) -> Any:
    return _CountOrNone if row.is_unlimited_at_zero else _LIMIT_TYPES[row.unit]


Budget = msgspec.defstruct(
    "Budget", [(f"max_{row.name}", _limit_type(row), row.limit) for row in list_axes("goal")], frozen=True, kw_only=True
)
"""`[budget]`: how much a goal may use. For errors and overflows in a row, 0 means no limit."""


class GoalHeader(Struct, frozen=True, kw_only=True):
    """The top-level keys of the file that are not part of the plan."""

    description: str
    workspace: str | None = None
    id: types.Uuid | None = None


_TABLES: dict[str, tuple[type[Struct], tuple[str, ...]]] = {
    "permissions": (Permissions, ("patience",)),
    "compaction": (Compaction, ()),
    "memory": (Memory, ("dream_timeout",)),
}
"""Tables of the plan: their struct, and which of their fields may be durations like `20m`."""
_DURATION_FIELDS = ("turn_timeout", "idle_timeout")
_CRITERION_TYPES: dict[str, type[Struct]] = {
    "shell_command": types.ShellCommand,
    "file_matches": types.FileMatches,
    "custom": types.Custom,
    "llm_judge": types.LlmJudge,
}
_KIND_BY_KEY = {
    "command": "shell_command",
    "path": "file_matches",
    "regex": "file_matches",
    "criterion_text": "llm_judge",
    "name": "custom",
}
"""Keys from which the kind of a criterion is inferred if it has no `kind`."""

CHECKS = "checks"
_NOT_IN_PLAN = (*_TABLES, "max_usd", "max_others")
TOP_LEVEL_KEYS = (
    *GoalHeader.__struct_fields__,
    *(name for name in Plan.__struct_fields__ if name not in _NOT_IN_PLAN),
    "budget",
    "acceptance",
    *_TABLES,
)
"""All keys that are valid at the top level."""


def _new_id() -> str:
    """A random UUID, not one that starts with the time: branches and people use the first characters of the id."""
    return str(uuid4())


def load_goal(path: str, *, redactor: Redactor | None = None, new_id: Callable[[], str] = _new_id) -> types.Goal:
    """Load a goal from a file. Raises `InvalidGoal` with all problems."""
    folder, name = os.path.split(os.path.abspath(path))
    return _build_goal(load_document(path, GOAL), folder, os.path.splitext(name)[0], redactor=redactor, new_id=new_id)[0]


def make_goal(
    description: str, *, checks: Sequence[str] = (), folder: str, given: Mapping[str, Any] | None = None, redactor: Redactor | None = None
) -> types.Goal:
    """A goal from the command line: what to do, commands that must succeed, and keys of a goal file. Raises `InvalidGoal`."""
    root = {"description": description, "acceptance": [{"command": check} for check in checks], **(given or {})}
    return _build_goal(Document("the command line", root, GOAL), folder, description, redactor=redactor)[0]


def parse_goal(text: str, source: str, *, folder: str, redactor: Redactor | None = None) -> types.Goal:
    """Parse a goal. The suffix of `source` decides the format; `workspace` is relative to `folder`."""
    return _build_goal(parse_document(text, source, GOAL), folder, "goal", redactor=redactor)[0]


WORKER = GOAL._replace(wrong_suffix="a worker's file is a TOML or YAML file like a goal's; see docs/town.md")


def load_worker_goal(
    path: str | None, *, given: Mapping[str, Any], redactor: Redactor | None = None
) -> tuple[types.Goal, dict[str, types.Criterion]]:
    """Load a worker's file: a goal, and the criteria of `[checks.NAME]` by name. `given` adds keys, and overrides those of the file."""
    document = Document("options", {}, WORKER) if path is None else load_document(path, WORKER)
    folder = os.getcwd() if path is None else os.path.dirname(os.path.abspath(path))
    checks = document.root.get(CHECKS, {})
    if not isinstance(checks, dict) or not all(isinstance(each, dict) for each in checks.values()):
        document.add_error((CHECKS,), 'a table for each is needed, as in [checks.lint] with command = "make lint"')
        document.raise_if_invalid()
    return _build_goal(document, folder, "worker", redactor=redactor, given=given, checks=checks)


def _build_goal(
    document: Document,
    folder: str,
    name: str,
    *,
    redactor: Redactor | None,
    new_id: Callable[[], str] = _new_id,
    given: Mapping[str, Any] | None = None,
    checks: Mapping[str, Any] | None = None,
) -> tuple[types.Goal, dict[str, types.Criterion]]:
    document.root = document.root | dict(given or {})
    check_secrets(document, redactor or Redactor())
    if checks is not None:
        document.root.pop(CHECKS, None)
    for key in document.root:
        if key not in TOP_LEVEL_KEYS:
            document.add_error((key,), _explain_unknown_key(key))
    header, budget, plan = (
        _convert_header(document),
        _convert_table(document, "budget", Budget, tuple(f"max_{row.name}" for row in list_axes("goal") if row.unit == "seconds")),
        _convert_plan(document, name),
    )
    acceptance = _convert_acceptance(document)
    converted = {key: _convert_criterion(document, (CHECKS, key), each) for key, each in (checks or {}).items()}
    named = {key: criterion for key, criterion in converted.items() if criterion is not None}
    check_goal(document, header, plan, acceptance, (*named.values(),), missing=missing_fields(GoalHeader, document.root))
    workspace = _resolve_workspace(document, header.get("workspace"), folder)
    document.raise_if_invalid()
    limits = {row: budget.get(f"max_{row.name}", row.limit) for row in list_axes("goal")}
    goal = types.Goal(
        id=str(header.get("id") or new_id()).lower(),
        description=header["description"].strip(),
        acceptance=acceptance,
        budget=types.BudgetGuards(**{f"max_{row.guard}": format_amount(row, limit) for row, limit in limits.items() if row.guard}),
        workspace=workspace,
        metadata={KEY: msgspec.to_builtins(Plan(**plan, **_plan_limits(limits)))},
    )
    return goal, named


def _explain_unknown_key(key: str) -> str:
    """The message for a key that is unknown, or that belongs into one of the tables."""
    tables: dict[str, type[Struct]] = {"budget": Budget, **{name: shape for name, (shape, _) in _TABLES.items()}}
    for name, shape in tables.items():
        if key in shape.__struct_fields__:
            return f"belongs in a table: write it under [{name}]"
    return unknown_key_message(key, TOP_LEVEL_KEYS)


def _convert_header(document: Document) -> dict[str, Any]:
    return document.convert_fields(
        (), {name: document.root[name] for name in GoalHeader.__struct_fields__ if name in document.root}, GoalHeader
    )


def _convert_table(document: Document, name: str, shape: type[Struct], spans: tuple[str, ...] = ()) -> dict[str, Any]:
    return document.convert_fields((name,), document.root[name], shape, spans=spans) if name in document.root else {}


def _convert_plan(document: Document, name: str) -> dict[str, Any]:
    given = {key: value for key, value in document.root.items() if key in Plan.__struct_fields__ and key not in _NOT_IN_PLAN}
    if isinstance(given.get("command"), str):
        given["command"] = _split_command(document, given["command"])
    plan = document.convert_fields((), given, Plan, spans=_DURATION_FIELDS)
    for table, (shape, spans) in _TABLES.items():
        if table in document.root:
            plan[table] = shape(**_convert_table(document, table, shape, spans))
    if "harness" not in given:
        plan["harness"] = "mind" if plan.get("mind") else registry.DEFAULT_NAME
    if "agent" not in given:
        plan["agent"] = slugify_name(name)
    return plan


def _split_command(document: Document, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        document.add_error(("command",), f"cannot be split into arguments ({error}); write a list, as in ['agent', '--fast']")
        return []


def slugify_name(name: str) -> str:
    """A readable agent name from a file name: `Fix The Tests` → `fix-the-tests`."""
    return "-".join(re.findall(r"[^\W_]+", name.lower()))[:MAX_AGENT_NAME_CHARS].strip("-") or "agent"


def _convert_acceptance(document: Document) -> tuple[types.Criterion, ...]:
    written = document.root.get("acceptance", [])
    if not isinstance(written, list):
        document.add_error(("acceptance",), "a list is needed: write [[acceptance]] before each criterion (in YAML, a dash)")
        return ()
    converted = (_convert_criterion(document, ("acceptance", index), each) for index, each in enumerate(written))
    return tuple(criterion for criterion in converted if criterion is not None)


def _convert_criterion(document: Document, path: KeyPath, written: Any) -> types.Criterion | None:
    if not isinstance(written, dict):
        document.add_error(path, 'a table is needed, as in [[acceptance]] with command = "make test"')
        return None
    kind = written.get("kind") or next((kind for key, kind in _KIND_BY_KEY.items() if key in written), None)
    shape = _CRITERION_TYPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        problem = (
            invalid_choice_message(str(kind), tuple(_CRITERION_TYPES))
            if kind
            else "has nothing to check; give a command, or a path and a regex"
        )
        document.add_error((*path, "kind") if kind else path, problem)
        return None
    given: dict[str, Any] = {"args": {}} if kind == "custom" else {}
    given |= {key: value for key, value in written.items() if key != "kind"}
    errors_before = len(document.errors)
    fields = document.convert_fields(path, given, shape)
    for name in missing_fields(shape, given):
        document.add_error(path, f"{name} is missing; a criterion of kind {kind} needs it")
    check_criterion(document, path, fields)
    return shape(**fields) if len(document.errors) == errors_before else None  # type: ignore[return-value]  # one of the four


def _resolve_workspace(document: Document, written: str | None, folder: str) -> str:
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(written or "")))
    if not os.path.isdir(path):
        document.add_error(("workspace",), f"there is no folder {path}; the path is relative to the goal file")
    return path


def _plan_limits(limits: Mapping[BudgetRow, Any]) -> dict[str, Any]:
    """The limits that the goal's budget has no field for."""
    own = {row: limit for row, limit in limits.items() if row.guard is None and limit is not None}
    others = {row.name: limit for row, limit in own.items() if row.is_counted_from_events}
    return {f"max_{row.name}": limit for row, limit in own.items() if not row.is_counted_from_events} | {"max_others": others}
