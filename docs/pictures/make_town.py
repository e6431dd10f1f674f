"""Makes the picture of the Town page, from the town that its tests look at.

.venv/bin/python -m docs.pictures.make_town
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.browser.control_room import room_in
from tests.server import town_logs

HERE = Path(__file__).parent


def main() -> None:
    """Tell the story, and photograph the page."""
    with tempfile.TemporaryDirectory() as folder, room_in(Path(folder)) as room, sync_playwright() as playwright:
        room.start().tell(*town_logs.all_sorts())
        chromium = os.environ.get("FLEETLORE_CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 1340}, color_scheme="light")
        page.goto(f"{room.url}/town?mission={town_logs.MISSION}#token={room.token}", wait_until="load")
        page.locator(".town-node").first.wait_for()
        page.wait_for_timeout(1000)  # for what moves to come to rest
        page.screenshot(path=HERE / "town.png")
        browser.close()


if __name__ == "__main__":
    main()
