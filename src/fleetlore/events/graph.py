"""`node.*`, `ui.*`, `machine.*`, `sensor.*`: events of a graph agent and the screen that it shares with its user."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class NodeStarted(Payload, frozen=True, kw_only=True):
    """A node of the graph started."""

    kind: ClassVar[str] = "node.started"
    beat: ClassVar[Beat] = "pulse"
    node: str
    """Its role."""
    implementation: str | None = None
    graph: str | None = None
    turn: int | None = None


class NodeFinished(Payload, frozen=True, kw_only=True):
    """A node of the graph finished."""

    kind: ClassVar[str] = "node.finished"
    beat: ClassVar[Beat] = "pulse"
    node: str
    implementation: str | None = None
    graph: str | None = None
    turn: int | None = None
    duration_ms: float | None = None
    output: Any = None
    edges: tuple[str, ...] = ()
    """The nodes that follow."""


class NodeFailed(Payload, frozen=True, kw_only=True):
    """A node of the graph failed."""

    kind: ClassVar[str] = "node.failed"
    beat: ClassVar[Beat] = "setback"
    node: str
    implementation: str | None = None
    graph: str | None = None
    turn: int | None = None
    duration_ms: float | None = None
    error: str | None = None


class UiControls(Payload, frozen=True, kw_only=True):
    """The controls on the screen were set."""

    kind: ClassVar[str] = "ui.controls"
    beat: ClassVar[Beat] = "pulse"
    controls: tuple[dict[str, Any], ...]
    """Empty: the screen is cleared."""
    state: dict[str, Any] | None = None


class UiAction(Payload, frozen=True, kw_only=True):
    """The user pressed or changed a control."""

    kind: ClassVar[str] = "ui.action"
    beat: ClassVar[Beat] = "voice"
    action: str
    payload: Any = None


class UiReported(Payload, frozen=True, kw_only=True):
    """The browser reported what it shows."""

    kind: ClassVar[str] = "ui.reported"
    beat: ClassVar[Beat] = "pulse"
    controls: tuple[dict[str, Any], ...]


class MachineCreated(Payload, frozen=True, kw_only=True):
    """A state machine was created."""

    kind: ClassVar[str] = "machine.created"
    beat: ClassVar[Beat] = "progress"
    machine: str
    initial: str
    states: dict[str, Any] | None = None


class MachineMoved(Payload, frozen=True, kw_only=True):
    """A state machine changed its state."""

    kind: ClassVar[str] = "machine.moved"
    beat: ClassVar[Beat] = "progress"
    machine: str
    action: str | None = None


class MachineReset(Payload, frozen=True, kw_only=True):
    """A state machine returned to its initial state."""

    kind: ClassVar[str] = "machine.reset"
    beat: ClassVar[Beat] = "pulse"
    machine: str


class MachineDestroyed(Payload, frozen=True, kw_only=True):
    """A state machine was removed."""

    kind: ClassVar[str] = "machine.destroyed"
    beat: ClassVar[Beat] = "pulse"
    machine: str


class SensorIdle(Payload, frozen=True, kw_only=True):
    """The user became inactive."""

    kind: ClassVar[str] = "sensor.idle"
    beat: ClassVar[Beat] = "rest"
    idle_ms: float | None = None


class SensorReturned(Payload, frozen=True, kw_only=True):
    """The user returned."""

    kind: ClassVar[str] = "sensor.returned"
    beat: ClassVar[Beat] = "pulse"
    away_ms: float | None = None
