"""Plays the agents of the town: each writes down what its task is about; whoever reviews sends one thing back once."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

WORK = {
    "chart": "Two lights and a bell: the pier green, the breakwater red, the bell at its end.",
    "pier": "Green, every two seconds, seen for three miles.",
    "breakwater": "Red, every four seconds.",
    "bell": "Rings once a minute while the fog is thicker than half a mile.",
    "drill": "Three ships came in after dark, one of them in fog. None asked for the way.",
}
"""What is written about each item of the mission."""
COMPLAINT = "The breakwater's light does not say how far it is seen. Say so."


def say(words: str, tokens: int) -> None:
    """Report what is done and used so far, and think for a while."""
    sys.stdout.write(json.dumps({"say": words, "tokens": tokens, "usd": tokens / 100_000}) + "\n")
    sys.stdout.flush()
    time.sleep(float(os.environ["DEMO_PACE"]))


def work(item: str, prompt: str) -> None:
    """Write it down, and commit that."""
    say("I read what is wanted, and what there is.", 1900)
    page = Path("lights", f"{item}.md")
    page.parent.mkdir(exist_ok=True)
    text = WORK.get(item, "It is seen to.")
    if COMPLAINT in prompt:
        text = f"{text[:-1]}, seen for five miles."
    page.write_text(f"{text}\n")
    say(f"{page} is written; I read it once more.", 4200)
    name = os.environ["LORE_AGENT"]
    who = ("-c", f"user.name={name}", "-c", f"user.email={name}@example.org")
    subprocess.run(["git", "add", str(page)], capture_output=True, check=False)
    subprocess.run(["git", *who, "commit", "--quiet", "-m", text], capture_output=True, check=False)
    say(text, 5600)


def review(item: str, prompt: str) -> None:
    """Only the breakwater's light is sent back, and only once."""
    say("I read what was done.", 2300)
    if item == "breakwater" and "five miles" not in prompt:
        say(f"REJECTED: {COMPLAINT}", 3100)
    else:
        say("APPROVED: It says what a captain has to know.", 3100)


def take_turn(prompt: str) -> None:
    """One task of the town."""
    found = re.search(rf"/({'|'.join(WORK)})\b", prompt)
    item = found[1] if found else "other"
    review(item, prompt) if "You are the reviewer" in prompt else work(item, prompt)


take_turn(sys.stdin.read())
