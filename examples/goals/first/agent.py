"""Plays an agent: takes one turn for each prompt that it is given on stdin, as any program under `harness = "command"` does."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

TABLE, CHECK = Path("tide.py"), Path("check.py")


def say(words: str, tokens: int) -> None:
    """Report what is done and used so far, and think for a while."""
    sys.stdout.write(json.dumps({"say": words, "tokens": tokens, "usd": tokens / 100_000}) + "\n")
    sys.stdout.flush()
    time.sleep(float(sys.argv[1]))


def write_step(minutes: int) -> None:
    """Have high water come so much later each day."""
    TABLE.write_text(re.sub(r"(?m)^MINUTES_LATER = .*", f"MINUTES_LATER = {minutes}", TABLE.read_text()))


def commit() -> None:
    """Only where there is a repository."""
    who = ("-c", "user.name=harbour", "-c", "user.email=harbour@example.org")
    subprocess.run(["git", *who, "commit", "--quiet", "-m", "The tide comes later each day", str(TABLE)], capture_output=True, check=False)


def take_turn(number: int, prompt: str) -> None:
    """A bad idea, a guess, and then what the check said."""
    if number == 1:
        say("I read tide.py and check.py.", 2100)
        CHECK.write_text("pass\n")
        say("The check is too strict, so I changed check.py. All is well now.", 4800)
    elif number == 2:
        say("check.py was put back. So it is the table that has to change.", 6900)
        write_step(40)
        say("I let the tide come a little later each day.", 9000)
    else:
        hour, minute = map(int, re.findall(r"day 2: .*not at (\d\d):(\d\d)", prompt)[-1])
        say(f"The second day's high water is at {hour:02}:{minute:02}, says the check.", 5200)
        write_step(hour * 60 + minute - 6 * 60)
        commit()
        say("The tide comes 50 minutes later each day, and that is committed.", 8100)


take_turn(int(os.environ["LORE_TURN_NUMBER"]), sys.stdin.read())
