"""`TownConsole`: an open town for the verbs of `lore town`, and how their commands are checked and stored."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.cli import open_log, terminal
from fleetlore.cli.emit import find_user_name
from fleetlore.errors import Invalid
from fleetlore.events.names import is_name
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.town.commands import TownCommand
from fleetlore.town.store_commands import StoredCommand, store_commands

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

AGENT, WORKER_AGENT, TASK = "FLEETLORE_AGENT", "LORE_AGENT", "LORE_TASK"
"""Environment variables for the agent that a process speaks for: set by people, and by workers with the current task."""


class TownConsole(NamedTuple):
    """An open town: log, coordination, settings and speaker."""

    log: BlockingRecorder
    shared: Coordination
    settings: Settings
    by: str
    """The actor of events."""

    @property
    def name(self) -> str:
        """The town's name."""
        return self.settings.town.value

    @property
    def is_sealed(self) -> bool:
        """Whether the log is sealed, so that commands must be signed."""
        return self.shared.load_seal() is not None

    def ask_key(self, why: str) -> OperatorKey | None:
        """The operator key, asked for on the terminal; `None` if the log is not sealed."""
        from fleetlore.cli import passphrase

        return passphrase.ask_key(self.shared, why)

    def make_fold(self, key: OperatorKey | None = None) -> SignedTownFold:
        """The town view. Signatures are only verified with the key."""
        return SignedTownFold(self.shared.load_seal(), key)

    def fold(self, key: OperatorKey | None = None) -> FoldResult[TownState]:
        """The town at the head of the log, and that position."""
        from fleetlore.cli import fold

        fold_view = self.make_fold(key)
        return fold.folded(self.log, fold_view, fold_view.name)

    def town(self, key: OperatorKey | None = None) -> TownState:
        """The town at the head of the log."""
        return self.fold(key).state

    def store_commands(self, make_commands: Callable[[TownState], Sequence[TownCommand]], *, why: str = "") -> list[StoredCommand]:
        """Make commands from the current town and store them; retried if another writer was faster. Only the first may have a condition.

        `why` is what a sealed log's passphrase is needed for; "" if no signature is needed. The town is read with the key, so that forged
        events of an agent do not count.
        """
        return self.store_commands_with(self.ask_key(why) if why else None, make_commands)

    def store_commands_with(
        self, key: OperatorKey | None, make_commands: Callable[[TownState], Sequence[TownCommand]]
    ) -> list[StoredCommand]:
        """`store_commands` with a key that is already known."""
        return store_commands(self.log, lambda: make_commands(self.town(key)), key=key)


@contextmanager
def open_town(args: Namespace, *, new: bool = False) -> Iterator[TownConsole]:
    """Open the town; with `new` its log is created if needed."""
    from fleetlore.log.coordination import open_shared

    by, settings = find_speaker(args), open_log.settings_of(args)
    opener = open_log.open_log if new else open_log.open_existing_log
    with opener(args, settings=settings) as log, open_shared(settings.log.value, town=settings.town.value) as shared:
        if new:
            check_log_keeps_all(log, settings)
        yield TownConsole(log, shared, settings, by)


def check_log_keeps_all(log: BlockingRecorder, settings: Settings) -> None:
    """`Invalid` for a log that drops or redacts events: a town needs all of them."""
    if log.info().details.get("keeps", "everything") != "everything":
        raise Invalid("this log drops its oldest events (?keep=tinytown), but a town needs all of them; choose another log with --log")
    levels = settings.redact_levels
    if levels.value:
        raise Invalid(
            f"[redact] level ({levels.source}) removes {', '.join(levels.value)} from events, but a town needs them:"
            " agents would not know their tasks; remove `level`, or use other settings for the town"
        )


def find_speaker(args: Namespace) -> str:
    """The actor: `--as`, else the agent that this runs in, else the user."""
    name: str = args.speaker or find_current_agent() or find_user_name()
    if not is_name(name):
        raise Invalid(f"not a valid name: {name!r} (from --as or {AGENT}); use 1 to 200 bytes without control characters")
    return name


def find_current_agent() -> str | None:
    """The agent that this process runs in; `None` outside of agents."""
    return os.environ.get(AGENT) or os.environ.get(WORKER_AGENT) or None


def merge_commands(town_commands: Sequence[TownCommand]) -> list[TownCommand]:
    """Unconditional commands as one: all or none are stored."""
    answer = "\n".join(command.answer for command in town_commands)
    return [TownCommand(events=tuple(event for command in town_commands for event in command.events), answer=answer)]


def print_results(args: Namespace, done: Sequence[StoredCommand]) -> int:
    """Print the answers of stored commands."""
    if args.json:
        terminal.out_value(
            {
                "answer": "\n".join(each.answer for each in done if each.answer),
                "events": [_event_fields(event) for each in done for event in each.events],
            }
        )
        return 0
    for each in done:
        for line in each.answer.splitlines():
            terminal.out(terminal.sanitise(line))
    return 0


def _event_fields(event: Event) -> dict[str, str | None]:
    return {name: getattr(event, name) for name in ("id", "position", "kind", "agent", "child", "task", "mission")}
