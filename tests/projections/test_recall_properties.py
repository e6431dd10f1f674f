"""Whatever a log holds, on a stage and off it: what is private of one agent is in no other's prompt, all the way from the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event, Visibility
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.prompts import summarize_work
from fleetlore.prompts import work_context
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import build_prompt
from fleetlore.prompts.roles import BLOCKS_BY_ROLE
from fleetlore.prompts.turn import MemoryPolicy, PromptTurn
from fleetlore.prompts.work_context import SummarizeEvents
from tests.prompts import plays
from tests.prompts.hostile import SECRET, placed, stage_events, words
from tests.strategies import events

CAST = ("ada", "brin", "you")
KINDS = (
    "prompt.submitted", "agent.thought", "agent.reflected", "agent.spoke", "agent.launched", "agent.returned", "fleet.dispatch",
    "fleet.error", "fleet.collab", "town.reviewer_handoff", "work.message_sent", "work.review_rejected", "work.task_created",
    "tool.failed", "tool.returned", "session.turn_ended", "user.injected", "model.replied", "model.called", "context.built",
    "log.rejected", "clue.found", "goal.waiting",
)  # fmt: skip
_VISIBILITIES: tuple[Visibility, ...] = ("public", "public", "private", "system")
_RAW = ("model.", "context.")


@st.composite
def draw_event(draw: st.DrawFn) -> Event:
    """What one of several who share a task did; whatever in it is private holds the secret of who did it."""
    number, kind, text = draw(st.tuples(st.integers(0, len(CAST) - 1), st.sampled_from(KINDS), words()))
    who, secret = CAST[number], f"{SECRET}{number}"
    visibility: Visibility = draw(st.sampled_from(_VISIBILITIES))
    data: dict[str, Any] = {"tool": "Bash", "call_id": "c", "correction": draw(st.booleans())}
    if visibility != "public" or kind == "agent.thought" or kind.startswith(_RAW):
        text = f"{secret} {text or ''}"
        data |= {"prompt": f"{secret} prompt", "error": f"{secret} error", "reason": f"{secret} reason", "title": f"{secret} title"}
    data |= {draw(st.sampled_from(("thought", "secret"))): f"{secret} aside"}
    others: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(("parent", "child"), st.sampled_from(CAST))))
    scopes: dict[str, Any] = draw(st.fixed_dictionaries({}, optional={"task": st.just("t"), "mission": st.just("m"), "run": st.just("r")}))
    return Event(kind=kind, actor=who, agent=who, text=text, visibility=visibility, data=data, **others, **scopes)


def stored(log: BlockingRecorder, history: list[Event]) -> None:
    """As many of them as the log takes."""
    for event in history:
        with suppress(FleetloreError):
            log.append([replace(event, id=None, position=None)])


@settings(max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(draw_event(), stage_events()), min_size=1, max_size=12),
    st.sampled_from([None, "r"]),
    st.sampled_from([None, *BLOCKS_BY_ROLE]),
    st.sampled_from(["episodic", "salience"]),
)
def test_what_one_thinks_is_in_no_other_prompt(history: list[Event], run: str | None, role: str | None, kind: Any) -> None:
    with plays.new_log() as log:
        stored(log, history)
        keeper = Recall(log, summarize=summarize_work)
        for number, name in enumerate(CAST):
            subscribes_to = ("clue.*", "agent.*", "model.*", "tool.*")
            turn = keeper.turn(name, run=run, role=role, subscribes_to=subscribes_to, remembering=MemoryPolicy(kind=kind, most=50))
            prompt = build_prompt(turn, budget=100_000)
            owners = set(re.findall(rf"{SECRET}(\d)", prompt.text))
            assert owners <= {str(number)}, f"{name} reads {owners}"
            recorded_events = [event for part in prompt.parts for event in part.events]
            assert len(recorded_events) == len(set(recorded_events))
            assert [line for line in prompt.text.splitlines() if line.lstrip().startswith("#")] == [
                f"## {part.heading}" for part in prompt.parts if part.is_shown
            ]


class StoredEvents:
    """Events as some log may have stored them long ago, whatever a recorder would say of them today."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def read(
        self, scope: str, *, before: str | None, limit: int, newest_first: bool = False, after: str | None = None, kinds: Sequence[str] = ()
    ) -> Iterator[Event]:
        found = [event for event in self._events if (not kinds or event.kind in kinds) and (event.position or "") > (after or "")]
        return iter((found[::-1] if newest_first else found)[:limit])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(events(), min_size=1, max_size=6),
    st.sampled_from(["child", "agent", "actor"]),
    st.sampled_from([summarize_work, work_context.summarize_events]),
)
def test_any_stored_event_can_be_part_of_an_agents_work(found: list[Event], as_what: str, record: SummarizeEvents) -> None:
    history = [replace(event, **{as_what: "ada"}) for event in placed(found)]
    shelf: Any = StoredEvents(history)
    work = work_context.load_work_context(shelf, "ada", run=None, upto=None, summarize=record)
    turn = PromptTurn(agent="ada", role="coder", **{name: getattr(work, name) for name in work._fields if name not in ("scope", "notes")})
    prompt = build_prompt(turn, budget=100_000)
    assert [line for line in prompt.text.splitlines() if line.lstrip().startswith("#")] == [
        f"## {part.heading}" for part in prompt.parts if part.is_shown
    ]
