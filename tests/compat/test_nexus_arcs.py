"""The arcs of a chronicle, its local time, its templates and its builders: what a program written for nexus relies on."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fleetlore.compat.nexus import ARC_TEMPLATES, AgentEvent, ChronicleWriter, EventKind, event_from_commit, event_from_gitea_issue
from fleetlore.dialects.nexus import DIALECT, find_reference
from fleetlore.nexus import event_from_heartbeat
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.patterns.chronicle import MOST_STEPS
from tests.cli.running import Lore

K = EventKind
START = 1_760_000_000.0
ISSUE = {"number": 42, "title": "Fix parser"}
ON_42 = {"issue_number": 42}


def event(kind: EventKind, agent: str = "a", detail: str = "", **metadata: Any) -> AgentEvent:
    return AgentEvent(kind, agent, detail, metadata=metadata)


def write(path: Path, events: list[AgentEvent], **options: Any) -> ChronicleWriter:
    writer = ChronicleWriter(path / "c.jsonl", **options)
    for number, one in enumerate(events):
        one.timestamp = START + 60 * number
        writer.ingest(one)
    return writer


def arc_of(path: Path, events: list[AgentEvent]) -> str | None:
    """The kind of the arc that is rendered."""
    names = {kind: f"ARC {kind} {{agent}} {{agents}}" for kind in ARC_TEMPLATES}
    paragraphs = write(path, events, arc_templates=names).render().split("\n\n")
    return paragraphs[2].split()[1] if len(paragraphs) == 3 else None


SPRINT = [event(kind) for kind in (K.DISPATCH, K.COMMIT, K.PR_OPEN, K.PR_MERGE)]

ARCS: dict[str, tuple[list[AgentEvent], str | None]] = {
    "one agent recovers": ([event(K.ERROR), event(K.RECOVERY)], "struggle_and_recovery"),
    "another agent recovers": ([event(K.ERROR, "a"), event(K.RECOVERY, "b")], "struggle_and_recovery"),
    "an error alone": ([event(K.ERROR)], None),
    "a recovery before the error": ([event(K.RECOVERY), event(K.ERROR)], None),
    "let go and taken up by another": ([event(K.ABANDON, "a"), event(K.DISPATCH, "b")], "abandon_then_retry"),
    "let go and taken up again": ([event(K.DISPATCH), event(K.ABANDON), event(K.DISPATCH)], "abandon_then_retry"),
    "let go": ([event(K.DISPATCH), event(K.ABANDON)], None),
    "a sprint": (SPRINT, "solo_sprint"),
    "a sprint beside a heartbeat of another": ([*SPRINT, event(K.HEARTBEAT, "b")], "solo_sprint"),
    "a sprint of two": ([*SPRINT, event(K.COMMIT, "b")], "silent_grind"),
    "two agents together": ([event(K.COMMIT, "a"), event(K.COLLABORATION, "b")], "fleet_convergence"),
    "together with nobody": ([event(K.COMMIT), event(K.COLLABORATION)], None),
    "twelve commits": ([event(K.COMMIT) for _ in range(12)], "silent_grind"),
    "commits and a push": ([*(event(K.COMMIT) for _ in range(5)), event(K.PUSH)], "silent_grind"),
    "only heartbeats": ([event(K.HEARTBEAT), event(K.IDLE)], None),
    "a struggle comes before all others": (
        [event(K.ERROR, "a"), event(K.ABANDON, "a"), event(K.DISPATCH, "b"), event(K.COLLABORATION, "b"), event(K.RECOVERY, "b")],
        "struggle_and_recovery",
    ),
    "a retry comes before a convergence": (
        [event(K.ABANDON, "a"), event(K.COLLABORATION, "b"), event(K.DISPATCH, "b")],
        "abandon_then_retry",
    ),
    "convergence on an issue": (
        [
            event_from_gitea_issue(ISSUE, "a"),
            event_from_gitea_issue(ISSUE, "b"),
            event(K.COLLABORATION, "a", "issue #42", **ON_42),
            event(K.COLLABORATION, "b", "issue #42", **ON_42),
            event(K.COMMIT, "a", "x", **ON_42),
        ],
        "fleet_convergence",
    ),
    "retry of an issue by another": (
        [event_from_gitea_issue(ISSUE, "a"), event(K.ABANDON, "a", "too hard"), event_from_gitea_issue(ISSUE, "b"), event(K.COMMIT, "b")],
        "abandon_then_retry",
    ),
    "a collaboration that names no task joins agents of different tasks": (
        [event(K.DISPATCH, "a", "issue #1"), event(K.DISPATCH, "b", "issue #2"), event(K.COLLABORATION, "a", "design with b")],
        "fleet_convergence",
    ),
    "a retry of another issue is none": (
        [event(K.DISPATCH, "a", "issue #1"), event(K.ABANDON, "a", "issue #1"), event(K.DISPATCH, "b", "issue #2")],
        None,
    ),
    "what names no task belongs to any": ([event(K.ERROR, "a", "issue #42"), event(K.RECOVERY, "b")], "struggle_and_recovery"),
    "by branch": ([event(K.ERROR, "a", branch="fix/42-parser"), event(K.RECOVERY, "b", "issue #42")], "struggle_and_recovery"),
    "by the number of the pull request of an issue": (
        [
            event_from_gitea_issue(ISSUE, "a"),
            event(K.COMMIT, "a"),
            event(K.PR_OPEN, "a", "PR #57: Fix parser"),
            event(K.DISPATCH, "b", "issue #9"),
            event(K.ERROR, "b", "CI of PR #57 is red"),
            event(K.RECOVERY, "a", "issue #42: CI is green"),
        ],
        "struggle_and_recovery",
    ),
}


@pytest.mark.parametrize("name", ARCS)
def test_an_arc_crosses_agents_and_the_first_in_precedence_is_shown(tmp_path: Path, name: str) -> None:
    events, kind = ARCS[name]
    assert arc_of(tmp_path, events) == kind


def test_only_the_window_counts(tmp_path: Path) -> None:
    events = [event(K.ERROR), event(K.RECOVERY), *(event(K.COMMIT) for _ in range(3))]
    writer = write(tmp_path, events)
    assert writer.render().endswith("a met trouble, and the trouble was overcome.")
    assert writer.render(3).endswith("No drama: a kept at it, one step after another.")


def test_the_agent_of_a_struggle_is_who_met_it_and_of_a_retry_who_took_it_up(tmp_path: Path) -> None:
    assert "a met trouble" in write(tmp_path, [event(K.ERROR, "a"), event(K.RECOVERY, "b")]).render()
    (tmp_path / "c.jsonl").unlink()
    assert "b took it up again" in write(tmp_path, [event(K.ABANDON, "a"), event(K.DISPATCH, "b")]).render()


def test_the_arc_is_the_last_paragraph_and_in_italics_in_markdown(tmp_path: Path) -> None:
    writer = write(tmp_path, [event(K.COMMIT, "b"), event(K.COMMIT, "a")])
    assert len(writer.render().split("\n\n")) == 3
    assert writer.render_markdown().endswith("\n\n---\n\n*No drama: b and a kept at it, one step after another.*")


@pytest.mark.parametrize("name", ARCS)
def test_an_import_finds_the_same_arc(lore: Lore, tmp_path: Path, name: str) -> None:
    events, kind = ARCS[name]
    write(tmp_path, events)
    log = f"sqlite://{tmp_path}/log.db"
    lore("--log", log, "import", "nexus", str(tmp_path / "c.jsonl"), code=0)
    found = lore("--log", log, "arcs", "--json", code=0).ndjson
    assert kind in [one["kind"] for one in found] if kind else not found or {one["kind"] for one in found} <= {"silent_grind"}


def test_a_long_chronicle_is_bounded() -> None:
    state = pattern_fold.initial()
    for number in range(3 * MOST_STEPS):
        for kind in ("commit", "heartbeat"):
            line = json.dumps(AgentEvent(K(kind), f"a{number % 2}", "", START + number).to_dict()).encode()
            pattern_fold.apply(state, DIALECT.decode(line, nth=number))
    assert sum(map(len, state.chronicle.threads.values())) == MOST_STEPS
    again = pattern_fold.decode(pattern_fold.encode(state))
    assert [one.kind for one in pattern_fold.find_patterns(again, DIALECT.decode(line).at)] == ["silent_grind"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metadata", "detail", "task"),
    [
        ({"issue_number": 42}, "issue #7", "#42"),
        ({"issue_number": "?"}, "", None),
        ({}, "issue #42: Fix", "#42"),
        ({}, "Closes #42.", "#42"),
        ({"branch": "issue-42"}, "PR #57", "#42"),
        ({"branch": "refs/heads/feature/42-parser"}, "", "#42"),
        ({"branch": "release-2026"}, "", "#2026"),
        ({"branch": "main"}, "", None),
        ({}, "pushed fix/42-parser", "#42"),
        ({"pr_number": 57}, "", "#57"),
        ({}, "PR #57: Fix parser", "#57"),
        ({}, "color #fff and &#39;", None),
        ({"issue_number": True}, "step 3 of 5", None),
    ],
)
def test_a_task_is_found_in_metadata_issue_branch_and_pull_request(metadata: dict[str, Any], detail: str, task: str | None) -> None:
    assert find_reference(metadata, detail) == task
    line = json.dumps({"kind": "commit", "agent": "a", "detail": detail, "metadata": metadata}).encode()
    assert DIALECT.decode(line).task == task
    assert DIALECT.encode(DIALECT.decode(line)) == line


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "EST5EDT")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("new_york")
def test_times_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = write(tmp_path, [event(K.COMMIT)])  # 2025-10-09 08:53:20 UTC
    assert "between 04:53 and 04:53. 2025-10-09 (EDT)" in writer.render()
    assert "**04:53:20**" in writer.render_markdown()


def test_summary_counts_with_repeats(tmp_path: Path) -> None:
    writer = write(tmp_path, [event(K.COMMIT), event(K.COMMIT), event(K.PUSH), event(K.COMMIT)])
    assert Counter(writer.summary()["agents"]["a"]["kinds"]) == {"commit": 3, "push": 1}


def test_three_phrases_are_used_in_turn(tmp_path: Path) -> None:
    body = write(tmp_path, [event(K.COMMIT, "claude", f"zz{number}zz") for number in range(60)], zone=None).render(60).split("\n\n")[1]
    forms = [re.sub(r"zz\d+zz", "X", part) for part in re.split(r"(?<=\.)\s+", body)]
    assert (len(forms), len(set(forms))) == (60, 3)
    assert all(one != other for one, other in pairwise(forms))


def test_templates_of_the_user_are_used_in_turn_and_a_missing_detail_is_the_kind(tmp_path: Path) -> None:
    templates = {K.COMMIT: ["{agent} wrote {detail}", "{detail} by {agent}."]}
    events = [event(K.COMMIT, "ada", "one."), event(K.COMMIT, "ada"), event(K.COMMIT, "ada", "{agent}"), event(K.PUSH, "ada")]
    body = write(tmp_path, events, templates=templates).render().split("\n\n")[1]
    assert body.startswith("ada wrote one. commit by ada. ada wrote {agent}. ada pushed")


def test_a_voice_can_be_chosen(tmp_path: Path) -> None:
    assert "ada committed." in write(tmp_path, [event(K.COMMIT, "ada")], voice="plain").render()


def test_builders_have_a_value_for_every_missing_key() -> None:
    assert event_from_commit({}, "a").metadata == {"sha": ""}
    issue = event_from_gitea_issue({}, "a")
    assert (issue.metadata, issue.detail) == ({"issue_number": "?"}, "issue #?: ")
    beat = event_from_heartbeat({})
    assert (beat.agent, beat.detail, beat.metadata) == ("unknown", "cycle 0, status=thinking", {})


def test_an_event_takes_attributes_of_the_user() -> None:
    one = event(K.COMMIT)
    one.note = "mine"  # type: ignore[attr-defined]
    assert one.to_dict().keys() == {"kind", "agent", "detail", "timestamp", "metadata"}
