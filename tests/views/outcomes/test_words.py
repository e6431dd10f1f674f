"""Short texts: the first sentence with content, and open questions."""

from __future__ import annotations

import pytest

from fleetlore.views.outcomes.result_words import find_change, find_finding, find_points
from fleetlore.views.outcomes.words import first_sentence, is_announcement, last_question


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix the parser. It fails on tabs.", "Fix the parser."),
        ("Implement the following plan:\n\n# Move the cache to disk\n\n## Context\nIt is slow.", "Move the cache to disk"),
        ("```\nTypeError: x\n```\nWhy does this fail?", "Why does this fail?"),
        ("```\nTypeError: x\n```", "TypeError: x"),
        ("Please address the following:\n- the timeout of the client is ignored", "the timeout of the client is ignored"),
        ("use **bold** and [a link](https://example.com/x) in `code`", "use bold and a link in code"),
        ("", ""),
        ("---\n\n", ""),
    ],
)
def test_a_request_is_quoted_by_its_first_content(text: str, expected: str) -> None:
    assert first_sentence(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Done. The client now retries twice.", "The client now retries twice."),
        ("Perfect! All tests pass. The login page shows an error now.", "The login page shows an error now."),
        (
            "All tests pass and lint is clean. Here's a summary:\n\n## Changes\n\n- Added a timeout to the client",
            "Added a timeout to the client",
        ),
        ("Here's what I did:\n\n1. **Cache** - entries expire after an hour", "Cache - entries expire after an hour"),
        ("Both requests now have a timeout of two minutes:\n```go\nx\n```", "Both requests now have a timeout of two minutes"),
        ("Done.", "Done."),
        ("All tests pass.", "All tests pass."),
    ],
)
def test_an_answer_is_quoted_by_what_was_done(text: str, expected: str) -> None:
    assert first_sentence(text, is_answer=True) == expected


def test_a_long_sentence_is_cut_at_a_word() -> None:
    assert first_sentence("word " * 100, limit=20) == "word word word…"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Changed two files. Ready to commit?", "Ready to commit?"),
        ("Which one do you want?\n1. the first\n2. the second", "Which one do you want?"),
        ("Why did it fail? The cache was empty.", ""),
        ("Done.", ""),
        ("", ""),
        ("Built it. Let me know what you think of the new design!", ""),
        ("Built it. Let me know what you would like to tackle next!", ""),
        ("Two ways. Let me know which one to build.", "Let me know which one to build."),
    ],
)
def test_an_open_question_stands_at_the_end(text: str, expected: str) -> None:
    assert last_question(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The fix works. Let me verify that all tests pass.", True),
        ("Now I'll update the other caller:", True),
        ("Done. Let me know if you want more.", False),
        ("The tests pass now.", False),
        ("Should I go on?", False),
        ("", False),
    ],
)
def test_an_announcement_is_no_answer(text: str, expected: bool) -> None:
    assert is_announcement(text) is expected


def test_hostile_text_takes_little_time() -> None:
    for text in ("(" * 50_000, "a: " * 50_000, "all the " * 20_000, "**" * 50_000, "? " * 50_000, "[x](" * 20_000, "1. " * 50_000):
        first_sentence(text, is_answer=True)
        last_question(text)
        is_announcement(text)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Just noticed these two jobs failing. Can you open a draft PR fixing them?", "Can you open a draft PR fixing them?"),
        ("Fix the parser. Can you also add a test?", "Fix the parser."),
        ("Why is the cart slow? Please look at the log.", "Why is the cart slow?"),
        ("The cart is slow.", "The cart is slow."),
        ("<system_instruction>You are working inside an app.</system_instruction>\nFix the parser.", "Fix the parser."),
        ("You are the cache agent. You work in shop/. Add a cache to the cart.", "Add a cache to the cart."),
    ],
)
def test_a_request_is_the_sentence_that_asks(prompt: str, expected: str) -> None:
    assert first_sentence(prompt) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Done. The fix adds a check of the line length in `chunks.go`.", "Adds a check of the line length in chunks.go"),
        ("All 104 tests pass. The selected pairs are now forwarded to the agents.", "The selected pairs are now forwarded to the agents"),
        ("Here is what I did:\n\n- **Config** - Removed the old folder of the service", "Removed the old folder of the service"),
        ("Good, the script looks clean.", ""),
        ("With telemetry: ~135ms (100ms is the timeout)", ""),
        ("Should the folder be removed?", ""),
        ("Triggers when a pull request is merged.", ""),
        ("I would have removed the folder of the service.", ""),
    ],
)
def test_the_sentence_that_reports_a_change(answer: str, expected: str) -> None:
    found = find_change(answer, 20)
    assert (found.text if found else "") == expected


@pytest.mark.parametrize(
    "answer",
    ["Added a prompt that tells the model to:\n- use the tools", "I'd keep the issue open for now.", "Launching three review layers now."],
)
def test_half_sentences_and_intentions_are_no_change(answer: str) -> None:
    assert find_change(answer, 20) is None


def test_a_report_is_not_cut_between_two_adjectives() -> None:
    answer = "The card has been rebuilt with a backdrop, an inset highlight and a border, an inner shadow, and dynamic, soft spots."
    found = find_change(answer, 20)
    assert found is not None
    assert found.text == "The card has been rebuilt with a backdrop, an inset highlight and a border, an inner shadow"


@pytest.mark.parametrize(
    "answer",
    [
        "One thing to double-check: the names of both apps may collide.",
        "The pattern was already in the list of ignored files, but 13 of the compiled files were tracked by git before the rule.",
        "I've removed them from the index with one command.",
    ],
)
def test_side_notes_and_half_contrasts_are_no_finding(answer: str) -> None:
    assert find_finding(answer, 12) is None


def test_the_second_sentence_of_a_prompt_may_ask() -> None:
    prompt = "ok the bot has many comments, most can be ignored. The other ones look valid and should be addressed."
    assert first_sentence(prompt) == "The other ones look valid and should be addressed."


@pytest.mark.parametrize(
    "answer", ["4 sequential sub-issues instead of 3 parallel waves", "t-12: merged by the other pull request of June"]
)
def test_an_item_of_a_list_is_no_finding(answer: str) -> None:
    assert find_finding(answer, 20) is None


def test_a_finding_that_begins_with_a_name_keeps_it() -> None:
    found = find_finding("opus-4 is the model that answers in this session.", 20)
    assert found is not None
    assert found.text == "opus-4 is the model that answers in this session"


def test_a_list_of_changes_is_no_review() -> None:
    assert find_points("1. Diagram (#6) - Added a drawing of the flow\n2. Index - Added links to the pages", 20) == ""
    assert find_points("1. The cart rounds the total twice in one place\n2. The header is not tested", 20).startswith("2 review points")
