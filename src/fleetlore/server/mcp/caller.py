"""Who calls the MCP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext
from fleetlore.operations.sources import ViewSource

if TYPE_CHECKING:
    from fleetlore.log.tokens import TokenScope


class Caller(NamedTuple):
    """The caller: named by its token's label or by the options of `lore mcp`, never by the request."""

    name: str | None = None
    can_write: bool = False
    refusal: str = ""
    """Why it cannot write, and what to do about it."""
    can_admin: bool = False

    def require_scope(self, scope: TokenScope) -> str:
        """The name to store events under; `Invalid` if the caller may not."""
        if not self.can_write or self.name is None:
            raise Invalid(self.refusal or "this needs the right to write, and a name to speak under")
        if scope in ("approve", "admin") and not self.can_admin:
            raise Invalid("this controls others, and needs a token with the scope admin, or `lore mcp --admin`")
        return self.name

    def open_context(self, source: ViewSource) -> OperationContext:
        """What an operation gets when this caller reads."""
        return OperationContext(source, actor=self.name or "", is_agent=True)

    def may_use(self, scope: TokenScope) -> bool:
        """Whether tools of this scope are offered to the caller."""
        return scope == "read" or (self.can_write if scope == "write" else self.can_admin)
