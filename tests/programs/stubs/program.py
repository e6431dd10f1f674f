"""Stands in for a coding agent's program: notes how it was called, then does what a script says. `python program.py SCRIPT ARGUMENTS…`.

SCRIPT is a JSON list: an object is printed as a record, a string as it is, `["stderr", words]`, `["hang"]`, `["exit", code]`
and `["refuses", option]` are done.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO


def _report(words: str, where: TextIO) -> None:
    where.write(words)
    where.flush()


def act(step: Any) -> None:
    match step:
        case ["stderr", words]:
            _report(f"{words}\n", sys.stderr)
        case ["hang"]:
            time.sleep(3600)
        case ["exit", code]:
            sys.exit(code)
        case ["refuses", option]:
            if option in sys.argv:
                _report(f"error: unknown option '{option}'\n", sys.stderr)
                sys.exit(1)
        case str():
            _report(step, sys.stdout)
        case _:
            _report(f"{json.dumps(step)}\n", sys.stdout)


def main(script: str, *arguments: str) -> None:
    files = {argument: Path(argument).read_text() for argument in arguments if argument.endswith(".json") and os.path.exists(argument)}
    modes = {name: os.stat(name).st_mode & 0o777 for name in files}
    seen = {"arguments": arguments, "prompt": sys.stdin.read(), "cwd": os.getcwd(), "env": dict(os.environ), "files": files, "modes": modes}
    with Path(script).with_suffix(".seen").open("a") as file:
        file.write(json.dumps(seen) + "\n")
    for step in json.loads(Path(script).read_text()):
        act(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
