"""Plays the agents of the demo's town: workers write a page for their task; the reviewer rejects one page once."""

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
"""Item of the mission → text of its page."""
COMPLAINT = "The breakwater's light does not say how far it is seen. Say so."


def report_progress(words: str, tokens: int) -> None:
    """Report progress and tokens, then wait."""
    sys.stdout.write(json.dumps({"say": words, "tokens": tokens, "usd": tokens / 100_000}) + "\n")
    sys.stdout.flush()
    time.sleep(float(os.environ["DEMO_PACE"]))


def write_page(item: str, prompt: str) -> None:
    """Write the page of an item, and commit it."""
    report_progress("Reading the task and the existing pages.", 1900)
    page = Path("lights", f"{item}.md")
    page.parent.mkdir(exist_ok=True)
    text = WORK.get(item, "Done.")
    if COMPLAINT in prompt:
        text = f"{text[:-1]}, seen for five miles."
    page.write_text(f"{text}\n")
    report_progress(f"{page} is written; reading it once more.", 4200)
    name = os.environ["LORE_AGENT"]
    who = ("-c", f"user.name={name}", "-c", f"user.email={name}@example.org")
    subprocess.run(["git", "add", str(page)], capture_output=True, check=False)
    subprocess.run(["git", *who, "commit", "--quiet", "-m", text], capture_output=True, check=False)
    report_progress(text, 5600)


def review_page(item: str, prompt: str) -> None:
    """Reject the breakwater's page once; approve everything else."""
    report_progress("Reading the change.", 2300)
    if item == "breakwater" and "five miles" not in prompt:
        report_progress(f"REJECTED: {COMPLAINT}", 3100)
    else:
        report_progress("APPROVED: The page is complete.", 3100)


def take_turn(prompt: str) -> None:
    """One task of the town."""
    found = re.search(rf"/({'|'.join(WORK)})\b", prompt)
    item = found[1] if found else "other"
    review_page(item, prompt) if "You are the reviewer" in prompt else write_page(item, prompt)


take_turn(sys.stdin.read())
