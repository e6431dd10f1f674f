"""Opens an `AppContext` for a log: projection store, tokens, views, feed and search. Used by `lore up`, `lore demo` and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleetlore import clock
from fleetlore.ingest.span_buffer import SpanBuffer
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.log.tokens import create_token
from fleetlore.projections.live_views import FindStore
from fleetlore.projections.store import ProjectionStore, open_store
from fleetlore.server.context import AppContext
from fleetlore.server.live.feed import Feed
from fleetlore.server.security.authorization import Keyring
from fleetlore.server.security.hosts import check_address
from fleetlore.server.security.limits import RequestLimits
from fleetlore.server.security.local_token import (
    LOCAL_TOKEN_LABEL,
    cookie_name,
    load_or_create_token,
    local_token_file,
    select_issued_tokens,
)
from fleetlore.server.view_cache import ViewCache
from fleetlore.settings import Settings
from fleetlore.views.outcomes.rules import read_outcome_rules

if TYPE_CHECKING:
    from fleetlore.graph.settings import GraphSettings


class OpenedContext(NamedTuple):
    """A context, and the token for the person who started the server."""

    context: AppContext
    token: str
    token_file: str | None
    """The private file that keeps the token; `None` for a log in memory."""
    is_sealed: bool = False
    admin_token: str | None = None
    """On a sealed log whose passphrase was given: a token with the scope `admin`. It is not stored and ends with the context."""

    def create_link(self) -> str:
        """The path of a one-time link that signs a browser in with the rights of `token`. Call it on the server's event loop."""
        return self.context.links.create_path("write" if self.is_sealed else "admin")


@contextmanager
def open_context(
    log: BlockingRecorder,
    settings: Settings,
    *,
    host: str,
    limits: RequestLimits | None = None,
    operator: OperatorKey | None = None,
    graph: Callable[[], GraphSettings] | None = None,
    now: clock.Clock = clock.now,
) -> Iterator[OpenedContext]:
    """Open everything that serving a log needs; closed at the end of the block.

    `ConfigError` if `host` is reachable by others and no token was created. `graph` is called for the chat settings when somebody chats.
    """
    with ExitStack() as stack:
        info = log.info()
        shared = stack.enter_context(open_shared(settings.log.value, town=settings.town.value))
        check_address(host, has_tokens=bool(select_issued_tokens(shared.list_tokens(), now())))
        file, is_sealed = local_token_file(info), shared.load_seal() is not None
        token = load_or_create_token(shared, file, scope="write" if is_sealed else "admin", now=now)
        admin_token, own = create_token("admin", label=LOCAL_TOKEN_LABEL, now=now()) if is_sealed and operator is not None else (None, None)
        view_cache = ViewCache(
            log,
            _make_store_finder(log, stack),
            find_index_store=_make_store_finder(log, stack),
            settings=settings,
            rules=read_outcome_rules(settings),
            coordination=shared,
            operator=operator,
            graph=graph,
            now=now,
        )
        context = AppContext(
            log=log,
            settings=settings,
            view_cache=view_cache,
            feed=Feed(log),
            keys=Keyring(shared, cookie=cookie_name(info), operator=operator, own=own, now=now),
            limits=limits or RequestLimits(),
            span_buffer=SpanBuffer(None if file is None else f"{file.removesuffix('.token')}.spans", now=now),
            operator=operator,
            now=now,
        )
        yield OpenedContext(context, token, file, is_sealed, admin_token)


def _make_store_finder(log: BlockingRecorder, stack: ExitStack) -> FindStore:
    """A function that opens the projection store once it can: a new log gets its id, which names the store, with its first event."""
    opened: list[ProjectionStore] = []

    def find() -> ProjectionStore | None:
        if not opened and (store := open_store(log.info())) is not None:
            opened.append(stack.enter_context(store))
        return opened[0] if opened else None

    return find
