"""Which of the extras of `pip install 'fleetlore[NAME]'` are here, as the package itself describes them."""

from __future__ import annotations

import re

_GATHERING = ("models", "all")
_WANTED = re.compile(r"([\w.-]+).*;.*\bextra == ['\"]([\w-]+)['\"]")


def installed() -> dict[str, bool]:
    """Each extra, and whether all that it wants is there; those that only gather others are left out."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        described = requires("fleetlore") or []
    except PackageNotFoundError:  # run from a folder of source code
        return {}
    found: dict[str, bool] = {}
    for line in described:
        if (matched := _WANTED.match(line)) and (extra := matched[2]) not in _GATHERING:
            found[extra] = found.get(extra, True) and _is_here(matched[1])
    return found


def _is_here(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
