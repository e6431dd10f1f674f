"""The browser of a soak test: one Chromium that visits all pages in turn.

`python -m torture.soak_browser URL TOKEN` prints one JSON object per minute: heap, nodes and listeners of the Fleet page after a garbage
collection, and the errors since the last one. Ends when its standard input ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import CDPSession, Page, expect, sync_playwright
from tests.browser import conftest
from tests.browser.witness import Witness

PATIENCE = 30_000
STAY = (2.0, 5.0)
"""Seconds on each page."""
REPORT_SECONDS = 60.0
OFTEN, FIRST_STEPS, SELDOM = 1, 60, 5
"""At first it travels back after every page, so that the server soon remembers as much of the past as it ever will; later now and then."""
PAGES = {"f": "article.card", "s": ".sentence", "t": "canvas", "h": "main", "c": "main", "w": "main", "e": ".ev-row"}
"""Key of a page → what is to be seen there."""


class PageVisitor:
    """Somebody who looks at everything, again and again."""

    def __init__(self, page: Page, witness: Witness, session: CDPSession, seed: int) -> None:
        self._page, self._witness, self._session = page, witness, session
        self._rng, self._reported, self.steps = Random(seed), 0, 0

    def visit_pages(self, stop: Flag) -> None:
        reported_at = monotonic() - REPORT_SECONDS
        for key, sight in self._next_pages():
            if stop.is_set():
                break
            self._page.keyboard.press(key)
            expect(self._page.locator(sight).first).to_be_visible(timeout=PATIENCE)
            self._page.wait_for_timeout(self._rng.uniform(*STAY) * 1000)
            self.steps += 1
            if self.steps % (OFTEN if self.steps < FIRST_STEPS else SELDOM) == 0:
                self._visit_past()
            if key == "f" and monotonic() - reported_at >= REPORT_SECONDS:
                reported_at = monotonic()
                self._print_metrics()

    def _next_pages(self) -> Iterator[tuple[str, str]]:
        (fleet, *others) = PAGES.items()
        while True:
            yield fleet
            yield from self._rng.sample(others, 3)

    def _visit_past(self) -> None:
        """Back to some moment, a step from there, and home."""
        slider = self._page.get_by_role("slider", name="Moment that is shown")
        first, last = (float(slider.get_attribute(name) or 0) for name in ("min", "max"))
        slider.fill(str(first + (last - first) * self._rng.random() * 0.9))
        expect(self._page.locator(".banner.past")).to_be_visible(timeout=PATIENCE)
        self._page.wait_for_timeout(1000)
        self._page.keyboard.press("]")
        self._page.wait_for_timeout(1000)
        self._page.keyboard.press("l")
        expect(self._page.locator(".banner.past")).to_have_count(0, timeout=PATIENCE)

    def _print_metrics(self) -> None:
        for _ in range(2):  # what the first sets free may hold more
            self._session.send("HeapProfiler.collectGarbage")
        metrics = {entry["name"]: entry["value"] for entry in self._session.send("Performance.getMetrics")["metrics"]}
        faults = self._witness.faults
        metrics_now: dict[str, Any] = {
            "heap": metrics["JSHeapUsedSize"] / 1e6,
            "nodes": metrics["Nodes"],
            "listeners": metrics["JSEventListeners"],
            "steps": self.steps,
            "faults": faults[self._reported :],
        }
        self._reported = len(faults)
        print(json.dumps(metrics_now), flush=True)
        self._witness.urls.clear()

    def end(self) -> None:
        self._page.keyboard.press("f")
        expect(self._page.locator("article.card").first).to_be_visible(timeout=PATIENCE)
        self._print_metrics()


def main(url: str, token: str, seed: int) -> None:
    stop = Flag()
    Thread(target=_wait, args=(stop,), daemon=True).start()
    with sync_playwright() as playwright, conftest.launch(playwright, "--enable-precise-memory-info") as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE)
        witness, page = Witness(context, url.rstrip("/")), context.new_page()
        page.goto(f"{url}fleet#token={token}")
        expect(page.locator("article.card").first).to_be_visible(timeout=PATIENCE)
        session = context.new_cdp_session(page)
        session.send("Performance.enable")
        visitor = PageVisitor(page, witness, session, seed)
        visitor.visit_pages(stop)
        visitor.end()


def _wait(stop: Flag) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1)
