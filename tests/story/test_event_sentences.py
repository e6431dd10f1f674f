# ruff: noqa: E501 - a row of a table is easier to read on one line
"""What is said of each event: the tables are the manual. Same events, same order, same text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.dialects import git
from fleetlore.events.catalog import known_kinds
from fleetlore.events.envelope import Event
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.voices import load_voice
from tests.strategies import events

NINE = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)


def describe_event(kind: str, data: dict[str, Any] | None = None, **fields: Any) -> str:
    given_fields: dict[str, Any] = {"agent": "ada", "actor": "ada", "at": NINE} | fields
    return EventDescriber().describe(Event(kind=kind, data=data or {}, **given_fields))


def test_every_known_kind_has_a_phrase_that_needs_no_data() -> None:
    plain = load_voice("plain")
    for kind in known_kinds():
        assert kind in plain.phrases
        assert not EventDescriber().describe(Event(kind=kind, actor="ada")).startswith("Event ")


GOAL = "4f2a90c1-0000-4000-8000-000000000001"
USAGE = {"turns": 12, "wall_time": "1h 30m", "tokens": 81_000, "consecutive_denies": 0}
FAILURES = [{"criterion_index": 0, "criterion_label": "shell_command:make test", "message": "exit code 1 instead of 0"}]


@pytest.mark.parametrize(
    ("kind", "fields", "data", "expected"),
    [
        # A fleet, a git history, a forge.
        ("fleet.dispatch", {"actor": "mira", "task": "t7", "text": "Fix tabs"}, {}, 'ada was assigned task t7 by mira: "Fix tabs".'),
        ("fleet.commit", {"text": "Fix tabs."}, {"sha": "0a1b2c3"}, 'ada committed "Fix tabs".'),
        ("fleet.commit", {}, {"sha": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"}, "ada committed 0a1b2c3d."),
        ("fleet.push", {"text": "2 commits to main"}, {"commits": 2, "branch": "main"}, "ada pushed 2 commits to main."),
        ("fleet.pr_open", {"task": "#7", "text": "Tabs"}, {"number": 7}, 'ada opened pull request #7: "Tabs".'),
        ("fleet.pr_merge", {"actor": "mira", "task": "#7", "text": "Tabs"}, {"number": 7}, 'Pull request #7 by ada was merged by mira: "Tabs".'),
        ("fleet.pr_merge", {"text": "Merge branch 'tabs'"}, {"sha": "0a", "branch": "tabs"}, "ada merged a branch: \"Merge branch 'tabs'\"."),
        ("fleet.abandon", {"task": "#7"}, {"number": 7, "base": "main"}, "Pull request #7 by ada was closed without a merge."),
        ("fleet.error", {"task": "t7", "text": "3 tests fail"}, {}, 'ada ran into an error on t7: "3 tests fail".'),
        ("fleet.error", {"text": 'Revert "Fix tabs"'}, {"reverts": "0a1b"}, "ada reverted a commit: \"Revert 'Fix tabs'\"."),
        ("fleet.error", {"task": "#7"}, {"check": "lint", "branch": "tabs"}, 'The check "lint" failed on tabs (#7).'),
        # A town.
        ("town.agent_state_changed", {"old_state": "idle", "new_state": "working"}, {}, "ada changed from idle to working."),
        ("town.task_assigned", {"actor": "dispatcher", "task": "t7"}, {}, "ada was assigned task t7 by dispatcher."),
        ("town.task_completed", {"task": "t7"}, {"result": "stale, no changes"}, 'ada closed task t7: "stale, no changes".'),
        ("town.task_completed", {"actor": "mira", "task": "t7"}, {"title": "Tabs"}, "ada's task t7 was closed by mira (\"Tabs\")."),
        ("town.task_failed", {"task": "t7"}, {"error": "Exit code 1\nfatal: no upstream branch"}, "Task t7 of ada failed: no upstream branch."),
        ("town.reviewer_handoff", {"task": "t7", "child": "bo"}, {}, "Task t7 of ada went to bo for review."),
        ("work.review_rejected", {"child": "bo", "task": "t7"}, {"reason": "No tests"}, 'ada asked bo for changes on t7: "No tests".'),
        ("work.message_sent", {"child": "bo", "text": "Swap?"}, {}, 'ada wrote to bo: "Swap?".'),
        ("work.updated", {"task": "t7"}, {"field": "assignee, status"}, "ada changed the assignee and status of task t7."),
        ("work.updated", {"task": "t7"}, {"field": "status", "old": "open", "new": "closed"}, 'ada changed the status of task t7 from "open" to "closed".'),
        ("work.lease_lost", {"task": "t7"}, {"epoch": 1, "reason": "its worker died"}, 'ada lost the lease of task t7: "its worker died".'),
        # A goal.
        ("driver.goal_started", {"goal": GOAL}, {"goal": {"description": "Make the tests pass"}}, 'Goal 4f2a90c1 was started: "Make the tests pass".'),
        ("driver.attempt_completed", {"goal": GOAL}, {"result": {"turn_index": 1, "outcome": {"kind": "done"}}}, "The check of goal 4f2a90c1 passed on turn 1."),
        (
            "driver.attempt_completed", {"goal": GOAL}, {"result": {"turn_index": 2, "outcome": {"kind": "needs_retry", "failures": FAILURES}}},
            'The check of goal 4f2a90c1 failed on turn 2: "make test" (exit code 1 instead of 0).',
        ),
        ("driver.budget_exhausted", {"goal": GOAL}, {"axis": "wall_time", "usage": USAGE}, "Goal 4f2a90c1 used up its budget of time (90 min)."),
        (
            "driver.goal_completed", {"goal": GOAL}, {"outcome": {"outcome": {"kind": "done"}, "total_turns": 3}, "fleetlore.usd": 1.2},
            "Goal 4f2a90c1 is done: its check passed after 3 turns ($1.20).",
        ),
        ("goal.waiting", {"goal": GOAL}, {"why": "rate limit", "until": "2026-01-01T10:30:00Z"}, 'Goal 4f2a90c1 is waiting until 10:30: "rate limit".'),
        ("goal.waiting", {"goal": GOAL}, {"why": "rate limit", "until": "2026-01-02T10:30:00Z"}, 'Goal 4f2a90c1 is waiting until 2026-01-02 10:30: "rate limit".'),
        ("control.requested", {"agent": None, "actor": "mira", "goal": GOAL}, {"action": "pause"}, "mira paused goal 4f2a90c1."),
        ("control.requested", {"agent": None, "actor": "mira", "goal": GOAL}, {"action": "decide", "value": "allow"}, "mira allowed what goal 4f2a90c1 asked for."),
        # A stage.
        ("run.started", {"run": "r1"}, {"scenario": "bakery", "cast": {"mara": {}, "tomas": {}}}, "Run r1 of bakery started with 2 players."),
        ("agent.spoke", {"text": "Good morning"}, {"thought": "I took it"}, 'ada said "Good morning".'),
        ("agent.thought", {"text": "I took the bread"}, {}, "ada had a private thought."),
        ("judge.verdict", {"text": "He lied"}, {"winner": "mara"}, 'The judge named mara the winner: "He lied".'),
        # Coding agents.
        (
            "prompt.submitted", {"actor": "user", "text": "Implement the following plan:"}, {"prompt": "Implement the following plan:\n\n# Accept tabs in strings"},
            'A person wrote to ada: "Accept tabs in strings".',
        ),
        ("prompt.submitted", {"actor": "user", "text": "no, tabs are legal there"}, {"correction": True}, 'A person wrote to ada: "no, tabs are legal there".'),
        ("session.turn_ended", {"text": "Done. Here's what I did:"}, {"duration_ms": 300_000}, "ada ended its turn after 5 min."),
        ("session.turn_ended", {"text": "**The parser accepts tabs now.**"}, {}, 'ada ended its turn: "The parser accepts tabs now".'),
        ("session.waiting", {}, {"why": "permission", "tool": "Bash"}, "ada waits for a permission to use Bash."),
        ("tool.called", {"text": "Bash: make test"}, {"tool": "Bash"}, 'ada called Bash: "make test".'),
        ("tool.returned", {}, {"tool": "Edit", "deed": "edit", "paths": ["/w/src/a.py", "/w/b.py", "/w/c.py", "/w/d.py", "/w/e.py"]}, "ada edited a.py, b.py, c.py and 2 more files."),
        ("tool.returned", {}, {"tool": "Bash", "deed": "test", "subject": "pytest: 33 passed"}, 'ada ran tests: "pytest: 33 passed".'),
        ("tool.returned", {}, {"tool": "Bash", "deed": "test", "subject": "pytest: 3 failed"}, 'Tests failed for ada: "pytest: 3 failed".'),
        ("tool.failed", {}, {"tool": "Bash", "deed": "push", "error": "Exit code 128\nfatal: no upstream branch"}, "ada could not push: no upstream branch."),
        ("tool.failed", {}, {"tool": "Bash", "interrupted": True, "error": "x"}, "ada was interrupted while it used Bash."),
        ("tool.denied", {}, {"tool": "Bash", "by": "user", "reason": "not now"}, 'A person denied ada the use of Bash: "not now".'),
        ("agent.launched", {"text": "Review the diff"}, {"role": "reviewer"}, 'ada launched a helper (reviewer): "Review the diff".'),
        # A graph agent, the log itself, and unknown kinds.
        ("machine.moved", {"old_state": "open", "new_state": "shut"}, {"machine": "door"}, "The state machine door moved from open to shut."),
        ("log.rejected", {}, {"reason": "not JSON", "source": "a.jsonl", "n": 5}, 'A record could not be read (a.jsonl, line 5): "not JSON".'),
        ("deploy.finished", {"actor": "ci", "agent": None, "text": "v1.3 is live"}, {"region": "eu"}, 'Event deploy.finished by ci: "v1.3 is live".'),
    ],
)  # fmt: skip
def test_what_is_said(kind: str, fields: dict[str, Any], data: dict[str, Any], expected: str) -> None:
    assert describe_event(kind, data, **fields) == expected


def test_agents_have_their_display_names_and_times_their_zone() -> None:
    describer = EventDescriber(name_of={"claude-code/7f": "parser@main"}.get, zone=timezone(timedelta(hours=2)))  # type: ignore[arg-type]
    assert describer.describe(Event(kind="fleet.commit", agent="claude-code/7f")) == "parser@main committed."
    waiting = Event(kind="goal.waiting", actor="claude-code/7f", goal="g", at=NINE, data={"why": "x", "until": "2026-01-01T10:00:00Z"})
    assert "until 12:00" in describer.describe(waiting)


def test_untrusted_text_is_quoted_cleaned_and_cut() -> None:
    sentence = describe_event("fleet.commit", text='{task}\n[ "x" ]\x1b[31m\u202e ' + "word " * 100)
    assert sentence.startswith("ada committed \"{task} [ 'x' ] [31m word")
    assert sentence.endswith('word…".')
    assert len(sentence) < 200


def test_a_git_history_is_described() -> None:
    record = b'{"type":"commit","sha":"%s","author":"mira","authored":"2026-01-01T09:00:00Z","subject":"%s","parents":%s}'
    lines = [
        record % (b"a" * 40, b"Accept tabs (#7)", b'["b"]'),
        record % (b"b" * 40, b"Merge branch 'tabs'", b'["a", "c"]'),
        record % (b"c" * 40, b'Revert \\"Accept tabs\\"', b'["a"]'),
    ]
    describer = EventDescriber()
    assert [describer.describe(git.DIALECT.decode(line)) for line in lines] == [
        'mira committed "Accept tabs (#7)".',
        "mira merged a branch: \"Merge branch 'tabs'\".",
        "mira ran into an error: \"Revert 'Accept tabs'\".",
    ]


SECRET = "xyzzy-secret"


@given(
    st.sampled_from(sorted(known_kinds())),
    st.dictionaries(st.sampled_from(["reason", "title", "result", "error", "tool", "thought"]), st.just(SECRET)),
)
def test_text_of_private_events_is_never_shown(kind: str, data: dict[str, Any]) -> None:
    event = Event(kind=kind, agent="ada", text=SECRET, old_state=SECRET, new_state=SECRET, visibility="private", data=data)
    for voice in (None, load_voice("nexus")):
        assert SECRET not in EventDescriber(voice=voice).describe(event)


@given(st.lists(events(), max_size=5))
def test_any_event_is_one_line_that_ends_with_a_period_and_the_same_again(given_events: list[Event]) -> None:
    for voice in (None, load_voice("nexus")):
        first, second = EventDescriber(voice=voice), EventDescriber(voice=voice)
        for event in given_events:
            sentence = first.describe(event)
            assert sentence == second.describe(event)
            assert sentence.isprintable()
            assert sentence.endswith(".")
            assert len(sentence) > 1


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "outcome", "failures", "tool"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    "outcome",
    "result",
    "decision",
    "verdict",
    "axis",
    "usage",
    "why",
    "until",
    "deed",
    "subject",
    "paths",
    "tool",
    "action",
    "value",
    "error",
]


@given(st.sampled_from(sorted(known_kinds())), st.dictionaries(st.sampled_from(FIELDS), ANY, max_size=4))
def test_data_of_any_shape_is_survived(kind: str, data: dict[str, Any]) -> None:
    sentence = EventDescriber().describe(Event(kind=kind, actor="ada", at=NINE, data=data))
    assert sentence.isprintable()
    assert sentence.endswith(".")


def test_phrases_of_a_voice_are_used_in_turn() -> None:
    describer = EventDescriber(voice=load_voice("nexus"))
    sentences = [describer.describe(Event(kind="fleet.commit", agent="ada", text=f"change {n}")) for n in range(6)]
    forms = [sentence.replace(f"change {n}", "") for n, sentence in enumerate(sentences)]
    assert forms[:3] == forms[3:]
    assert len(set(forms)) == 3
    assert describer.describe(Event(kind="town.agent_spawned", agent="ada")) == "ada joined the town."


def test_a_small_fleet_in_both_voices() -> None:
    fleet = [
        Event(kind="fleet.dispatch", actor="mira", agent="ada", task="t7", text="Accept tabs"),
        Event(kind="fleet.error", agent="ada", task="t7", text="3 tests fail"),
        Event(kind="fleet.recovery", agent="ada", task="t7", text="the lexer skipped tabs"),
        Event(kind="fleet.commit", agent="ada", text="Accept tabs in strings"),
        Event(kind="fleet.pr_open", agent="ada", task="t7", text="Tabs"),
        Event(kind="fleet.pr_merge", agent="ada", task="t7", text="Tabs"),
    ]
    plain, nexus = EventDescriber(), EventDescriber(voice=load_voice("nexus"))
    assert [plain.describe(event) for event in fleet] == [
        'ada was assigned task t7 by mira: "Accept tabs".',
        'ada ran into an error on t7: "3 tests fail".',
        'ada fixed an error on t7: "the lexer skipped tabs".',
        'ada committed "Accept tabs in strings".',
        'ada opened a pull request for t7: "Tabs".',
        'The pull request of ada for t7 was merged: "Tabs".',
    ]
    assert [nexus.describe(event) for event in fleet] == [
        'The fleet dispatched ada to a new piece of work: "Accept tabs".',
        'ada ran into an error: "3 tests fail".',
        'ada found its footing again, a recovery well earned: "the lexer skipped tabs".',
        'ada committed, and the work took another step: "Accept tabs in strings".',
        'ada opened a pull request and asked for a second pair of eyes: "Tabs".',
        'The pull request of ada was merged, and the work came home: "Tabs".',
    ]
