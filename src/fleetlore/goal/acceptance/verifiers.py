"""Verifiers by name, for `custom` criteria: ours, and those of other packages, by the entry point group `fleetlore.verifiers`.

A verifier is called with the criterion's arguments and a `Site`, and answers `None` if the criterion is met, else an `Unmet`. It may block.
It is never given the agent's words, and what it raises is a failure of the criterion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from fleetlore.errors import Invalid
from fleetlore.goal.acceptance.findings import Unmet
from fleetlore.goal.workspace.workspace import Workspace
from fleetlore.plugins import ExtensionPoint

_MAX_SHOWN_PATHS = 50


class Site(Struct, frozen=True, kw_only=True):
    """What a verifier may look at."""

    workspace: Workspace
    start: str
    """The checkpoint before the first turn."""

    @property
    def path(self) -> str:
        """Where the agent worked."""
        return self.workspace.path


Verifier: TypeAlias = Callable[[Any, Site], Unmet | None]


def parse_prefixes(args: Any) -> list[str]:
    """The prefixes of `no_paths_touched`; `Invalid` if there are none."""
    given = args.get("prefixes") if isinstance(args, dict) else None
    if not isinstance(given, list) or not given or not all(isinstance(one, str) and one for one in given):
        raise Invalid('no_paths_touched needs {"prefixes": ["docs/", …]}: the beginnings of the paths that must stay as they are')
    return given


def no_paths_touched(args: Any, site: Site) -> Unmet | None:
    """Met if nothing with one of these beginnings was changed since the start: committed, uncommitted or untracked."""
    touched = site.workspace.touched(site.start, parse_prefixes(args))
    return (
        Unmet(message=f"{len(touched)} paths were touched that must not be", evidence="\n".join(touched[:_MAX_SHOWN_PATHS]))
        if touched
        else None
    )


def git_clean(_: Any, site: Site) -> Unmet | None:
    """Met if everything is committed."""
    unclean = site.workspace.unclean()
    return Unmet(message=f"{len(unclean)} paths are not committed", evidence="\n".join(unclean[:_MAX_SHOWN_PATHS])) if unclean else None


BUILTIN_VERIFIERS: dict[str, Verifier] = {"no_paths_touched": no_paths_touched, "git_clean": git_clean}


def _require_verifier(name: str, thing: Any) -> Verifier:
    if not callable(thing):
        raise TypeError(f"something to call with arguments and a Site is needed, not {type(thing).__name__}")
    verifier: Verifier = thing
    return verifier


VERIFIERS: ExtensionPoint[Verifier] = ExtensionPoint("fleetlore.verifiers", _require_verifier, builtin_names=BUILTIN_VERIFIERS)


def known_verifiers() -> tuple[str, ...]:
    """Every verifier that a criterion can name."""
    return (*BUILTIN_VERIFIERS, *VERIFIERS.list_names())


def find_verifier(name: str) -> Verifier | None:
    """The verifier of this name; ours come first."""
    return BUILTIN_VERIFIERS[name] if name in BUILTIN_VERIFIERS else VERIFIERS.find_by_name(name)
