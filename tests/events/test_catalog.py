"""Every kind is known by name, beat and sentence, and a family is loaded only when it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetlore.events import catalog
from fleetlore.events.envelope import Event
from fleetlore.events.payload import BEATS, Payload

FAMILIES = {
    "fleet": "dispatch commit push pr_open pr_merge error recovery abandon collab heartbeat idle milestone",
    "town": "agent_state_changed agent_spawned agent_stopped task_assigned task_completed task_failed mission_state_changed "
    "mission_work_promoted mission_work_assigned mission_work_completed mission_work_blocked mission_help_needed "
    "mission_watch_triggered mission_event task_delegated agent_interrupted agent_resumed agent_completed agent_failed "
    "reviewer_handoff reviewer_approval conductor_escalation",
    "driver": "goal_started goal_completed attempt_started attempt_completed decision acceptance budget_exhausted escalate "
    "replay_decision compact_requested compact_completed compact_summary_stored extract_memories_completed "
    "extract_memories_skipped auto_dream_outcome progress",
    "run": "started finished waiting",
    "turn": "missed",
    "world": "observed",
    "agent": "spoke thought reflected launched returned named identified",
    "oracle": "spoke",
    "judge": "verdict",
    "user": "injected",
    "commentary": "posted",
    "session": "started waiting observed turn_ended ended compacted",
    "prompt": "submitted",
    "tool": "called returned failed denied",
    "model": "called replied failed",
    "work": "task_created updated started reopened cancelled lease_taken lease_lost message_sent message_acked item_added "
    "review_rejected watch_added watch_snoozed archived",
    "approval": "requested closed",
    "control": "requested",
    "goal": "session_bound checkpointed waiting permission_asked tool_effect attempt_ended reserved spent",
    "context": "built",
    "node": "started finished failed",
    "ui": "controls action reported",
    "machine": "created moved reset destroyed",
    "process": "started finished",
    "audit": "mismatch code_without_tool talk_without_action",
    "sensor": "idle returned",
    "notify": "sent",
    "log": "gap rejected trimmed forgotten",
}
KINDS = [f"{family}.{name}" for family, names in FAMILIES.items() for name in names.split()]
PAYLOADS = list(catalog.known_kinds().values())
DOCS = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "events.md").read_text()


def test_the_catalog_holds_exactly_the_kinds_of_the_design() -> None:
    assert sorted(catalog.known_kinds()) == sorted(KINDS)
    assert set(catalog.FAMILIES) == set(FAMILIES)
    assert (len(FAMILIES["fleet"].split()), len(FAMILIES["town"].split()), len(FAMILIES["driver"].split())) == (12, 22, 16)


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_kind_has_a_fitting_name_a_beat_and_one_sentence(kind: str) -> None:
    payload = catalog.find_payload(kind)
    assert payload is not None
    assert payload.kind == kind
    assert catalog.KIND_PATTERN.fullmatch(kind)
    assert payload.beat in BEATS
    assert catalog.find_beat(Event(kind=kind)) in BEATS
    assert payload.__doc__
    assert payload.__doc__.endswith(".")
    assert "\n" not in payload.__doc__


def test_every_beat_stands_for_something() -> None:
    assert {payload.beat for payload in PAYLOADS} == set(BEATS)


def test_an_unknown_kind_passes_with_any_data() -> None:
    for kind in ("clue.found", "fleet.parade", "log.lost", "nonsense"):
        assert catalog.find_payload(kind) is None
        assert catalog.find_beat(Event(kind=kind)) is None
        catalog.check_payload(kind, {"anything": [1, None]})


@pytest.mark.parametrize(
    "payload", [payload for payload in PAYLOADS if payload.kind.startswith(("fleet.", "town."))], ids=lambda p: str(p.kind)
)
def test_foreign_writers_may_put_what_they_like_into_their_data(payload: type[Payload]) -> None:
    assert payload.lenient
    catalog.check_payload(payload.kind, dict.fromkeys(payload.__struct_fields__, object()))


@pytest.mark.parametrize("kind", ["fleet.dispatch", "tool.called", "log.rejected"])
def test_finding_a_kind_loads_its_own_family_alone(kind: str) -> None:
    """Fast commands would otherwise pay for families that they never use."""
    program = f"import sys; from fleetlore.events import catalog; assert catalog.find_payload({kind!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    families = {f"fleetlore.events.{module}" for module in catalog.FAMILIES.values()}
    assert families.intersection(loaded) == {f"fleetlore.events.{catalog.FAMILIES[kind.partition('.')[0]]}"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_in_the_reference(kind: str) -> None:
    """`make reference` writes the table; tests/test_reference.py compares all of it with the payload classes."""
    assert f"\n| `{kind}` | " in REFERENCE


@pytest.mark.parametrize("shape", ["Goal", "Criterion", "ShellCommand", "BudgetGuards", "BudgetAxis", "Verdict", "GoalOutcome", "Block"])
def test_shapes_inside_payloads_are_in_the_reference(shape: str) -> None:
    assert f"\n| `{shape}` | " in REFERENCE


def test_every_field_of_the_envelope_is_documented() -> None:
    for field in Event.__struct_fields__:
        assert f"| `{field}` |" in DOCS


@pytest.mark.parametrize(
    ("kind", "data", "beat"),
    [
        ("driver.goal_completed", {"outcome": {"outcome": {"kind": "done"}}}, "deliver"),
        ("driver.goal_completed", {"outcome": {"outcome": {"kind": "budget_exhausted", "axis": "turns"}}}, "setback"),
        ("driver.goal_completed", {"outcome": {"outcome": {"kind": "cancelled"}}}, "release"),
        ("driver.goal_completed", {"outcome": 5}, "setback"),
        ("driver.attempt_completed", {"result": {"outcome": {"kind": "done"}}}, "propose"),
        ("driver.attempt_completed", {"result": {"outcome": {"kind": "needs_retry", "failures": []}}}, "setback"),
        ("driver.attempt_completed", {"result": {"outcome": {"kind": "continue", "reason": "more to do"}}}, "progress"),
        (
            "driver.attempt_completed",
            {"result": {"outcome": {"kind": "continue"}, "harness_extras": {"fleetlore.complaint": "rate_limit"}}},
            "pulse",
        ),
        ("driver.attempt_completed", {"result": {"outcome": {"kind": "continue"}, "harness_extras": {"fleetlore.counts": False}}}, "pulse"),
        ("driver.attempt_completed", {"result": {"outcome": {"kind": "sleep"}}}, "rest"),
        ("driver.attempt_completed", {"result": {"outcome": {"kind": "escalate"}}}, "pulse"),
        ("driver.attempt_completed", {"result": ["?"]}, "progress"),
        ("driver.decision", {"decision": {"choice": {"kind": "allow"}}}, "pulse"),
        ("driver.decision", {"decision": {"choice": {"kind": "deny"}}}, "judgement"),
        ("driver.decision", {"decision": 5}, "judgement"),
        ("driver.replay_decision", {"decision": {"kind": "next_turn"}}, "setback"),
        ("driver.replay_decision", {"decision": {"kind": "escalate"}}, "pulse"),
        ("run.finished", {"reason": "verdict"}, "deliver"),
        ("run.finished", {"reason": "budget"}, "setback"),
        ("run.finished", {"reason": "user_stop"}, "release"),
        ("run.finished", {"reason": ["?"]}, "deliver"),
        ("acme.rocket", {}, None),
    ],
)
def test_where_the_kind_does_not_decide_the_beat_the_outcome_does(kind: str, data: dict[str, Any], beat: str | None) -> None:
    assert catalog.find_beat(Event(kind=kind, actor="ada", data=data)) == beat
