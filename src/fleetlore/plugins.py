"""Extensions from installed packages, found by their entry points when first needed. Unusable ones are skipped with a warning.

A package is an extension if its `entry_points.txt` has a `fleetlore.*` group. Only these files are read, so the search
takes a millisecond or two. Only installed packages can provide code: an event or a goal file can name an extension, never
a module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar

from fleetlore.errors import BrokenExtension

_Thing = TypeVar("_Thing")

_GROUP_PREFIX = "[fleetlore."
"""Start of our groups in an `entry_points.txt`."""


class Extension(NamedTuple):
    """One entry point of an installed package."""

    group: str
    name: str
    value: str
    """`module:attribute`."""
    package: str
    version: str

    def load_object(self) -> Any:
        """Import and return the object that the entry point names."""
        module, _, attributes = self.value.partition(":")
        thing: Any = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            thing = getattr(thing, attribute)
        return thing


class ExtensionStatus(NamedTuple):
    """An extension, and the reason why it is skipped, if it is."""

    extension: Extension
    problem: str | None = None


def find_extensions(path: Iterable[str]) -> list[Extension]:
    """Return the extensions in some folders, sorted; if a package is there twice, the first counts."""
    found: dict[str, list[Extension]] = {}
    for metadata_folder, points in _find_entry_point_files(path):
        # Installers name it NAME-VERSION.dist-info; old ones leave the version out.
        package, _, version = os.path.basename(metadata_folder).rpartition(".")[0].partition("-")
        package = package.replace("_", "-")
        found.setdefault(
            package.lower(), [Extension(*point, package, version or "of unknown version") for point in _parse_entry_points(points)]
        )
    return sorted((each for points in found.values() for each in points), key=lambda each: (each.group, each.name, each.package))


def _find_entry_point_files(path: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the metadata folder of each extension package and the text of its entry points."""
    for folder in dict.fromkeys(os.path.abspath(each) for each in path):
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
        except OSError:  # missing, or an archive, which is not searched
            continue
        for metadata_folder in (os.path.join(folder, name) for name in names):
            try:
                with open(os.path.join(metadata_folder, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
                    points = file.read()
            except OSError:
                continue
            if _GROUP_PREFIX in points:
                yield metadata_folder, points


def _parse_entry_points(points: str) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and value of our entry points."""
    group = ""
    for line in map(str.strip, points.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif group.startswith("fleetlore.") and not line.startswith(("#", ";")):
            name, equals, value = line.partition("=")
            if equals:
                yield group, name.strip(), value.strip()


@cache
def list_installed() -> Sequence[Extension]:
    """Return the extensions on `sys.path`."""
    return find_extensions(sys.path)


_warned: set[Extension] = set()
"""Installed extensions that a warning was logged about. Several points may read one group: one warning is enough."""


class ExtensionPoint(Generic[_Thing]):
    """One kind of object that packages can add. Built-in names win, then packages in alphabetical order."""

    def __init__(
        self,
        group: str,
        convert: Callable[[str, Any], _Thing],
        *,
        builtin_names: Collection[str] = (),
        claims: Callable[[_Thing], Iterable[str]] = lambda thing: (),
        installed: Callable[[], Sequence[Extension]] = list_installed,
    ) -> None:
        """`convert` takes a name and the loaded object and raises if it is unusable.

        `claims` returns names that the object takes for itself, such as event kinds: no two objects may claim the same one.
        """
        self.group, self._convert, self._builtin_names, self._claims, self._installed = group, convert, builtin_names, claims, installed
        self._loaded: dict[Extension, _Thing | BrokenExtension] = {}
        self._warned: set[Extension] = _warned if installed is list_installed else set()

    def list_names(self) -> list[str]:
        """Return the available names without loading anything."""
        return [extension.name for extension in self._select_usable(self._list_offered())]

    def find_by_name(self, name: str) -> _Thing | None:
        """Load the object with that name; raise `BrokenExtension` if it cannot be used."""
        for extension, problem in self._list_offered():
            if extension.name == name and problem is None:
                loaded = self._load_extension(extension)
                if isinstance(loaded, BrokenExtension):
                    raise loaded
                return loaded
        return None

    def load_all(self) -> list[_Thing]:
        """Load everything usable; warn once about the rest."""
        loaded = map(self._load_extension, self._select_usable(self.check_all()))
        return [each for each in loaded if not isinstance(each, BrokenExtension)]

    def check_all(self) -> list[ExtensionStatus]:
        """Load every extension of this kind and return it with its problem, if any."""
        claimed: dict[str, str] = {}
        return [ExtensionStatus(each, problem or self._find_problem(each, claimed)) for each, problem in self._list_offered()]

    def _list_offered(self) -> list[ExtensionStatus]:
        """List the extensions of this group; those whose name is taken have a problem."""
        found: list[ExtensionStatus] = []
        owners = dict.fromkeys(self._builtin_names, "Fleetlore")
        for each in self._installed():
            if each.group == self.group:
                problem = _describe_clash(each.name, owners[each.name]) if each.name in owners else None
                found.append(ExtensionStatus(each, problem))
                owners.setdefault(each.name, each.package)
        return found

    def _find_problem(self, extension: Extension, claimed: dict[str, str]) -> str | None:
        loaded = self._load_extension(extension)
        if isinstance(loaded, BrokenExtension):
            return loaded.reason
        claims = list(self._claims(loaded))
        for claim in claims:
            if claim in claimed:
                return _describe_clash(claim, claimed[claim])
        claimed.update(dict.fromkeys(claims, extension.package))
        return None

    def _load_extension(self, extension: Extension) -> _Thing | BrokenExtension:
        if extension not in self._loaded:
            try:
                self._loaded[extension] = self._convert(extension.name, extension.load_object())
            except (Exception, SystemExit) as error:  # noqa: BLE001  # third-party code: it may raise anything
                self._loaded[extension] = BrokenExtension(
                    extension.name, f"{extension.package} {extension.version}", _describe_error(error)
                )
        return self._loaded[extension]

    def _select_usable(self, statuses: Iterable[ExtensionStatus]) -> list[Extension]:
        """Select the extensions without a problem; warn once about each of the others."""
        usable = []
        for extension, problem in statuses:
            if problem is None:
                usable.append(extension)
            else:
                self._warn_once(extension, problem)
        return usable

    def _warn_once(self, extension: Extension, problem: str) -> None:
        if extension not in self._warned:
            import logging

            self._warned.add(extension)
            error = BrokenExtension(extension.name, f"{extension.package} {extension.version}", problem)
            logging.getLogger("fleetlore.extensions").warning("%s", error)


def _describe_clash(name: str, owner: str) -> str:
    return f"the name {name!r} is taken by {owner}, whose extension is used; the package must use another name"


def _describe_error(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    return f"{message}; update the package, or uninstall it"
