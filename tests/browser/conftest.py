"""One Chromium a worker; for each test a control room and a context of its own, and a witness who says what was wrong in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from fleetlore.server import pages
from tests.browser.control_room import ControlRoom, room_in
from tests.browser.witness import Witness

SHELL = "/usr/bin/chromium-headless-shell"
"""The same engine without what nobody sees of a browser, windows above all: a context takes a third of the processor's time."""
CHROMIUM = os.environ.get("FLEETLORE_CHROMIUM") or (SHELL if os.access(SHELL, os.X_OK) else "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE = 90_000
"""Milliseconds; the machine may be busy."""


def launch(playwright: Playwright, *more: str) -> Browser:
    return playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, *more])


# No wider than this package: as long as Playwright runs, no test of the same process can start an event loop.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    _need(os.access(CHROMIUM, os.X_OK), f"there is no browser at {CHROMIUM}; name one with FLEETLORE_CHROMIUM, or install Chromium")
    _need(os.path.isfile(f"{pages.FOLDER}/index.html"), "the pages are not built; run `make web`")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as started:
        yield started


def _need(is_there: bool, reason: str) -> None:
    if not is_there:
        must = os.environ.get("CI") or os.environ.get("FLEETLORE_NEED_BROWSER")
        pytest.fail(reason) if must else pytest.skip(reason)


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with launch(playwright) as launched:
        yield launched


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    """A control room that is open; its log is empty."""
    with room_in(tmp_path) as made:
        yield made.start()


class Visits:
    """Opens pages, each in a browser that was never here before; `witness` is that of the newest."""

    def __init__(self, browser: Browser) -> None:
        self._browser, self._stack = browser, ExitStack()
        self._witnesses: list[Witness] = []

    def __call__(self, room: ControlRoom, path: str = "/", *, signed_in: bool = True, **options: Any) -> Page:
        """Open a page in a browser that may read, unless it is not signed in; `#token=…` in the path gives it other rights."""
        context = self._stack.enter_context(self._browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | options)))
        if signed_in:
            context.add_cookies([{"name": room.context.keys.cookie, "value": room.create_token("read"), "url": room.url}])
        context.set_default_timeout(PATIENCE)
        self._witnesses.append(Witness(context, room.url))
        page = context.new_page()
        page.goto(room.url + path)
        return page

    @property
    def witness(self) -> Witness:
        return self._witnesses[-1]

    def forgive(self, *patterns: str) -> None:
        """The same for all of them."""
        for witness in self._witnesses:
            witness.forgive(*patterns)

    def end(self) -> list[str]:
        """Close them all; every fault that was seen."""
        self._stack.close()
        return [fault for witness in self._witnesses for fault in witness.faults]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visits]:
    """Whatever a test does in the pages that it opens, at the end there must have been no fault in any of them."""
    visits = Visits(browser)
    yield visits
    assert visits.end() == []
