"""`fleet.*`: the twelve deeds of a working fleet, as chronicle writers name them."""

from __future__ import annotations

from typing import Any, ClassVar

from fleetlore.events.payload import Beat, Payload


class FleetFact(Payload, frozen=True):
    """A deed told by a fleet in its own words: `data` is whatever its writer put there."""

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
    """An agent proposed its change for merging."""

    kind: ClassVar[str] = "fleet.pr_open"
    beat: ClassVar[Beat] = "propose"


class PrMerge(FleetFact, frozen=True):
    """A proposed change was merged."""

    kind: ClassVar[str] = "fleet.pr_merge"
    beat: ClassVar[Beat] = "deliver"


class Error(FleetFact, frozen=True):
    """Something went wrong."""

    kind: ClassVar[str] = "fleet.error"
    beat: ClassVar[Beat] = "setback"


class Recovery(FleetFact, frozen=True):
    """What had gone wrong was put right."""

    kind: ClassVar[str] = "fleet.recovery"
    beat: ClassVar[Beat] = "recovery"


class Abandon(FleetFact, frozen=True):
    """An agent let its work go unfinished."""

    kind: ClassVar[str] = "fleet.abandon"
    beat: ClassVar[Beat] = "release"


class Collab(FleetFact, frozen=True):
    """Agents worked on one thing together."""

    kind: ClassVar[str] = "fleet.collab"
    beat: ClassVar[Beat] = "together"


class Heartbeat(FleetFact, frozen=True):
    """A sign of life."""

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
    """Something worth remembering was reached."""

    kind: ClassVar[str] = "fleet.milestone"
    beat: ClassVar[Beat] = "feat"
