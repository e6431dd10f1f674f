"""Finds verifiers for `custom` criteria by name: the built-in ones, and those of packages under `fleetlore.verifiers`.

A verifier is called with the criterion's arguments and a `Site`, and returns `None` if the criterion is met, else an
`Unmet`. It may block. It never sees the agent's words. If it raises, the criterion is not met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.goal.workspace.workspace import Workspace
from fleetlore.plugins import ExtensionPoint

_MAX_SHOWN_PATHS = 50


class Unmet(Struct, frozen=True, kw_only=True):
    """Why a criterion is not met, with evidence."""

    message: str
    evidence: str | None = None


class Site(Struct, frozen=True, kw_only=True):
    """What a verifier may look at."""

    workspace: Workspace
    start: str
    """The checkpoint before the first turn."""

    @property
    def path(self) -> str:
        """The folder in which the agent worked."""
        return self.workspace.path


Verifier: TypeAlias = Callable[[Any, Site], Unmet | None]


def parse_prefixes(args: Any) -> list[str]:
    """The prefixes of `no_paths_touched`. Raises `Invalid` if there are none."""
    prefixes = args.get("prefixes") if isinstance(args, dict) else None
    if not isinstance(prefixes, list) or not prefixes or not all(isinstance(prefix, str) and prefix for prefix in prefixes):
        raise Invalid('no_paths_touched needs {"prefixes": ["docs/", …]}: the beginnings of the paths that must stay as they are')
    return prefixes


def no_paths_touched(args: Any, site: Site) -> Unmet | None:
    """Met if no path with one of these prefixes changed since the start: committed, uncommitted or untracked."""
    touched = site.workspace.list_touched(site.start, parse_prefixes(args))
    return (
        Unmet(message=f"{len(touched)} paths were touched that must not be", evidence="\n".join(touched[:_MAX_SHOWN_PATHS]))
        if touched
        else None
    )


def git_clean(_: Any, site: Site) -> Unmet | None:
    """Met if everything is committed."""
    uncommitted = site.workspace.list_uncommitted()
    return (
        Unmet(message=f"{len(uncommitted)} paths are not committed", evidence="\n".join(uncommitted[:_MAX_SHOWN_PATHS]))
        if uncommitted
        else None
    )


BUILTIN_VERIFIERS: dict[str, Verifier] = {"no_paths_touched": no_paths_touched, "git_clean": git_clean}


def _require_verifier(name: str, candidate: Any) -> Verifier:
    if not callable(candidate):
        raise TypeError(f"something to call with arguments and a Site is needed, not {type(candidate).__name__}")
    verifier: Verifier = candidate
    return verifier


VERIFIERS: ExtensionPoint[Verifier] = ExtensionPoint("fleetlore.verifiers", _require_verifier, builtin_names=BUILTIN_VERIFIERS)


def known_verifiers() -> tuple[str, ...]:
    """The names of all verifiers that a criterion can use."""
    return (*BUILTIN_VERIFIERS, *VERIFIERS.list_names())


def find_verifier(name: str) -> Verifier | None:
    """The verifier with this name, or `None`. Built-in ones come first."""
    return BUILTIN_VERIFIERS[name] if name in BUILTIN_VERIFIERS else VERIFIERS.find_by_name(name)
