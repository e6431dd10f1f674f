"""Which blocks each role is shown, in order. A role of your own is a tuple more, handed to `build`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from fleetlore.prompts import blocks
from fleetlore.prompts.parts import Block

Role: TypeAlias = tuple[Block, ...]

_END: Role = (blocks.extra, blocks.tools, blocks.output_format)

WORKER: Role = (
    blocks.identity,
    blocks.shared_goal,
    blocks.scene,
    blocks.discussion_for_workers,
    blocks.memory,
    blocks.disturbances,
    *_END,
)
JUDGE: Role = (
    blocks.identity,
    blocks.shared_goal,
    blocks.scene,
    blocks.exchange_for_judges,
    blocks.memory,
    blocks.disturbances,
    *_END,
)
OBSERVER: Role = (blocks.identity, blocks.shared_goal, blocks.scene, blocks.exchange, blocks.memory, blocks.disturbances, *_END)
"""Who comments on a run."""
REFLECTOR: Role = (blocks.identity, blocks.shared_goal, blocks.memory, *_END)
"""Who looks back, and comes to a belief."""
CODER: Role = (blocks.identity, blocks.task, blocks.work_so_far, blocks.messages, blocks.memory, blocks.disturbances, *_END)
"""An agent that works on a task, alone or in a town."""

ROLES: Mapping[str, Role] = {"worker": WORKER, "judge": JUDGE, "observer": OBSERVER, "reflector": REFLECTOR, "coder": CODER}


def blocks_of(role: str) -> Role:
    """The blocks of a role; one that is not known is a worker's."""
    return ROLES.get(role, WORKER)
