"""What a goal of ours says beside the nexo format: who works on it and how. It stands in the goal's metadata under `fleetlore`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Goal

KEY = "fleetlore"
"""Where it stands in a goal's metadata."""

Seconds = Annotated[float, Meta(gt=0, le=31_557_600)]


class Permissions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which tools may be used: `Bash`, `Bash(git *)`, `mcp__github__*`. What is denied is denied, whatever else allows it."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: bool = True
    """Whether a person is asked about what neither names; else it is denied."""
    patience: Seconds = 600.0
    """How long a person may take; then it is denied."""


class Compaction(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When an agent's context is made smaller."""

    context_window: Annotated[int, Meta(ge=0)] = 200_000
    """Tokens; nought switches it off."""
    at: Annotated[float, Meta(gt=0, le=1)] = 0.8
    max_age_minutes: Annotated[int, Meta(ge=0)] = 120
    """Nought: however old."""
    min_turns_between: Annotated[int, Meta(ge=0)] = 5
    max_failures: Annotated[int, Meta(ge=1)] = 3
    """So many failures in a row open the breaker; it is tried again, once, after as many turns as lie between two."""


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is written down for later goals of the same agent."""

    enabled: bool = True
    mind: str | None = None
    """Who reads a turn and says what is worth keeping; else the goal's own mind."""
    folder: str | None = None
    """Where the files are; else one for each agent, in the data folder."""
    every: Annotated[int, Meta(ge=1)] = 1
    """Turns between two extractions."""
    max_failures: Annotated[int, Meta(ge=1)] = 3
    dream: bool = True
    dream_after_hours: Annotated[float, Meta(ge=0)] = 24.0
    dream_after_sessions: Annotated[int, Meta(ge=0)] = 5
    dream_timeout: Seconds = 300.0


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who works on a goal, where, with which rights, and what else bounds it."""

    harness: str
    """`claude-code`, `codex`, `command`, `mind`, or one that an installed package has."""
    agent: str
    command: tuple[str, ...] = ()
    """The program and its arguments: for `command`, and in place of `claude` or `codex` where these are elsewhere."""
    mind: str | None = None
    """An address, as in `openai:gpt-5-mini`."""
    model: str | None = None
    isolation: Literal["worktree", "none"] = "worktree"
    """Whether a git repository is worked on in a worktree of its own."""
    trusts_workspace: bool = False
    """Whether Claude Code reads settings and MCP servers of the workspace, which the agent can change."""
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    """What Codex lets its commands do; it does not ask at our gate."""
    variables: tuple[str, ...] = ()
    """Further variables of the environment that the agent's program is given, as in `AWS_*`; ours are never."""
    max_usd: Annotated[float, Meta(ge=0)] | None = None
    permissions: Permissions = Permissions()
    protect: tuple[str, ...] = ()
    """Files that the agent cannot change for good: patterns, from the workspace on. They are put back before criteria are checked."""
    judge: str | None = None
    """The mind that judges `llm_judge` criteria; else the goal's own mind."""
    turn_timeout: Seconds = 3600.0
    idle_timeout: Seconds = 600.0
    stuck_after: Annotated[int, Meta(ge=0)] = 3
    """Turns without any change after which a person is needed; nought: never."""
    progress_every: Annotated[int, Meta(ge=0)] = 5
    compaction: Compaction = Compaction()
    memory: Memory | None = None
    parent: str | None = None
    """The goal that this one is part of."""
    task: str | None = None
    mission: str | None = None


def plan_of(goal: Goal) -> Plan:
    """The plan in a goal's metadata; `Invalid` where there is none, or it cannot be read."""
    try:
        return msgspec.convert(goal.metadata.get(KEY), Plan)
    except msgspec.ValidationError as error:
        raise Invalid(f"the goal does not say who works on it ({error}); write it as docs/driver.md tells") from error
