"""Opens the log of goals, lists goals, and finds one by a prefix of its id."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.cli import open_log
from fleetlore.cli.emit import find_user_name
from fleetlore.errors import Invalid
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

SHORTEST = 4
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


def need_all_kept(place: GoalLog) -> None:
    """`Invalid` for a log that drops or redacts events: goals need all of them."""
    if place.log.info().details.get("keeps", "everything") != "everything":
        raise Invalid("this log drops its oldest events (?keep=tinytown), but goals need all of them; choose another log with --log")
    levels = place.settings.redact_levels.value
    if levels:
        raise Invalid(
            f"[redact] level ({place.settings.redact_levels.source}) removes {', '.join(levels)} from events,"
            " but goals need them: remove `level`, or run the goal with other settings"
        )


def all_goals(place: GoalLog) -> list[GoalState]:
    """All goals on the log, oldest first."""
    if not place.is_sealed:
        from fleetlore.cli import fold

        return list(fold.fold(place.log, view, "goals").goals.values())
    return [goal for id in list_goal_ids(place.log) if (goal := fold_goal(place, id)).goal is not None]


def fold_goal(place: GoalLog, id: str, key: OperatorKey | None = None) -> GoalState:
    """Fold one goal from the log. On a sealed log unsigned events are ignored; signatures are verified only if the key is given."""
    from fleetlore.projections.signed_goals import SignedGoalsFold

    goal, seal = GoalState(id=id), place.shared.load_seal()
    is_signed = SignedGoalsFold(seal, key).is_signed
    for event in place.log.read(f"goal:{id}"):
        if seal is None or is_signed(event):
            view.apply_to_goal(goal, event)
        elif event.kind == "control.requested":
            goal.unsigned += 1
    if key is not None and goal.goal is None:
        raise Invalid(
            f"goal {id} was not started with this log's passphrase, so it cannot be controlled; start it again with `lore goal run`"
        )
    return goal


def list_goal_ids(log: BlockingRecorder) -> list[str]:
    """Ids of all started goals, oldest first."""
    started = log.read(kinds=("driver.goal_started",))
    return list(dict.fromkeys(event.goal for event in started if event.goal is not None))


def find_goal_id(log: BlockingRecorder, text: str) -> str:
    """The id of the goal with this prefix; `Invalid` if there is none or several."""
    known = list_goal_ids(log)
    found = [id for id in known if text and id.startswith(text.lower())]
    if text.lower() in known:
        return text.lower()
    if not known:
        raise Invalid("there are no goals on this log yet; start one with `lore goal run FILE`")
    if not found or len(text) < SHORTEST:
        short = f"at least {SHORTEST} characters of the id are needed" if found else f"no goal id starts with {text!r}"
        raise Invalid(f"{short}; `lore goal list --all` lists all ids")
    if len(found) > 1:
        raise Invalid(f"{len(found)} goal ids start with {text!r}: {', '.join(found[:5])}; give more characters")
    return found[0]


def short_ids(known: Sequence[str]) -> dict[str, str]:
    """Id → its shortest unique prefix."""
    return {
        id: next((id[:size] for size in range(SHORT, len(id)) if sum(other.startswith(id[:size]) for other in known) == 1), id)
        for id in known
    }


def current_user() -> str:
    """The actor of control events: the user's name."""
    return find_user_name()
