"""Finds rollouts of Codex that belong together: a thread, its forks, and the threads of its sub-agents."""

from __future__ import annotations

import re
from collections.abc import Iterator

_THREAD = re.compile(rb'"(?:id|forked_from_id|parent_thread_id)"\s*:\s*"([0-9a-fA-F-]{36})"')


def find_keys(head: bytes) -> Iterator[str]:
    """Keys that a rollout shares with those of its parent thread."""
    # With a regular expression, because the first line may be truncated.
    metas = (line for line in head.split(b"\n") if b'"session_meta"' in line)
    yield from (f"thread:{found.decode()}" for meta in metas for found in _THREAD.findall(meta))
