"""The story of what is no session: tasks, goals, runs, missions and agents, each with its end state and counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleetlore import Event
from fleetlore.story.story import Story, StoryParagraph, count_words, make_story
from fleetlore.story.threads import ThreadBook
from fleetlore.views import task_outcomes
from fleetlore.views.task_outcomes import TaskOutcome, make_task_outcome
from tests.story.fleets import START, make_events, make_fleet_day
from tests.story.records import make_outcome

DAY = datetime(2026, 11, 16, tzinfo=UTC)


def story_of(events: list[Event], *, sessions: tuple[Any, ...] = (), days: int = 1, **options: Any) -> Story:
    until = DAY + timedelta(days=days)
    book = ThreadBook((one.session for one in sessions), UTC, DAY, until)
    for event in events:
        book.add(event)
    return make_story(sessions, outcomes_of(events), since=DAY, until=until, zone=UTC, book=book, **options)


def outcomes_of(events: list[Event]) -> list[TaskOutcome]:
    states: dict[str, task_outcomes.TaskState] = {}
    for event in events:
        if event.task is not None and event.kind in task_outcomes.KINDS:
            task_outcomes.apply(states.setdefault(event.task, task_outcomes.begin_task(event.task)), event)
    return [made for state in states.values() if (made := make_task_outcome(state)) is not None]


def find(story: Story, start: str) -> StoryParagraph:
    return next(paragraph for paragraph in story.paragraphs if paragraph.title.startswith(start))


def text_of(paragraph: StoryParagraph) -> str:
    return " ".join(sentence.text for sentence in paragraph.sentences)


def test_a_task_says_how_it_ended_what_went_wrong_and_how_much_was_done() -> None:
    events = make_events(
        ("work.task_created", "", {"task": "t7", "data": {"title": "Write the parser"}}),
        ("fleet.dispatch", "ada", {"task": "t7"}),
        ("fleet.commit", "ada", {"task": "t7", "text": "Read tabs"}),
        ("fleet.error", "ada", {"task": "t7", "text": "It hangs"}),
        ("fleet.dispatch", "bo", {"task": "t7"}),
        ("fleet.commit", "bo", {"task": "t7", "text": "Read spaces"}),
        ("town.task_completed", "bo", {"task": "t7", "data": {"result": "Parser works"}}),
    )
    paragraph = find(story_of(events), "Write the parser")
    assert paragraph.thread == "task:t7"
    text = text_of(paragraph)
    assert text.startswith('Closed: "Parser works"; bo had the task. It was given out 2 times, to ada and bo.')
    assert "At 09:04:" in text
    assert "It hangs" in text
    assert '2 commits ("Read spaces" and "Read tabs")' in text


def test_a_closing_without_work_is_not_called_done() -> None:
    events = make_events(("town.task_completed", "ada", {"task": "t1", "data": {"result": "Duplicate of t9", "title": "Old"}}))
    assert text_of(find(story_of(events), "Old")) == 'Closed as stale, duplicate or not wanted: "Duplicate of t9".'


def test_many_tasks_are_one_paragraph() -> None:
    rows: list[tuple[str, str, dict[str, Any]]] = []
    for number in range(30):
        rows.append(("fleet.dispatch", f"w{number % 3}", {"task": f"t{number}", "data": {"title": f"Task number {number}"}}))
        reason = "Garbage from a bad flag" if number % 2 else "Fixed"
        rows.append(("town.task_completed", f"w{number % 3}", {"task": f"t{number}", "data": {"result": reason}}))
    story = story_of(make_events(*rows))
    assert [paragraph.title for paragraph in story.paragraphs] == ["Tasks"]
    text = text_of(story.paragraphs[0])
    assert "15 tasks closed: " in text
    assert '15 tasks closed as stale, duplicate or not wanted: 15 × "Garbage from a bad flag".' in text


def test_an_agent_without_a_task_has_a_paragraph_and_signs_of_life_are_grouped() -> None:
    rows = [("fleet.commit", "ada", {"text": f"Change {number}"}) for number in range(9)]
    rows += [("fleet.heartbeat", name, {}) for name in ("bo", "cy", "bo")]
    story = story_of(make_events(*rows))
    assert text_of(find(story, "ada")) == '9 commits, the latest "Change 8" and "Change 7".'
    assert text_of(find(story, "Signs of life")) == "3 signs of life and nothing else. By bo (2) and cy (1)."
    assert story.bill == "12 events by 3 agents."


def test_a_goal_is_named_by_its_description_and_ends_with_its_outcome() -> None:
    goal = "0190c0de-0000-7000-8000-000000000001"
    events = make_events(
        ("driver.goal_started", "ada", {"goal": goal, "data": {"goal": {"id": goal, "description": "Make the tests pass\nand more"}}}),
        ("driver.attempt_completed", "ada", {"goal": goal, "data": {"result": {"kind": "continue"}}}),
        ("driver.budget_exhausted", "ada", {"goal": goal, "data": {"goal_id": goal, "axis": "turns", "usage": {}}}),
    )
    paragraph = story_of(events).paragraphs[0]
    assert paragraph.title.startswith("Goal: Make the tests pass (ada")
    assert "1 turn" in text_of(paragraph)


def test_the_work_of_many_days_is_cut_by_day_and_of_years_by_year() -> None:
    events = make_events(*(("fleet.commit", "ada", {"text": f"Change {number}"}) for number in range(6)), minutes=24 * 60)
    assert [paragraph.title for paragraph in story_of(events, days=9).paragraphs] == [
        f"ada (2026-11-{day})" for day in (17, 18, 19, 20, 21, 22)
    ]
    assert [paragraph.title[:5] for paragraph in story_of(events, days=3000).paragraphs] == ["ada ("]


def test_events_of_a_fleet_that_name_a_session_are_in_its_paragraph() -> None:
    session = make_outcome(1, status="running", delivered=type(make_outcome().delivered)(), asked="")
    events = make_events(*(("fleet.pr_merge", "ada", {"run": session.session, "text": "x"}) for _ in range(3)))
    story = story_of(events, sessions=(session,))
    assert len(story.paragraphs) == 1
    assert story.paragraphs[0].sentences[0].text == "Also recorded: 3 merges."
    headline = story_of(events, sessions=(session,), detail="headline").paragraphs[0].sentences[0].text
    assert "3 merges; still running" in headline


def test_private_events_are_left_out() -> None:
    story = story_of(make_events(("fleet.commit", "ada", {"text": "secret thought", "visibility": "private"})))
    assert story.paragraphs == []


def test_a_headline_is_one_sentence_with_the_end_state() -> None:
    story = story_of(make_fleet_day(), detail="headline")
    assert story.paragraphs
    assert {len(paragraph.sentences) for paragraph in story.paragraphs} == {1}


@pytest.mark.parametrize("agents", [5, 60])
def test_a_busy_fleet_stays_short_and_every_sentence_has_evidence(agents: int) -> None:
    story = story_of(make_fleet_day(4000, agents, tasks=0))
    assert sum(map(count_words, story.paragraphs)) <= 1500
    assert all(sentence.evidence for paragraph in story.paragraphs for sentence in paragraph.sentences)


def test_the_order_of_storing_changes_nothing() -> None:
    events = make_fleet_day()
    assert story_of(events) == story_of(sorted(events, key=lambda event: event.at or START))


def test_how_much_of_a_plan_is_used_up_is_no_news() -> None:
    events = make_events(("codex.rate_limits", "ada", {"run": "r1", "text": "Used 21 % of the 5-hour limit"}))
    assert story_of(events).paragraphs == []
