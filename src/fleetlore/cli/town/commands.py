"""`TownConsole`: an open town, for the verbs of `lore town` that read it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.cli import open_log
from fleetlore.cli.operations import find_current_agent as find_current_agent
from fleetlore.cli.operations import find_speaker
from fleetlore.projections.signed_town import SignedTownFold

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.log.coordination import Coordination
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.runner import FoldResult
    from fleetlore.settings import Settings
    from fleetlore.views.town_state import TownState


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

    def make_fold(self) -> SignedTownFold:
        """The town view. Signatures are not verified: that needs the key."""
        return SignedTownFold(self.shared.load_seal())

    def fold(self) -> FoldResult[TownState]:
        """The town at the head of the log, and that position."""
        from fleetlore.cli import fold

        fold_view = self.make_fold()
        return fold.fold_to_head(self.log, fold_view, fold_view.name)

    def town(self) -> TownState:
        """The town at the head of the log."""
        return self.fold().state


@contextmanager
def open_town(args: Namespace) -> Iterator[TownConsole]:
    """Open the town for reading."""
    from fleetlore.log.coordination import open_shared

    by, settings = find_speaker(args), open_log.settings_of(args)
    with (
        open_log.open_existing_log(args, settings=settings) as log,
        open_shared(settings.log.value, town=settings.town.value) as shared,
    ):
        yield TownConsole(log, shared, settings, by)
