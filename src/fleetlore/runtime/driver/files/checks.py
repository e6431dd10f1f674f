"""The rules of a goal's file that no type can say: what fits together, what can be done, and that no secret is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetlore.errors import BrokenExtension, Invalid
from fleetlore.events import driver_types as types
from fleetlore.events.ids import find_uuid
from fleetlore.events.names import is_name
from fleetlore.minds import open as minds
from fleetlore.redact import Redactor
from fleetlore.runtime.driver import harnesses
from fleetlore.runtime.driver.acceptance import verifiers
from fleetlore.runtime.driver.files.sheet import Sheet
from fleetlore.runtime.driver.gate import rules
from fleetlore.runtime.sheet import Path, one_of

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
    addresses: dict[Path, str | None] = {("mind",): plan.get("mind"), ("judge",): plan.get("judge")}
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


def _check_address(sheet: Sheet, path: Path, address: str) -> None:
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


def check_criterion(sheet: Sheet, path: Path, told: Mapping[str, Any]) -> None:
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


def _check_verifier(sheet: Sheet, path: Path, name: str, args: Any) -> None:
    if name.strip() and name not in verifiers.OURS and name not in verifiers.known():
        sheet.complain((*path, "name"), one_of(name, verifiers.known()))
    if name == "no_paths_touched":
        try:
            verifiers.prefixes_in(args)
        except Invalid as error:
            sheet.complain((*path, "args"), str(error))


def _check_pattern(sheet: Sheet, path: Path, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        sheet.complain(path, f"is no regular expression: {error}")
        return
    if not pattern:
        sheet.complain(path, _NEVER_MET)


def _check_inside(sheet: Sheet, path: Path, place: str) -> None:
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


def _differing(before: Any, after: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from _differing(value, after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, value in enumerate(before):
            yield from _differing(value, after[index], (*path, index))
    elif before != after:
        yield path
