"""Plays an agent that guesses first, and then uses the output of the check."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path("retry.py")


def report_progress(text: str, tokens: int) -> None:
    """Report progress and tokens, then wait."""
    sys.stdout.write(json.dumps({"say": text, "tokens": tokens, "usd": tokens / 100_000, "model": "claude-haiku-4-5"}) + "\n")
    sys.stdout.flush()
    time.sleep(float(os.environ["DEMO_PACE"]))


def set_factor(factor: int) -> None:
    """Set by how much the delay grows with each attempt."""
    SOURCE.write_text(re.sub(r"(?m)^FACTOR = .*", f"FACTOR = {factor}", SOURCE.read_text()))


def take_turn(prompt: str) -> None:
    """Guess in the first turn; use the check's output after that."""
    expected = re.findall(r"test_delay\[2\]: expected (\d+) s", prompt)
    if not expected:
        report_progress("I read retry.py: the delay is the same after every attempt.", 2100)
        set_factor(3)
        report_progress("I made the delay grow with each attempt.", 4800)
        return
    seconds = int(expected[-1])
    report_progress(f"The test expects {seconds} s after the second attempt.", 5200)
    set_factor(seconds // 30)
    report_progress("So the delay doubles. I run the tests again.", 6900)
    identity = ("-c", "user.name=jory", "-c", "user.email=jory@example.org")
    subprocess.run(
        ["git", *identity, "commit", "--quiet", "-m", "Double the delay after each attempt", str(SOURCE)], capture_output=True, check=False
    )
    report_progress("The delay doubles with each attempt, all four tests pass, and the fix is committed.", 8100)


take_turn(sys.stdin.read())
