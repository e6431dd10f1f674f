"""What installed packages add, by their entry points: found when it is first asked for, and left out, with a word, where it cannot be used.

A package is an extension if its `entry_points.txt` has a group of ours. These files lie beside the modules that Python finds, and nothing
else is read, so that looking takes a millisecond or two. What there is, is said by who installs packages, never by a log: a record or the
file of a goal can name an extension, and no module.
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
"""How a group of ours begins in a file of entry points."""


class Extension(NamedTuple):
    """One entry point of an installed package."""

    group: str
    name: str
    value: str
    """`module:attribute`."""
    package: str
    version: str

    def load_object(self) -> Any:
        """What it names."""
        module, _, attributes = self.value.partition(":")
        thing: Any = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            thing = getattr(thing, attribute)
        return thing


class ExtensionStatus(NamedTuple):
    """An extension, and why it is left out, if it is."""

    extension: Extension
    problem: str | None = None


def find_extensions(path: Iterable[str]) -> list[Extension]:
    """The extensions in some folders, by group, name and package; of a package that is there twice, the first counts."""
    found: dict[str, list[Extension]] = {}
    for place, points in _find_entry_point_files(path):
        # As every installer calls it: NAME-VERSION.dist-info; those of old leave the version out.
        package, _, version = os.path.basename(place).rpartition(".")[0].partition("-")
        package = package.replace("_", "-")
        found.setdefault(
            package.lower(), [Extension(*point, package, version or "of unknown version") for point in _parse_entry_points(points)]
        )
    return sorted((each for points in found.values() for each in points), key=lambda each: (each.group, each.name, each.package))


def _find_entry_point_files(path: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The packages that are extensions: the folder that describes one, and its file of entry points."""
    for folder in dict.fromkeys(os.path.abspath(each) for each in path):
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info")))
        except OSError:  # not there, or an archive, which is not looked into
            continue
        for place in (os.path.join(folder, name) for name in names):
            try:
                with open(os.path.join(place, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
                    points = file.read()
            except OSError:
                continue
            if _GROUP_PREFIX in points:
                yield place, points


def _parse_entry_points(points: str) -> Iterator[tuple[str, str, str]]:
    """Group, name and value of the entry points that are for us."""
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
    """Those that this Python finds."""
    return find_extensions(sys.path)


class ExtensionPoint(Generic[_Thing]):
    """One kind of thing that packages can add. Ours come first, then whoever is first by the name of the package."""

    def __init__(
        self,
        group: str,
        fit: Callable[[str, Any], _Thing],
        *,
        ours: Collection[str] = (),
        claims: Callable[[_Thing], Iterable[str]] = lambda thing: (),
        installed: Callable[[], Sequence[Extension]] = list_installed,
    ) -> None:
        """`fit` takes a name and what was loaded, and raises if that is of no use. `claims` are names that no two things may share."""
        self.group, self._convert, self._builtin_names, self._claims, self._installed = group, fit, ours, claims, installed
        self._loaded: dict[Extension, _Thing | BrokenExtension] = {}
        self._warned: set[Extension] = set()

    def list_names(self) -> list[str]:
        """What is offered; nothing is loaded."""
        return [extension.name for extension, problem in self._list_offered() if problem is None or self._warn_once(extension, problem)]

    def find_by_name(self, name: str) -> _Thing | None:
        """The thing of that name; `BrokenExtension` where there is one that cannot be used."""
        for extension, problem in self._list_offered():
            if extension.name == name and problem is None:
                loaded = self._load_extension(extension)
                if isinstance(loaded, BrokenExtension):
                    raise loaded
                return loaded
        return None

    def load_all(self) -> list[_Thing]:
        """All that can be used. What is left out is said once."""
        good = [extension for extension, problem in self.check_all() if problem is None or self._warn_once(extension, problem)]
        return [thing for each in good if not isinstance(thing := self._load_extension(each), BrokenExtension)]

    def check_all(self) -> list[ExtensionStatus]:
        """Every extension of this kind, loaded, and what is wrong with it."""
        claimed: dict[str, str] = {}
        return [ExtensionStatus(each, problem or self._find_problem(each, claimed)) for each, problem in self._list_offered()]

    def _list_offered(self) -> list[ExtensionStatus]:
        """Those of this group, and which of them have a name that is taken."""
        found: list[ExtensionStatus] = []
        taken = dict.fromkeys(self._builtin_names, "Fleetlore")
        for each in self._installed():
            if each.group == self.group:
                found.append(ExtensionStatus(each, _name_taken_message(each.name, taken.get(each.name))))
                taken.setdefault(each.name, each.package)
        return found

    def _find_problem(self, extension: Extension, claimed: dict[str, str]) -> str | None:
        loaded = self._load_extension(extension)
        if isinstance(loaded, BrokenExtension):
            return loaded.reason
        claims = list(self._claims(loaded))
        clash = next((claim for claim in claims if claim in claimed), None)
        if clash is None:
            claimed.update(dict.fromkeys(claims, extension.package))
        return None if clash is None else _name_taken_message(clash, claimed[clash])

    def _load_extension(self, extension: Extension) -> _Thing | BrokenExtension:
        if extension not in self._loaded:
            try:
                self._loaded[extension] = self._convert(extension.name, extension.load_object())
            except (Exception, SystemExit) as error:  # noqa: BLE001  # it is others' code: whatever it raises is about itself alone
                self._loaded[extension] = BrokenExtension(
                    extension.name, f"{extension.package} {extension.version}", _describe_error(error)
                )
        return self._loaded[extension]

    def _warn_once(self, extension: Extension, problem: str) -> bool:
        """Tell of one that is left out; once."""
        if extension not in self._warned:
            import logging

            self._warned.add(extension)
            told = BrokenExtension(extension.name, f"{extension.package} {extension.version}", problem)
            logging.getLogger("fleetlore.extensions").warning("%s", told)
        return False


def _name_taken_message(name: str, by: str | None) -> str | None:
    return None if by is None else f"{by} has {name!r} already, and that is used; the package has to give its own another name"


def _describe_error(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    return f"{said}; update the package, or uninstall it"
