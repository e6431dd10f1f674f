"""How long a page keeps the browser's main thread busy.

Measured by the thread's own processor time, as Chromium's trace has it: on a busy machine the time on the clock says how long a task
waited for a processor, and not how long it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Page

_CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
_TASKS = ("RunTask", "ThreadControllerImpl::RunTask")


def measure_longest_task(page: Page, act: Callable[[], object]) -> float:
    """The longest task of the page's main thread while something is done in it, in milliseconds of processor time."""
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=_CATEGORIES)
    try:
        act()
    finally:
        events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {
        (event["pid"], event["tid"]) for event in events if event["name"] == "thread_name" and event["args"].get("name") == "CrRendererMain"
    }
    spent = [
        event["tdur"] / 1000 for event in events if event["name"] in _TASKS and (event["pid"], event["tid"]) in main and "tdur" in event
    ]
    assert spent, "the trace has no task of the page"
    return float(max(spent))
