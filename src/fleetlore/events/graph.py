"""`node.*`, `ui.*`, `machine.*`, `sensor.*`: one agent made of nodes, and the screen that it shares with its user."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class NodeStarted(Payload, frozen=True, kw_only=True):
    """A node of the graph began its step."""

    kind: ClassVar[str] = "node.started"
    beat: ClassVar[Beat] = "pulse"
    node: str
    """Its role."""
    implementation: str | None = None
    graph: str | None = None
    turn: int | None = None


class NodeFinished(Payload, frozen=True, kw_only=True):
    """A node of the graph ended its step."""

    kind: ClassVar[str] = "node.finished"
    beat: ClassVar[Beat] = "pulse"
    node: str
    implementation: str | None = None
    graph: str | None = None
    turn: int | None = None
    duration_ms: float | None = None
    output: Any = None
    edges: tuple[str, ...] = ()
    """The nodes that it led to."""


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
    """Empty clears the screen."""
    state: dict[str, Any] | None = None


class UiAction(Payload, frozen=True, kw_only=True):
    """The user pressed or changed a control."""

    kind: ClassVar[str] = "ui.action"
    beat: ClassVar[Beat] = "voice"
    action: str
    payload: Any = None


class UiReported(Payload, frozen=True, kw_only=True):
    """The browser told what it shows."""

    kind: ClassVar[str] = "ui.reported"
    beat: ClassVar[Beat] = "pulse"
    controls: tuple[dict[str, Any], ...]


class MachineCreated(Payload, frozen=True, kw_only=True):
    """A state machine was set up."""

    kind: ClassVar[str] = "machine.created"
    beat: ClassVar[Beat] = "progress"
    machine: str
    initial: str
    states: dict[str, Any] | None = None


class MachineMoved(Payload, frozen=True, kw_only=True):
    """A state machine passed to another state."""

    kind: ClassVar[str] = "machine.moved"
    beat: ClassVar[Beat] = "progress"
    machine: str
    action: str | None = None


class MachineReset(Payload, frozen=True, kw_only=True):
    """A state machine went back to its first state."""

    kind: ClassVar[str] = "machine.reset"
    beat: ClassVar[Beat] = "pulse"
    machine: str


class MachineDestroyed(Payload, frozen=True, kw_only=True):
    """A state machine was taken away."""

    kind: ClassVar[str] = "machine.destroyed"
    beat: ClassVar[Beat] = "pulse"
    machine: str


class SensorIdle(Payload, frozen=True, kw_only=True):
    """The user had gone quiet."""

    kind: ClassVar[str] = "sensor.idle"
    beat: ClassVar[Beat] = "rest"
    idle_ms: float | None = None


class SensorReturned(Payload, frozen=True, kw_only=True):
    """The user was back."""

    kind: ClassVar[str] = "sensor.returned"
    beat: ClassVar[Beat] = "pulse"
    away_ms: float | None = None
