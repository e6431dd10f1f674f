"""Replay labelled sessions and compare their status at every moment with the truth: share of minutes right, changes of state per hour.

    python -m tests.truth.status [FOLDER]      (part of `make truth`)

The truth comes from the raw rows and the labels, not from our reader: a turn lasts from a person's prompt to the row that the label names
as its end. Our status at a time knows only what was recorded until then. Silence of more than an hour between turns is cut to an hour, so
that nights do not decide the figure.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.programs import registry
from fleetlore.views import session_status
from fleetlore.views.session_status import SessionStatus
from tests.truth.measure import SHARED

STEP = timedelta(seconds=10)
LONGEST_GAP = timedelta(hours=1)
LEAST_RIGHT, MOST_CHANGES = 0.95, 1.2


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


class Replay(NamedTuple):
    """What came of one session."""

    session: str
    right: int
    total: int
    changes: int
    true_changes: int


def main(argv: list[str]) -> int:
    folder = Path(argv[0]) if argv else SHARED
    if not (folder / "labels.jsonl").exists():
        say(f"{folder}: no labelled sessions; nothing is measured")
        return 0
    labels = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    replays = [found for label in labels if (found := replay(folder / f"{label['session']}.jsonl", label)) is not None]
    for each in sorted(replays, key=lambda one: one.right / one.total)[:5]:
        say(f"{each.session[:8]}  right {each.right / each.total:.3f}  changes {each.changes}, in truth {each.true_changes}")
    right, total = sum(each.right for each in replays), sum(each.total for each in replays)
    changes, true_changes = sum(each.changes for each in replays), sum(each.true_changes for each in replays)
    hours = total * STEP / timedelta(hours=1)
    say(f"{len(replays)} sessions, {hours:.1f} h: share of time right {right / total:.3f} (at least {LEAST_RIGHT})")
    say(f"changes per hour {changes / hours:.2f}, in truth {true_changes / hours:.2f} (at most {MOST_CHANGES} x)")
    return 0 if right / total >= LEAST_RIGHT and changes <= MOST_CHANGES * true_changes else 1


def replay(path: Path, label: dict[str, Any]) -> Replay | None:
    """Compare one session; `None` if its labels name no turn."""
    turns = find_turns([json.loads(line) for line in path.read_text().splitlines()], {end["uuid"] for end in label["turn_ends"]})
    if not turns:
        return None
    events = sorted(read_events(path), key=lambda event: event.at or turns[0][0])
    state, n, right, total = SessionStatus(), 0, 0, 0
    seen: list[bool] = []
    truth: list[bool] = []
    # Where a recording was cut off in the middle of a turn, nobody knows what followed.
    after = timedelta(0) if label["ended_by"] in ("cut_off", "running") else LONGEST_GAP
    for now in moments(turns, after):
        while n < len(events) and (events[n].at or now) <= now:
            session_status.apply(state, events[n])
            n += 1
        is_running = session_status.decide_status(state, now).status == "running"
        is_true = any(begin <= now < end for begin, end in turns)
        seen.append(is_running)
        truth.append(is_true)
        right, total = right + (is_running == is_true), total + 1
    return Replay(label["session"], right, total, sum(a != b for a, b in pairwise(seen)), sum(a != b for a, b in pairwise(truth)))


def find_turns(rows: list[dict[str, Any]], ends: set[str]) -> list[tuple[datetime, datetime]]:
    """When each turn began and ended, by the raw rows."""
    turns: list[tuple[datetime, datetime]] = []
    begun: datetime | None = None
    for row in rows:
        if row.get("isSidechain") or not isinstance(row.get("timestamp"), str):
            continue
        at = datetime.fromisoformat(row["timestamp"])
        if is_prompt(row) and begun is None:
            begun = at
        if row.get("uuid") in ends and begun is not None:
            turns.append((begun, at))
            begun = None
    return turns


def is_prompt(row: dict[str, Any]) -> bool:
    """Whether a person asked for something."""
    content = row.get("message", {}).get("content") if row.get("type") == "user" and not row.get("isMeta") else None
    texts = [content] if isinstance(content, str) else [block.get("text", "") for block in content or [] if block.get("type") == "text"]
    if isinstance(content, list) and any(block.get("type") == "tool_result" for block in content):
        return False
    return any(text and not text.startswith(("<local-command", "<bash-", "<command-name>/", "[Request interrupted")) for text in texts)


def moments(turns: list[tuple[datetime, datetime]], after: timedelta) -> list[datetime]:
    """Every ten seconds from the first prompt to some time after the last turn, without long nights."""
    found, now, last = [], turns[0][0] + STEP / 2, turns[-1][1] + after
    for (_, end), following in zip(turns, [*(begin for begin, _ in turns[1:]), last], strict=True):
        while now < following:
            if now - end < LONGEST_GAP:
                found.append(now)
                now += STEP
            else:
                now = following
    return found


def read_events(path: Path) -> list[Event]:
    """What our reader makes of a transcript."""
    reader = registry.find_recording("claude-code").open(None)
    events = [event for line in path.read_bytes().splitlines() for event in reader.read(line.strip()) if line.strip()]
    return [event for event in (*events, *reader.end()) if event.run is not None]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
