"""HTTP connections to models. The only module that imports httpx2, on which the client libraries are based."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fleetlore.errors import UnusableAnswer

MAX_RESPONSE_BYTES = 32 << 20
"""Limit for one response. The JSON around a token is much larger than the token."""


def create_http_client(connect: float) -> Any:
    """An HTTP client for one model, with a timeout of `connect` seconds for each connection."""
    import httpx2

    class LimitedStream(httpx2.AsyncByteStream):
        """Raises if the response is too large."""

        def __init__(self, stream: Any) -> None:
            self._stream, self._remaining = stream, MAX_RESPONSE_BYTES

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                self._remaining -= len(chunk)
                if self._remaining < 0:
                    raise UnusableAnswer(f"the endpoint sent more than {MAX_RESPONSE_BYTES} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def limit_response(response: httpx2.Response) -> None:
        response.stream = LimitedStream(response.stream)

    # Timeouts for tokens are in `endpoint.py`; here only the connection has one.
    timeout = httpx2.Timeout(None, connect=connect)
    # No compression, as a small response could expand to any size. Redirects are not followed: they would get the prompt.
    return httpx2.AsyncClient(timeout=timeout, event_hooks={"response": [limit_response]}, headers={"accept-encoding": "identity"})


def http_error_types() -> tuple[type[Exception], ...]:
    """Exceptions that the client libraries pass through unchanged."""
    import httpx2

    return (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)
