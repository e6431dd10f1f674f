"""Drains a spool over and over, or writes to it as hooks do, until it is killed or done."""

from __future__ import annotations

import json
import sys

from fleetlore.cli import open_log
from fleetlore.cli.hook import make_spool_line
from fleetlore.ingest import spool


def print_word(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(mode: str, name: str = "", count: str = "0") -> None:
    print_word("ready")
    if mode == "drain":
        while True:
            open_log.drain_spool()
    for n in range(int(count)):
        payload = {
            "session_id": name,
            "hook_event_name": "PermissionRequest",
            "tool_name": "Bash",
            "tool_input": {"command": f"{name} {n}"},
        }
        raw = json.dumps(payload).encode()
        spool.append_line(make_spool_line("claude-code", raw, len(raw)))
    print_word("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
