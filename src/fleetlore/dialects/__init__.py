"""Foreign event formats: one pure module per dialect, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.dialects.base import Dialect
    from fleetlore.dialects.recording import Recording

NAMES = ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "git")
"""Built-in dialects, read and written; installed packages may add others."""
_RECORDING_MODULES = {
    "claude-code": "fleetlore.programs.claude_code.transcript",
    "codex": "fleetlore.programs.codex.transcript",
    "forge": "fleetlore.dialects.forge.webhooks",
    "otlp": "fleetlore.dialects.otlp.reader",
}
RECORDINGS = tuple(_RECORDING_MODULES)
"""Read-only formats: transcripts and telemetry of other programs."""


def known() -> list[str]:
    """Return the names of all dialects: built-in and installed."""
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    return [*NAMES, *DIALECT_EXTENSIONS.list_names()]


def find(name: str) -> Dialect:
    """Return the dialect with that name; raise `Invalid`, which lists the known ones."""
    if name in NAMES:
        dialect: Dialect = import_module(f"fleetlore.dialects.{name}").DIALECT
        return dialect
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    if (installed := DIALECT_EXTENSIONS.find_by_name(name)) is not None:
        return installed
    problem = f"{name} is only read, not written; known are" if name in RECORDINGS else f"no such dialect: {name!r}; known are"
    raise Invalid(f"{problem} {', '.join(known())}")


def find_recording(name: str) -> Recording:
    """Return the recording format with that name; raise `Invalid`, which lists the known ones."""
    if name not in RECORDINGS:
        raise Invalid(f"no such recording: {name!r}; known are {', '.join(RECORDINGS)}")
    recording: Recording = import_module(_RECORDING_MODULES[name]).RECORDING
    return recording
