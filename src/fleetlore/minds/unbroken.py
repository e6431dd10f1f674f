"""Work that is not broken off in its midst: whoever is cancelled while it goes on waits for its end, and is cancelled then."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def unbroken(work: Coroutine[Any, Any, _T]) -> _T:
    """What comes of it. A thread that writes cannot be called off: letting go of its locks meanwhile would let others in."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # known, and of less weight
        raise cancelled
    return task.result()
