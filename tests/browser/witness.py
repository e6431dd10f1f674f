"""A witness sees all that a browser says, asks for and is refused, and tells at the end what must not have been."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, Response, WebError, WebSocket

_FAULTS = ("error", "warning", "assert")
_GIVEN_UP = "net::ERR_ABORTED"
"""A page that is left gives up its stream, and a view that nobody looks at any more its question."""


class Witness:
    """Watches one browser context from its first request on."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.origins = {origin}
        """Where requests may go."""
        self.urls: list[str] = []
        self._faults: list[str] = []
        self._forgiven: list[re.Pattern[str]] = []
        context.on("console", self._receive)
        context.on("weberror", self._catch)
        context.on("dialog", self._close)
        context.on("request", self._see)
        context.on("requestfailed", self._miss)
        context.on("response", self._answer)
        context.on("page", lambda page: page.on("websocket", self._see_socket))

    def forgive(self, *patterns: str) -> None:
        """What is meant to happen in this test is no fault."""
        self._forgiven += [re.compile(pattern) for pattern in patterns]

    @property
    def faults(self) -> list[str]:
        """All that went wrong; there must be nothing."""
        return [fault for fault in self._faults if not any(pattern.search(fault) for pattern in self._forgiven)]

    def _receive(self, message: ConsoleMessage) -> None:
        if message.type in _FAULTS:
            self._faults.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def _catch(self, error: WebError) -> None:
        self._faults.append(f"uncaught: {error.error.stack or error.error.message}")

    def _close(self, dialog: Dialog) -> None:
        self._faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _see(self, request: Request) -> None:
        self._note(request.url)

    def _see_socket(self, socket: WebSocket) -> None:
        self._note(re.sub("^ws", "http", socket.url))

    def _note(self, url: str) -> None:
        self.urls.append(url)
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and f"{parts.scheme}://{parts.netloc}" not in self.origins:
            self._faults.append(f"a request left: {url}")

    def _miss(self, request: Request) -> None:
        if request.failure != _GIVEN_UP:
            self._faults.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _answer(self, response: Response) -> None:
        if response.status >= 400:
            self._faults.append(f"refused: {response.status} {response.request.method} {response.url}")


def scrolls_sideways(page: Page) -> bool:
    """Whether anything sticks out of the window."""
    return bool(page.evaluate("document.scrollingElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth"))
