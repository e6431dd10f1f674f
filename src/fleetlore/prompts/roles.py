"""The blocks that each role sees, in order. For a role of your own, pass a tuple of blocks to `build_prompt`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from fleetlore.prompts import blocks
from fleetlore.prompts.parts import PromptBlock

RoleBlocks: TypeAlias = tuple[PromptBlock, ...]

_COMMON_BLOCKS: RoleBlocks = (blocks.extra_block, blocks.tools_block, blocks.output_format_block)

WORKER_BLOCKS: RoleBlocks = (
    blocks.identity_block,
    blocks.shared_goal_block,
    blocks.scene_block,
    blocks.discussion_block,
    blocks.memory_block,
    blocks.disturbances_block,
    *_COMMON_BLOCKS,
)
JUDGE_BLOCKS: RoleBlocks = (
    blocks.identity_block,
    blocks.shared_goal_block,
    blocks.scene_block,
    blocks.judge_exchange_block,
    blocks.memory_block,
    blocks.disturbances_block,
    *_COMMON_BLOCKS,
)
OBSERVER_BLOCKS: RoleBlocks = (
    blocks.identity_block,
    blocks.shared_goal_block,
    blocks.scene_block,
    blocks.exchange_block,
    blocks.memory_block,
    blocks.disturbances_block,
    *_COMMON_BLOCKS,
)
"""For an agent that comments on a run."""
REFLECTOR_BLOCKS: RoleBlocks = (blocks.identity_block, blocks.shared_goal_block, blocks.memory_block, *_COMMON_BLOCKS)
"""For an agent that looks back and forms a belief."""
CODER_BLOCKS: RoleBlocks = (
    blocks.identity_block,
    blocks.task_block,
    blocks.work_block,
    blocks.messages_block,
    blocks.memory_block,
    blocks.disturbances_block,
    *_COMMON_BLOCKS,
)
"""For an agent that works on a task, alone or in a town."""

BLOCKS_BY_ROLE: Mapping[str, RoleBlocks] = {
    "worker": WORKER_BLOCKS,
    "judge": JUDGE_BLOCKS,
    "observer": OBSERVER_BLOCKS,
    "reflector": REFLECTOR_BLOCKS,
    "coder": CODER_BLOCKS,
}


def find_role_blocks(role: str) -> RoleBlocks:
    """The blocks of a role; those of a worker if the role is unknown."""
    return BLOCKS_BY_ROLE.get(role, WORKER_BLOCKS)
