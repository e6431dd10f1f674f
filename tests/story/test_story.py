"""The story: a paragraph per session, the outcome first, every sentence with its events."""

from __future__ import annotations

from datetime import UTC, timedelta

import msgspec
import pytest

from fleetlore.story.story import Story, StoryParagraph, count_words, make_story
from fleetlore.story.story_formats import FORMATS
from fleetlore.story.titles import describe_trouble
from fleetlore.views.outcomes.record import Check, Checks, Correction, Delivered, Helper, Outcome
from fleetlore.views.task_outcomes import TaskOutcome
from tests.story.records import DAY, NEXT_DAY, cite, claim, flag, make_outcome, make_task, request, trouble, with_changes, with_commit
from tests.story.test_brief import HOSTILE, busy_day


def story_of(*sessions: Outcome, tasks: tuple[TaskOutcome, ...] = ()) -> Story:
    return make_story(sessions, tasks, since=DAY, until=NEXT_DAY, zone=UTC)


def write_one(one: Outcome) -> str:
    [paragraph] = story_of(one).paragraphs
    return text_of(paragraph)


def text_of(paragraph: StoryParagraph) -> str:
    return " ".join(sentence.text for sentence in paragraph.sentences)


def test_a_paragraph_names_who_where_when_and_how_much_once() -> None:
    [paragraph] = story_of(with_commit()).paragraphs
    assert paragraph.title == "Accept tabs in the parser (mira, shop, 08:01 to 08:21, $1.50)"
    assert "shop" not in text_of(paragraph)
    assert (paragraph.session, paragraph.started) == ("00000001-0000", DAY + timedelta(hours=8, minutes=1))


def test_the_outcome_comes_first() -> None:
    assert write_one(with_commit()) == (
        'The agent committed "Accept tabs in the parser" and pushed it. Mira asked: "Fix the parser". '
        "Tests and lint passed in the last run."
    )


def test_several_commits_and_a_pull_request() -> None:
    one = with_commit(pushed=False)
    one.delivered.commits += [*with_commit(2, "Merge branch 'x'").delivered.commits, *with_commit(3, 'Say "tabs"').delivered.commits]
    one.delivered.pull_requests = [request(title="")]
    assert write_one(one).startswith(
        'The agent made 3 commits: "Accept tabs in the parser", "Merge branch \'x\'", "Say \'tabs\'". It opened pull request #7.'
    )


def test_commits_after_the_last_push_are_not_called_pushed() -> None:
    one = with_commit()
    one.delivered.commits += with_commit(2, "Test tabs").delivered.commits
    one.delivered.unpushed = 1
    assert write_one(one).startswith(
        'The agent made 2 commits and pushed, but before the last commit: "Accept tabs in the parser", "Test tabs".'
    )


def test_the_heading_says_how_the_work_was_left() -> None:
    for one, left in (
        (with_commit(pushed=False), "not pushed"),
        (with_changes(1, "parser.py"), "not committed"),
        (make_outcome(delivered=Delivered()), "nothing changed"),
        (make_outcome(headline="Asked: Fix it; answered, no files edited"), "no files edited"),
    ):
        assert story_of(one).paragraphs[0].title.endswith(f", {left})")


def test_changes_without_a_commit() -> None:
    one = with_changes(1, "parser.py", "lexer.py", checks=Checks(tests=Check(result="not_run", earlier="fail")))
    assert write_one(one) == ("The agent changed parser.py and lexer.py.")


def test_an_answer_only() -> None:
    one = make_outcome(asked="What does the cache do?", delivered=Delivered(answer="It keeps parsed files for an hour."))
    assert write_one(one) == 'The agent answered: "It keeps parsed files for an hour".'


def test_what_the_agent_reports_comes_before_what_it_changed() -> None:
    result = "Make the parser faster: Tokens are cached per file now; then removed the second pass"
    one = with_changes(
        asked="Make the parser faster",
        result=result,
        said=result.partition(": ")[2],
        evidence={"result": cite("said"), "asked": cite("asked")},
    )
    recorded_first = story_of(one).paragraphs[0].sentences[0]
    assert recorded_first.text == "The agent reports: Tokens are cached per file now; then removed the second pass."
    assert recorded_first.evidence == cite("said")
    assert "It reported" not in write_one(one)


def test_how_a_session_stopped() -> None:
    stopped = make_outcome(
        delivered=Delivered(), status="interrupted", headline='Asked: Fix it; no files edited; stopped during "please push"'
    )
    assert write_one(stopped) == 'The last request on record is "please push".'
    assert story_of(stopped).paragraphs[0].title.endswith("no final answer)")
    refused = make_outcome(delivered=Delivered(), status="interrupted", headline="Asked: Fix it; nothing changed; its plan was refused")
    assert write_one(refused) == "Its plan was refused."


def test_a_session_without_an_answer() -> None:
    stopped = make_outcome(delivered=Delivered(), status="interrupted", headline="Asked: Fix it; no files edited; no final answer")
    assert write_one(stopped) == 'Mira asked: "Fix the parser".'
    assert story_of(stopped).paragraphs[0].title.endswith("no final answer)")


def test_many_things_are_named_and_not_counted() -> None:
    """A reader of at most six source events cannot count eight helpers."""
    helpers = [
        Helper(agent=f"a{n}", role="tester" if n else "reviewer", asked="", answer="", status="finished", evidence=cite(f"h{n}"))
        for n in range(8)
    ]
    one = with_commit(helpers=helpers, troubles=[trouble("Tests failed 9 times: boom", resolved=True)])
    [paragraph] = story_of(one).paragraphs
    started = next(sentence for sentence in paragraph.sentences if "helpers" in sentence.text)
    assert (started.text, len(started.evidence)) == ("The agent started helpers (reviewer, tester).", 2)
    assert "Tests failed several times: boom; a later run worked." in text_of(paragraph)


def test_the_same_failure_is_told_once() -> None:
    same = [trouble("Push failed: rejected"), trouble("Push failed: rejected")]
    assert write_one(with_commit(troubles=same)).count("Push failed: rejected.") == 1


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (
            "Rebase stopped at a conflict: CONFLICT (content): Merge conflict in a.go",
            "Rebase stopped at a conflict: Merge conflict in a.go",
        ),
        ("CI failed: X main Validate code ann/shop#7 · 29339084", "CI failed: Validate code"),
        ("Tests failed: Test Suites: 2 failed, 23 passed, 25 total", "Tests failed"),
        ("Lint failed (1 issues): a.go:4: unused variable", "Lint failed (1 issue): a.go:4: unused variable"),
        ("Lint failed: a.go:9: string `one", "Lint failed: a.go:9: string `one…"),
    ],
)
def test_a_cause_has_no_marks_of_tools(what: str, told: str) -> None:
    assert describe_trouble(trouble(what), 200) == told


def test_checks_say_counts_and_reasons() -> None:
    checks = Checks(tests=Check(result="pass", counts="12 passed"), lint=Check(result="fail", reason="src/a.py:3:1: unused import"))
    assert "Tests passed in the last run (12 passed). Lint failed in the last run: a.py:3: unused import." in write_one(
        with_commit(checks=checks)
    )


def test_troubles_corrections_helpers_flags_claims_and_questions() -> None:
    one = with_commit(
        troubles=[trouble("Tests failed 4 times: boom", resolved=True), trouble("Push failed: rejected")],
        corrections=[Correction(prompt="no, use the other table", evidence=cite("c"))],
        helpers=[Helper(agent="a1", role="reviewer", asked="", answer="", status="finished", evidence=cite("h"))],
        flags=[flag(), flag(executed=False)],
        claims=[claim()],
        waiting_for="person",
        question="Which table?",
    )
    for sentence in (
        "The agent started 1 helper (reviewer).",
        "Push failed: rejected. Tests failed 4 times: boom; a later run worked.",
        'Mira wrote in between: "no, use the other table".',
        "To check: git push --force: git push -f.",
        "Tried without success: git push --force: git push -f.",
        'It claimed "All tests pass", but the last test run failed.',
        'It asks: "Which table?"',
    ):
        assert sentence in write_one(one)


def test_a_contradicted_answer_is_not_quoted_without_the_remark() -> None:
    one = make_outcome(claims=[claim("The parser accepts tabs now.", why="the edit failed", kind="fixed")])
    assert write_one(one) == 'It claimed "The parser accepts tabs now", but the edit failed.'


def test_an_answer_is_no_report_and_its_names_stay_as_they_are() -> None:
    said = "opus-4 is the model that answers here"
    one = make_outcome(asked="Which model is this?", result=f"Which model is this? {said}", said=said, evidence={"result": cite("answer")})
    assert write_one(one) == "The agent answered: opus-4 is the model that answers here."


def test_a_question_is_not_told_twice() -> None:
    one = make_outcome(delivered=Delivered(answer="What would you like?"), question="What would you like?", waiting_for="person")
    assert write_one(one) == 'It asks: "What would you like?"'


def test_a_quote_that_ends_in_the_middle_says_so() -> None:
    one = with_commit(asked="Could a skill read the checkpoints so that two sessions share the notes and")
    assert 'asked: "Could a skill read the checkpoints so that two sessions share the notes and…".' in write_one(one)


def test_a_request_of_a_few_words_about_something_else_is_left_out() -> None:
    assert "asked" not in write_one(with_commit(asked="ok lets get back to main"))


def test_a_heading_without_sentences_stands_alone() -> None:
    text = FORMATS["text"](story_of(make_outcome(status="interrupted", asked="go on", title="Tidy up the docs", delivered=Delivered())))
    assert "  [00000001]\n\n$1.50" in text


def test_tasks_have_a_paragraph() -> None:
    story = story_of(with_commit(), tasks=(make_task(1), make_task(2, "dropped")))
    assert text_of(story.paragraphs[-1]) == "1 task closed: Task 1 (ada). 1 task closed as stale, duplicate or not wanted."
    assert story.bill == "$1.50 for 1 session; 1 commit, 2 tasks closed."


def test_every_sentence_has_evidence() -> None:
    story = story_of(*busy_day(20), tasks=(make_task(1, given=4),))
    sentences = [sentence for paragraph in story.paragraphs for sentence in paragraph.sentences]
    assert sentences
    without = [sentence.text for sentence in sentences if not sentence.evidence]
    assert without == []


@pytest.mark.parametrize("count", [1, 14, 60])
def test_a_busy_day_stays_short(count: int) -> None:
    story = story_of(*busy_day(count))
    assert sum(map(count_words, story.paragraphs)) <= max(300, 107 * count)
    assert len(FORMATS["text"](story).split()) <= max(330, 112 * count)


def test_the_same_records_give_the_same_story_in_any_order() -> None:
    assert FORMATS["json"](story_of(*busy_day(9))) == FORMATS["json"](story_of(*reversed(busy_day(9))))


def test_event_text_is_escaped_for_the_format() -> None:
    story = story_of(with_commit(subject=HOSTILE, asked=HOSTILE))
    assert "\x1b" not in FORMATS["text"](story)
    assert "<script>" not in FORMATS["html"](story)
    assert "<script>" not in FORMATS["markdown"](story)
    assert "[a](" not in FORMATS["markdown"](story)


def test_formats_cite_events() -> None:
    story = story_of(with_commit())
    assert 'data-events="event-commit-1' in FORMATS["html"](story)
    assert msgspec.json.decode(FORMATS["json"](story))["paragraphs"][0]["sentences"][0]["evidence"][0]["event"] == "event-commit-1"
    assert "[00000001]" in FORMATS["text"](story)
