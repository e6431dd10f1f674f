"""Opens a house for a log: its store, its tokens, its views and its feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleetlore import clock
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.log.tokens import create_token
from fleetlore.projections.live_views import FindStore
from fleetlore.projections.signed_goals import SignedGoalsFold
from fleetlore.projections.signed_town import SignedTownFold
from fleetlore.projections.store import ProjectionStore, open_store
from fleetlore.server.context import House
from fleetlore.server.live.feed import Feed
from fleetlore.server.search_index import Finder
from fleetlore.server.security.authorization import Keyring
from fleetlore.server.security.hosts import check_address, is_loopback
from fleetlore.server.security.limits import Limits
from fleetlore.server.security.local_token import LABEL, given_out, own_file, own_token
from fleetlore.server.view_cache import Desk
from fleetlore.settings import Settings
from fleetlore.views.costs import Costs
from fleetlore.views.prices import Prices

if TYPE_CHECKING:
    from fleetlore.graph.settings import GraphSettings


class Opened(NamedTuple):
    """A house, and the token that was made for whoever opened it."""

    house: House
    token: str
    token_file: str | None
    """Where the token is kept, closed to others; `None` for a log that is not kept either."""
    is_sealed: bool = False
    steering: str | None = None
    """On a sealed log whose passphrase was given: a token that may steer, kept nowhere and good as long as the house stands."""


@contextmanager
def open_house(
    log: BlockingRecorder,
    settings: Settings,
    *,
    host: str,
    limits: Limits | None = None,
    operator: OperatorKey | None = None,
    graph: Callable[[], GraphSettings] | None = None,
    now: clock.Clock = clock.now,
) -> Iterator[Opened]:
    """Everything that serving a log on an address needs; `ConfigError` if others could reach it and nothing would keep them out.

    `graph` says what agents talk with, once somebody talks to them.
    """
    with ExitStack() as stack:
        info = log.info()
        shared = stack.enter_context(open_shared(settings.log.value, town=settings.town.value))
        check_address(host, has_tokens=bool(given_out(shared.list_tokens(), now())))
        seal = shared.load_seal()
        file, is_sealed = own_file(info), seal is not None
        token = own_token(shared, file, scope="write" if is_sealed else "admin", now=now)
        steering, own = create_token("admin", label=LABEL, now=now()) if is_sealed and operator is not None else (None, None)
        desk = Desk(
            log,
            _finding_store(log, stack),
            costs=Costs(Prices(settings.prices.value)),
            goals=SignedGoalsFold(seal, operator),
            town=SignedTownFold(seal, operator),
            shared=shared,
            now=now,
        )
        house = House(
            log=log,
            settings=settings,
            desk=desk,
            feed=Feed(log),
            # With a connection of its own, so that a long step of the index keeps no checkpoint waiting.
            finder=Finder(log, _finding_store(log, stack), desk.warm),
            keys=Keyring(shared, is_open_to_read=is_loopback(host), operator=operator, own=own, now=now),
            limits=limits or Limits(),
            operator=operator,
            graph=graph,
            now=now,
        )
        yield Opened(house, token, file, is_sealed, steering)


def _finding_store(log: BlockingRecorder, stack: ExitStack) -> FindStore:
    """Opens the store once there can be one: a new log is given its id, by which its store is known, with its first event."""
    found: list[ProjectionStore] = []

    def find() -> ProjectionStore | None:
        if not found and (store := open_store(log.info())) is not None:
            found.append(stack.enter_context(store))
        return found[0] if found else None

    return find
