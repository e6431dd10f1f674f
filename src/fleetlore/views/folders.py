"""Who works where, as the path of a session's folder shows it."""

from __future__ import annotations

import re

_home = re.compile(r"(?:^|[/\\])(?:Users|home)[/\\]([^/\\]{1,100})[/\\]")
_SHARED_HOMES = frozenset(
    ["root", "runner", "ubuntu", "user", "vscode", "node", "app", "shared", "public", "circleci", "codespace", "admin"]
)
"""Accounts that are no person."""
_worktrees = re.compile(r"(?:(?P<name>[^/]{1,100})[-_.])?\.?worktrees?|(?P<conductor>workspaces)", re.IGNORECASE)
_HOMES = ("home", "Users")


def find_home_owner(folder: str) -> str:
    """The owner of the home folder that a folder is in; empty if it is in none, or in one that many share."""
    found = _home.search(folder + "/")
    return found[1] if found and found[1].lower() not in _SHARED_HOMES else ""


def find_person(account: str, folder: str) -> str:
    """Who works in a folder: the account that recorded the session, if that is a person's, else the owner of the home folder."""
    return account if account and account.lower() not in _SHARED_HOMES else find_home_owner(folder)


def find_main_folder(folder: str) -> str:
    """The name of a worktree's main folder; empty for a folder that is no worktree.

    Known are `shop/.claude/worktrees/x`, `shop-worktrees/x` and `~/.cursor/worktrees/shop/x`.
    """
    parts = [part for part in folder.replace("\\", "/").split("/") if part]
    for place in range(len(parts) - 2, 0, -1):
        found = _worktrees.fullmatch(parts[place])
        if found is None or (found["conductor"] and parts[place - 1] != "conductor"):
            continue
        if found["name"] and not found["name"].startswith("."):
            return found["name"]
        owner = place - 1
        while owner > 0 and parts[owner].startswith("."):
            owner -= 1
        is_home = parts[owner - 1] in _HOMES if owner > 0 else False
        return parts[place + 1] if is_home or found["conductor"] else parts[owner]
    return ""
