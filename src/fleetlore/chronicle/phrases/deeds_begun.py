"""How it is told: what somebody sets out to do with a tool. Data only; `phrases/__init__.py` tells the rules."""

from __future__ import annotations

from collections.abc import Mapping

BEGUN: Mapping[str, str] = {
    "look": "look around",
    "edit": "edit a file",
    "commit": "make a commit",
    "push": "push the work",
    "pr_open": "open a pull request",
    "pr_merge": "merge a pull request",
    "revert": "take work back",
    "test": "run the tests",
    "build": "build the code",
    "check": "run the checks",
    "install": "bring packages in",
    "plan": "bring the plan up to date",
    "ask": "ask a person",
    "launch": "give work to a helper",
    "run": "run a command",
}
"""Deed → what somebody sets out to do who calls a tool for it."""

PHRASES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    f"tool.called/{deed}": (
        (
            f"{{agent}} set out to {aim}",
            f"{{agent}} was about to {aim}",
            f"The next step of {{agent}} was to {aim}",
            f"From here {{agent}} went on to {aim}",
            f"It was the turn of {{agent}} to {aim}",
        ),
    )
    for deed, aim in BEGUN.items()
}

MANY: Mapping[str, tuple[str, ...]] = {
    f"tool.called/{deed}": (
        f"{{agent}} set out to {aim} {{count_times}} {{when}}",
        f"{{agent}} was about to {aim} {{count_times}} {{when}}",
        f"From here {{agent}} went on to {aim} {{count_times}} {{when}}",
    )
    for deed, aim in BEGUN.items()
}
