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
from fleetlore.documents.validation import MOST_PROBLEMS, KeyPath, fit, missing, one_of, plain, unknown
from fleetlore.documents.yaml_lines import Tree
from fleetlore.errors import BrokenExtension, Invalid, InvalidGoal, InvalidScenario
from fleetlore.events import driver_types as types
from fleetlore.events.goal_plan import KEY, Compaction, Memory, Permissions, Plan, Seconds
from fleetlore.events.ids import find_uuid
from fleetlore.events.names import is_name
from fleetlore.goal import harnesses
from fleetlore.goal.acceptance import verifiers
from fleetlore.goal.gate import rules
from fleetlore.models import open as minds
from fleetlore.redact import Redactor

# --- What a goal's file says, TOML or YAML, and everything that is wrong with it: each complaint with its place and what to write instead.

MOST_BYTES = 128 * 1024
"""A goal goes into the log as one event, which holds 256 KiB."""


class Sheet(Tree):
    """A file, read. TOML tells no lines, so that its places are told by their paths alone."""

    def __init__(self, source: str, text: str, *, is_toml: bool) -> None:
        self._is_toml = is_toml
        try:
            super().__init__(source, text)
        except InvalidScenario as error:
            raise InvalidGoal(error.problems) from error

    def at(self, path: KeyPath, problem: str) -> str:
        """A problem with its place."""
        return f"{self.source}: {problem}" if self._is_toml else super().at(path, problem)

    def stop_if_wrong(self) -> None:
        """`InvalidGoal` with everything that was found so far."""
        if self.problems:
            more = len(self.problems) - MOST_PROBLEMS
            raise InvalidGoal([*self.problems[:MOST_PROBLEMS], *([f"{self.source}: and {more} more"] if more > 0 else ())])

    def _read(self, text: str) -> Any:
        if len(text.encode(errors="replace")) > MOST_BYTES:
            raise InvalidGoal([f"{self.source}: over {MOST_BYTES // 1024} KiB; let the goal name files that tell the rest"])
        if not self._is_toml:
            return super()._read(text)
        try:
            return plain(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            raise InvalidGoal([f"{self.source}: not TOML: {error}"]) from error


# --- The rules of a goal's file that no type can say: what fits together, what can be done, and that no secret is in it.

LONGEST_DESCRIPTION = 16 * 1024
MOST_CRITERIA = 100
_NEVER_MET = "would never be met, or always; write a pattern for what stands in the file"


def check_head(
    sheet: Sheet, head: Mapping[str, Any], plan: Mapping[str, Any], acceptance: Sequence[types.Criterion], *, needs: Sequence[str]
) -> None:
    """Complain about all that does not fit together."""
    _check_description(sheet, head, needs)
    _check_worker(sheet, plan)
    _check_minds(sheet, plan, acceptance)
    _check_names(sheet, plan)
    _check_tools(sheet, plan)
    for index, pattern in enumerate(plan.get("protect", ())):
        _check_inside(sheet, ("protect", index), pattern)
    if len(acceptance) > MOST_CRITERIA:
        sheet.complain(
            ("acceptance",), f"{len(acceptance)} criteria; at most {MOST_CRITERIA} are taken: let one command check several things"
        )


def _check_description(sheet: Sheet, head: Mapping[str, Any], needs: Sequence[str]) -> None:
    description = head.get("description")
    if "description" in needs:
        sheet.complain((), 'description is missing: say what is to be reached, as in description = "Make the tests pass"')
    elif description is not None and not description.strip():
        sheet.complain(("description",), "is empty; say what is to be reached")
    elif description is not None and len(description.encode()) > LONGEST_DESCRIPTION:
        sheet.complain(
            ("description",), f"is over {LONGEST_DESCRIPTION // 1024} KiB; let it name a file in the workspace that tells the rest"
        )


def _check_worker(sheet: Sheet, plan: Mapping[str, Any]) -> None:
    """Whether there is somebody to do the work."""
    harness, command, mind = plan.get("harness"), plan.get("command"), plan.get("mind")
    if harness is not None:
        _check_harness(sheet, harness)
    if harness == "command" and not command:
        sheet.complain(("command",), "is missing: which program takes the turns? Write it as a list, as in ['my-agent', '--quiet']")
    if harness == "mind" and not mind:
        sheet.complain(("mind",), "is missing: who takes the turns? Write an address, as in mind = 'openai:gpt-5-mini'")
    if harness == "mind" and command:
        sheet.complain(("command",), "is for programs, and the harness is a mind; leave one of them out")
    if command is not None and (not command or not command[0].strip()):
        sheet.complain(("command",), "names no program")


def _check_harness(sheet: Sheet, name: str) -> None:
    try:
        if name not in harnesses.OURS and harnesses.HARNESSES.find(name) is None:
            sheet.complain(("harness",), one_of(name, harnesses.known()))
    except BrokenExtension as error:
        sheet.complain(("harness",), str(error))


def _check_minds(sheet: Sheet, plan: Mapping[str, Any], acceptance: Sequence[types.Criterion]) -> None:
    memory = plan.get("memory")
    addresses: dict[KeyPath, str | None] = {("mind",): plan.get("mind"), ("judge",): plan.get("judge")}
    addresses[("memory", "mind")] = None if memory is None else memory.mind
    for path, address in addresses.items():
        if address is not None:
            _check_address(sheet, path, address)
    if any(isinstance(each, types.LlmJudge) for each in acceptance) and not (plan.get("judge") or plan.get("mind")):
        sheet.complain(
            ("judge",), "is missing: a criterion is to be judged by a model; write its address, as in judge = 'openai:gpt-5-mini'"
        )
    if memory is not None and memory.enabled and not (memory.mind or plan.get("mind")):
        sheet.complain(("memory", "mind"), "is missing: who says what is worth keeping? Write an address, or enabled = false")


def _check_address(sheet: Sheet, path: KeyPath, address: str) -> None:
    try:
        minds.split(address)
    except Invalid as error:
        sheet.complain(path, str(error))


def _check_names(sheet: Sheet, plan: Mapping[str, Any]) -> None:
    for name in ("agent", "task", "mission"):
        value = plan.get(name)
        if value is not None and not is_name(value):
            sheet.complain((name,), "1 to 200 bytes without control characters are needed")
    parent = plan.get("parent")
    if parent is not None and find_uuid(parent) is None:
        sheet.complain(("parent",), "is no UUID; write the whole id of the goal above, as `lore goal list --json` shows it")


def _check_tools(sheet: Sheet, plan: Mapping[str, Any]) -> None:
    permissions = plan.get("permissions")
    for name in ("allow", "deny") if permissions is not None else ():
        for index, pattern in enumerate(getattr(permissions, name)):
            try:
                rules.rule_of(pattern)
            except Invalid as error:
                sheet.complain(("permissions", name, index), str(error))


def check_criterion(sheet: Sheet, path: KeyPath, told: Mapping[str, Any]) -> None:
    """Complain about a criterion that could not be checked."""
    for name in ("regex", "stdout_must_match"):
        if name in told:
            _check_pattern(sheet, (*path, name), told[name])
    if "path" in told:
        _check_inside(sheet, (*path, "path"), told["path"])
    for name in ("command", "criterion_text", "name"):
        if name in told and not str(told[name]).strip():
            sheet.complain((*path, name), "is empty")
    if "name" in told:
        _check_verifier(sheet, path, told["name"], told.get("args"))


def _check_verifier(sheet: Sheet, path: KeyPath, name: str, args: Any) -> None:
    if name.strip() and name not in verifiers.OURS and name not in verifiers.known():
        sheet.complain((*path, "name"), one_of(name, verifiers.known()))
    if name == "no_paths_touched":
        try:
            verifiers.prefixes_in(args)
        except Invalid as error:
            sheet.complain((*path, "args"), str(error))


def _check_pattern(sheet: Sheet, path: KeyPath, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        sheet.complain(path, f"is no regular expression: {error}")
        return
    if not pattern:
        sheet.complain(path, _NEVER_MET)


def _check_inside(sheet: Sheet, path: KeyPath, place: str) -> None:
    parts = place.replace("\\", "/").split("/")
    if not place.strip() or place.startswith(("/", "~")) or ".." in parts:
        sheet.complain(path, f"{place!r} leads out of the workspace; write it from the workspace on, as in src/app.py")


# --- secrets


def check_secrets(sheet: Sheet, redactor: Redactor) -> None:
    """Refuse what a log would not keep: a goal that is taken up again would lack it."""
    cleaned, found = redactor.clean(sheet.root)
    for path in _differing(sheet.root, cleaned) if found else ():
        sheet.complain(
            path, "holds what looks like a secret, and a goal is kept in the log; put it into the environment, and name the variable"
        )


def _differing(before: Any, after: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from _differing(value, after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, value in enumerate(before):
            yield from _differing(value, after[index], (*path, index))
    elif before != after:
        yield path


# --- Goals as people write them, in TOML or YAML: from a file to a goal that can be pursued, or to every reason why it cannot.

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
    check_secrets(sheet, redactor or Redactor())
    for key in sheet.root:
        if key not in TOP:
            sheet.complain((key,), _astray(key))
    head, budget, plan = _head(sheet), _table(sheet, "budget", Budget, ("max_wall_time",)), _plan(sheet, name)
    acceptance = _acceptance(sheet)
    check_head(sheet, head, plan, acceptance, needs=missing(Head, sheet.root))
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


def _criterion(sheet: Sheet, path: KeyPath, told: Any) -> types.Criterion | None:
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
    check_criterion(sheet, path, fitting)
    return shape(**fitting) if len(sheet.problems) == before else None  # type: ignore[return-value]  # one of the four


def _workspace(sheet: Sheet, told: str | None, folder: str) -> str:
    path = os.path.normpath(os.path.join(folder, os.path.expanduser(told or "")))
    if not os.path.isdir(path):
        sheet.complain(("workspace",), f"there is no folder {path}; it is looked for from the file's own folder on")
    return path


def _guards(budget: Budget) -> types.BudgetGuards:
    return types.BudgetGuards(
        max_turns=budget.max_turns,
        max_wall_time=durations.format(int(budget.max_wall_time * 1000) * 1_000_000),
        max_tokens=budget.max_tokens,
        max_consecutive_denies=budget.max_consecutive_denies,
        max_consecutive_errors=budget.max_consecutive_errors,
        max_consecutive_413=budget.max_consecutive_413,
    )


# ---
