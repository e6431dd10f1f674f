"""Makes the README's pictures from `lore demo`: what a terminal of 110 columns shows, as SVG without outside fonts.

.venv/bin/python docs/pictures/make.py
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
LORE = str(Path(sys.executable).parent / "lore")
COLUMNS = 110


def shown(command: list[str], environment: dict[str, str]) -> str:
    """What a command writes to a terminal, colours included."""
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


def picture(name: str, title: str, text: str) -> None:
    """Write one SVG."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(text.strip("\n")))
    svg = console.export_svg(title=title, unique_id=f"fleetlore-{name}")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace(
        "Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace"
    )
    svg = "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")


def main() -> None:
    """Play the demo once and photograph it."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"COLUMNS": str(COLUMNS), "LINES": "40", "TERM": "xterm-256color", "XDG_DATA_HOME": home, "TZ": "UTC"}
        environment.pop("NO_COLOR", None)
        log = f"sqlite:{home}/demo.db"
        played = shown([LORE, "demo", "--log", log, "--speed", "0"], environment).replace(log, "sqlite:demo.db")
        picture("demo", "lore demo", "\n".join(played.strip().splitlines()[:34]))
        picture("status", "lore status", shown([LORE, "status", "--log", log], environment))


if __name__ == "__main__":
    main()
