"""Connections to models. The only module that knows httpx2, on which the client libraries stand; it is imported with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fleetlore.errors import MindNonsense

MOST_BYTES = 32 << 20
"""What is read of one response at the most; a token's wrapping is far larger than the token."""


def create_http_client(connect: float) -> Any:
    """Connections for one mind: `connect` seconds for each to come about."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """The same bytes, and an error instead of too many."""

        def __init__(self, stream: Any) -> None:
            self._stream, self._left = stream, MOST_BYTES

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self._stream:
                self._left -= len(part)
                if self._left < 0:
                    raise MindNonsense(f"the endpoint sent more than {MOST_BYTES} bytes")
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        response.stream = Bounded(response.stream)

    # Tokens are waited for above; here nothing but the connection has its own time.
    timeout = httpx2.Timeout(None, connect=connect)
    # A compressed answer could be any size, and to go where an endpoint points would take the prompt there.
    return httpx2.AsyncClient(timeout=timeout, event_hooks={"response": [bound]}, headers={"accept-encoding": "identity"})


def http_error_types() -> tuple[type[Exception], ...]:
    """What may come through the client libraries as it is."""
    import httpx2

    return (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)
