"""Opens the log of goals, lists goals, and finds one by a prefix of its id."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.cli import open_log
from fleetlore.cli.emit import find_user_name
from fleetlore.operations import goals as goal_operations
from fleetlore.operations.goals import find_goal_id as find_goal_id
from fleetlore.operations.goals import list_goal_ids as list_goal_ids
from fleetlore.views import goals as view
from fleetlore.views.goal_state import GoalState

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from fleetlore.events.envelope import Event
    from fleetlore.log.coordination import Coordination
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.seal import OperatorKey
    from fleetlore.settings import Settings

SHORT = 8


class GoalLog(NamedTuple):
    """An open log with its coordination store and settings."""

    log: BlockingRecorder
    shared: Coordination
    settings: Settings

    @property
    def is_sealed(self) -> bool:
        """Whether the log is sealed, so that control requests must be signed."""
        return self.shared.load_seal() is not None

    def key(self, why: str) -> OperatorKey | None:
        """The operator key, asked for on the terminal; `None` if the log is not sealed."""
        from fleetlore.cli import passphrase

        return passphrase.ask_key(self.shared, why)

    def put(self, events: Sequence[Event], key: OperatorKey | None) -> None:
        """Store control events, signed if there is a key."""
        self.log.append([event if key is None else key.sign_event(event, admit=self.log.admit) for event in events])

    def driver_of(self, id: str) -> str | None:
        """The current holder of a goal's lease."""
        from fleetlore.kernel.lease import is_dead

        lease = self.shared.find_lease(f"goal:{id}")
        return None if lease is None or is_dead(lease.holder) else lease.holder


@contextmanager
def open_goals(args: Namespace, *, new: bool = False) -> Iterator[GoalLog]:
    """Open the log and its coordination store; with `new` the log is created if needed."""
    from fleetlore.log.coordination import open_shared

    settings = open_log.settings_of(args)
    opener = open_log.open_log if new else open_log.open_existing_log
    with opener(args, settings=settings) as log, open_shared(settings.log.value, town=settings.town.value) as shared:
        yield GoalLog(log, shared, settings)


def all_goals(place: GoalLog) -> list[GoalState]:
    """All goals on the log, oldest first."""
    if not place.is_sealed:
        from fleetlore.cli import fold

        return list(fold.fold_log(place.log, view, "goals").goals.values())
    return [goal for id in list_goal_ids(place.log) if (goal := fold_goal(place, id)).goal is not None]


def fold_goal(place: GoalLog, id: str, key: OperatorKey | None = None) -> GoalState:
    """Fold one goal from the log. On a sealed log unsigned events are ignored; signatures are verified only if the key is given."""
    from fleetlore.projections.signed_goals import SignedGoalsFold

    seal = place.shared.load_seal()
    is_signed = None if seal is None else SignedGoalsFold(seal, key).is_signed
    return goal_operations.fold_goal(place.log, id, is_signed, is_verified=key is not None)


def short_ids(known: Sequence[str]) -> dict[str, str]:
    """Id → its shortest unique prefix."""
    return {
        id: next((id[:size] for size in range(SHORT, len(id)) if sum(other.startswith(id[:size]) for other in known) == 1), id)
        for id in known
    }


def current_user() -> str:
    """The actor of control events: the user's name."""
    return find_user_name()
