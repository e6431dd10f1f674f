"""`fleet.*`: the twelve events of the fleet chronicle format."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class FleetFact(Payload, frozen=True):
    """An event written by a fleet itself: `data` is free-form."""

    lenient: ClassVar[bool] = True


class Dispatch(FleetFact, frozen=True):
    """An agent was given work."""

    kind: ClassVar[str] = "fleet.dispatch"
    beat: ClassVar[Beat] = "claim"
    issue_number: Any = None


class Commit(FleetFact, frozen=True):
    """An agent committed a change."""

    kind: ClassVar[str] = "fleet.commit"
    beat: ClassVar[Beat] = "progress"
    sha: Any = None


class Push(FleetFact, frozen=True):
    """An agent pushed its commits."""

    kind: ClassVar[str] = "fleet.push"
    beat: ClassVar[Beat] = "progress"


class PrOpen(FleetFact, frozen=True):
    """An agent opened a pull request."""

    kind: ClassVar[str] = "fleet.pr_open"
    beat: ClassVar[Beat] = "propose"


class PrMerge(FleetFact, frozen=True):
    """A pull request was merged."""

    kind: ClassVar[str] = "fleet.pr_merge"
    beat: ClassVar[Beat] = "deliver"


class Error(FleetFact, frozen=True):
    """Something went wrong."""

    kind: ClassVar[str] = "fleet.error"
    beat: ClassVar[Beat] = "setback"


class Recovery(FleetFact, frozen=True):
    """An error was fixed."""

    kind: ClassVar[str] = "fleet.recovery"
    beat: ClassVar[Beat] = "recovery"


class Abandon(FleetFact, frozen=True):
    """An agent abandoned its work."""

    kind: ClassVar[str] = "fleet.abandon"
    beat: ClassVar[Beat] = "release"


class Collab(FleetFact, frozen=True):
    """Agents worked together."""

    kind: ClassVar[str] = "fleet.collab"
    beat: ClassVar[Beat] = "together"


class Heartbeat(FleetFact, frozen=True):
    """An agent reported that it is alive."""

    kind: ClassVar[str] = "fleet.heartbeat"
    beat: ClassVar[Beat] = "pulse"
    cycle: Any = None
    model: Any = None
    status: Any = None


class Idle(FleetFact, frozen=True):
    """An agent had nothing to do."""

    kind: ClassVar[str] = "fleet.idle"
    beat: ClassVar[Beat] = "rest"


class Milestone(FleetFact, frozen=True):
    """A milestone was reached."""

    kind: ClassVar[str] = "fleet.milestone"
    beat: ClassVar[Beat] = "feat"
