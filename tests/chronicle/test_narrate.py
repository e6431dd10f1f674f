"""What a telling says and leaves out, at each level of detail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from fleetlore import Event
from fleetlore.chronicle import closing
from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.live import LiveTeller
from fleetlore.chronicle.narrate import Narrator, Telling
from fleetlore.chronicle.teller import arcs_of
from tests.chronicle.scripts import KINDS, START, events
from tests.chronicle.telling import chapters, in_order, texts, told, told_json


def commits(*messages: str) -> list[Event]:
    return [replace(event, text=text) for event, text in zip(events("ada:progress " * len(messages)), messages, strict=True)]


def test_a_full_telling_quotes_every_commit_and_a_story_the_first_few() -> None:
    many = commits("one thing", "another thing", "a third thing", "a fourth thing", "a fifth thing")
    assert len(texts(many, "full")) == 5
    [folded] = texts(many)
    assert "“one thing”, “another thing”, “a third thing” and two more." in folded
    assert len(texts(many[:3])) == 3


def test_what_says_the_same_is_told_once_with_its_words() -> None:
    [folded] = texts(commits("try again", "try again", "try again"), "full")
    assert folded.endswith(": try again.")


def test_what_a_thread_is_about_is_said_once_a_day_by_a_story_and_always_by_a_full_telling() -> None:
    about = "Oil the hinges"
    script = [replace(event, text=about) for event in events("ada:claim bo:claim bo:setback bo:claim bo:claim")]
    assert [about in text for text in texts(script)] == [True, False, False, False]
    assert [about in text for text in texts(script, "full")] == [True] * 4
    trouble = [replace(event, text="it squeaks") for event in events("ada:setback bo:setback")]
    assert [("it squeaks" in text) for text in texts(trouble)] == [True, True]  # it went wrong twice, and that is news


def test_what_was_only_thought_is_not_quoted() -> None:
    hidden = [replace(event, visibility="private") for event in commits("secret", "secret", "secret", "hush", "hush")]
    assert "secret" not in told(hidden, "json", "full")
    assert "secret" not in told(hidden, "json")


def test_signs_of_life_are_one_clause_and_only_in_a_full_telling() -> None:
    story = events("ada:claim " + "ada:pulse " * 400 + "ada:progress")
    assert len(texts(story)) == 2
    full = texts(story, "full")
    assert len(full) == 3
    assert "400" in full[1]


def test_a_headline_is_the_deed_that_counts_or_that_somebody_is_waited_for() -> None:
    assert [
        sentence.beat for chapter in chapters(events("ada:claim ada:deliver ada:progress"), "headline") for sentence in chapter.sentences
    ] == ["deliver"]
    asked = Event(
        id="w", at=START + timedelta(hours=1), kind="session.waiting", actor="ada", agent="ada", task="t7", data={"why": "permission"}
    )
    [chapter] = chapters([*events("ada:claim ada:progress"), asked], "headline")
    assert [sentence.evidence for sentence in chapter.sentences] == [("w",)]


def turn_end(**fields: Any) -> Event:
    told = {"agent": "ada", "run": "s1", "text": "All 14 tests pass now."} | fields
    return Event(id="00000000-0000-7000-8000-0000000000aa", at=START, kind="session.turn_ended", **told)


def test_a_story_tells_what_an_agent_replied_at_the_end_of_a_turn() -> None:
    [told] = texts([turn_end()])
    assert "ada" in told
    assert "All 14 tests pass now" in told
    teller = LiveTeller(Telling())
    assert [sentence.text for sentence in (*teller.add(turn_end()), *teller.flush())] == [told.removeprefix("At 09:00, ")]
    headlines = LiveTeller(Telling(detail="headline"))
    assert [*headlines.add(turn_end()), *headlines.flush()] == []


def test_an_answer_that_the_model_and_the_end_of_the_turn_both_tell_is_told_once() -> None:
    said = {"stop_reason": "end_turn", "said": "All 14 tests pass now.\nThe second was flaky."}
    answer = replace(turn_end(), id="00000000-0000-7000-8000-0000000000ab", at=START, kind="model.replied", data=said)
    later = replace(turn_end(), at=START + timedelta(seconds=1))
    assert len(texts([answer, later])) == len(texts([answer])) == len(texts([later])) == 1
    assert len(texts([answer, replace(later, text="One thing more.")])) == 2
    assert texts([replace(answer, data=said | {"stop_reason": "tool_use"})]) == []
    assert texts([replace(answer, data=said | {"partial": True})]) == []
    assert texts([replace(answer, visibility="private")]) == []


@pytest.mark.parametrize("fields", [{"text": None}, {"parent": "bo"}, {"goal": "g1"}], ids=["no words", "a helper's", "a goal's"])
def test_a_story_leaves_out_the_end_of_a_turn_that_answers_nobody(fields: dict[str, Any]) -> None:
    assert texts([turn_end(**fields)]) == []
    assert len(texts([turn_end(**fields)], "full")) == 1


def test_a_turn_that_was_broken_off_is_told_as_that() -> None:
    [failed] = texts([turn_end(text="API Error: 529 overloaded", data={"reason": "failed"})])
    assert "error" in failed
    assert "API Error: 529 overloaded" in failed
    [interrupted] = texts([turn_end(text="[Request interrupted by user]", data={"reason": "interrupted"})])
    assert "[Request" not in interrupted


def test_days_are_those_of_the_time_zone() -> None:
    late = [replace(event, at=START.replace(hour=23)) for event in events("ada:claim")]
    assert chapters(late)[0].title == "Sunday, 15 November 2026"
    assert chapters(late, zone=ZoneInfo("Asia/Tokyo"))[0].title == "Monday, 16 November 2026"


def test_a_day_has_a_chapter_for_each_mission_and_one_for_the_rest() -> None:
    story = [*events("ada:claim", mission="moon"), *events("ada:claim", thread="t8", start=1)]
    assert [chapter.title for chapter in chapters(story)] == [
        "Sunday, 15 November 2026 · mission moon",
        "Sunday, 15 November 2026 · outside of missions",
    ]


def test_what_is_not_told_is_read_all_the_same() -> None:
    """A recovery of today's is found though the setback was yesterday."""
    story = [*events("ada:claim ada:setback"), *events("ada:recovery", start=24 * 60)]
    narrator = Narrator(Telling())
    [chapter] = narrator.chapters(story, where=lambda event: event is story[-1])
    assert [arc.kind for arc in chapter.arcs] == ["struggle_and_recovery"]
    assert narrator.threads == 1
    assert narrator.close().open_threads == ("task:t7",)


def test_arcs_that_ended_before_what_is_told_are_not_told() -> None:
    story = [*events("ada:setback ada:recovery"), *events("bo:progress", start=24 * 60)]
    narrator = Narrator(Telling())
    list(narrator.chapters(story, where=lambda event: event.agent == "bo"))
    narrator.close()
    assert list(narrator.arcs) == []


def test_a_sign_of_life_after_the_end_opens_nothing() -> None:
    story = [*events("ada:claim ada:deliver"), *events("ada:pulse", start=2000)]
    whole = told_json(story, now=START + timedelta(days=9))
    assert whole["closing"]["open_threads"] == []
    assert [arc["kind"] for arc in whole["arcs"]] == []


def test_a_goal_that_turns_out_to_be_a_tasks_is_one_thread() -> None:
    goal = [replace(event, task=None, goal="g") for event in events("ada:progress")]
    bound = events("ada:progress", start=1, goal="g")
    assert told_json([*goal, *bound])["summary"]["threads"] == 1


def test_what_moved_last_is_first_among_what_is_open() -> None:
    story = [*events("ada:claim", thread="old"), *events("ada:claim", thread="new", start=5)]
    assert told_json(story)["closing"]["open_threads"] == ["task:new", "task:old"]
    assert told_json(story)["closing"]["text"].endswith("Still open: task new and task old.")


def arc(number: int, kind: str) -> Arc:
    at = START + timedelta(minutes=number)
    return Arc(
        kind=kind,
        thread=f"task:t{number}",
        agents=["ada"],
        state="closed",
        first="f",
        last="l",
        evidence=["f", "l"],
        count=2,
        first_at=at,
        last_at=at,
    )


def test_a_closing_tells_what_matters_most_and_counts_the_rest() -> None:
    highlights = closing.Highlights()
    for number in range(40):
        highlights.add(arc(number, "milestone"))
    highlights.add(arc(-1, "cascade"))
    kept = highlights.in_order()
    assert len(kept) == closing.MOST_ARCS
    assert kept[0].kind == "cascade"
    assert kept[-1].thread == "task:t39"
    assert "Besides, there were 29 milestones; `lore arcs` lists them all. Nothing is left open." in closing.told(highlights, ())


def test_the_numbers_do_not_depend_on_what_was_seen_first() -> None:
    """One kind may stand for two beats."""
    called = [
        Event(id=str(n), at=START, kind="run.finished", actor="ada", run=str(n), data={"reason": reason})
        for n, reason in enumerate(("goal_met", "error", "budget"))
    ]
    assert told_json(called)["summary"] == told_json(called[::-1])["summary"]


def test_arcs_come_as_they_end_and_open_ones_last() -> None:
    story = in_order(
        [*events("ada:setback ada:recovery", thread="a"), *events("bo:setback", thread="b", start=1), *events("ada:feat", start=5)]
    )
    assert [(arc.kind, arc.state) for arc in arcs_of(story)] == [
        ("struggle_and_recovery", "closed"),
        ("milestone", "closed"),
        ("struggle_and_recovery", "open"),
    ]


# --- live


def live(story: list[Event], **options: object) -> list[list[str]]:
    teller = LiveTeller(Telling(**options))  # type: ignore[arg-type]
    told_at_once = [[sentence.beat for sentence in teller.add(event)] for event in story]
    return [*told_at_once, [f"{sentence.beat} {len(sentence.evidence)}" for sentence in teller.flush()]]


def test_deeds_are_told_at_once_and_pulses_when_it_is_quiet() -> None:
    seconds = events("ada:setback ada:pulse ada:pulse ada:pulse", minutes=0.01)
    assert live(seconds, detail="full") == [["setback"], [], [], [], ["pulse 3"]]
    assert live(seconds) == [["setback"], [], [], [], []]


def test_a_run_that_goes_on_is_told_after_a_while() -> None:
    beats = live(events("ada:pulse " * 70, minutes=1 / 60), detail="full")
    assert sum(map(len, beats)) == 3


def test_a_live_telling_drops_nothing() -> None:
    story = [event for number in range(30) for event in events(f"ada:{list(KINDS)[number % len(KINDS)]}", start=number, minutes=0.3)]
    teller = LiveTeller(Telling(detail="full"))
    sentences = [sentence for event in story for sentence in teller.add(event)] + list(teller.flush())
    assert sorted(id for sentence in sentences for id in sentence.evidence) == [event.id for event in story]


def test_a_session_that_ended_its_turn_is_neither_open_nor_stalled_until_it_is_told_to_go_on() -> None:
    def told(*kinds: str) -> tuple[str, ...]:
        events = [
            Event(id=f"{n:08x}-0000-7000-8000-000000000000", at=START + timedelta(minutes=n), kind=kind, agent="ada", run="s1")
            for n, kind in enumerate(kinds)
        ]
        narrator = Narrator(Telling(now=START + timedelta(days=9)))
        list(narrator.chapters(events))
        return narrator.close().open_threads

    assert told("session.started", "prompt.submitted") == ("run:s1",)
    assert told("session.started", "prompt.submitted", "session.turn_ended", "model.replied") == ()
    assert told("session.started", "prompt.submitted", "session.turn_ended", "prompt.submitted") == ("run:s1",)


def test_what_nobody_asked_for_is_not_called_open() -> None:
    commit = Event(id="00000001-0000-7000-8000-000000000000", at=START, kind="fleet.commit", agent="ada", text="mend the door")
    narrator = Narrator(Telling())
    list(narrator.chapters([commit]))
    assert narrator.close().open_threads == ()
