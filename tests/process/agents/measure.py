"""How much memory reading a flood of output takes: `python -m tests.process.agents.measure line|lines|stderr BYTES`."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys

from fleetlore.process.environment import scrub_environment
from fleetlore.process.run import OutputLine, ProcessSpec, run
from fleetlore.process.tree import Process
from tests.process.agents import agent


async def on_start(process: Process) -> bool:
    return True


async def on_line(line: OutputLine) -> bool:
    return True


def most() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    flood = agent("flood", *sys.argv[1:])
    program = ProcessSpec(argv=flood, cwd="/", env=scrub_environment(os.environ, mark="flood"), mark="flood")
    before = most()
    finished = asyncio.run(run(program, on_start, on_line))
    sys.stdout.write(json.dumps({"why": finished.why, "mib": (most() - before) / (1024 if sys.platform == "linux" else 1024**2)}))


if __name__ == "__main__":
    main()
