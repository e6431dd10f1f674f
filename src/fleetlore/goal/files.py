"""Goals as people write them: TOML and YAML."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct

from fleetlore.documents import durations
from fleetlore.documents.validation import (
    MAX_ERRORS,
    KeyPath,
    convert_fields,
    invalid_choice_message,
    missing_fields,
    to_plain_values,
    unknown_key_message,
)
from fleetlore.documents.yaml_lines import ParsedYaml
from fleetlore.errors import BrokenExtension, Invalid, InvalidGoal, InvalidScenario
from fleetlore.events import driver_types as types
from fleetlore.events.goal_plan import KEY, Compaction, Memory, Permissions, Plan, Seconds
from fleetlore.events.ids import find_uuid
from fleetlore.events.names import is_name
from fleetlore.goal import harnesses
from fleetlore.goal.acceptance import verifiers
from fleetlore.goal.gate import rules
from fleetlore.models import open as minds
from fleetlore.programs import registry
from fleetlore.redact import Redactor

# --- What a goal's file says, TOML or YAML, and everything that is wrong with it: each complaint with its place and what to write instead.

MAX_GOAL_BYTES = 128 * 1024
"""A goal goes into the log as one event, which holds 256 KiB."""


class GoalDocument(ParsedYaml):
    """A file, read. TOML tells no lines, so that its places are told by their paths alone."""

    def __init__(self, source: str, text: str, *, is_toml: bool) -> None:
        self._is_toml = is_toml
        try:
            super().__init__(source, text)
        except InvalidScenario as error:
            raise InvalidGoal(error.problems) from error

    def locate_error(self, path: KeyPath, problem: str) -> str:
        """A problem with its place."""
        return f"{self.source}: {problem}" if self._is_toml else super().locate_error(path, problem)

    def raise_if_invalid(self) -> None:
        """`InvalidGoal` with everything that was found so far."""
        if self.errors:
            more = len(self.errors) - MAX_ERRORS
            raise InvalidGoal([*self.errors[:MAX_ERRORS], *([f"{self.source}: and {more} more"] if more > 0 else ())])

    def _parse_text(self, text: str) -> Any:
        if len(text.encode(errors="replace")) > MAX_GOAL_BYTES:
            raise InvalidGoal([f"{self.source}: over {MAX_GOAL_BYTES // 1024} KiB; let the goal name files that tell the rest"])
        if not self._is_toml:
            return super()._parse_text(text)
        try:
            return to_plain_values(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            raise InvalidGoal([f"{self.source}: not TOML: {error}"]) from error


# --- The rules of a goal's file that no type can say: what fits together, what can be done, and that no secret is in it.

MAX_DESCRIPTION_BYTES = 16 * 1024
MAX_CRITERIA = 100
_NEVER_MET = "would never be met, or always; write a pattern for what stands in the file"


def check_goal(
    sheet: GoalDocument, head: Mapping[str, Any], plan: Mapping[str, Any], acceptance: Sequence[types.Criterion], *, needs: Sequence[str]
) -> None:
    """Complain about all that does not fit together."""
    _check_description(sheet, head, needs)
    _check_harness_options(sheet, plan)
    _check_models(sheet, plan, acceptance)
    _check_names(sheet, plan)
    _check_tool_rules(sheet, plan)
    for index, pattern in enumerate(plan.get("protect", ())):
        _check_path_inside(sheet, ("protect", index), pattern)
    if len(acceptance) > MAX_CRITERIA:
        sheet.add_error(
            ("acceptance",), f"{len(acceptance)} criteria; at most {MAX_CRITERIA} are taken: let one command check several things"
        )


def _check_description(sheet: GoalDocument, head: Mapping[str, Any], needs: Sequence[str]) -> None:
    description = head.get("description")
    if "description" in needs:
        sheet.add_error((), 'description is missing: say what is to be reached, as in description = "Make the tests pass"')
    elif description is not None and not description.strip():
        sheet.add_error(("description",), "is empty; say what is to be reached")
    elif description is not None and len(description.encode()) > MAX_DESCRIPTION_BYTES:
        sheet.add_error(
            ("description",), f"is over {MAX_DESCRIPTION_BYTES // 1024} KiB; let it name a file in the workspace that tells the rest"
        )


def _check_harness_options(sheet: GoalDocument, plan: Mapping[str, Any]) -> None:
    """Whether there is somebody to do the work."""
    harness, command, mind = plan.get("harness"), plan.get("command"), plan.get("mind")
    if harness is not None:
        _check_harness(sheet, harness)
    if harness == "command" and not command:
        sheet.add_error(("command",), "is missing: which program takes the turns? Write it as a list, as in ['my-agent', '--quiet']")
    if harness == "mind" and not mind:
        sheet.add_error(("mind",), "is missing: who takes the turns? Write an address, as in mind = 'openai:gpt-5-mini'")
    if harness == "mind" and command:
        sheet.add_error(("command",), "is for programs, and the harness is a mind; leave one of them out")
    if command is not None and (not command or not command[0].strip()):
        sheet.add_error(("command",), "names no program")


def _check_harness(sheet: GoalDocument, name: str) -> None:
    try:
        if name not in harnesses.BUILTIN_HARNESSES and harnesses.find_factory(name) is None:
            sheet.add_error(("harness",), invalid_choice_message(name, harnesses.known_harnesses()))
    except BrokenExtension as error:
        sheet.add_error(("harness",), str(error))


def _check_models(sheet: GoalDocument, plan: Mapping[str, Any], acceptance: Sequence[types.Criterion]) -> None:
    memory = plan.get("memory")
    addresses: dict[KeyPath, str | None] = {("mind",): plan.get("mind"), ("judge",): plan.get("judge")}
    addresses[("memory", "mind")] = None if memory is None else memory.mind
    for path, address in addresses.items():
        if address is not None:
            _check_model_address(sheet, path, address)
    if any(isinstance(each, types.LlmJudge) for each in acceptance) and not (plan.get("judge") or plan.get("mind")):
        sheet.add_error(
            ("judge",), "is missing: a criterion is to be judged by a model; write its address, as in judge = 'openai:gpt-5-mini'"
        )
    if memory is not None and memory.enabled and not (memory.mind or plan.get("mind")):
        sheet.add_error(("memory", "mind"), "is missing: who says what is worth keeping? Write an address, or enabled = false")


def _check_model_address(sheet: GoalDocument, path: KeyPath, address: str) -> None:
    try:
        minds.parse_address(address)
    except Invalid as error:
        sheet.add_error(path, str(error))


def _check_names(sheet: GoalDocument, plan: Mapping[str, Any]) -> None:
    for name in ("agent", "task", "mission"):
        value = plan.get(name)
        if value is not None and not is_name(value):
            sheet.add_error((name,), "1 to 200 bytes without control characters are needed")
    parent = plan.get("parent")
    if parent is not None and find_uuid(parent) is None:
        sheet.add_error(("parent",), "is no UUID; write the whole id of the goal above, as `lore goal list --json` shows it")


def _check_tool_rules(sheet: GoalDocument, plan: Mapping[str, Any]) -> None:
    permissions = plan.get("permissions")
    for name in ("allow", "deny") if permissions is not None else ():
        for index, pattern in enumerate(getattr(permissions, name)):
            try:
                rules.parse_rule(pattern)
            except Invalid as error:
                sheet.add_error(("permissions", name, index), str(error))


def check_criterion(sheet: GoalDocument, path: KeyPath, told: Mapping[str, Any]) -> None:
    """Complain about a criterion that could not be checked."""
    for name in ("regex", "stdout_must_match"):
        if name in told:
            _check_pattern(sheet, (*path, name), told[name])
    if "path" in told:
        _check_path_inside(sheet, (*path, "path"), told["path"])
    for name in ("command", "criterion_text", "name"):
        if name in told and not str(told[name]).strip():
            sheet.add_error((*path, name), "is empty")
    if "name" in told:
        _check_verifier(sheet, path, told["name"], told.get("args"))


def _check_verifier(sheet: GoalDocument, path: KeyPath, name: str, args: Any) -> None:
    if name.strip() and name not in verifiers.BUILTIN_VERIFIERS and name not in verifiers.known_verifiers():
        sheet.add_error((*path, "name"), invalid_choice_message(name, verifiers.known_verifiers()))
    if name == "no_paths_touched":
        try:
            verifiers.parse_prefixes(args)
        except Invalid as error:
            sheet.add_error((*path, "args"), str(error))


def _check_pattern(sheet: GoalDocument, path: KeyPath, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        sheet.add_error(path, f"is no regular expression: {error}")
        return
    if not pattern:
        sheet.add_error(path, _NEVER_MET)


def _check_path_inside(sheet: GoalDocument, path: KeyPath, place: str) -> None:
    parts = place.replace("\\", "/").split("/")
    if not place.strip() or place.startswith(("/", "~")) or ".." in parts:
        sheet.add_error(path, f"{place!r} leads out of the workspace; write it from the workspace on, as in src/app.py")


# --- secrets


def check_secrets(sheet: GoalDocument, redactor: Redactor) -> None:
    """Refuse what a log would not keep: a goal that is taken up again would lack it."""
    cleaned, found = redactor.redact_value(sheet.root)
    for path in _changed_paths(sheet.root, cleaned) if found else ():
        sheet.add_error(
            path, "holds what looks like a secret, and a goal is kept in the log; put it into the environment, and name the variable"
        )


def _changed_paths(before: Any, after: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from _changed_paths(value, after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, value in enumerate(before):
            yield from _changed_paths(value, after[index], (*path, index))
    elif before != after:
        yield path


# --- Goals as people write them, in TOML or YAML: from a file to a goal that can be pursued, or to every reason why it cannot.

SUFFIXES = (".toml", ".yaml", ".yml")
MAX_AGENT_NAME_CHARS = 60

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


class GoalHeader(Struct, frozen=True, kw_only=True):
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
"""A key that tells the kind of a criterion which does not."""

_NOT_IN_PLAN = (*_TABLES, "max_usd")
TOP_LEVEL_KEYS = (
    *GoalHeader.__struct_fields__,
    *(name for name in Plan.__struct_fields__ if name not in _NOT_IN_PLAN),
    "budget",
    "acceptance",
    *_TABLES,
)
"""Every key that may stand at the top."""


def _new_id() -> str:
    """By chance, so that the beginnings of two ids differ, too: branches and people go by them."""
    return str(uuid4())


def load_goal(path: str, *, redactor: Redactor | None = None, new_id: Callable[[], str] = _new_id) -> types.Goal:
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
    return parse_goal(text, path, folder=folder, name=os.path.splitext(name)[0], redactor=redactor, new_id=new_id)


def parse_goal(
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
    sheet = GoalDocument(source, text, is_toml=source.endswith(".toml"))
    if not isinstance(sheet.root, dict):
        sheet.add_error((), 'a goal is a table; begin with description = "…", or description: … in YAML')
    sheet.raise_if_invalid()
    sheet.root = {key: value for key, value in sheet.root.items() if key not in apart} | dict(given or {})
    check_secrets(sheet, redactor or Redactor())
    for key in sheet.root:
        if key not in TOP_LEVEL_KEYS:
            sheet.add_error((key,), _explain_unknown_key(key))
    head, budget, plan = _convert_header(sheet), _convert_table(sheet, "budget", Budget, ("max_wall_time",)), _convert_plan(sheet, name)
    acceptance = _convert_acceptance(sheet)
    check_goal(sheet, head, plan, acceptance, needs=missing_fields(GoalHeader, sheet.root))
    workspace = _resolve_workspace(sheet, head.get("workspace"), folder)
    sheet.raise_if_invalid()
    whole = Budget(**budget)
    return types.Goal(
        id=str(head.get("id") or new_id()).lower(),
        description=head["description"].strip(),
        acceptance=acceptance,
        budget=_budget_guards(whole),
        workspace=workspace,
        metadata={KEY: msgspec.to_builtins(Plan(**plan, max_usd=whole.max_usd))},
    )


def _explain_unknown_key(key: str) -> str:
    """A key that is not known at the top, or that belongs into one of the tables."""
    places: dict[str, type[Struct]] = {"budget": Budget, **{name: shape for name, (shape, _) in _TABLES.items()}}
    for name, shape in places.items():
        if key in shape.__struct_fields__:
            return f"belongs into a table: write it under [{name}]"
    return unknown_key_message(key, TOP_LEVEL_KEYS)


def _convert_header(sheet: GoalDocument) -> dict[str, Any]:
    return convert_fields(sheet, (), {name: sheet.root[name] for name in GoalHeader.__struct_fields__ if name in sheet.root}, GoalHeader)


def _convert_table(sheet: GoalDocument, name: str, shape: type[Struct], spans: tuple[str, ...] = ()) -> dict[str, Any]:
    return convert_fields(sheet, (name,), sheet.root[name], shape, spans=spans) if name in sheet.root else {}


def _convert_plan(sheet: GoalDocument, name: str) -> dict[str, Any]:
    given = {key: value for key, value in sheet.root.items() if key in Plan.__struct_fields__ and key not in _NOT_IN_PLAN}
    if isinstance(given.get("command"), str):
        given["command"] = _split_command(sheet, given["command"])
    plan = convert_fields(sheet, (), given, Plan, spans=_DURATION_FIELDS)
    for table, (shape, spans) in _TABLES.items():
        if table in sheet.root:
            plan[table] = shape(**_convert_table(sheet, table, shape, spans))
    if "harness" not in given:
        plan["harness"] = "mind" if plan.get("mind") else registry.DEFAULT_NAME
    if "agent" not in given:
        plan["agent"] = slugify_name(name)
    return plan


def _split_command(sheet: GoalDocument, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        sheet.add_error(("command",), f"cannot be cut into words ({error}); write a list, as in ['agent', '--fast']")
        return []


def slugify_name(name: str) -> str:
    """A readable name for an agent, from that of a file: `Fix The Tests` → `fix-the-tests`."""
    return "-".join(re.findall(r"[^\W_]+", name.lower()))[:MAX_AGENT_NAME_CHARS].strip("-") or "agent"


def _convert_acceptance(sheet: GoalDocument) -> tuple[types.Criterion, ...]:
    told = sheet.root.get("acceptance", [])
    if not isinstance(told, list):
        sheet.add_error(("acceptance",), "a list is needed: write [[acceptance]] before each criterion (in YAML, a dash)")
        return ()
    found = (_convert_criterion(sheet, ("acceptance", index), each) for index, each in enumerate(told))
    return tuple(criterion for criterion in found if criterion is not None)


def _convert_criterion(sheet: GoalDocument, path: KeyPath, told: Any) -> types.Criterion | None:
    if not isinstance(told, dict):
        sheet.add_error(path, 'a table is needed, as in [[acceptance]] with command = "make test"')
        return None
    kind = told.get("kind") or next((kind for key, kind in _KIND_BY_KEY.items() if key in told), None)
    shape = _CRITERION_TYPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        said = (
            invalid_choice_message(str(kind), tuple(_CRITERION_TYPES))
            if kind
            else "says not what is checked; give a command, or a path and a regex"
        )
        sheet.add_error((*path, "kind") if kind else path, said)
        return None
    given: dict[str, Any] = {"args": {}} if kind == "custom" else {}
    given |= {key: value for key, value in told.items() if key != "kind"}
    before = len(sheet.errors)
    fitting = convert_fields(sheet, path, given, shape)
    for name in missing_fields(shape, given):
        sheet.add_error(path, f"{name} is missing; a criterion of kind {kind} needs it")
    check_criterion(sheet, path, fitting)
    return shape(**fitting) if len(sheet.errors) == before else None  # type: ignore[return-value]  # one of the four


def _resolve_workspace(sheet: GoalDocument, told: str | None, folder: str) -> str:
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(told or "")))
    if not os.path.isdir(path):
        sheet.add_error(("workspace",), f"there is no folder {path}; it is looked for from the file's own folder on")
    return path


def _budget_guards(budget: Budget) -> types.BudgetGuards:
    return types.BudgetGuards(
        max_turns=budget.max_turns,
        max_wall_time=durations.format_duration(int(budget.max_wall_time * 1000) * 1_000_000),
        max_tokens=budget.max_tokens,
        max_consecutive_denies=budget.max_consecutive_denies,
        max_consecutive_errors=budget.max_consecutive_errors,
        max_consecutive_413=budget.max_consecutive_413,
    )


# ---
