"""Plays an agent that guesses first, and then uses the output of the check."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

TABLE = Path("tide.py")


def report_progress(text: str, tokens: int) -> None:
    """Report progress and tokens, then wait."""
    sys.stdout.write(json.dumps({"say": text, "tokens": tokens, "usd": tokens / 100_000}) + "\n")
    sys.stdout.flush()
    time.sleep(float(os.environ["DEMO_PACE"]))


def set_minutes_later(minutes: int) -> None:
    """Set how many minutes later high water comes each day."""
    TABLE.write_text(re.sub(r"(?m)^MINUTES_LATER = .*", f"MINUTES_LATER = {minutes}", TABLE.read_text()))


def take_turn(prompt: str) -> None:
    """Guess in the first turn; use the check's output after that."""
    expected = re.findall(r"day 2: .*not at (\d\d):(\d\d)", prompt)
    if not expected:
        report_progress("I read tide.py: high water is at the same time every day.", 2100)
        set_minutes_later(40)
        report_progress("I let the tide come a little later each day.", 4800)
        return
    hour, minute = map(int, expected[-1])
    report_progress(f"The second day's high water is at {hour:02}:{minute:02}, says the check.", 5200)
    set_minutes_later(hour * 60 + minute - 6 * 60)
    report_progress("So it comes 50 minutes later each day. I look at the third day, too.", 6900)
    identity = ("-c", "user.name=jory", "-c", "user.email=jory@example.org")
    subprocess.run(
        ["git", *identity, "commit", "--quiet", "-m", "The tide comes later each day", str(TABLE)], capture_output=True, check=False
    )
    report_progress("The tide comes 50 minutes later each day, and that is committed.", 8100)


take_turn(sys.stdin.read())
