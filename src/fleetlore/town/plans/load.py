"""Reads mission plans from TOML files, or from issues in JSON. Errors list every problem of the plan."""

from __future__ import annotations

from collections.abc import Collection

from fleetlore.documents.document import load_document
from fleetlore.errors import InvalidPlan
from fleetlore.town.plans import issues, toml
from fleetlore.town.plans.model import MAX_PLAN_BYTES, PLAN, MissionPlan, PlannedItem
from fleetlore.town.plans.toml import write

__all__ = ["MissionPlan", "PlannedItem", "load", "read", "write"]

ISSUE_SUFFIXES = (".json", ".jsonl")


def load(path: str, *, title: str = "", done: Collection[str] = ()) -> MissionPlan:
    """Load a plan from a file; raises `InvalidPlan` with all problems. `title` and `done` apply to issues only."""
    if not path.endswith(ISSUE_SUFFIXES):
        return toml.build_plan(load_document(path, PLAN))
    with open(path, "rb") as file:
        raw = file.read(MAX_PLAN_BYTES + 1)
    try:
        return issues.parse_issues(raw.decode("utf-8-sig"), path, title=title, done=done)
    except UnicodeDecodeError as error:
        raise InvalidPlan([f"{path}: is not UTF-8 text"]) from error


def read(text: str, source: str, *, title: str = "", done: Collection[str] = ()) -> MissionPlan:
    """Parse a plan from text; the suffix of `source` says the format."""
    if source.endswith(".toml"):
        return toml.parse_toml_plan(text, source)
    return issues.parse_issues(text, source, title=title, done=done)
