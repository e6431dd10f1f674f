"""Our extension of a nexo goal: who works on it and how. Stored in the goal's metadata under `fleetlore`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Goal

KEY = "fleetlore"
"""Key in a goal's metadata."""

Seconds = Annotated[float, Meta(gt=0, le=31_557_600)]


class Permissions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which tools may be used: `Bash`, `Bash(git *)`, `mcp__github__*`. Deny rules win over allow rules."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: bool = True
    """Whether a person is asked about a tool that no rule covers; otherwise it is denied."""
    patience: Seconds = 600.0
    """How long to wait for a person's answer before it is denied."""


class Compaction(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When an agent's context is compacted."""

    context_window: Annotated[int, Meta(ge=0)] = 200_000
    """Tokens; 0 turns compaction off."""
    at: Annotated[float, Meta(gt=0, le=1)] = 0.8
    max_age_minutes: Annotated[int, Meta(ge=0)] = 120
    """0: no age limit."""
    min_turns_between: Annotated[int, Meta(ge=0)] = 5
    max_failures: Annotated[int, Meta(ge=1)] = 3
    """This many consecutive failures open the circuit breaker; after `min_turns_between` turns one retry is made."""


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is saved for later goals of the same agent."""

    enabled: bool = True
    mind: str | None = None
    """The model that extracts memories from a turn; default: the goal's own model."""
    folder: str | None = None
    """Folder of the memory files; default: one per agent in the data folder."""
    every: Annotated[int, Meta(ge=1)] = 1
    """Turns between two extractions."""
    max_failures: Annotated[int, Meta(ge=1)] = 3
    dream: bool = True
    dream_after_hours: Annotated[float, Meta(ge=0)] = 24.0
    dream_after_sessions: Annotated[int, Meta(ge=0)] = 5
    dream_timeout: Seconds = 300.0


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who works on a goal, where, with which permissions and limits."""

    harness: str
    """`claude-code`, `codex`, `command`, `mind`, or one from an installed package."""
    agent: str
    command: tuple[str, ...] = ()
    """Program and arguments: for `command`, or the path of `claude` or `codex`."""
    mind: str | None = None
    """A model address such as `openai:gpt-5-mini`."""
    model: str | None = None
    isolation: Literal["worktree", "none"] = "worktree"
    """Whether a git repository gets its own worktree."""
    trusts_workspace: bool = False
    """Whether Claude Code reads settings and MCP servers of the workspace, which the agent can change."""
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    """What Codex lets its commands do; Codex does not use our permission gate."""
    variables: tuple[str, ...] = ()
    """Additional environment variables for the agent's program, such as `AWS_*`; our own are never passed on."""
    on_budget: Literal["end", "ask"] = "end"
    """When a budget is spent: end the goal, or wait until a person raises it (`lore goal raise`) or cancels the goal."""
    max_usd: Annotated[float, Meta(ge=0)] | None = None
    max_others: dict[str, float] = {}
    """Limits of axes that have no field here and none in the goal's budget, by name (`events.budget_axes`)."""
    permissions: Permissions = Permissions()
    protect: tuple[str, ...] = ()
    """Glob patterns of workspace files whose originals are used when criteria are checked."""
    may_change: tuple[str, ...] = ()
    """Glob patterns of judging files (build and test configuration, named files) that the agent is to change."""
    judge: str | None = None
    """The model that judges `llm_judge` criteria; default: the goal's own model."""
    turn_timeout: Seconds = 3600.0
    idle_timeout: Seconds = 600.0
    stuck_after: Annotated[int, Meta(ge=0)] = 3
    """Turns without any change before the goal escalates to a person; 0: never."""
    progress_every: Annotated[int, Meta(ge=0)] = 5
    compaction: Compaction = Compaction()
    memory: Memory | None = None
    parent: str | None = None
    """The goal that this one is part of."""
    task: str | None = None
    mission: str | None = None


def read_plan(goal: Goal) -> Plan:
    """Return the plan in a goal's metadata; raise `Invalid` if it is missing or cannot be read."""
    try:
        return msgspec.convert(goal.metadata.get(KEY), Plan)
    except msgspec.ValidationError as error:
        raise Invalid(f"the goal does not say who works on it ({error}); write it as docs/goals.md tells") from error
