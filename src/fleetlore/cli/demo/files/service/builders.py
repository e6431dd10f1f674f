"""Plays the agents of the demo's town: builders write a page for their task; the reviewer rejects one page once."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

WORK = {
    "design": "A token bucket per endpoint: 10 requests a second unless the customer sets another limit.",
    "api": "PATCH /endpoints/{id} accepts rate_limit, 1 to 1,000 requests a second.",
    "worker": "A webhook over the limit waits in the queue.",
    "console": "The endpoint page shows the limit and how often it was reached.",
    "load-test": "500 endpoints, 60 s: no endpoint got more than its limit, no webhook was lost.",
}
"""Item of the mission → text of its page."""
COMPLAINT = "Say how long a webhook waits before it is dropped."


def report_progress(words: str, tokens: int) -> None:
    """Report progress and tokens, then wait."""
    sys.stdout.write(json.dumps({"say": words, "tokens": tokens, "usd": tokens / 100_000, "model": "claude-haiku-4-5"}) + "\n")
    sys.stdout.flush()
    time.sleep(float(os.environ["DEMO_PACE"]))


def write_page(item: str, prompt: str) -> None:
    """Write the page of an item, and commit it."""
    report_progress("Reading the task and the code.", 1900)
    page = Path("guide", f"{item}.md")
    page.parent.mkdir(exist_ok=True)
    text = WORK.get(item, "Done.")
    if COMPLAINT in prompt:
        text = f"{text[:-1]} for at most 24 hours."
    page.write_text(f"{text}\n")
    report_progress(f"{page} is written. Running the tests.", 4200)
    name = os.environ["LORE_AGENT"]
    who = ("-c", f"user.name={name}", "-c", f"user.email={name}@example.org")
    subprocess.run(["git", "add", str(page)], capture_output=True, check=False)
    subprocess.run(["git", *who, "commit", "--quiet", "-m", text], capture_output=True, check=False)
    report_progress(text, 5600)


def review_page(item: str, prompt: str) -> None:
    """Reject the page of the worker once; approve everything else."""
    report_progress("Reading the change.", 2300)
    if item == "worker" and "24 hours" not in prompt:
        report_progress(f"REJECTED: {COMPLAINT}", 3100)
    else:
        report_progress("APPROVED: The change is complete and documented.", 3100)


def take_turn(prompt: str) -> None:
    """One task of the town."""
    found = re.search(rf"/({'|'.join(WORK)})\b", prompt)
    item = found[1] if found else "other"
    review_page(item, prompt) if "You are the reviewer" in prompt else write_page(item, prompt)


take_turn(sys.stdin.read())
