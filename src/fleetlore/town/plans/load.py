"""Reads mission plans from TOML files, or from issues in JSON. An error lists all problems of the plan, not only the first."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Literal

from fleetlore.errors import Invalid, InvalidPlan
from fleetlore.town.plans import issues, toml
from fleetlore.town.plans.model import MAX_PLAN_BYTES, PLAN, MissionPlan, PlannedItem
from fleetlore.town.plans.toml import write_plan

__all__ = ["MissionPlan", "PlannedItem", "load_plan", "parse_plan", "write_plan"]

ISSUE_SUFFIXES = (".json", ".jsonl")


def load_plan(path: str, *, title: str = "", done: Collection[str] = ()) -> MissionPlan:
    """Load a plan from a file; raises `InvalidPlan` with all problems. `title` and `done` apply to issues only."""
    return parse_plan(read_file(path)[0], path, title=title, done=done)


def read_file(path: str) -> tuple[str, Literal["toml", "issues"]]:
    """The text of a plan file, and its format by its suffix. `OSError` if it cannot be read."""
    is_issues = path.endswith(ISSUE_SUFFIXES)
    if not is_issues and not path.endswith(PLAN.suffixes):
        raise Invalid(f"{path}: {PLAN.wrong_suffix}")
    with open(os.path.expanduser(path), "rb") as file:
        raw = file.read(MAX_PLAN_BYTES + 4)  # a byte order mark is not counted
    try:
        return raw.decode("utf-8-sig"), "issues" if is_issues else "toml"
    except UnicodeDecodeError as error:
        if len(raw) > MAX_PLAN_BYTES:  # the cut may be inside a character; the parser reports the size
            return raw.decode("utf-8-sig", errors="replace"), "issues" if is_issues else "toml"
        raise InvalidPlan([f"{path}: is not UTF-8 text; save it as such"]) from error


def parse_plan(text: str, source: str, *, title: str = "", done: Collection[str] = ()) -> MissionPlan:
    """Parse a plan from text; the suffix of `source` (the file name) decides the format."""
    if not source.endswith(ISSUE_SUFFIXES):
        return toml.parse_toml_plan(text, source)
    return issues.parse_issues(text, source, title=title, done=done)
