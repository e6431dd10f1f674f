"""An open town: its log, what is kept beside it, who speaks; and how a wish becomes facts."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import open_log, terminal
from fleetlore.cli.emit import user_name
from fleetlore.errors import Busy, Conflict, Invalid
from fleetlore.events.names import is_name
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.town.commands import TownCommand

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from fleetlore.events.envelope import Event
    from fleetlore.log.coordination import Coordination
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.seal import OperatorKey
    from fleetlore.projections.runner import FoldResult
    from fleetlore.settings import Settings
    from fleetlore.views.town_state import TownState

AGENT, AT_WORK, TASK = "FLEETLORE_AGENT", "LORE_AGENT", "LORE_TASK"
"""The variables that say for whom a process speaks: as people set it, and as workers do for what they start, with what it is at."""
TRIES = 20
"""How often a wish is looked at again because somebody was quicker."""


class Fulfilled(NamedTuple):
    """A wish that is on the log."""

    answer: str
    events: tuple[Event, ...]


class Hall(NamedTuple):
    """Where a town is looked at and steered from."""

    log: BlockingRecorder
    shared: Coordination
    settings: Settings
    by: str
    """Who speaks."""

    @property
    def name(self) -> str:
        """The town's."""
        return self.settings.town.value

    @property
    def is_sealed(self) -> bool:
        """Whether only what is signed steers here."""
        return self.shared.load_seal() is not None

    def key(self, why: str) -> OperatorKey | None:
        """What signs, asked for at the terminal; `None` where the log is not sealed."""
        from fleetlore.cli import passphrase

        return passphrase.ask_key(self.shared, why)

    def believed(self, key: OperatorKey | None = None) -> SignedTownFold:
        """The fold: with the key signatures are checked, without it they are only seen."""
        return SignedTownFold(self.shared.load_seal(), key)

    def folded(self, key: OperatorKey | None = None) -> FoldResult[TownState]:
        """The town at the log's head, and where that is."""
        from fleetlore.cli import fold

        believed = self.believed(key)
        return fold.folded(self.log, believed, believed.name)

    def town(self, key: OperatorKey | None = None) -> TownState:
        """The town at the log's head."""
        return self.folded(key).state

    def fulfil(self, wishes_of: Callable[[TownState], Sequence[TownCommand]], *, why: str = "") -> list[Fulfilled]:
        """Check wishes against the town, and write them down; looked at again where somebody was quicker. Only the first has conditions.

        `why` says what a sealed log's passphrase is needed for; nothing, where anybody may. The town is looked at with the key: what an
        agent forged must not stand in a person's way.
        """
        return self.fulfil_with(self.key(why) if why else None, wishes_of)

    def fulfil_with(self, key: OperatorKey | None, wishes_of: Callable[[TownState], Sequence[TownCommand]]) -> list[Fulfilled]:
        """The same, by a key that was asked for."""
        for _ in range(TRIES):
            wishes = wishes_of(self.town(key))
            try:
                return [self._put(wish, key) for wish in wishes]
            except Conflict:
                continue
        raise Busy("others wrote to the same task or mission all the time, and nothing was done; try again")

    def _put(self, wish: TownCommand, key: OperatorKey | None) -> Fulfilled:
        named = [event if event.id is not None else replace(event, id=clock.uuid7()) for event in wish.events]
        signed = [event if key is None else key.sign_event(event, admit=self.log.admit) for event in named]
        positions = self.log.append(signed, expect=wish.expect)
        return Fulfilled(wish.answer, tuple(replace(event, position=at) for event, at in zip(signed, positions, strict=True)))


@contextmanager
def opened(args: Namespace, *, new: bool = False) -> Iterator[Hall]:
    """The town that is meant; its log is made, if it is `new`."""
    from fleetlore.log.coordination import open_shared

    by, settings = speaker(args), open_log.settings_of(args)
    opener = open_log.open_log if new else open_log.open_existing_log
    with opener(args, settings=settings) as log, open_shared(settings.log.value, town=settings.town.value) as shared:
        if new:
            need_all_kept(log, settings)
        yield Hall(log, shared, settings, by)


def need_all_kept(log: BlockingRecorder, settings: Settings) -> None:
    """Refuse a log that would lose what a town lives by."""
    if log.info().details.get("keeps", "everything") != "everything":
        raise Invalid(
            "this log drops its oldest events (?keep=tinytown), and a town lives by what is on the log; name another one with --log"
        )
    levels = settings.redact_levels
    if levels.value:
        raise Invalid(
            f"[redact] level ({levels.source}) takes {', '.join(levels.value)} out of events, and a town lives by what is on the log:"
            " agents would not know what they are to do; leave `level` out, or have the town elsewhere"
        )


def speaker(args: Namespace) -> str:
    """Who speaks: as it is said, else the agent that this runs inside of, else whoever is logged in."""
    name: str = args.speaker or agent_here() or user_name()
    if not is_name(name):
        raise Invalid(f"nobody can be called {name!r}; 1 to 200 bytes without control characters are needed (--as, {AGENT})")
    return name


def agent_here() -> str | None:
    """The agent that this runs inside of."""
    return os.environ.get(AGENT) or os.environ.get(AT_WORK) or None


def together(wishes: Sequence[TownCommand]) -> list[TownCommand]:
    """Unconditional wishes as one: all of them, or none."""
    answer = "\n".join(wish.answer for wish in wishes)
    return [TownCommand(events=tuple(event for wish in wishes for event in wish.events), answer=answer)]


def tell(args: Namespace, done: Sequence[Fulfilled]) -> int:
    """Say what came of it."""
    if args.json:
        terminal.out_value(
            {
                "answer": "\n".join(each.answer for each in done if each.answer),
                "events": [_told(event) for each in done for event in each.events],
            }
        )
        return 0
    for each in done:
        for line in each.answer.splitlines():
            terminal.out(terminal.sanitise(line))
    return 0


def _told(event: Event) -> dict[str, str | None]:
    return {name: getattr(event, name) for name in ("id", "position", "kind", "agent", "child", "task", "mission")}
