"""Generates the demo agents' work after the demo's story has ended: one small task after another, without end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from fleetlore.cli.demo.coding import PERSON
from fleetlore.cli.demo.fleet import MISSION, MODEL, make_session_id
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

PAUSE = (0.7, 2.6)
"""Seconds between two events."""
FIRST_TASK = 9
"""Number of the first task; the story has wh-1 to wh-8."""
FIRST_NUMBER = 316
"""Number of the first pull request."""
BRAM_CONTINUES, CLEO_CONTINUES = 24, 60
"""After how many events a person answers bram's question, and after how many cleo's tool returns."""


class Job(NamedTuple):
    """A small task: its title, its commit, a check with its result, and optionally an error and how it was fixed."""

    title: str
    commit: str
    check: str
    result: str
    trouble: str | None = None
    fixed: str | None = None


JOBS = (
    Job("Count deliveries by customer", "Count deliveries by customer and hour", "pytest tests/stats", "14 passed"),
    Job(
        "Alert when the outbox grows",
        "Alert when the oldest delivery is five minutes late",
        "make alert-drill",
        "the alert came after 5 m 12 s",
        "The alert fires on every deploy: the clock starts before the worker does",
        "The clock starts with the first delivery; three deploys, no alert",
    ),
    Job("Let customers send a test webhook", "Add a button that sends a signed test delivery", "npm test -- endpoints", "31 passed"),
    Job("Name the endpoint in every error", "Errors say which endpoint and which attempt", "pytest tests/errors", "19 passed"),
    Job(
        "Speed up the delivery log",
        "Index deliveries by endpoint and time",
        "make bench-log",
        "the slowest page takes 38 ms, it took 2.1 s",
        "The index makes writes a third slower; staging falls behind",
        "A partial index over the last 30 days: writes are as fast as before",
    ),
    Job("Refuse endpoints on private networks", "Resolve and check addresses before each attempt", "pytest tests/ssrf", "27 passed"),
    Job("Keep answers of receivers for 30 days", "Store the first 2 KiB of each answer", "make migrate-staging", "migrated; 60 ms locked"),
    Job(
        "Pause endpoints that fail for a week",
        "Pause after seven days of failures, and write to the owner",
        "pytest tests/pausing",
        "22 passed",
        "An endpoint on holiday was paused: one success in between has to count",
        "One success restarts the week; the holiday case is a test now",
    ),
)


def generate_shift(seed: int) -> Iterator[tuple[float, Event]]:
    """Yield pairs of seconds to wait and the next event, without end. The same seed gives the same events, except for their times."""
    rng = random.Random(seed)
    causes: dict[str, str] = {}
    for index, (who, kind, text, fields) in enumerate(_interleave_work(rng)):
        id, task = derive_id("demo", f"{seed}/shift/{index}".encode()), fields.get("task", "")
        by = PERSON if kind in ("fleet.dispatch", "prompt.submitted") else who
        event = Event(id=id, kind=kind, text=text, actor=by, agent=who, cause=causes.get(task), mission=MISSION, **fields)
        if task:
            causes[task] = id
        yield rng.uniform(*PAUSE), event


Step = tuple[str, str, str | None, dict[str, Any]]
"""Agent, kind, text and other fields of an event."""


def _interleave_work(rng: random.Random) -> Iterator[Step]:
    """Yield the steps of all agents in random order; an agent that has finished a task starts the next."""
    number = 0
    steps_by_agent: dict[str, Iterator[Step]] = {"ada": iter(()), "edda": iter(())}
    for turn in count():
        if turn == BRAM_CONTINUES:
            steps_by_agent["bram"] = _answer_bram(rng)
        if turn == CLEO_CONTINUES:
            steps_by_agent["cleo"] = _continue_cleo(rng)
        who = rng.choice(list(steps_by_agent))
        step = next(steps_by_agent[who], None)
        if step is None:
            steps_by_agent[who] = _do_job(rng, who, number)
            number += 1
            step = next(steps_by_agent[who])
        yield step


def _answer_bram(rng: random.Random) -> Iterator[Step]:
    scopes = {"task": "wh-6", "run": make_session_id("bram")}
    yield "bram", "prompt.submitted", "Yes, 5 %, and watch the error rate for ten minutes", scopes
    yield from _run_tool(rng, "bram", scopes, "flagctl set webhooks.outbox 5%", "on for 5 % of customers")
    yield "bram", "town.task_completed", "On for 5 %; the error rate has not moved", scopes


def _continue_cleo(rng: random.Random) -> Iterator[Step]:
    scopes = {"task": "wh-7", "run": make_session_id("cleo")}
    done = {"tool": "Bash", "call_id": "call-docs", "exit_code": 0, "duration_ms": 900_000}
    yield "cleo", "tool.returned", "The docs are built; the link check had hung", scopes | {"data": done}
    yield "cleo", "fleet.pr_open", "PR #399: signatures and retries, explained", scopes | {"data": {"number": 399}}
    yield "cleo", "fleet.pr_merge", "PR #399 merged: customers can read about it", scopes | {"data": {"number": 399}}


def _do_job(rng: random.Random, who: str, number: int) -> Iterator[Step]:
    job, task, pull_request = JOBS[number % len(JOBS)], f"wh-{FIRST_TASK + number}", FIRST_NUMBER + number
    scopes = {"task": task, "run": make_session_id(who)}
    yield who, "fleet.dispatch", job.title, {"task": task}
    yield who, "model.replied", None, scopes | {"data": _model_reply(rng)}
    yield who, "fleet.commit", job.commit, scopes | {"data": {"sha": f"{rng.getrandbits(28):07x}"}}
    if job.trouble is not None:
        yield from _run_tool(rng, who, scopes, job.check, "1 failed", exit_code=1)
        yield who, "fleet.error", job.trouble, scopes
        yield who, "model.replied", None, scopes | {"data": _model_reply(rng)}
        yield who, "fleet.recovery", job.fixed, scopes
    yield from _run_tool(rng, who, scopes, job.check, job.result)
    yield who, "fleet.pr_open", f"PR #{pull_request}: {job.title.lower()}", scopes | {"data": {"number": pull_request}}
    yield who, "fleet.heartbeat", f"Cycle {number + 5}", {"run": make_session_id(who)}
    yield who, "fleet.pr_merge", f"PR #{pull_request} merged: {job.title.lower()}", scopes | {"data": {"number": pull_request}}
    yield who, "town.task_completed", job.title, scopes


def _run_tool(rng: random.Random, who: str, scopes: dict[str, Any], command: str, result: str, *, exit_code: int = 0) -> Iterator[Step]:
    call = {"tool": "Bash", "call_id": f"call-{rng.getrandbits(24):06x}"}
    yield who, "tool.called", command, scopes | {"data": call | {"input": {"command": command}}}
    outcome = call | {"exit_code": exit_code, "duration_ms": rng.randrange(800, 40_000)}
    if exit_code:
        yield who, "tool.failed", result, scopes | {"data": outcome | {"error": result}}
    else:
        yield who, "tool.returned", result, scopes | {"data": outcome}


def _model_reply(rng: random.Random) -> dict[str, Any]:
    tokens = {"input": rng.randrange(2_000, 9_000), "output": rng.randrange(400, 1_800), "cache_read": 41_000}
    usd = round(tokens["input"] * 3e-6 + tokens["output"] * 15e-6 + tokens["cache_read"] * 3e-7, 4)
    return {"model": MODEL, **tokens, "usd": usd, "latency_ms": rng.randrange(1_500, 9_000)}
