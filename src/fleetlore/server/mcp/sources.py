"""Who calls the MCP tools, and the views of the HTTP server as their source (`operations/sources.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.operations.context import OperationContext
from fleetlore.operations.sources import ViewSnapshot, ViewSource
from fleetlore.projections import search
from fleetlore.projections.outcomes import OutcomeQuery
from fleetlore.projections.store import ProjectionStore
from fleetlore.story.reading import ReadPeriod
from fleetlore.views.outcomes.record import Outcome
from fleetlore.views.task_outcomes import TaskOutcome

if TYPE_CHECKING:
    from fleetlore.log.seal import OperatorKey
    from fleetlore.log.tokens import TokenScope
    from fleetlore.server.context import AppContext


class Caller(NamedTuple):
    """The caller: named by its token's label or by the options of `lore mcp`, never by the request."""

    name: str | None = None
    can_write: bool = False
    refusal: str = ""
    """Why it cannot write, and what to do about it."""
    can_admin: bool = False

    def require(self, scope: TokenScope) -> str:
        """The name to store events under; `Invalid` if the caller may not."""
        if not self.can_write or self.name is None:
            raise Invalid(self.refusal or "this needs the right to write, and a name to speak under")
        if scope == "admin" and not self.can_admin:
            raise Invalid("this controls others, and needs a token with the scope admin, or `lore mcp --admin`")
        return self.name

    def open_context(self, source: ViewSource) -> OperationContext:
        """What an operation gets when this caller reads."""
        return OperationContext(source, actor=self.name or "", is_agent=True)

    def may_use(self, scope: TokenScope) -> bool:
        """Whether tools of this scope are offered to the caller."""
        return scope == "read" or (self.can_admin if scope == "admin" else self.can_write)


class ServerSource:
    """The views of the HTTP server, which are kept up to date."""

    def __init__(self, context: AppContext) -> None:
        self._context, self.log, self.town = context, context.log, context.town
        self.prices = context.view_cache.rules.costs.prices.date
        self.settings, self.coordination, self.now = context.settings, context.view_cache.shared, context.clock

    def find_key(self, why: str) -> OperatorKey | None:
        """The operator key that the server was started with; tokens have no right to admin without it."""
        return self._context.operator

    def snapshot(self, position: Position | None, views: Sequence[str]) -> AbstractContextManager[ViewSnapshot]:
        """Some views at the head."""
        return self._context.view_cache.snapshot(position, views)

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words."""
        return self._context.search_index.find(text, wanted, limit)

    def find_store(self) -> ProjectionStore | None:
        """The projection store."""
        return self._context.view_cache.find_store()

    def find_outcomes(self, wanted: OutcomeQuery) -> list[Outcome]:
        """The outcome records of sessions."""
        return self._context.view_cache.find_outcomes(wanted)

    def list_tasks(self, wanted: OutcomeQuery) -> list[TaskOutcome]:
        """What happened to tasks."""
        return self._context.view_cache.list_tasks(wanted)

    def list_active_times(self, wanted: OutcomeQuery) -> list[datetime]:
        """When sessions and tasks were active."""
        return self._context.view_cache.list_active_times(wanted)

    def read_period(self, wanted: OutcomeQuery, zone: tzinfo, newest_event: datetime | None = None, *, whole: bool = False) -> ReadPeriod:
        """The records of a period."""
        return self._context.view_cache.read_period(wanted, zone, newest_event, whole=whole)

    def resolve_position(self, as_of: str | None) -> Position | None:
        """The position for `as_of`, a position or a time."""
        return self._context.view_cache.resolve_position(as_of)

    def open_view(self, name: str, key: OperatorKey | None = None) -> AbstractContextManager[tuple[Any, bool]]:
        """One view at the head; signatures are verified with the server's own key."""
        return self._context.view_cache.open_view(name)
