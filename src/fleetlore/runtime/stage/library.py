"""Where scenarios are found: those that come with Fleetlore, by name, and files of one's own."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fleetlore.errors import Invalid
from fleetlore.runtime.stage.reading import known, read
from fleetlore.runtime.stage.scenario import Scenario

_SHIPPED = resources.files("fleetlore.runtime.stage") / "scenarios"


def names() -> tuple[str, ...]:
    """Those that come with Fleetlore."""
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in _SHIPPED.iterdir() if entry.name.endswith(".yaml")))


def load(place: str) -> Scenario:
    """A scenario by its name, or by the path of its file; `Invalid` says what is wrong with it."""
    if place in names():
        return read((_SHIPPED / f"{place}.yaml").read_text(encoding="utf-8"), f"{place}.yaml")
    path = Path(place).expanduser()
    if path.suffix not in (".yaml", ".yml") and not path.exists():
        raise Invalid(f"no scenario is called {place!r}; {known(names(), place)}; or name a file, as in ./my.yaml")
    try:
        return read(path.read_text(encoding="utf-8"), place)
    except UnicodeDecodeError as error:
        raise Invalid(f"{place}: is not UTF-8 text; save it as such") from error
