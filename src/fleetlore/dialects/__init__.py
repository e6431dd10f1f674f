"""How others say it: foreign records to events and back, one pure module a dialect, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.dialects.base import Dialect
    from fleetlore.dialects.recording import Recording

NAMES = ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "git")
"""Every dialect that is spoken here; installed packages may add others."""
_RECORDING_MODULES = {
    "claude-code": "fleetlore.programs.claude_code.transcript",
    "codex": "fleetlore.programs.codex.transcript",
    "forge": "fleetlore.dialects.forge.webhooks",
    "otlp": "fleetlore.dialects.otlp.reader",
}
RECORDINGS = tuple(_RECORDING_MODULES)
"""What is only understood: the records of programs that are not fed by us."""


def known() -> list[str]:
    """Ours, and those of installed packages."""
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    return [*NAMES, *DIALECT_EXTENSIONS.list_names()]


def find(name: str) -> Dialect:
    """The dialect of that name; `Invalid` lists the known ones."""
    if name in NAMES:
        dialect: Dialect = import_module(f"fleetlore.dialects.{name}").DIALECT
        return dialect
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    if (added := DIALECT_EXTENSIONS.find_by_name(name)) is not None:
        return added
    told = f"{name} is only read, not written; known are" if name in RECORDINGS else f"no such dialect: {name!r}; known are"
    raise Invalid(f"{told} {', '.join(known())}")


def find_recording(name: str) -> Recording:
    """The recording of that name; `Invalid` lists the known ones."""
    if name not in RECORDINGS:
        raise Invalid(f"no such recording: {name!r}; known are {', '.join(RECORDINGS)}")
    recording: Recording = import_module(_RECORDING_MODULES[name]).RECORDING
    return recording
