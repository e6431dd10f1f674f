"""Makes the README's pictures from `lore demo`: pages of the control room, and what a terminal shows, as SVG without outside fonts.

.venv/bin/python docs/pictures/make.py [NAME…]
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
LORE = str(Path(sys.executable).parent / "lore")
COLUMNS = 110
TERMINALS = ("demo", "status")
"""Pictures of a terminal."""
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-headless-shell")
MOMENTS = {
    "kaya needs you": {
        "now": ("now", "dark", 800),
        "session": ("sessions/Expire%20old%20signing%20keys%20after%2024%20hours", "light", 800),
        "brief": ("brief", "light", 800),
        "goals": ("goals", "dark", 800),
        "timeline": ("timeline", "dark", 800),
        "town": ("town?mission=rate-limits", "dark", 1000),
    },
}
"""A line of the demo → the pictures to take then: name → path, colour scheme, height."""


def capture_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Return what a command writes to a terminal, with colours."""
    main, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment)
    os.close(child)
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    process.wait()
    os.close(main)
    return b"".join(parts).decode().replace("\r\n", "\n")


def write_svg(path: Path, title: str, text: str) -> None:
    """Write the picture of a terminal as SVG."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(text.strip("\n")))
    svg = console.export_svg(title=title, unique_id=f"fleetlore-{path.stem}")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace(
        "Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace"
    )
    svg = "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
    path.write_text(svg, encoding="utf-8")


def photograph_pages(environment: dict[str, str], log: str, folder: Path, only: Sequence[str] | None) -> None:
    """Run the demo, and write pictures of its pages; of `only` these, if they are given."""
    from playwright.sync_api import sync_playwright

    demo = subprocess.Popen([LORE, "demo", "--log", log, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment)
    assert demo.stdout is not None
    try:
        announced = demo.stdout.readline()
        address = re.search(r"http://\S+/", announced)
        assert address is not None
        token = Path(announced.rpartition(" is in ")[2].strip()).read_text(encoding="utf-8").strip()
        with sync_playwright() as playwright:
            chromium = os.environ.get("FLEETLORE_CHROMIUM") or next(filter(os.path.exists, BROWSERS))
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for moment, pages in MOMENTS.items():
                while moment not in demo.stdout.readline():
                    assert demo.poll() is None, "the demo ended too early"
                for name, (path, scheme, height) in pages.items():
                    if only is not None and name not in only:
                        continue
                    page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme=scheme)
                    page.goto(f"{address[0]}{path}#token={token}", wait_until="load")
                    page.get_by_text("Live", exact=True).first.wait_for()
                    page.wait_for_timeout(1500)  # until animations have ended
                    page.screenshot(path=folder / f"{name}.png")
                    page.close()
            if only is None or "agent" in only:
                photograph_chat(browser, address[0], token, folder)
            browser.close()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.stdout.close()
        demo.wait(30)


def photograph_chat(browser: Browser, address: str, token: str, folder: Path) -> None:
    """Chat with the graph agent, and write a picture of it."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="dark")
    page.goto(f"{address}chat?session=new#token={token}", wait_until="load")
    for said in ("Make a counter", "And a traffic light, please"):
        page.get_by_label("Say something to the agent").fill(said)
        page.keyboard.press("Enter")
        page.get_by_text(said).first.wait_for()
        page.wait_for_timeout(1500)
    for name in ("+1", "+1", "Next"):
        page.locator(".agent-screen").get_by_role("button", name=name, exact=True).click()
        page.wait_for_timeout(400)
    page.wait_for_timeout(2500)
    page.mouse.move(640, 400)
    page.screenshot(path=folder / "agent.png")
    page.close()


def main(names: Sequence[str], folder: Path) -> None:
    """Write these pictures, or all."""
    with tempfile.TemporaryDirectory() as home:
        screen = {"COLUMNS": str(COLUMNS), "LINES": "40", "TERM": "xterm-256color", "TZ": "UTC"}
        environment = os.environ | screen | {"XDG_DATA_HOME": home, "XDG_CACHE_HOME": home, "XDG_CONFIG_HOME": home}
        environment.pop("NO_COLOR", None)
        log = f"sqlite:{home}/demo.db"
        if not names or {*names} - {*TERMINALS}:
            photograph_pages(environment, f"sqlite:{home}/live.db", folder, names or None)
        if not names or {*names} & {*TERMINALS}:
            played = capture_terminal([LORE, "demo", "--no-serve", "--log", log, "--speed", "0"], environment).replace(
                log, "sqlite:demo.db"
            )
            write_svg(folder / "demo.svg", "lore demo", "\n".join(played.strip().splitlines()[:34]))
            write_svg(folder / "status.svg", "lore status", capture_terminal([LORE, "status", "--log", log], environment))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the README's pictures from `lore demo`.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which pictures, such as now (all)")
    parser.add_argument("--folder", type=Path, default=HERE, help="where to write them (this folder)")
    given = parser.parse_args()
    main(given.names, given.folder)
