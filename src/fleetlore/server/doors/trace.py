"""W3C Trace Context: a request may say which trace it belongs to, and the answer says it, too."""

from __future__ import annotations

import re
from secrets import token_hex
from typing import NamedTuple

from starlette.requests import Request

_traceparent = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL).fullmatch


class Trace(NamedTuple):
    """Where a request comes from."""

    id: str
    parent: str
    flags: str

    @property
    def traceparent(self) -> str:
        """As events keep it."""
        return f"00-{self.id}-{self.parent}-{self.flags}"

    def answer(self) -> dict[str, str]:
        """The header that goes with the answer: the same trace, and a place of ours in it."""
        return {"traceresponse": f"00-{self.id}-{token_hex(8)}-{self.flags}"}


def trace_of(request: Request) -> Trace | None:
    """The trace that a request names; `None` where it names none, or not as the standard has it: then it is to be ignored."""
    given = request.headers.getlist("traceparent")
    found = _traceparent(given[0].strip(" \t")) if len(given) == 1 else None
    if found is None:
        return None
    version, id, parent, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not id.strip("0") or not parent.strip("0"):
        return None
    return Trace(id, parent, flags)
