"""The demo's story: five agents make sure that no webhook is lost. It lasts forty minutes and is written task by task.

ada takes over bram's unfinished task, and bram takes over ada's; dov rejects a change once;
edda helps ada with a retry storm, and tests everything at the end. When the story stops,
bram waits for a person, edda works, ada is idle, cleo is silent, and dov's session has ended.
"""

from __future__ import annotations

import random
from typing import Any

from fleetlore.cli.demo.coding import PERSON, write_sessions
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

# --- Writers: one collects the events of the story, the other adds the events of one task.

MISSION = "reliable-webhooks"
MODEL = "claude-sonnet-4-5"

_JITTER = 4.0
"""Seconds of random offset; less than half the gap between two events of one task."""


class StoryWriter:
    """Collects events in any order and returns them sorted by time. The same seed gives the same events."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._seed = seed
        self._written: list[tuple[float, Event]] = []

    def make_event_id(self, label: str) -> str:
        """The id of the event with this label, even if the event is added later."""
        return derive_id("demo", f"{self._seed}/{label}".encode())

    def add_event(
        self, minute: float, kind: str, text: str | None, *, label: str | None = None, because: str | None = None, **fields: Any
    ) -> str:
        """Add an event at this minute of the story, and return its label."""
        label = label or f"#{len(self._written)}"
        seconds = round(minute * 60 + self.rng.uniform(0, _JITTER), 3)
        cause = None if because is None else self.make_event_id(because)
        fields.setdefault("actor", fields.get("agent") or PERSON)
        self._written.append((seconds, Event(id=self.make_event_id(label), kind=kind, text=text, cause=cause, **fields)))
        return label

    def sorted_events(self) -> list[tuple[float, Event]]:
        """All events with their seconds, oldest first; the first is at zero."""
        written = sorted(self._written, key=lambda timed: timed[0])
        first = written[0][0]
        return [(round(seconds - first, 3), event) for seconds, event in written]


class TaskWriter:
    """Writes the events of one task. Each event has the task's previous event as its cause, unless `because` names another."""

    def __init__(self, story: StoryWriter, task: str) -> None:
        self.story, self.task, self._last = story, task, None

    _last: str | None

    def add_event(
        self,
        minute: float,
        who: str,
        kind: str,
        text: str | None,
        *,
        label: str | None = None,
        because: str | None = None,
        by: str | None = None,
        child: str | None = None,
        **data: Any,
    ) -> None:
        """Add an event of an agent; `by` is the actor if it is not the agent itself."""
        scopes = {"agent": who, "run": None if by else make_session_id(who), "child": child, "task": self.task, "mission": MISSION}
        cause = because or self._last
        self._last = self.story.add_event(minute, kind, text, label=label, because=cause, actor=by or who, data=data, **scopes)

    def create_task(self, minute: float, title: str, *, because: str | None = None, role: str, depends_on: tuple[str, ...] = ()) -> None:
        """Add the creation of the task."""
        data = {"title": title, "role": role} | ({"depends_on": list(depends_on)} if depends_on else {})
        scopes = {"task": self.task, "mission": MISSION}
        self._last = self.story.add_event(
            minute, "work.task_created", title, label=f"{self.task} created", because=because, data=data, **scopes
        )

    def assign_task(self, minute: float, who: str, text: str, *, because: str | None = None) -> None:
        """Add the assignment of the task to an agent."""
        self.add_event(minute, who, "fleet.dispatch", text, because=because, by=PERSON)

    def commit(self, minute: float, who: str, text: str) -> None:
        """Add a commit."""
        self.add_event(minute, who, "fleet.commit", text, sha=f"{self.story.rng.getrandbits(28):07x}")

    def run_command(self, minute: float, who: str, command: str, result: str, *, minutes: float = 0.3, exit_code: int = 0) -> None:
        """Add a command and its result."""
        call = f"call-{self.story.rng.getrandbits(24):06x}"
        self.add_event(minute, who, "tool.called", command, tool="Bash", call_id=call, input={"command": command})
        outcome: dict[str, Any] = {"tool": "Bash", "call_id": call, "exit_code": exit_code, "duration_ms": round(minutes * 60_000)}
        if exit_code:
            self.add_event(minute + minutes, who, "tool.failed", result, error=result, **outcome)
        else:
            self.add_event(minute + minutes, who, "tool.returned", result, **outcome)


def make_session_id(who: str) -> str:
    """The run id of an agent's session."""
    return f"{who}-1"


# --- The story

CAST = {"ada": "backend", "bram": "backend", "cleo": "frontend", "dov": "reviewer", "edda": "tester"}


def write_story(seed: int = 1) -> list[tuple[float, Event]]:
    """The story: for each event its offset in seconds, and the event without a time."""
    story = StoryWriter(seed)
    _write_opening(story)
    for write_task in (
        _write_outbox_task,
        _write_retry_task,
        _write_signature_task,
        _write_delivery_log_task,
        _write_outage_drill_task,
        _write_rollout_task,
        _write_docs_task,
        _write_soak_task,
    ):
        write_task(story)
    _write_background_events(story)
    _write_ending(story)
    write_sessions(story)
    return story.sorted_events()


def _write_opening(story: StoryWriter) -> None:
    purpose = "No customer loses a webhook while their server is down"
    story.add_event(0, "town.mission_state_changed", purpose, label="go", mission=MISSION, old_state="planning", new_state="running")
    for number, (who, role) in enumerate(CAST.items()):
        data = {
            "source": "startup",
            "project": "parcel-api",
            "branch": "main",
            "program": "agent",
            "model": MODEL,
            "title": f"{who}, {role}",
        }
        text = f"{who} joins as {role}"
        story.add_event(
            0.1 + number * 0.1, "session.started", text, label=f"{who} joins", because="go", agent=who, run=make_session_id(who), data=data
        )


def _write_outbox_task(story: StoryWriter) -> None:
    """bram gives up; ada retries and delivers."""
    task = TaskWriter(story, "wh-1")
    task.create_task(0.8, "Write every webhook to an outbox before it is sent", because="go", role="backend")
    task.assign_task(1.4, "bram", "Write every webhook to an outbox before it is sent")
    task.run_command(1.9, "bram", "rg -n 'deliver\\(' src/", "14 calls, all of them through deliver()")
    task.commit(3.2, "bram", "Add the outbox table and fill it in the same migration")
    task.run_command(4.2, "bram", "make migrate-staging", "The migration locked the deliveries table for 41 s and was stopped", exit_code=1)
    task.add_event(5.0, "bram", "fleet.error", "Filling the outbox locks the deliveries table; checkout would hang for 41 s")
    task.add_event(
        6.6,
        "bram",
        "fleet.abandon",
        "Letting go of the outbox: it has to be filled online, and I have not done that before",
    )
    task.add_event(
        7.0,
        "ada",
        "work.message_sent",
        "I have done online backfills. Swap? You finish the signatures",
        child="bram",
        label="offer",
        type="query",
    )
    task.assign_task(8.2, "ada", "Take over the outbox from bram's branch", because="swap")
    task.commit(9.4, "ada", "Create the outbox empty and fill it in batches of 1,000")
    task.run_command(10.6, "ada", "make migrate-staging", "Migrated; the longest lock took 90 ms")
    task.add_event(11.7, "ada", "fleet.pr_open", "PR #312: outbox table, filled in batches", number=312)
    task.add_event(14.4, "ada", "fleet.pr_merge", "PR #312 merged: every webhook is written down before it is sent", number=312)
    task.add_event(14.6, "ada", "town.task_completed", "The outbox is in, and all 14 calls go through it", label="outbox done")


def _write_retry_task(story: StoryWriter) -> None:
    """ada runs into a retry storm; edda reproduces it; ada fixes it."""
    task = TaskWriter(story, "wh-2")
    task.create_task(0.9, "Retry failed deliveries for 24 hours", because="go", role="backend", depends_on=("wh-1",))
    task.assign_task(15.2, "ada", "Retry failed deliveries for 24 hours", because="outbox done")
    task.add_event(15.5, "ada", "work.started", "Reading the outbox for deliveries that are due", attempt=1)
    task.commit(17.0, "ada", "Retry after 1, 2, 4 … minutes, for 24 hours")
    task.run_command(18.2, "ada", "make drill RECEIVERS=500", "500 retries in one second; 212 of them timed out", exit_code=1)
    task.add_event(18.8, "ada", "fleet.error", "Retry storm: after an outage every receiver is tried in the same second", label="storm")
    task.add_event(20.8, "edda", "fleet.collab", "Reproduced ada's storm with 500 fake receivers: drill/storm.py", child="ada")
    task.commit(22.2, "ada", "Spread the retries with full jitter")
    task.run_command(23.3, "ada", "make drill RECEIVERS=500", "At most 23 retries a second; none timed out")
    task.add_event(23.9, "ada", "fleet.recovery", "The storm is gone: retries are spread over their whole interval")
    task.add_event(24.4, "ada", "fleet.pr_open", "PR #314: retries with back-off and jitter", number=314)
    task.add_event(24.7, "ada", "town.reviewer_handoff", "PR #314 is ready for review", child="dov")
    task.add_event(26.2, "dov", "town.reviewer_approval", "Approved: the jitter is tested with a fixed seed")
    task.add_event(26.8, "ada", "fleet.pr_merge", "PR #314 merged: failed deliveries are retried for 24 hours", number=314)
    task.add_event(27.0, "ada", "town.task_completed", "Retries are in", label="retries done")


def _write_signature_task(story: StoryWriter) -> None:
    """ada starts, bram continues, dov rejects once and then approves."""
    task = TaskWriter(story, "wh-3")
    task.create_task(1.0, "Sign every delivery, with keys that can be rotated", because="go", role="backend")
    task.assign_task(1.5, "ada", "Sign every delivery, with keys that can be rotated")
    task.commit(2.7, "ada", "Sign the body with HMAC-SHA-256; the header names the key")
    task.run_command(4.0, "ada", "pytest tests/signing", "22 passed")
    task.add_event(
        7.6,
        "ada",
        "town.task_delegated",
        "bram, signing is yours: it works, but rotation has no tests yet",
        label="swap",
        because="offer",
        child="bram",
    )
    task.add_event(8.0, "bram", "work.started", "Picking up signing where ada left it", attempt=2)
    task.commit(9.2, "bram", "Test rotation: the old key is good for 24 hours, then refused")
    task.add_event(10.8, "bram", "fleet.pr_open", "PR #311: signed deliveries with key rotation", number=311)
    task.add_event(11.0, "bram", "town.reviewer_handoff", "PR #311 is ready for review", child="dov")
    task.run_command(11.5, "dov", "git diff main...signing", "6 files, 214 lines")
    complaint = "Signatures are compared with ==: compare in constant time, and test a truncated one"
    task.add_event(13.0, "dov", "work.review_rejected", complaint, child="bram", reason=complaint, round=1)
    task.commit(14.3, "bram", "Compare signatures in constant time; refuse truncated ones")
    task.run_command(15.0, "bram", "pytest tests/signing", "33 passed")
    task.add_event(15.6, "bram", "town.reviewer_handoff", "Both points are in; please look again", child="dov")
    task.add_event(16.6, "dov", "town.reviewer_approval", "Approved: both points are fixed and tested")
    task.add_event(17.2, "bram", "fleet.pr_merge", "PR #311 merged: every delivery is signed", number=311)
    task.add_event(17.4, "bram", "town.task_completed", "Signatures are in", label="signatures done")


def _write_delivery_log_task(story: StoryWriter) -> None:
    """cleo finishes the task alone, at the first attempt."""
    task = TaskWriter(story, "wh-4")
    task.create_task(1.1, "Show customers their deliveries in the console", because="go", role="frontend")
    task.assign_task(1.6, "cleo", "Show customers their deliveries in the console")
    task.commit(3.6, "cleo", "List deliveries with state, attempts and last answer")
    task.run_command(5.8, "cleo", "npm test -- deliveries", "18 passed")
    task.commit(8.6, "cleo", "Filter by endpoint and state, and keep the filter in the address")
    task.add_event(11.4, "cleo", "fleet.push", "Pushed delivery-log, 2 commits")
    task.add_event(11.8, "cleo", "fleet.pr_open", "PR #313: delivery log in the console", number=313)
    task.add_event(15.8, "cleo", "fleet.pr_merge", "PR #313 merged: customers see what was sent to them, and when", number=313)
    task.add_event(16.0, "cleo", "town.task_completed", "The delivery log is in the console", label="log done")


def _write_outage_drill_task(story: StoryWriter) -> None:
    """edda waits for the retries, then tests them."""
    task = TaskWriter(story, "wh-5")
    task.create_task(1.2, "Prove it: a receiver that is down for three minutes", because="go", role="tester", depends_on=("wh-2", "wh-3"))
    scopes = {"task": "wh-5", "mission": MISSION}
    ready = "wh-2 and wh-3 are done: the drill can start"
    story.add_event(27.2, "town.mission_work_promoted", ready, label="drill ready", because="retries done", data={"item": "wh-5"}, **scopes)
    task.assign_task(27.5, "edda", "Prove it: a receiver that is down for three minutes", because="drill ready")
    task.commit(28.8, "edda", "Drill: 200 deliveries a second into a receiver that goes away")
    task.run_command(
        29.4, "edda", "make drill OUTAGE=180 RATE=200", "36,000 sent, 36,000 received, 118 of them twice, none lost", minutes=4.0
    )
    task.add_event(34.0, "edda", "fleet.pr_open", "PR #315: outage drill, run every night", number=315)
    task.add_event(35.4, "edda", "fleet.pr_merge", "PR #315 merged: the drill runs every night", number=315)
    task.add_event(35.6, "edda", "town.task_completed", "Three minutes down, nothing lost", label="drill done")


def _write_rollout_task(story: StoryWriter) -> None:
    """bram prepares it, then asks for permission."""
    task = TaskWriter(story, "wh-6")
    task.create_task(18.4, "Turn it on for 5 % of customers", because="signatures done", role="backend", depends_on=("wh-5",))
    task.assign_task(18.8, "bram", "Put everything behind a flag, then turn it on for 5 % of customers")
    task.commit(20.6, "bram", "Flag webhooks.outbox, off by default")
    task.add_event(21.8, "bram", "fleet.push", "Pushed the flag; nothing changes until it is turned on")
    task.add_event(22.4, "bram", "fleet.idle", "Waiting for the drill before anything is turned on")
    task.add_event(35.9, "bram", "work.started", "The drill has passed; looking at the flag", because="drill done", attempt=2)
    task.run_command(36.2, "bram", "flagctl show webhooks.outbox", "off, 0 % of customers")
    task.add_event(
        37.4, "bram", "session.waiting", "May I run `flagctl set webhooks.outbox 5%` in production?", why="permission", tool="Bash"
    )


def _write_docs_task(story: StoryWriter) -> None:
    """cleo starts, and falls silent."""
    task = TaskWriter(story, "wh-7")
    task.create_task(16.4, "Explain signatures and retries to customers", because="log done", role="frontend")
    task.assign_task(16.7, "cleo", "Explain signatures and retries to customers")
    task.commit(19.4, "cleo", "Describe the signature header, with examples in three languages")
    task.add_event(24.6, "cleo", "tool.called", "make docs", tool="Bash", call_id="call-docs", input={"command": "make docs"})


def _write_soak_task(story: StoryWriter) -> None:
    """edda starts a test that is still running when the story stops."""
    task = TaskWriter(story, "wh-8")
    task.create_task(36.4, "Leave it running on staging over night", because="drill done", role="tester")
    task.assign_task(36.8, "edda", "Leave it running on staging over night")
    task.add_event(
        38.6,
        "edda",
        "tool.called",
        "make soak HOURS=8 RATE=50",
        tool="Bash",
        call_id="call-soak",
        input={"command": "make soak HOURS=8 RATE=50"},
    )


def _write_background_events(story: StoryWriter) -> None:
    """Heartbeats, idle agents, and model costs."""
    for minute, who, text in (
        (2.2, "edda", "Nothing to drill until there are retries"),
        (12.6, "edda", "The drill rig is ready; still waiting for retries"),
        (29.0, "ada", "Nothing open for me"),
    ):
        story.add_event(minute, "fleet.idle", text, because=f"{who} joins", agent=who, run=make_session_id(who), mission=MISSION)
    heartbeats = {
        "ada": (5.4, 13.2, 21.4, 33.2),
        "bram": (6.0, 12.2, 25.6, 33.6),
        "cleo": (7.0, 13.8, 26.4),
        "dov": (5.8, 21.8),
        "edda": (7.2, 31.6),
    }
    for who, minutes in heartbeats.items():
        for cycle, minute in enumerate(minutes, start=1):
            data = {"cycle": cycle, "model": MODEL, "status": "ok"}
            story.add_event(minute, "fleet.heartbeat", f"Cycle {cycle}", agent=who, run=make_session_id(who), data=data)
    for minute, who, task in (
        (3.0, "bram", "wh-1"),
        (9.0, "ada", "wh-1"),
        (8.2, "cleo", "wh-4"),
        (12.0, "dov", "wh-3"),
        (28.4, "edda", "wh-5"),
    ):
        tokens = {"input": story.rng.randrange(2_000, 9_000), "output": story.rng.randrange(400, 1_800), "cache_read": 41_000}
        usd = round(tokens["input"] * 3e-6 + tokens["output"] * 15e-6 + tokens["cache_read"] * 3e-7, 4)
        data = {"model": MODEL, **tokens, "usd": usd, "latency_ms": story.rng.randrange(1_500, 9_000)}
        story.add_event(minute, "model.replied", None, agent=who, run=make_session_id(who), task=task, mission=MISSION, data=data)


def _write_ending(story: StoryWriter) -> None:
    farewell = "Nothing is left to review"
    story.add_event(
        27.6, "session.ended", farewell, because="retries done", agent="dov", run=make_session_id("dov"), data={"reason": "done"}
    )
    milestone = "36,000 webhooks through a three-minute outage, and not one was lost"
    story.add_event(39.4, "fleet.milestone", milestone, because="drill done", actor=PERSON, agent="edda", mission=MISSION)
