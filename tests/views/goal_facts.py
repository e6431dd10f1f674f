"""The facts of one goal, made short, for tests of what is folded from them."""

from __future__ import annotations

from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import KEY

GOAL = "3f2b8c1e-0000-4000-8000-000000000042"
BUDGET = {"max_turns": 3, "max_wall_time": "1h", "max_tokens": 1000, "max_consecutive_denies": 2, "max_consecutive_errors": 2}
USAGE = {"turns": 1, "wall_time": "5s", "tokens": 100, "consecutive_denies": 0}
FAILURE = {"criterion_index": 0, "criterion_label": "shell:make test", "message": "exit 1 != 0", "evidence": "2 failed"}


def fact(kind: str, *, goal: str = GOAL, **data: Any) -> Event:
    """An event of the goal; what begins with `_` belongs to the event itself."""
    fields = {name[1:]: data.pop(name) for name in list(data) if name.startswith("_")}
    return Event(kind=kind, goal=goal, data=data, **fields)


def started(*, goal: str = GOAL, budget: dict[str, Any] | None = None, is_ours: bool = True, **plan: Any) -> Event:
    """A goal with one criterion; without a plan it is somebody else's."""
    metadata = {KEY: {"harness": "command", "agent": "ada"} | plan} if is_ours else {}
    recorded = {
        "id": goal,
        "description": "Mend the parser",
        "acceptance": [{"kind": "shell_command", "command": "make test"}],
        "budget": BUDGET | (budget or {}),
        "metadata": metadata,
    }
    return Event(kind="driver.goal_started", goal=goal, agent="ada", data={"goal": recorded})


def begun(turn: int = 1, **more: Any) -> Event:
    """A turn begins."""
    return fact("driver.attempt_started", goal_id=GOAL, turn_index=turn, usage=USAGE, **more)


def ended(turn: int = 1, how: str = "finished", **recorded: Any) -> Event:
    """The agent's part of it is over."""
    return Event(kind="goal.attempt_ended", goal=GOAL, data={"turn": turn, "how": how, "tokens": 100} | recorded)


def completed(
    turn: int = 1,
    outcome: str = "needs_retry",
    *,
    counts: bool = True,
    complaint: str | None = None,
    words: str | None = None,
    **recorded: Any,
) -> Event:
    """It is settled."""
    outcomes: dict[str, dict[str, Any]] = {
        "needs_retry": {"failures": [FAILURE]},
        "continue": {"reason": "cut short"},
        "sleep": {"duration_ms": 5, "reason": "the build runs"},
        "budget_exhausted": {"axis": "tokens"},
        "escalate": {"reason": "log in again"},
    }
    extras: dict[str, Any] = {} if counts else {"fleetlore.counts": False}
    extras |= {"fleetlore.complaint": complaint} if complaint else {}
    extras |= recorded.pop("extras", {})
    result = {
        "goal_id": GOAL,
        "turn_index": turn,
        "outcome": {"kind": outcome} | outcomes.get(outcome, {}),
        "usage_after": USAGE,
        "final_text": words,
        "harness_extras": extras,
    }
    return fact("driver.attempt_completed", result=result | recorded)


def turn(number: int = 1, outcome: str = "needs_retry", *, tokens: int = 100, **more: Any) -> list[Event]:
    """A whole turn."""
    return [begun(number), ended(number, tokens=tokens, usd=0.5), completed(number, outcome, **more)]


def judged(*, met: bool) -> Event:
    """The criteria were checked."""
    verdict = {"met": met, "failures": [] if met else [FAILURE], "evaluated_at": "2026-01-01T09:00:00Z", "elapsed_ms": 5}
    return fact("driver.acceptance", goal_id=GOAL, verdict=verdict)


def over(outcome: str = "done", **more: Any) -> Event:
    """The goal has ended."""
    recorded = {"goal_id": GOAL, "outcome": {"kind": outcome} | more, "total_turns": 1, "usage": USAGE, "elapsed": "7s"}
    return fact("driver.goal_completed", outcome=recorded)


def control(action: str, *, by: str = "eve", **data: Any) -> Event:
    """Somebody steers."""
    return fact("control.requested", _actor=by, action=action, **data)


def decided(choice: str, *, cause: str | None = None, turn: int = 1) -> Event:
    """A tool was allowed, denied or watched."""
    more = {"deny": {"message": "not here"}, "observe": {"note": "seen"}}.get(choice, {})
    decision = {
        "id": GOAL,
        "goal_id": GOAL,
        "turn_index": turn,
        "tool": "Bash",
        "input": {"command": "rm -rf /"},
        "choice": {"kind": choice} | more,
        "rationale": "by rule",
        "decided_at": "2026-01-01T09:00:00Z",
    }
    return fact("driver.decision", _cause=cause, decision=decision)


SAMPLES: list[Event] = [
    started(parent="above", memory={}),
    started(is_ours=False),
    begun(),
    ended(error="rate limited", complaint="rate_limit", words="Done.", session="s1", usd=0.5, context=900, until="2026-01-01T10:00:00Z"),
    completed(words="Done.", extras={"fleetlore.mark": "abc", "worktree.diff_stat": "1 file"}),
    completed(outcome="continue", counts=False, complaint="network"),
    judged(met=False),
    judged(met=True),
    over(),
    over("budget_exhausted", axis="tokens"),
    decided("deny"),
    decided("allow"),
    *(control(action, value="hello", reason="why") for action in ("pause", "resume", "cancel", "say")),
    control("raise", value={"turns": 9, "wall_time": "2h", "max_usd": 4.5, "tokens": 9000}),
    fact(
        "driver.replay_decision",
        goal_id=GOAL,
        turn_index=1,
        decision={"kind": "fresh_session_retry", "rollback_to": "abc"},
        error_message="x",
    ),
    fact("driver.replay_decision", goal_id=GOAL, turn_index=1, decision={"kind": "escalate", "reason": "x"}, error_message="x"),
    fact(
        "driver.compact_requested",
        goal_id=GOAL,
        turn_index=1,
        focus="go on",
        token_pressure=0.9,
        before_tokens=900,
        age_minutes=3,
        trigger={"kind": "age", "age_minutes": 3, "max_age_minutes": 2},
    ),
    fact("driver.compact_completed", goal_id=GOAL, turn_index=1, after_tokens=10),
    fact("driver.compact_summary_stored", goal_id=GOAL, turn_index=1, before_tokens=900, after_tokens=10),
    fact("driver.extract_memories_completed", goal_id=GOAL, turn_index=1, memories_saved=2, duration_ms=5),
    Event(kind="driver.extract_memories_skipped", goal=GOAL, data={"goal_id": GOAL, "reason": "throttled", "fleetlore.failed": True}),
    fact("driver.auto_dream_outcome", goal_id=GOAL, outcome_kind="completed"),
    fact("driver.budget_exhausted", goal_id=GOAL, axis="tokens", usage=USAGE),
    fact("driver.escalate", goal_id=GOAL, reason="stuck"),
    fact("driver.progress", goal_id=GOAL, turn_index=1, usage=USAGE, last_text="so far"),
    fact("goal.checkpointed", turn=1, sha="abc", workspace="/work"),
    fact("goal.session_bound", session="s1", harness="command"),
    fact("goal.waiting", why="rate limit", until="2026-01-01T10:00:00Z"),
    fact("approval.requested", tool="Bash", input={"command": "make"}, turn=1, expires="2026-01-01T10:00:00Z"),
    fact("goal.permission_asked", tool="Bash", input={"command": "make"}, turn=1, expires="2026-01-01T10:00:00Z"),
    fact("goal.reserved", below="other", turns=1, tokens=50, usd=0.25),
    fact("goal.spent", below="other", turns=1, tokens=50, usd=0.25),
    fact("model.replied", model="m", input=30, output=10, usd=0.01),
    fact("process.started", command="claude", pid=7, group=7, born="99"),
    fact("tool.called", tool="Bash", input={"command": "make"}),
    fact("work.lease_taken", lease=f"goal:{GOAL}", epoch=1),
]
"""One or two of each kind that says something of a goal."""
