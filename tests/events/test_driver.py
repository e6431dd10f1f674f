"""The driver's payloads are read and written in exactly the shapes of the wire."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fleetlore.errors import InvalidEvent
from fleetlore.events import catalog

G = "3f0c8a52-6f0e-4c4b-9a57-0d6a5c2f7e11"
D = "7b1f2c9e-5a44-4d0a-8f5c-2a9d3e4b6c70"
USAGE = '{"turns":3,"wall_time":"1h 30m","tokens":120000,"consecutive_denies":0,"consecutive_errors":1,"consecutive_413":0}'
VERDICT = (
    '{"met":false,"failures":[{"criterion_index":0,"criterion_label":"shell:make test","message":"exit 1","evidence":"1 failed"},'
    '{"criterion_index":1,"criterion_label":"file:README.md","message":"no match"}],'
    '"evaluated_at":"2026-04-30T10:00:00.123456789Z","elapsed_ms":812}'
)
MET = '{"met":true,"failures":[],"evaluated_at":"2026-04-30T10:00:00Z","elapsed_ms":5}'
DECISION = (
    f'{{"id":"{D}","goal_id":"{G}","turn_index":2,"tool":"Bash","input":{{"command":"rm -rf build"}},'
    '"choice":{"kind":"deny","message":"outside the workspace"},"rationale":"rule 3","decided_at":"2026-04-30T10:00:00.5Z"}'
)

SAMPLES = {
    "driver.goal_started": (
        f'{{"goal":{{"id":"{G}","description":"Make the tests pass","acceptance":['
        '{"kind":"shell_command","command":"make test","expected_exit":0,"stdout_must_match":"ok","timeout_secs":60},'
        '{"kind":"shell_command","command":"true","timeout_secs":300},'
        '{"kind":"file_matches","path":"README.md","regex":"^# ","required":false},'
        '{"kind":"custom","name":"git_clean","args":null},'
        '{"kind":"llm_judge","criterion_text":"reads well"}],'
        '"budget":{"max_turns":40,"max_wall_time":"4h","max_tokens":2000000,"max_consecutive_denies":3,'
        '"max_consecutive_errors":5,"max_consecutive_413":2},"workspace":"/w","metadata":{"agent_id":"ada","worktree.source_repo":"/r"}}}'
    ),
    "driver.goal_completed": (
        f'{{"outcome":{{"goal_id":"{G}","outcome":{{"kind":"budget_exhausted","axis":"consecutive413"}},"total_turns":3,'
        f'"usage":{USAGE},"final_text":null,"acceptance":null,"elapsed":"1m 2s"}}}}'
    ),
    "driver.attempt_started": f'{{"goal_id":"{G}","turn_index":1,"usage":{USAGE}}}',
    "driver.attempt_completed": (
        f'{{"result":{{"goal_id":"{G}","turn_index":2,"outcome":{{"kind":"sleep","duration_ms":5000,"reason":"rate limit"}},'
        f'"decisions_recorded":[{DECISION}],"usage_after":{USAGE},"acceptance":{VERDICT},"final_text":"done ✓",'
        '"harness_extras":{"claude_code.session_id":"s1","worktree.diff_stat":" 1 file changed"}}}'
    ),
    "driver.decision": f'{{"decision":{DECISION}}}',
    "driver.acceptance": f'{{"goal_id":"{G}","verdict":{VERDICT}}}',
    "driver.budget_exhausted": f'{{"goal_id":"{G}","axis":"wall_time","usage":{USAGE}}}',
    "driver.escalate": f'{{"goal_id":"{G}","reason":"spawn failed"}}',
    "driver.replay_decision": (
        f'{{"goal_id":"{G}","turn_index":1,"decision":{{"kind":"fresh_session_retry","rollback_to":"0a1b2c"}},"error_message":"gone"}}'
    ),
    "driver.compact_requested": (
        f'{{"goal_id":"{G}","turn_index":4,"focus":"the failing test","token_pressure":0.8,"before_tokens":160000,"age_minutes":12,'
        '"trigger":{"kind":"token_pressure","pct":0.8,"tokens_used":160000,"context_window":200000}}'
    ),
    "driver.compact_completed": f'{{"goal_id":"{G}","turn_index":4,"after_tokens":9000}}',
    "driver.compact_summary_stored": f'{{"goal_id":"{G}","turn_index":4,"before_tokens":160000,"after_tokens":9000}}',
    "driver.extract_memories_completed": f'{{"goal_id":"{G}","turn_index":4,"memories_saved":2,"duration_ms":1500}}',
    "driver.extract_memories_skipped": f'{{"goal_id":"{G}","reason":"circuit_breaker_open"}}',
    "driver.auto_dream_outcome": f'{{"goal_id":"{G}","outcome_kind":"skipped_time_gate"}}',
    "driver.progress": f'{{"goal_id":"{G}","turn_index":5,"usage":{USAGE},"last_text":null}}',
}


def rewrite(kind: str, raw: str | dict[str, Any]) -> str:
    """The data read into its class and written again."""
    payload = catalog.find_payload(kind)
    assert payload is not None
    data = json.loads(raw) if isinstance(raw, str) else raw
    return msgspec.json.encode(msgspec.convert(data, payload)).decode()


def refusal(kind: str, data: dict[str, Any]) -> str:
    """The path at which the data is refused."""
    with pytest.raises(InvalidEvent) as refused:
        catalog.check_payload(kind, data)
    return refused.value.path


def test_there_is_a_sample_of_every_step() -> None:
    assert list(SAMPLES) == [kind for kind in catalog.known_kinds() if kind.startswith("driver.")]


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_payload_is_written_as_it_was_read(kind: str) -> None:
    assert rewrite(kind, SAMPLES[kind]) == SAMPLES[kind]


@pytest.mark.parametrize(
    "outcome",
    [
        '{"kind":"done"}',
        '{"kind":"needs_retry","failures":[{"criterion_index":0,"criterion_label":"llm_judge","message":"dull"}]}',
        '{"kind":"continue","reason":"turn timeout"}',
        '{"kind":"sleep","duration_ms":1,"reason":""}',
        *(
            f'{{"kind":"budget_exhausted","axis":"{axis}"}}'
            for axis in ("turns", "wall_time", "tokens", "consecutive_denies", "consecutive_errors", "consecutive413")
        ),
        '{"kind":"cancelled"}',
        '{"kind":"escalate","reason":"login needed"}',
    ],
)
def test_each_outcome_of_a_turn_is_kept_and_what_is_absent_is_left_out(outcome: str) -> None:
    raw = f'{{"result":{{"goal_id":"{G}","turn_index":1,"outcome":{outcome},"decisions_recorded":[],"usage_after":{USAGE}}}}}'
    assert rewrite("driver.attempt_completed", raw) == raw


@pytest.mark.parametrize(
    "decision",
    ['{"kind":"fresh_session_retry"}', '{"kind":"next_turn"}', '{"kind":"compact_and_retry"}', '{"kind":"escalate","reason":"auth"}'],
)
def test_each_way_to_go_on_is_kept(decision: str) -> None:
    raw = f'{{"goal_id":"{G}","turn_index":1,"decision":{decision},"error_message":"x"}}'
    assert rewrite("driver.replay_decision", raw) == raw


@pytest.mark.parametrize("choice", ['{"kind":"allow"}', '{"kind":"observe","note":"shadow"}'])
def test_each_choice_is_kept(choice: str) -> None:
    raw = SAMPLES["driver.decision"].replace('{"kind":"deny","message":"outside the workspace"}', choice)
    assert choice in raw
    assert rewrite("driver.decision", raw) == raw


def test_a_context_may_be_too_old_as_well_as_too_full() -> None:
    raw = SAMPLES["driver.compact_requested"].partition('"trigger":')[0] + '"trigger":{"kind":"age","age_minutes":90,"max_age_minutes":60}}'
    assert rewrite("driver.compact_requested", raw) == raw


def test_a_goal_that_ended_well_carries_its_verdict() -> None:
    raw = (
        SAMPLES["driver.goal_completed"]
        .replace('"acceptance":null', f'"acceptance":{MET}')
        .replace('"final_text":null', '"final_text":"ok"')
    )
    assert rewrite("driver.goal_completed", raw) == raw


def test_defaults_of_the_wire_are_filled_in_and_unknown_keys_passed_over() -> None:
    goal = {
        "id": G,
        "description": "d",
        "acceptance": [{"kind": "shell_command", "command": "true"}, {"kind": "file_matches", "path": "p", "regex": "r"}],
        "budget": {"max_turns": 1, "max_wall_time": "0s", "max_tokens": 0, "max_consecutive_denies": 0, "max_usd": 5},
        "workspace": None,
        "priority": "high",
    }
    assert rewrite("driver.goal_started", {"goal": goal}) == (
        f'{{"goal":{{"id":"{G}","description":"d","acceptance":[{{"kind":"shell_command","command":"true","timeout_secs":300}},'
        '{"kind":"file_matches","path":"p","regex":"r","required":true}],"budget":{"max_turns":1,"max_wall_time":"0s","max_tokens":0,'
        '"max_consecutive_denies":0,"max_consecutive_errors":5,"max_consecutive_413":2}}}'
    )
    usage = {"turns": 1, "wall_time": "5s", "tokens": 2, "consecutive_denies": 0}
    assert rewrite("driver.progress", {"goal_id": G, "turn_index": 1, "usage": usage}) == (
        f'{{"goal_id":"{G}","turn_index":1,"usage":{{"turns":1,"wall_time":"5s","tokens":2,"consecutive_denies":0,'
        '"consecutive_errors":0,"consecutive_413":0},"last_text":null}'
    )


@pytest.mark.parametrize(
    ("kind", "change", "path"),
    [
        ("driver.budget_exhausted", {"axis": "consecutive_413"}, "$.data.axis"),
        ("driver.budget_exhausted", {"goal_id": "my goal"}, "$.data.goal_id"),
        ("driver.budget_exhausted", {"usage": json.loads(USAGE) | {"wall_time": "soon"}}, "$.data.usage.wall_time"),
        ("driver.budget_exhausted", {"usage": json.loads(USAGE) | {"turns": -1}}, "$.data.usage.turns"),
        ("driver.acceptance", {"verdict": json.loads(MET) | {"evaluated_at": "2026-13-01T00:00:00Z"}}, "$.data.verdict.evaluated_at"),
        ("driver.replay_decision", {"decision": {"kind": "give_up"}}, "$.data.decision.kind"),
        ("driver.extract_memories_skipped", {"reason": "lazy"}, "$.data.reason"),
        ("driver.auto_dream_outcome", {"outcome_kind": "nightmare"}, "$.data.outcome_kind"),
    ],
)
def test_nonsense_is_refused_where_it_stands(kind: str, change: dict[str, Any], path: str) -> None:
    assert refusal(kind, json.loads(SAMPLES[kind]) | change) == path
