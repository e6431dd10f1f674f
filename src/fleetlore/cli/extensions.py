"""What installed packages add, as `lore doctor` tells it: every extension is loaded, and those that cannot be used are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore import extensions
from fleetlore.errors import BrokenExtension

if TYPE_CHECKING:
    from fleetlore.extensions import Finding, Point


def points() -> list[Point[Any]]:
    """Every place where a package can add something."""
    from fleetlore.chronicle.vocabulary import VOCABULARIES
    from fleetlore.dialects.foreign import DIALECTS
    from fleetlore.events.foreign import KINDS
    from fleetlore.runtime.driver.acceptance.verifiers import VERIFIERS
    from fleetlore.runtime.driver.harnesses import HARNESSES
    from fleetlore.runtime.graph.registry import NODES

    return [DIALECTS, KINDS, VOCABULARIES, NODES, HARNESSES, VERIFIERS]


def look() -> list[Finding]:
    """All that is installed, and what is wrong with it."""
    installed = extensions.installed()
    if not installed:
        return []
    known = points()
    groups = [point.group for point in known]
    astray = [
        extensions.Finding(each, f"there is no extension point {each.group}; there are {', '.join(groups)}")
        for each in installed
        if each.group not in groups
    ]
    return [*(finding for point in known for finding in point.look()), *astray]


def about(problems: list[str]) -> list[dict[str, Any]]:
    """The same for a report; what is wrong goes to its problems."""
    found = look()
    for (_, name, _, package, version), problem in found:
        if problem is not None:
            problems.append(str(BrokenExtension(name, f"{package} {version}", problem)))
    return [
        {"group": each.group, "name": each.name, "package": each.package, "version": each.version, "usable": problem is None}
        for each, problem in found
    ]
